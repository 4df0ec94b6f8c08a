"""Consuming in order from a real broker: one at a time in each queue, again after a failure, and only with the lock."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from broker.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    InvalidArgument,
    Message,
    MessageQueue,
    Producer,
    prepare,
)
from broker.client._orderly import HeldLocks
from broker.client._session import Session
from broker.server.broker import BrokerService
from tests.client.running import BrokerThread
from tests.client.test_consuming import Inbox, until


def orderly(service: BrokerService, handler: Callable[[Message], object], **options: Any) -> AsyncConsumer:
    consumer = AsyncConsumer("g", service.namesrv_address, from_where="first", orderly=True, suspend_ms=10, **options)
    consumer.subscribe("t", "*", handler)
    return consumer


def of_topic(consumer: AsyncConsumer) -> set[MessageQueue]:
    return {queue for queue in consumer.queues if queue.topic == "t"}


async def test_each_queue_is_handled_in_order_and_by_one_handler_at_a_time(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await admin.create_topic("t", queues=2)
    for queue_id in range(2):
        await producer.send_batch("t", [prepare(str(number)) for number in range(40)], queue_id=queue_id)
    seen: dict[int, list[str]] = defaultdict(list)
    busy: set[int] = set()
    overlaps: list[int] = []
    everything = threading.Event()

    def handle(message: Message) -> None:
        if message.queue_id in busy:
            overlaps.append(message.queue_id)
        busy.add(message.queue_id)
        seen[message.queue_id].append(message.body.decode())
        busy.discard(message.queue_id)
        if sum(map(len, seen.values())) == 80:
            everything.set()

    consumer = orderly(service, handle)
    await consumer.start()
    assert await asyncio.to_thread(everything.wait, 20)
    await consumer.stop()
    assert overlaps == []
    assert seen == {queue_id: [str(number) for number in range(40)] for queue_id in range(2)}
    assert (await admin.consume_stats("g")).lag == 0


async def test_what_failed_comes_again_before_anything_else_of_its_queue(
    service: BrokerService, producer: AsyncProducer
) -> None:
    await producer.send_batch("t", [prepare("1"), prepare("2"), prepare("3")], queue_id=0)
    inbox = Inbox()

    async def fail_thrice(message: Message) -> None:
        await inbox.take(message)
        if message.body == b"2" and message.reconsume_times < 3:
            raise ValueError("not yet")

    consumer = orderly(service, fail_thrice)
    await consumer.start()
    assert await inbox.holds(6) == [b"1", b"2", b"2", b"2", b"2", b"3"]
    assert [message.reconsume_times for message in inbox.messages] == [0, 0, 1, 2, 3, 0]
    await consumer.stop()


async def test_after_the_most_times_it_is_a_dead_letter_and_the_queue_goes_on(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    sent = await producer.send("t", "poison", tag="x", keys=["k"], properties={"colour": "red"}, queue_id=0)
    await producer.send("t", "next", queue_id=0)
    inbox = Inbox()

    async def refuse_poison(message: Message) -> None:
        await inbox.take(message)
        if message.body == b"poison":
            raise ValueError("never")

    consumer = orderly(service, refuse_poison, max_reconsume_times=2)
    await consumer.start()
    assert await inbox.holds(4) == [b"poison", b"poison", b"poison", b"next"]
    (dead,) = await admin.pull("%DLQ%g", 0, 0, 5)
    assert (dead.body, dead.tags, dead.keys, dead.properties["colour"]) == (b"poison", "x", ["k"], "red")
    assert dead.properties["RETRY_TOPIC"] == "t"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent.offset_message_id
    assert dead.unique_key == sent.message_id
    assert dead.reconsume_times == 3
    await consumer.stop()
    assert (await admin.consume_stats("g")).lag == 0


async def test_a_queue_goes_to_another_member_only_when_its_handler_is_done(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await admin.create_topic("t", queues=2)
    for queue_id in range(2):
        await producer.send("t", f"{queue_id}", queue_id=queue_id)
    begun, go_on, inbox = Inbox(), asyncio.Event(), Inbox()

    async def slow(message: Message) -> None:
        await begun.take(message)
        await go_on.wait()

    one, two = orderly(service, slow), orderly(service, inbox.take)
    await one.start()
    await begun.holds(2)
    await two.start()
    await until(lambda: len(of_topic(one)) == 1)
    assert of_topic(two) == set(), "its handler is at work, so the lock is still held"
    go_on.set()
    await until(lambda: len(of_topic(two)) == 1)
    (theirs,) = of_topic(two)
    await producer.send("t", "new", queue_id=theirs.queue_id)
    # what the first one had finished is committed, so nothing comes twice
    assert await inbox.holds(1) == [b"new"]
    await two.stop()
    await until(lambda: len(of_topic(one)) == 2)
    await one.stop()


async def test_only_one_member_holds_a_lock_and_renewing_tells_who_lost_it(
    service: BrokerService, producer: AsyncProducer
) -> None:
    await producer.send("t", "")
    queue = MessageQueue("t", "broker-a", 0)
    session = Session(service.namesrv_address)
    mine, theirs = HeldLocks(session, "g", "me"), HeldLocks(session, "g", "them")
    assert await mine.take([queue]) == {queue}
    assert mine.is_held(queue)
    assert await theirs.take([queue]) == set()
    assert await mine.renew() == (set(), True)
    # as when nothing was heard of this member for a minute
    await HeldLocks(session, "g", "me").give_back([queue])
    assert await theirs.take([queue]) == {queue}
    assert await mine.renew() == ({queue}, True)
    assert not mine.is_held(queue)
    await session.close()


async def test_a_member_that_lost_its_lock_stops_and_commits_nothing(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await admin.create_topic("t", queues=1)
    await producer.send("t", "1", queue_id=0)
    inbox = Inbox()
    consumer = orderly(service, inbox.take)
    await consumer.start()
    await inbox.holds(1)
    (queue,) = of_topic(consumer)
    session = Session(service.namesrv_address)
    await HeldLocks(session, "g", consumer.client_id).give_back([queue])
    other = HeldLocks(session, "g", "other")
    assert await other.take([queue]) == {queue}
    consumer.check_locks()
    await until(lambda: of_topic(consumer) == set())
    await producer.send("t", "2", queue_id=0)
    await other.give_back([queue])
    await until(lambda: of_topic(consumer) == {queue})
    # nothing was committed, so it begins where the group stands
    assert await inbox.holds(3) == [b"1", b"1", b"2"]
    await consumer.stop()
    await session.close()


async def test_a_consumer_that_stops_while_a_queue_rests_loses_nothing(
    service: BrokerService, producer: AsyncProducer
) -> None:
    await producer.send("t", "1", queue_id=0)
    failed, inbox = Inbox(), Inbox()

    async def fail(message: Message) -> None:
        await failed.take(message)
        raise ValueError("no")

    consumer = AsyncConsumer(
        "g", service.namesrv_address, from_where="first", orderly=True, suspend_ms=30_000, max_reconsume_times=5
    )
    consumer.subscribe("t", "*", fail)
    await consumer.start()
    await failed.holds(1)
    await consumer.stop()
    again = orderly(service, inbox.take)
    await again.start()
    assert await inbox.holds(1) == [b"1"]
    assert inbox.messages[0].reconsume_times == 0
    await again.stop()


async def test_a_handler_that_outlives_its_consumer_keeps_its_queue_from_others(
    service: BrokerService, producer: AsyncProducer
) -> None:
    await producer.send("t", "1", queue_id=0)
    begun, go_on = threading.Event(), threading.Event()

    def slow(message: Message) -> None:
        begun.set()
        go_on.wait(20)

    consumer = orderly(service, slow)
    await consumer.start()
    assert await asyncio.to_thread(begun.wait, 20)
    queues = of_topic(consumer)
    await consumer.stop(0)
    session = Session(service.namesrv_address)
    at_work = MessageQueue("t", "broker-a", 0)
    # the lock ends by itself after a minute; all others are free at once
    assert await HeldLocks(session, "g", "other").take(queues) == queues - {at_work}
    go_on.set()
    await session.close()


def test_order_is_kept_when_the_broker_comes_back(broker: BrokerThread) -> None:
    received: list[bytes] = []
    arrived = threading.Semaphore(0)
    consumer = Consumer("g", broker.namesrv, from_where="first", orderly=True)

    @consumer.on("t")
    def handle(message: Message) -> None:
        received.append(message.body)
        arrived.release()

    with Producer("p", broker.namesrv) as producer, consumer:
        producer.send("t", "before", queue_id=0)
        assert arrived.acquire(timeout=20)
        broker.stop()
        broker.start()
        for number in range(3):
            producer.send("t", f"after {number}", queue_id=0, timeout_ms=10_000)
        while len(set(received)) < 4:
            assert arrived.acquire(timeout=30)
    assert list(dict.fromkeys(received)) == [b"before", b"after 0", b"after 1", b"after 2"]


def test_bad_options_are_refused() -> None:
    refused: list[dict[str, Any]] = [{"max_reconsume_times": -1}, {"suspend_ms": 1}, {"suspend_ms": 60_000}]
    for options in refused:
        with pytest.raises(InvalidArgument):
            AsyncConsumer("g", orderly=True, **options)
