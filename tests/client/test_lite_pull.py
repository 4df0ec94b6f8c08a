"""Fetching by hand from a real broker: subscribed or assigned, sought, paused, committed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.client import (
    AsyncAdmin,
    AsyncLitePullConsumer,
    AsyncProducer,
    ClientClosed,
    InvalidArgument,
    MessageQueue,
    Sql,
    prepare,
)
from broker.server.broker import BrokerService
from tests.waiting import until_true

PATIENCE_MS = 20_000
BROKER = "broker-a"


def consumer_of(service: BrokerService, group: str = "g", **options: Any) -> AsyncLitePullConsumer:
    return AsyncLitePullConsumer(group, service.namesrv_address, **({"from_where": "first"} | options))


async def send(producer: AsyncProducer, *bodies: str, queue_id: int = 0, topic: str = "t") -> None:
    for body in bodies:
        await producer.send(topic, body, queue_id=queue_id)


async def take(consumer: AsyncLitePullConsumer, count: int) -> list[str]:
    """Poll until there are so many; a poll that gives nothing fails."""
    bodies: list[str] = []
    while len(bodies) < count:
        polled = await consumer.poll(PATIENCE_MS, count - len(bodies))
        assert polled
        bodies += [message.body.decode() for message in polled]
    return bodies


async def test_a_group_goes_on_where_it_closed(service: BrokerService, producer: AsyncProducer) -> None:
    await send(producer, "1", "2", "3")
    async with consumer_of(service) as consumer:
        await consumer.subscribe("t")
        assert await take(consumer, 2) == ["1", "2"]
    await send(producer, "4")
    async with consumer_of(service) as consumer:
        await consumer.subscribe("t")
        assert await take(consumer, 2) == ["3", "4"]
        await send(producer, "later")
        assert await take(consumer, 1) == ["later"]
        assert await consumer.poll(0) == []


async def test_what_a_failed_block_polled_last_comes_again(service: BrokerService, producer: AsyncProducer) -> None:
    await send(producer, "1", "2", "3")

    async def fail() -> None:
        async with consumer_of(service) as consumer:
            await consumer.subscribe("t")
            await take(consumer, 1)
            await take(consumer, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with consumer_of(service) as consumer:
        await consumer.subscribe("t")
        assert await take(consumer, 2) == ["2", "3"]


async def test_without_auto_commit_only_commit_counts(service: BrokerService, producer: AsyncProducer) -> None:
    await send(producer, "1", "2", "3", "4")
    async with consumer_of(service, auto_commit=False) as consumer:
        await consumer.subscribe("t")
        await take(consumer, 2)
        queue = MessageQueue("t", BROKER, 0)
        assert await consumer.committed(queue) is None
        await consumer.commit()
        assert await consumer.committed(queue) == 2
        await take(consumer, 2)
        await consumer.commit({queue: 3})
    async with consumer_of(service, auto_commit=False) as consumer:
        await consumer.subscribe("t")
        assert await take(consumer, 1) == ["4"]


async def test_what_is_done_is_committed_now_and_then(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await send(producer, "1", "2", "3")
    queue = MessageQueue("t", BROKER, 0)
    async with consumer_of(service, commit_every_ms=100) as consumer:
        await consumer.subscribe("t")
        await take(consumer, 2)
        await take(consumer, 1)  # so the two are done, the third is not
        assert await until_true(lambda: consumer.committed(queue)) == 2
        assert await consumer.position(queue) == 3


async def test_tags_and_filters(service: BrokerService, producer: AsyncProducer) -> None:
    # BBBB has the same hash code as AaAa: the broker lets it pass, the client must not
    for tag, amount in (("BBBB", "1"), ("AaAa", "2"), ("c", "30"), ("AaAa", "40")):
        await producer.send("t", tag + amount, tag=tag, properties={"amount": amount}, queue_id=0)
    async with consumer_of(service, "tags") as consumer:
        await consumer.subscribe("t", "AaAa")
        assert await take(consumer, 2) == ["AaAa2", "AaAa40"]
    async with consumer_of(service, "filter") as consumer:
        await consumer.subscribe("t", Sql("amount >= 30"))
        assert await take(consumer, 1) == ["c30"]
        await consumer.subscribe("t", "BBBB")
        await consumer.seek_to_begin()
        assert await take(consumer, 1) == ["BBBB1"]


async def test_members_share_and_take_over_what_was_not_done(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await admin.create_topic("t", queues=4)
    one, two = consumer_of(service), consumer_of(service)
    await one.subscribe("t")
    assert len(one.assignment) == 4
    for queue_id in range(4):
        await send(producer, str(queue_id), queue_id=queue_id)
    assert sorted(await take(one, 4)) == ["0", "1", "2", "3"]
    # it has not polled again: what it holds is not done, and belongs to whoever has the queue now
    await two.subscribe("t")
    await until_true(lambda: len(one.assignment) == 2)
    assert set(one.assignment) | set(two.assignment) == set(await one.queues("t"))
    theirs = sorted(str(queue.queue_id) for queue in two.assignment)
    assert sorted(await take(two, 2)) == theirs
    await two.close()
    await until_true(lambda: len(one.assignment) == 4)
    await one.close()


async def test_unsubscribed_topics_are_left_to_others(service: BrokerService, producer: AsyncProducer) -> None:
    await send(producer, "1")
    await producer.send("other", "2")
    async with consumer_of(service) as consumer:
        await consumer.subscribe("t")
        await consumer.subscribe("other")
        assert sorted(await take(consumer, 2)) == ["1", "2"]
        await consumer.unsubscribe("t")
        assert {queue.topic for queue in consumer.assignment} == {"other"}


async def test_assigned_queues_are_polled_whoever_else_is_there(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await admin.create_topic("t", queues=3)
    for queue_id in range(3):
        await send(producer, *(f"{queue_id}{letter}" for letter in "ab"), queue_id=queue_id)
    async with consumer_of(service) as one, consumer_of(service) as two:
        queues = await one.queues("t")
        await two.assign(queues[:2])
        await one.assign(queues[:2])
        assert len(await take(two, 4)) == 4
        polled = await one.poll(PATIENCE_MS, 1)
        stays = one.queue_of(polled[0])
        await one.assign([stays, queues[2]])
        assert one.assignment == (stays, queues[2])
        expected = [f"{stays.queue_id}b", "2a", "2b"]
        assert sorted(await take(one, 3)) == sorted(expected)


async def test_polls_pass_paused_queues_by(service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("t", queues=2)
    async with consumer_of(service) as consumer:
        await consumer.subscribe("t")
        zero, one = consumer.assignment
        consumer.pause(zero)
        assert consumer.is_paused(zero)
        await send(producer, "0", queue_id=0)
        await send(producer, "1", "1b", queue_id=1)
        assert await take(consumer, 2) == ["1", "1b"]
        assert await consumer.poll(0) == []
        assert await consumer.position(zero) == 0
        consumer.resume()
        assert await take(consumer, 1) == ["0"]
        assert await consumer.position(one) == 2


async def test_seeking(service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("t", queues=1)
    await send(producer, "1", "2", "3")
    async with consumer_of(service) as consumer:
        await consumer.subscribe("t")
        (queue,) = consumer.assignment
        stored = await consumer.poll(PATIENCE_MS, 1)
        await consumer.seek(consumer.queue_of(stored[0]), stored[0].queue_offset)
        assert await take(consumer, 3) == ["1", "2", "3"]
        await consumer.seek_to_end()
        assert await consumer.poll(0) == []
        await consumer.seek_to_time(stored[0].store_ms, queue)
        assert await take(consumer, 3) == ["1", "2", "3"]
        await consumer.seek_to_time(stored[0].store_ms + 3_600_000)
        assert await consumer.position(queue) == 3
        await consumer.seek_to_begin(queue)
        assert await consumer.position(queue) == 0
        for offset in (-1, 4):
            with pytest.raises(InvalidArgument, match="0 to 3"):
                await consumer.seek(queue, offset)
        with pytest.raises(InvalidArgument, match="not assigned"):
            await consumer.seek(MessageQueue("t", BROKER, 9), 0)


async def test_every_queue_gets_its_turn(service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("t", queues=2)
    for queue_id in range(2):
        await producer.send_batch("t", [prepare(str(queue_id)) for _ in range(50)], queue_id=queue_id)
    async with consumer_of(service) as consumer:
        await consumer.subscribe("t")
        zero, one = consumer.assignment
        for quiet, other in ((zero, one), (one, zero)):
            consumer.resume()
            consumer.pause(quiet)
            assert set(await take(consumer, 10)) == {str(other.queue_id)}
        # both have more in memory now
        consumer.resume()
        first, second = await take(consumer, 10), await take(consumer, 10)
        assert {*first, *second} == {"0", "1"}
        assert len({*first}) == 1


async def test_a_waiting_poll_ends_when_the_consumer_closes(service: BrokerService, producer: AsyncProducer) -> None:
    await send(producer, "1")
    consumer = consumer_of(service)
    await consumer.subscribe("t")
    await take(consumer, 1)
    waiting = asyncio.ensure_future(consumer.poll(PATIENCE_MS))
    await send(producer, "of another topic", topic="other")
    assert not waiting.done()
    await consumer.close()
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await consumer.subscribe("t")
    await consumer.close()


async def test_what_makes_no_sense_is_refused(service: BrokerService, producer: AsyncProducer) -> None:
    for options in ({"read_ahead": 0}, {"read_ahead_bytes": 0}, {"commit_every_ms": 1}, {"from_where": "middle"}):
        with pytest.raises(InvalidArgument):
            consumer_of(service, **options)
    await send(producer, "1")
    async with consumer_of(service) as consumer:
        with pytest.raises(InvalidArgument, match="before the first poll"):
            await consumer.poll(0)
        with pytest.raises(InvalidArgument):
            await consumer.subscribe("a b")
        await consumer.subscribe("t")
        with pytest.raises(InvalidArgument, match="not both"):
            await consumer.assign(consumer.assignment)
        for timeout_ms, most in ((-1, 1), (0, 0)):
            with pytest.raises(InvalidArgument):
                await consumer.poll(timeout_ms, most)
        with pytest.raises(InvalidArgument):
            await consumer.commit({consumer.assignment[0]: -1})
