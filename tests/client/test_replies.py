"""Request and reply: a message that its consumer answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from broker.client import (
    ALL,
    AsyncConsumer,
    AsyncProducer,
    BrokerRefused,
    BrokerUnreachable,
    Consumer,
    InvalidArgument,
    Message,
    Producer,
    Timeout,
    prepare,
)
from broker.client._membership import Heartbeat
from broker.client._producer import Replies
from broker.client._session import Session
from broker.client.admin import Broker
from broker.server.broker import BrokerService
from broker.testing import BrokerThread
from tests.client.test_consuming import Inbox, joined

REPLIES = "DefaultCluster_REPLY_TOPIC"


async def answering(service: BrokerService, producer: AsyncProducer) -> AsyncConsumer:
    """A consumer of topic t that answers each message with its body turned round."""
    consumer = AsyncConsumer("g", service.namesrv_address, from_where="first")

    async def answer(message: Message) -> None:
        await producer.reply(message, message.body[::-1], properties={"seen": message.tags or ""})

    consumer.subscribe("t", ALL, answer)
    await consumer.start()
    return consumer


async def test_a_question_is_answered(service: BrokerService, producer: AsyncProducer) -> None:
    consumer = await answering(service, producer)
    async with AsyncProducer("askers", service.namesrv_address) as asker:
        answers = await asyncio.gather(
            *(asker.request("t", b"question %d" % number, tag="x", timeout_ms=20_000) for number in range(20))
        )
    assert [answer.body[::-1] for answer in answers] == [b"question %d" % number for number in range(20)]
    assert {answer.properties["seen"] for answer in answers} == {"x"}
    await consumer.stop()
    assert service.engine.queue_bounds(REPLIES, 0) == (0, 20), "replies are kept, as RocketMQ keeps them"


async def test_nobody_answers(service: BrokerService, producer: AsyncProducer) -> None:
    with pytest.raises(Timeout, match="consumers of t"):
        await producer.request("t", b"question", timeout_ms=200)


async def test_an_answer_that_comes_too_late_is_dropped(service: BrokerService, producer: AsyncProducer) -> None:
    inbox = Inbox()
    consumer = await joined(service, "g", "t", inbox)
    with pytest.raises(Timeout):
        await producer.request("t", b"question", timeout_ms=200)
    await inbox.holds(1)
    await producer.reply(inbox.messages[0], b"late")
    await consumer.stop()


async def test_an_answer_to_who_is_gone_is_refused_and_not_kept(
    service: BrokerService, producer: AsyncProducer
) -> None:
    inbox = Inbox()
    consumer = await joined(service, "g", "t", inbox)
    async with AsyncProducer("askers", service.namesrv_address) as asker:
        with pytest.raises(Timeout):
            await asker.request("t", b"question", timeout_ms=200)
    await inbox.holds(1)
    with pytest.raises(BrokerRefused, match="not found"):
        await producer.reply(inbox.messages[0], b"answer")
    assert service.engine.topics.get(REPLIES) is None
    await consumer.stop()


async def test_what_is_no_question_is_not_answered(service: BrokerService, producer: AsyncProducer) -> None:
    inbox = Inbox()
    consumer = await joined(service, "g", "t", inbox)
    await producer.send_prepared("t", prepare(b"plain"))
    await inbox.holds(1)
    with pytest.raises(InvalidArgument, match="no question"):
        await producer.reply(inbox.messages[0], b"answer")
    await consumer.stop()


def test_threads_ask_and_answer(broker: BrokerThread) -> None:
    consumer = Consumer("g", broker.namesrv, from_where="first")
    with Producer("answerers", broker.namesrv) as producer:
        consumer.subscribe("t", ALL, lambda message: producer.reply(message, b"echo " + message.body))
        with consumer, Producer("askers", broker.namesrv) as asker:
            assert asker.request("t", b"hello", timeout_ms=20_000).body == b"echo hello"


class Cluster:
    """Sessions and heartbeats of an asker in a cluster of three brokers, of which `away` cannot be reached."""

    client_id = "asker"

    def __init__(self, away: str = "") -> None:
        self.away = away
        self.reached: set[str] = set()
        self.beats: list[str] = []

    def register(self, code: int, handler: object) -> None: ...
    def on_lost(self, callback: object) -> None: ...

    async def masters(self) -> tuple[Broker, ...]:
        return tuple(Broker(f"broker-{name}", "DefaultCluster", f"{name}:10911") for name in "abc")

    def reach(self, addresses: Iterable[str]) -> None:
        self.reached |= set(addresses)

    async def beat(self, address: str) -> None:
        self.beats.append(address)
        if address == self.away:
            raise BrokerUnreachable(address, "it is away")


async def test_every_broker_knows_who_asks_before_the_question_is_sent() -> None:
    cluster = Cluster()
    replies = Replies(cast(Session, cluster), cast(Heartbeat, cluster))
    await replies.introduce("b:10911")
    assert sorted(cluster.beats) == ["a:10911", "b:10911", "c:10911"]
    await replies.introduce("a:10911")
    assert len(cluster.beats) == 3


async def test_another_broker_that_is_away_is_left_to_heartbeats_and_that_of_the_question_is_an_error() -> None:
    cluster = Cluster(away="c:10911")
    replies = Replies(cast(Session, cluster), cast(Heartbeat, cluster))
    for _ in range(2):
        await replies.introduce("b:10911")
    assert sorted(cluster.beats) == ["a:10911", "b:10911", "c:10911"]
    assert "c:10911" in cluster.reached
    with pytest.raises(BrokerUnreachable):
        await replies.introduce("c:10911")
