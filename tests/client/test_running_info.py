"""What a consumer answers when a broker asks it for an administrator."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from broker.client import AsyncAdmin, AsyncConsumer, AsyncLitePullConsumer, AsyncProducer, BrokerRefused, Message
from broker.client._answers import Table, fields, read_object, rows
from broker.client._running_info import MINUTE_S, Recent, mean
from broker.client._session import Session
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from tests.waiting import until_true


@pytest.fixture
async def session(service: BrokerService) -> AsyncIterator[Session]:
    asking = Session(service.namesrv_address)
    yield asking
    await asking.close()


class Shop:
    """A handler that fails for `bad`."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        self.seen: asyncio.Queue[bytes] = asyncio.Queue()
        consumer.subscribe("orders", "*", self.handle)

    async def handle(self, message: Message) -> None:
        self.seen.put_nowait(message.body)
        if message.body == b"bad":
            raise ValueError("it is bad")


async def test_a_consumer_says_what_it_holds_and_how_it_works(
    service: BrokerService, admin: AsyncAdmin, producer: AsyncProducer
) -> None:
    began_ms = time.time_ns() // 1_000_000
    await admin.create_topic("orders", queues=2)
    sent = [await producer.send("orders", body, queue_id=1) for body in ("one", "bad", "two")]
    consumer = AsyncConsumer("billing", service.namesrv_address, from_where="first", threads=3)
    shop = Shop(consumer)
    await consumer.start()
    assert {await shop.seen.get() for _ in sent} == {b"one", b"bad", b"two"}

    async def is_done() -> bool:
        info = await admin.running_info("billing", consumer.client_id)
        return [held.offset for held in info.queues if held.queue.topic == "orders"] == [0, 3]

    await until_true(is_done)
    info = await admin.running_info("billing", consumer.client_id)
    await consumer.stop()
    idle, busy = [held for held in info.queues if held.queue.topic == "orders"]
    assert (idle.queue.queue_id, busy.queue.queue_id) == (0, 1)
    assert (busy.cached, busy.is_locked, idle.consumed_ms, idle.cached) == (0, False, 0, 0)
    assert busy.pulled_ms is not None and abs(busy.pulled_ms - began_ms) < 60_000
    assert busy.consumed_ms is not None and abs(busy.consumed_ms - began_ms) < 60_000
    (work,) = [each for each in info.topics if each.topic == "orders"]
    assert work.failed == 1
    assert work.done_per_s is not None and work.failed_per_s is not None
    assert work.done_per_s == pytest.approx(2 * work.failed_per_s, rel=0.5)
    assert work.pull_ms is not None and work.pull_ms > 0
    properties = info.properties
    assert (properties["PROP_CONSUME_TYPE"], properties["PROP_CONSUMEORDERLY"]) == ("CONSUME_PASSIVELY", "false")
    assert (properties["PROP_THREADPOOL_CORE_SIZE"], properties["PROP_CLIENT_VERSION"]) == ("3", "V5_5_0")
    assert properties["PROP_NAMESERVER_ADDR"] == f"{service.namesrv_address};"
    assert properties["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"
    assert info.stack == ""


async def test_an_orderly_consumer_shows_its_locks_and_threads_when_asked(
    service: BrokerService, admin: AsyncAdmin, producer: AsyncProducer
) -> None:
    await producer.send("orders", "one", queue_id=0)
    consumer = AsyncConsumer("billing", service.namesrv_address, from_where="first", orderly=True)
    shop = Shop(consumer)
    await consumer.start()
    await shop.seen.get()
    info = await admin.running_info("billing", consumer.client_id, with_stack=True)
    await consumer.stop()
    assert {held.is_locked for held in info.queues if held.queue.topic == "orders"} == {True}
    assert info.properties["PROP_CONSUMEORDERLY"] == "true"
    assert '"MainThread"' in info.stack
    assert "_membership.py" in info.stack


async def test_a_lite_pull_consumer_shows_its_queues(
    service: BrokerService, admin: AsyncAdmin, producer: AsyncProducer
) -> None:
    await producer.send("orders", "one", queue_id=0)
    async with AsyncLitePullConsumer("reports", service.namesrv_address, from_where="first") as consumer:
        await consumer.subscribe("orders")
        (message,) = await consumer.poll(20_000)
        assert message.body == b"one"
        info = await admin.running_info("reports", consumer.client_id)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    held = {each.queue.queue_id: each.offset for each in info.queues}
    assert held[0] == 1


async def test_what_a_consumer_says_has_the_tables_of_javas(
    service: BrokerService, session: Session, producer: AsyncProducer
) -> None:
    await producer.send("orders", "one", queue_id=0)
    consumer = AsyncConsumer("billing", service.namesrv_address, from_where="first")
    shop = Shop(consumer)
    await consumer.start()
    await shop.seen.get()
    ext = {"consumerGroup": "billing", "clientId": consumer.client_id, "jstackEnable": "false"}
    answer = await session.ask(service.address, Request.GET_CONSUMER_RUNNING_INFO, ext)
    body = read_object(answer.body)
    await consumer.stop()
    assert set(body) == {"properties", "subscriptionSet", "mqTable", "mqPopTable", "statusTable", "userConsumerInfo"}
    assert {row["topic"] for row in rows(body["subscriptionSet"])} == {"orders", "%RETRY%billing"}
    table = body["mqTable"]
    assert isinstance(table, Table)
    key, held = table[0]
    assert set(key) == {"brokerName", "queueId", "topic"}
    assert set(fields(held)) == {
        "cachedMsgCount", "cachedMsgMaxOffset", "cachedMsgMinOffset", "cachedMsgSizeInMiB", "commitOffset", "droped",
        "lastConsumeTimestamp", "lastLockTimestamp", "lastPullTimestamp", "locked", "transactionMsgCount",
        "transactionMsgMaxOffset", "transactionMsgMinOffset", "tryUnlockTimes",
    }  # fmt: skip


async def test_how_far_it_is_is_told(
    service: BrokerService, session: Session, admin: AsyncAdmin, producer: AsyncProducer
) -> None:
    await admin.create_topic("orders", queues=1)
    await producer.send("orders", "one")
    consumer = AsyncConsumer("billing", service.namesrv_address, from_where="first")
    shop = Shop(consumer)
    await consumer.start()
    await shop.seen.get()
    ext = {"topic": "orders", "group": "billing", "clientAddr": ""}

    async def is_told() -> bool:
        answer = await session.ask(service.address, Request.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ext)
        return f'{{"{consumer.client_id}":{{{{"brokerName":"broker-a","queueId":0,"topic":"orders"}}:1}}}}' in (
            answer.body.decode()
        )

    await until_true(is_told)
    await consumer.stop()


async def test_a_message_is_handled_at_once_and_its_outcome_told(
    service: BrokerService, session: Session, producer: AsyncProducer
) -> None:
    good, bad, other = [
        await producer.send(topic, body) for topic, body in (("orders", "one"), ("orders", "bad"), ("notes", "note"))
    ]
    consumer = AsyncConsumer("billing", service.namesrv_address, from_where="first")
    shop = Shop(consumer)
    await consumer.start()
    about = {"consumerGroup": "billing", "clientId": consumer.client_id}

    async def directly(offset_id: str) -> dict[str, object]:
        ext = about | {"msgId": offset_id}
        answer = await session.ask(service.address, Request.CONSUME_MESSAGE_DIRECTLY, ext)
        said: dict[str, object] = json.loads(answer.body)
        return said

    assert {await shop.seen.get() for _ in range(2)} == {b"one", b"bad"}
    worked = await directly(good.offset_message_id)
    assert shop.seen.get_nowait() == b"one"
    assert (worked["consumeResult"], worked["remark"], worked["order"], worked["autoCommit"]) == (
        "CR_SUCCESS", None, False, True,
    )  # fmt: skip
    failed = await directly(bad.offset_message_id)
    assert (failed["consumeResult"], failed["remark"]) == ("CR_THROW_EXCEPTION", "ValueError: it is bad")
    strange = await directly(other.offset_message_id)
    assert strange["consumeResult"] == "CR_THROW_EXCEPTION"
    assert "notes is not subscribed" in str(strange["remark"])
    await consumer.stop()


async def test_a_client_is_asked_only_for_its_own_group(service: BrokerService, admin: AsyncAdmin) -> None:
    consumer = AsyncConsumer("billing", service.namesrv_address)
    Shop(consumer)
    await consumer.start()
    with pytest.raises(BrokerRefused) as refused:
        await admin.running_info("shipping", consumer.client_id)
    assert refused.value.code == Answer.SYSTEM_ERROR
    await consumer.stop()


def test_what_is_long_ago_does_not_count() -> None:
    now_s = 1_000.0
    recent = Recent(MINUTE_S, clock=lambda: now_s)
    recent.add(10.0)
    recent.add(20.0, count=3)
    assert (recent.count, mean([recent]), recent.per_s) == (4, 7.5, 4.0)
    now_s += 40
    recent.add(2.0)
    assert (recent.count, recent.per_s) == (5, pytest.approx(5 / 40))
    now_s += 30
    assert (recent.count, mean([recent]), recent.per_s) == (1, 2.0, pytest.approx(1 / 60))
    now_s += 600
    assert (recent.count, mean([recent, recent]), recent.per_s) == (0, 0.0, 0.0)
