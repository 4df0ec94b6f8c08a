"""A consumer that is stopped: what its handlers finish is done for good, what fails is tried again, nothing else."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from broker.client import AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Message, Producer
from broker.handlers.management.commands.consume import stop_all
from broker.server.broker import BrokerService
from broker.testing import BrokerThread
from tests.waiting import until

PATIENCE_S = 20


class Held:
    """A handler that holds its messages until it is told to go on; it fails for those named so."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.ended: list[bytes] = []
        self.go_on = threading.Event()
        self._changed = threading.Condition()

    def __call__(self, message: Message) -> None:
        with self._changed:
            self.begun.append(message.body)
            self._changed.notify_all()
        assert self.go_on.wait(PATIENCE_S)
        if message.body.startswith(b"fails"):
            raise ValueError("as asked")
        with self._changed:
            self.ended.append(message.body)

    def has_begun(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, PATIENCE_S)


def consumer_of(namesrv: str, handler: Any, **options: Any) -> AsyncConsumer:
    consumer = AsyncConsumer("g", namesrv, from_where="first", **options)
    consumer.subscribe("t", "*", handler)
    return consumer


async def next_of(service: BrokerService, producer: AsyncProducer, orderly: bool) -> list[bytes]:
    """What comes to the group when it starts again, up to a message that is sent now."""
    seen: list[bytes] = []
    done = asyncio.Event()

    async def take(message: Message) -> None:
        seen.append(message.body)
        if message.body == b"next":
            done.set()

    await producer.send("t", b"next", queue_id=0)
    async with consumer_of(service.namesrv_address, take, threads=1, orderly=orderly), asyncio.timeout(PATIENCE_S):
        await done.wait()
    return seen


@pytest.fixture
async def topic(admin: AsyncAdmin) -> None:
    await admin.create_topic("t", queues=1)


async def stopped_at_work(service: BrokerService, held: Held, count: int, **options: Any) -> AsyncConsumer:
    """A consumer that is stopped while `count` handlers are at work, and has finished them."""
    consumer = consumer_of(service.namesrv_address, held, **options)
    await consumer.start()
    await asyncio.to_thread(held.has_begun, count)
    idle = AsyncConsumer("idle", service.namesrv_address)
    idle.subscribe("t", "*", held)
    await idle.start()
    stopping = [asyncio.ensure_future(consumer.stop()) for _ in range(2)]
    # one that has nothing to wait for has the same way, begins it later, and is at its end
    await idle.stop()
    assert not any(each.done() for each in stopping), "who calls stop again waits, too"
    held.go_on.set()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*stopping)
    return consumer


@pytest.mark.parametrize("orderly", [False, True])
async def test_what_a_handler_finishes_does_not_come_again(
    service: BrokerService, producer: AsyncProducer, topic: None, orderly: bool
) -> None:
    for number in range(4):
        await producer.send("t", b"%d" % number, queue_id=0)
    held, at_once = Held(), 1 if orderly else 3
    consumer = await stopped_at_work(service, held, at_once, threads=3, orderly=orderly)
    assert consumer.at_work == 0
    assert sorted(held.ended) == [b"%d" % number for number in range(at_once)]
    left = [b"%d" % number for number in range(at_once, 4)]
    assert await next_of(service, producer, orderly) == [*left, b"next"]


async def test_what_fails_at_the_end_is_tried_again_and_takes_nothing_with_it(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin, topic: None
) -> None:
    for body in (b"fails", b"1", b"2"):
        await producer.send("t", body, queue_id=0)
    await stopped_at_work(service, Held(), 3)
    assert [each.body for each in await admin.pull("SCHEDULE_TOPIC_XXXX", 1, 0, 5)] == [b"fails"]
    assert await next_of(service, producer, orderly=False) == [b"next"]


async def test_what_is_not_done_in_time_comes_again(
    service: BrokerService, producer: AsyncProducer, topic: None
) -> None:
    await producer.send("t", b"long", queue_id=0)
    held = Held()
    consumer = consumer_of(service.namesrv_address, held, drain_timeout_s=0.05)
    await consumer.start()
    await asyncio.to_thread(held.has_begun, 1)
    async with asyncio.timeout(PATIENCE_S):
        await consumer.stop()
    assert consumer.at_work == 1
    assert await next_of(service, producer, orderly=False) == [b"long", b"next"]
    held.go_on.set()


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize(("times", "then"), [(0, "it becomes a dead letter"), (1, "it is redelivered")])
async def test_it_is_said_what_becomes_of_a_failure(
    service: BrokerService, producer: AsyncProducer, topic: None, orderly: bool, times: int, then: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    await producer.send("t", b"fails", queue_id=0)
    held = Held()
    with caplog.at_level(logging.ERROR, "broker.client._handler_calls"):
        await stopped_at_work(service, held, 1, orderly=orderly, max_reconsume_times=times)
    said = [record.getMessage() for record in caplog.records if record.name == "broker.client._handler_calls"]
    assert [line.rpartition("; ")[2] for line in said] == [then]


def test_consumers_of_one_process_begin_nothing_while_another_one_is_waited_for(broker: BrokerThread) -> None:
    held, other = Held(), Held()
    slow, quick = Consumer("slow", broker.namesrv), Consumer("quick", broker.namesrv)
    for consumer, handler in ((slow, held), (quick, other)):
        consumer.subscribe("t", "*", handler)
        consumer.start()
    with Producer("p", broker.namesrv) as producer:
        producer.send("t", b"1")
        held.has_begun(1)
        other.has_begun(1)
        stopping = threading.Thread(target=stop_all, args=([slow, quick],))
        stopping.start()
        until(lambda: all(reader.dropped for reader in slow.core._readers.values()), PATIENCE_S)
        other.go_on.set()
        quick.stop()
        producer.send("t", b"2")
        held.go_on.set()
        stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    assert (held.begun, other.begun) == ([b"1"], [b"1"])
