"""Consuming in groups from a real broker."""

from __future__ import annotations

import asyncio
import threading

import pytest

from broker.client import AsyncAdmin, AsyncConsumer, AsyncProducer, InvalidArgument, Message, Sql, prepare
from broker.server.broker import BrokerService
from tests.waiting import until_true


class Inbox:
    """Collects messages and lets a test wait for a number of them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._arrived = asyncio.Condition()

    async def take(self, message: Message) -> None:
        self.messages.append(message)
        async with self._arrived:
            self._arrived.notify_all()

    async def holds(self, count: int) -> list[bytes]:
        async with asyncio.timeout(20), self._arrived:
            await self._arrived.wait_for(lambda: len(self.messages) >= count)
        return [message.body for message in self.messages]


async def joined(service: BrokerService, group: str, topic: str, inbox: Inbox, tags: str = "*") -> AsyncConsumer:
    consumer = AsyncConsumer(group, service.namesrv_address, from_where="first")
    consumer.subscribe(topic, tags, inbox.take)
    await consumer.start()
    return consumer


async def test_what_is_stored_and_what_comes_later_is_delivered(
    service: BrokerService, producer: AsyncProducer
) -> None:
    await producer.send("t", b"before")
    inbox = Inbox()
    consumer = await joined(service, "g", "t", inbox)
    assert await inbox.holds(1) == [b"before"]
    await producer.send("t", b"after")
    assert await inbox.holds(2) == [b"before", b"after"]
    await consumer.stop()


async def test_a_filter_in_sql_is_kept_to(service: BrokerService, producer: AsyncProducer) -> None:
    for amount in (5, 50, 500):
        await producer.send("t", b"%d" % amount, properties={"amount": str(amount)}, queue_id=0)
    inbox = Inbox()
    consumer = await joined(service, "g", "t", inbox, Sql("amount >= 50"))
    assert await inbox.holds(2) == [b"50", b"500"]
    await producer.send("t", b"6", properties={"amount": "6"}, queue_id=0)
    await producer.send("t", b"60", properties={"amount": "60"}, queue_id=0)
    assert await inbox.holds(3) == [b"50", b"500", b"60"]
    await consumer.stop()


async def test_offsets_are_kept_when_a_consumer_leaves(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await producer.send_each("t", [prepare(str(number)) for number in range(20)])
    first = Inbox()
    consumer = await joined(service, "g", "t", first)
    await first.holds(20)
    await consumer.stop()
    assert (await admin.consume_stats("g")).lag == 0
    await producer.send("t", b"new")
    second = Inbox()
    consumer = await joined(service, "g", "t", second)
    assert await second.holds(1) == [b"new"]
    await consumer.stop()


async def test_only_wanted_tags_are_delivered(service: BrokerService, producer: AsyncProducer) -> None:
    inbox = Inbox()
    consumer = await joined(service, "g", "t", inbox, "AaAa || c")
    # BBBB has the same hash code as AaAa: the broker lets it pass, the client must not
    for tag in ("BBBB", "x", "AaAa", "c"):
        await producer.send("t", tag.encode(), tag=tag, queue_id=0)
    assert await inbox.holds(2) == [b"AaAa", b"c"]
    await consumer.stop()


async def test_a_message_that_failed_comes_again_with_its_own_topic(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    inbox = Inbox()

    async def fail_once(message: Message) -> None:
        if message.reconsume_times == 0:
            raise ValueError("not yet")
        await inbox.take(message)

    consumer = AsyncConsumer("g", service.namesrv_address, from_where="first")
    consumer.subscribe("t", "*", fail_once)
    await consumer.start()
    sent = await producer.send("t", b"again")
    # the first retry waits on level 3, which this broker clamps to its highest level: it is parked, not lost
    await until_parked(admin, sent.message_id)
    assert inbox.messages == []
    await consumer.stop()
    assert (await admin.consume_stats("g")).lag == 0


async def until_parked(admin: AsyncAdmin, unique_id: str) -> None:
    async def is_parked() -> bool:
        parked = await admin.pull("SCHEDULE_TOPIC_XXXX", 1, 0, 5)
        return any(each.unique_key == unique_id for each in parked)

    await until_true(is_parked)


async def test_two_members_share_the_queues_and_one_takes_over(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await admin.create_topic("t", queues=4)
    inbox = Inbox()
    one = await joined(service, "g", "t", inbox)
    two = await joined(service, "g", "t", inbox)

    def of_topic(consumer: AsyncConsumer) -> int:
        return sum(queue.topic == "t" for queue in consumer.queues)

    await until_true(lambda: of_topic(one) == 2 and of_topic(two) == 2)
    await two.stop()
    await until_true(lambda: of_topic(one) == 4)
    await producer.send_each("t", [prepare(str(number)) for number in range(8)])
    assert len(await inbox.holds(8)) == 8
    await one.stop()


async def test_a_handler_that_has_begun_finishes_before_stop_returns(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def slow(message: Message) -> None:
        begun.set()
        go_on.wait(20)
        done.set()

    consumer = AsyncConsumer("g", service.namesrv_address, from_where="first")
    consumer.subscribe("t", "*", slow)
    await producer.send("t", b"")
    await consumer.start()
    await asyncio.to_thread(begun.wait, 20)
    idle = AsyncConsumer("idle", service.namesrv_address)
    idle.subscribe("t", "*", slow)
    await idle.start()
    stopping = asyncio.ensure_future(consumer.stop())
    # one that has nothing to wait for has the same way, begins it later, and is at its end
    await idle.stop()
    assert not stopping.done()
    go_on.set()
    await stopping
    assert done.is_set()
    assert (await admin.consume_stats("g")).lag == 0


async def test_a_message_whose_handler_did_not_begin_is_not_acknowledged(
    service: BrokerService, producer: AsyncProducer
) -> None:
    begun = asyncio.Event()

    async def never(message: Message) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    await producer.send_each("t", [prepare(str(number)) for number in range(10)])
    consumer = AsyncConsumer("g", service.namesrv_address, from_where="first", threads=1)
    consumer.subscribe("t", "*", never)
    await consumer.start()
    await begun.wait()
    await consumer.stop(0)
    inbox = Inbox()
    consumer = await joined(service, "g", "t", inbox)
    assert len(await inbox.holds(10)) == 10
    await consumer.stop()


async def test_bad_subscriptions_are_refused() -> None:
    consumer = AsyncConsumer("g")
    with pytest.raises(InvalidArgument):
        await consumer.start()
    for topic, tags in (("a b", "*"), ("t", "a ||"), ("t", "a b || c")):
        with pytest.raises(InvalidArgument):
            consumer.subscribe(topic, tags, print)
    with pytest.raises(InvalidArgument):
        AsyncConsumer("bad group")


def test_the_older_name_of_threads_warns_and_counts() -> None:
    with pytest.warns(DeprecationWarning, match="called `threads` now"):
        consumer = AsyncConsumer("billing", handlers=3)
    assert consumer._handlers.count == 3
