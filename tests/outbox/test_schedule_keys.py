"""Rows with a schedule key where there are several brokers: they go to the key's broker, or wait for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.client import Admin, Decision, TransactionProducer
from broker.client._pipeline import broker_of_key
from broker.outbox import send_later
from broker.outbox.after_commit import Worker
from broker.outbox.models import OutboxMessage
from tests.cluster import Cluster

A, B = "broker-a", "broker-b"
HOUR_MS = 3_600_000
KEYS = [f"order-{number}" for number in range(8)]


@pytest.fixture
def cluster(transactional_db: None) -> Iterator[Cluster]:
    with Cluster(2) as running, Admin(running.namesrv) as admin:
        admin.create_topic("orders", queues=2)
        yield running


def waiting(cluster: Cluster, broker: str) -> set[str | None]:
    with Admin(cluster.namesrv, broker) as admin:
        return {each.schedule_key for each in admin.timers(0, 2**62).items}


def test_a_row_waits_for_the_broker_of_its_key(cluster: Cluster) -> None:
    of = {name: {key for key in KEYS if broker_of_key(key, (A, B)) == name} for name in (A, B)}
    for key in KEYS:
        send_later("orders", "x", delay_ms=HOUR_MS, schedule_key=key)
    send_later("orders", "x", broker=B)
    with TransactionProducer("payers", cluster.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        worker = Worker(producer, "default")
        producer.send("orders", "x", broker=B)
        cluster[B].stop()
        turn = worker.turn()
        assert (turn.sent, turn.away, turn.refused) == (len(of[A]), len(of[B]) + 1, 0)
        assert waiting(cluster, A) == of[A]
        reasons = set(OutboxMessage.objects.exclude(broker=B).values_list("last_error", flat=True))
        assert all("it is sent to no other broker" in reason for reason in reasons)
        cluster[B].start()
        OutboxMessage.objects.update(next_attempt_at=None)
        assert worker.turn().sent == len(of[B]) + 1
    assert waiting(cluster, B) == of[B]
    assert not OutboxMessage.objects.exists()
