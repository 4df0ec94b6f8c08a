"""Sends to a broker that they name: all ways of sending, rows of the outbox among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from broker.client import Admin, Decision, InvalidArgument, Producer, SendResult, TransactionProducer, prepare
from broker.client._outgoing import Outgoing
from broker.client.errors import NoSuchQueue
from tests.cluster import Cluster

A, B = "broker-a", "broker-b"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as running, Admin(running.namesrv) as admin, Admin(running.namesrv, B) as second:
        admin.create_topic("orders", queues=2)
        second.create_topic("orders", queues=3)
        yield running


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Producer]:
    with Producer("shop", cluster.namesrv) as made:
        yield made


def test_every_way_of_sending_goes_to_the_broker_that_is_named(cluster: Cluster, producer: Producer) -> None:
    message = prepare("x")
    for name in (A, B):
        sent = [producer.send("orders", "x", broker=name) for _ in range(4)]
        sent += [producer.send("orders", "x", broker=name, queue_id=1)]
        sent += [producer.send_prepared("orders", message, broker=name)]
        sent += [
            each for each in producer.send_each("orders", [message] * 3, broker=name) if isinstance(each, SendResult)
        ]
        sent += producer.send_batch("orders", ["a", "b"], broker=name, queue_id=1)
        assert [each.broker for each in sent] == [name] * 11
        assert {each.queue_id for each in sent[:4]} == ({0, 1} if name == A else {0, 1, 2})
        before = stored(cluster, name)
        producer.send_oneway("orders", "x", broker=name)
        producer.send_oneway("orders", message, broker=name)
        producer.send("orders", "x", broker=name)
        assert stored(cluster, name) == before + 3
    with TransactionProducer("payers", cluster.namesrv, check=lambda _: Decision.UNKNOWN) as payers:
        assert {payers.send_half("orders", message, broker=B).broker for _ in range(3)} == {B}


def stored(cluster: Cluster, name: str) -> int:
    with Admin(cluster.namesrv, name) as admin:
        return sum(part.max_offset for part in admin.topic_stats("orders").queues)


def test_a_sharding_key_leads_to_a_queue_of_the_broker(producer: Producer) -> None:
    found = {producer.send("orders", "x", broker=B, sharding_key="4711").queue_id for _ in range(3)}
    assert len(found) == 1


def test_a_queue_or_broker_that_is_not_there_is_refused_before_anything_is_sent(
    cluster: Cluster, producer: Producer
) -> None:
    before = stored(cluster, A), stored(cluster, B)
    with pytest.raises(NoSuchQueue, match="no queue 2 that can be written at broker-a") as refused:
        producer.send("orders", "x", broker=A, queue_id=2)
    assert refused.value.field == "queue_id"
    with pytest.raises(NoSuchQueue, match="at broker-z") as refused:
        producer.send("orders", "x", broker="broker-z")
    assert refused.value.field == "broker"
    with pytest.raises(NoSuchQueue):
        producer.send_each("orders", [prepare("x")], broker=A, queue_id=2)
    wrong, right = producer.send_each("orders", [prepare("x", broker="broker-z"), prepare("x", broker=A)])
    assert isinstance(wrong, NoSuchQueue)
    assert isinstance(right, SendResult)
    with pytest.raises(InvalidArgument, match="one queue"):
        producer.send_batch("orders", [prepare("x", broker=A), prepare("x", broker=B)])
    for bad in ("", cast(str, 5)):
        with pytest.raises(InvalidArgument) as invalid:
            prepare("x", broker=bad)
        assert invalid.value.field == "broker"
    assert (stored(cluster, A), stored(cluster, B)) == (before[0] + 1, before[1])


def test_a_message_that_was_kept_knows_its_broker_and_keys() -> None:
    made = prepare("x", delay_ms=5, schedule_key="k", broker=B, queue_id=2)
    assert Outgoing.of_stored(made.body, made.properties, made.message_id, None, 2, B) == made
