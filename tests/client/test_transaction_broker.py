"""The transaction producer and our own broker: decisions, their contradiction, delays that begin with the commit."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.client import Admin, BrokerRefused, Consumer, Decision, Message, TransactionProducer, prepare
from broker.client._transaction import ILLEGAL_OPERATION
from tests.client.running import BrokerThread, small_store

PATIENCE_S = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """A broker that asks soon."""
    config = replace(small_store(tmp_path), transaction_timeout_ms=200, transaction_interval_ms=200)
    with BrokerThread(config) as running:
        yield running


def producer_of(broker: BrokerThread, decision: Decision = Decision.UNKNOWN) -> TransactionProducer:
    return TransactionProducer("shop", broker.namesrv, check=lambda message: decision)


def test_a_decision_may_be_repeated_and_not_contradicted(broker: BrokerThread) -> None:
    with producer_of(broker) as producer:
        for decide, contradict in ((producer.commit, producer.rollback), (producer.rollback, producer.commit)):
            half = producer.send_half("orders", prepare("4711"))
            decide(half)
            decide(half)
            with pytest.raises(BrokerRefused) as refused:
                contradict(half)
            assert refused.value.code == ILLEGAL_OPERATION


def test_a_message_is_shown_once_to_a_consumer_by_commit_and_by_check(broker: BrokerThread) -> None:
    inbox: queue.Queue[Message] = queue.Queue()
    consumer = Consumer("readers", broker.namesrv, from_where="first")
    consumer.subscribe("orders", "made", inbox.put)
    with producer_of(broker, Decision.COMMIT) as producer:
        half = producer.send_half("orders", prepare("committed", tag="made", keys=["4711"]))
        producer.commit(half)
        producer.send_half("orders", prepare("asked", tag="made"))
        with consumer:
            received = {inbox.get(timeout=PATIENCE_S).body for _ in range(2)}
            producer.send("orders", "last", tag="made")
            assert inbox.get(timeout=PATIENCE_S).body == b"last"
    assert received == {b"committed", b"asked"}


@pytest.mark.parametrize("delay", [{"delay_level": 1}, {"delay_ms": 1000}])
def test_a_delay_begins_with_the_commit(broker: BrokerThread, delay: dict[str, int]) -> None:
    inbox: queue.Queue[Message] = queue.Queue()
    consumer = Consumer("readers", broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", inbox.put)
    with producer_of(broker) as producer, Admin(broker.namesrv) as admin:
        producer.send("orders", "first")
        half = producer.send_half("orders", prepare("later", **delay))
        producer.send("seen", "after the half")
        producer.commit(half)
        committed_ms = max(message.store_ms for queue_id in range(4) for message in admin.pull("seen", queue_id, 0, 1))
        with consumer:
            assert inbox.get(timeout=PATIENCE_S).body == b"first"
            message = inbox.get(timeout=PATIENCE_S)
    assert message.body == b"later"
    assert message.store_ms >= committed_ms + 1000


def test_a_forged_half_decides_nothing(broker: BrokerThread) -> None:
    with producer_of(broker) as producer, Admin(broker.namesrv) as admin:
        half = producer.send_half("orders", prepare("4711"))
        for forged in (
            replace(half, queue_offset=half.queue_offset + 1),
            replace(half, position=half.position + 1),
            replace(half, group="others"),
            replace(half, transaction_id="0" * 32),
        ):
            with pytest.raises(BrokerRefused):
                producer.commit(forged)
        assert sum(stats.max_offset for stats in admin.topic_stats("orders").queues) == 0
        producer.commit(half)
        assert sum(stats.max_offset for stats in admin.topic_stats("orders").queues) == 1
