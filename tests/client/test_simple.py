"""Receiving by hand: messages held for a while, acknowledged, given back, kept longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from broker.client import (
    AsyncProducer,
    AsyncSimpleConsumer,
    BrokerRefused,
    BrokerUnreachable,
    InvalidArgument,
    NotHeld,
    Producer,
    Receipt,
    Received,
    RouteNotFound,
    SimpleConsumer,
    SimpleConsumers,
    Sql,
    read_receipt,
)
from broker.client._session import Session
from broker.engine.tables.topics import WRITE, Topic
from broker.rocketmq.codes import Request
from broker.server.broker import BrokerService
from broker.server.processors.acks import MOST_ACKED
from broker.testing import BrokerThread
from tests.watching import Calls

TOPIC = "order"


@pytest.fixture
async def consumer(service: BrokerService) -> AsyncIterator[AsyncSimpleConsumer]:
    service.engine.topics.ensure(TOPIC, 1)
    async with AsyncSimpleConsumer("billing", service.namesrv_address) as made:
        yield made


def bodies(received: list[Received]) -> list[bytes]:
    return [each.body for each in received]


async def test_receive_and_acknowledge(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> None:
    await producer.send(TOPIC, b"pay", tag="new", keys=["k1"], properties={"color": "red"})
    (received,) = await consumer.receive(TOPIC, invisible_ms=100)
    assert (received.body, received.attempt) == (b"pay", 1)
    message = received.message
    assert (message.topic, message.tags, message.keys, message.properties["color"]) == (TOPIC, "new", ["k1"], "red")
    await consumer.ack(received)
    assert await consumer.receive(TOPIC, wait_ms=300) == []


async def test_a_pop_has_brokers_go_by_their_own_clock(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> None:
    """Apache RocketMQ hands nothing to who says that he asked long ago, and takes a zero for now."""
    asked: list[str] = []

    def note(given: Mapping[str, Any]) -> None:
        if given["code"] == Request.POP_MESSAGE:
            asked.append(given["ext"]["bornTime"])

    await producer.send(TOPIC, b"pay")
    with Calls(Session.ask, before=note):
        await consumer.receive(TOPIC)
    assert asked == ["0"]


async def test_what_is_not_acknowledged_comes_again(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> None:
    await producer.send(TOPIC, b"pay")
    (first,) = await consumer.receive(TOPIC, invisible_ms=30)
    (second,) = await consumer.receive(TOPIC)
    assert (second.body, second.attempt, second.message.topic) == (b"pay", 2, TOPIC)
    assert not {"POP_CK", "ESC_POPPED"} & set(second.message.properties)
    with pytest.raises(NotHeld) as refusal:
        await consumer.ack(first)
    assert refusal.value.receipts == (first.receipt,)
    await consumer.ack(second)


async def test_many_at_once(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> None:
    for number in range(6):
        await producer.send(TOPIC, b"%d" % number)
    stale = await consumer.receive(TOPIC, max_messages=2, invisible_ms=30)
    fresh = await consumer.receive(TOPIC, max_messages=4, invisible_ms=60_000)
    again = await consumer.receive(TOPIC, max_messages=1)
    rest = [*again, *(await consumer.receive(TOPIC) if len(again) < 2 else [])]
    assert sorted(bodies(rest)) == [b"0", b"1"]
    with pytest.raises(NotHeld) as refusal:
        await consumer.ack(*stale, *fresh)
    assert set(refusal.value.receipts) == {each.receipt for each in stale}, "the others are done"
    await consumer.ack(*rest)
    await consumer.ack(*fresh)
    assert await consumer.receive(TOPIC, wait_ms=0) == []


async def test_more_than_a_broker_takes_at_once_goes_in_several_requests(
    producer: AsyncProducer, consumer: AsyncSimpleConsumer
) -> None:
    await producer.send(TOPIC, b"pay")
    (held,) = await consumer.receive(TOPIC)
    stale = [Receipt(TOPIC, f"0 1 1 0 0 {held.receipt.broker} 0 {offset}") for offset in range(MOST_ACKED + 1)]
    with pytest.raises(NotHeld) as refusal:
        await consumer.ack(*stale, held)
    assert refusal.value.receipts == tuple(stale)
    with pytest.raises(NotHeld):
        await consumer.extend(held, 1_000)


async def test_kept_longer_and_given_back(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> None:
    await producer.send(TOPIC, b"long")
    await producer.send(TOPIC, b"back")
    long, back = await consumer.receive(TOPIC, invisible_ms=150)
    longer = await consumer.extend(long, 60_000)
    assert longer.invisible_until_ms > long.invisible_until_ms
    await consumer.nack(back)
    (again,) = await consumer.receive(TOPIC, invisible_ms=60_000)
    assert (again.body, again.attempt) == (b"back", 2)
    assert await consumer.receive(TOPIC, wait_ms=250) == []
    with pytest.raises(NotHeld):
        await consumer.extend(back, 1000)
    with pytest.raises(NotHeld):
        await consumer.ack(long)
    await consumer.ack(longer, again)
    await consumer.nack(await _one_more(producer, consumer), 20)
    assert bodies(await consumer.receive(TOPIC)) == [b"more"]


async def _one_more(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> Received:
    await producer.send(TOPIC, b"more")
    (received,) = await consumer.receive(TOPIC)
    return received


async def test_tags_are_compared_to_the_letter(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> None:
    """AaAa and BBBB have the same hash code."""
    for tag in ("AaAa", "BBBB", "other"):
        await producer.send(TOPIC, tag.encode(), tag=tag)
    assert bodies(await consumer.receive(TOPIC, expression="BBBB", invisible_ms=50)) == [b"BBBB"]
    assert bodies(await consumer.receive(TOPIC, expression="BBBB || AaAa", wait_ms=400)) == [b"BBBB"]


async def test_it_waits_for_the_first(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> None:
    waiting = asyncio.create_task(consumer.receive(TOPIC))
    await producer.send(TOPIC, b"news")
    assert bodies(await waiting) == [b"news"]


async def test_in_order(service: BrokerService, producer: AsyncProducer) -> None:
    service.engine.topics.ensure(TOPIC, 1)
    for number in range(3):
        await producer.send(TOPIC, b"%d" % number)
    async with AsyncSimpleConsumer("billing", service.namesrv_address, in_order=True) as consumer:
        first, second = await consumer.receive(TOPIC, max_messages=2, invisible_ms=60_000)
        assert await consumer.receive(TOPIC, wait_ms=0) == []
        await consumer.ack(first)
        await consumer.nack(second, 30)
        again, third = await consumer.receive(TOPIC)
        assert [(again.body, again.attempt), (third.body, third.attempt)] == [(b"1", 2), (b"2", 1)]
        longer = await consumer.extend(third, 30_000)
        await consumer.ack(again, longer)
        assert await consumer.receive(TOPIC, wait_ms=0) == []


async def test_a_receipt_is_one_word_and_can_be_handed_on(
    service: BrokerService, producer: AsyncProducer, consumer: AsyncSimpleConsumer
) -> None:
    await producer.send(TOPIC, b"pay")
    (received,) = await consumer.receive(TOPIC)
    word = str(received.receipt)
    assert word.isascii()
    assert not set(word) & set(" =/+")
    async with AsyncSimpleConsumer("billing", service.namesrv_address) as other:
        await other.ack(read_receipt(word))
    assert read_receipt(word) == received.receipt


@pytest.mark.parametrize(
    "word",
    ["", "x", "é", "MQ", "MSBvcmRlciAwIDEgMiAzIDQgNSA2", "MiBvcmRlciAwIDEgMiAwIDAgYiAwIDA"],
)
def test_what_is_no_receipt(word: str) -> None:
    with pytest.raises(InvalidArgument):
        read_receipt(word)


@pytest.mark.parametrize("offset", ["-1", "99999999", "x", "9" * 30])
def test_a_receipt_that_was_tampered_with(offset: str) -> None:
    from base64 import urlsafe_b64encode

    word = urlsafe_b64encode(f"1 order 0 1 2 0 0 b 0 {offset}".encode()).decode().rstrip("=")
    with pytest.raises(InvalidArgument):
        read_receipt(word)


async def test_what_cannot_be_asked(service: BrokerService, consumer: AsyncSimpleConsumer) -> None:
    for wrong in ({"max_messages": 33}, {"max_messages": 0}, {"invisible_ms": 0}, {"wait_ms": -1}):
        with pytest.raises(InvalidArgument):
            await consumer.receive(TOPIC, **wrong)
    with pytest.raises(InvalidArgument):
        AsyncSimpleConsumer("b d")
    with pytest.raises(InvalidArgument):
        AsyncSimpleConsumer("billing", from_where="middle")  # type: ignore[arg-type]  # that is what is tested
    with pytest.raises(RouteNotFound):
        await consumer.receive("nowhere")
    service.engine.topics.put(Topic("writeonly", 1, 1, WRITE))
    with pytest.raises(BrokerRefused):
        await consumer.receive("writeonly")


def test_the_synchronous_face(broker: BrokerThread) -> None:
    with Producer("shop", broker.namesrv) as producer, SimpleConsumer("billing", broker.namesrv) as consumer:
        for number in range(3):
            producer.send(TOPIC, b"%d" % number)
        held: list[Received] = []
        while len(held) < 3:
            held += consumer.receive(TOPIC, invisible_ms=60_000)
        assert sorted(bodies(held)) == [b"0", b"1", b"2"]
        longer = consumer.extend(held[0], 90_000)
        consumer.nack(held[1])
        consumer.ack(longer, held[2])
        assert bodies(consumer.receive(TOPIC)) == [held[1].body]
        assert consumer.core.group == "billing"
        broker.stop()
        try:
            with pytest.raises(BrokerUnreachable):
                consumer.receive(TOPIC)
        finally:
            broker.start()


async def test_a_filter_in_sql(producer: AsyncProducer, consumer: AsyncSimpleConsumer) -> None:
    for amount in (5, 50, 500):
        await producer.send(TOPIC, b"%d" % amount, properties={"amount": str(amount)})
    assert bodies(await consumer.receive(TOPIC, expression=Sql("amount BETWEEN 10 AND 100"))) == [b"50"]
    for wrong in ("", "x" * 9_000, "amount >"):
        with pytest.raises(InvalidArgument):
            await consumer.receive(TOPIC, expression=Sql(wrong))


async def test_consumers_of_many_groups_share_their_connections(
    producer: AsyncProducer, service: BrokerService
) -> None:
    await producer.send(TOPIC, b"pay")
    before = len(service.servers[0].connections)
    consumers = SimpleConsumers(service.namesrv_address)
    for group in ("billing", "shipping"):
        consumer = consumers.of(group)
        (received,) = await consumer.receive(TOPIC)
        await consumer.ack(received)
        await consumer.close()
    assert await consumers.of("billing").receive(TOPIC, wait_ms=0) == []
    connected = len(service.servers[0].connections)
    await consumers.close()
    assert connected == before + 1
