"""A broker without request 14000, such as Apache RocketMQ: asked by standard requests only."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client import Admin, Consumer, NotSupported, Producer
from broker.mirror.follower import Mirror
from broker.mirror.models import (
    SLOT_MS,
    ConsumerGroup,
    ConsumerOffset,
    MirrorState,
    Queue,
    RateHistory,
    ScheduleLevel,
    Topic,
)
from tests.mirror.running import RunningBroker


class PlainAdmin(Admin):
    """A client whose broker refuses what RocketMQ does not have."""

    def changes(self, token: str, *, wait_ms: int = 0) -> dict[str, Any]:
        raise NotSupported(3, "request type 14000 not supported")


@pytest.fixture
def polling(transactional_db: None, broker: RunningBroker) -> Any:
    with PlainAdmin(broker.namesrv) as admin:
        follower = Mirror(admin)
        yield follower
        follower.close()


def test_lanes_topics_and_offsets_are_read(
    polling: Mirror, admin: Admin, producer: Producer, broker: RunningBroker
) -> None:
    admin.create_topic("orders", queues=2)
    sent = [producer.send("orders", "x", delay_level=18) for _ in range(3)]
    producer.send("orders", "x", queue_id=1)
    done = polling.run_once()
    assert done.polling
    level = ScheduleLevel.objects.get(level=18)
    assert (level.delay_ms, level.delay_offset, level.max_offset) == (7_200_000, 0, 3)
    assert level.next_due_ms is not None
    assert level.oldest_store_ms == level.next_due_ms - 7_200_000
    assert level.persisted_offset is None, "RocketMQ does not tell"
    assert Queue.objects.get(topic="orders", queue_id=1).max_offset == 1
    assert Topic.objects.get(name="SCHEDULE_TOPIC_XXXX").is_system
    assert len(sent) == 3


def test_a_group_is_read(polling: Mirror, admin: Admin, producer: Producer, broker: RunningBroker) -> None:
    admin.create_topic("orders", queues=1)
    consumer = Consumer("readers", broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: None)
    with consumer:
        polling.run_once()
    assert ConsumerGroup.objects.get(name="readers").members is None
    assert set(ConsumerOffset.objects.values_list("group", flat=True)) <= {"readers"}


def test_vanished_topics_go(polling: Mirror, admin: Admin, producer: Producer, monkeypatch: Any) -> None:
    admin.create_topic("orders", queues=1)
    producer.send("orders", "x")
    polling.run_once()
    admin.delete_topic("orders")
    monkeypatch.setattr("broker.mirror.changes.LISTING_INTERVAL_MS", 0)
    polling.run_once()
    assert not Topic.objects.filter(name="orders").exists()
    assert not Queue.objects.filter(topic="orders").exists()


def test_it_is_said_in_the_rows(polling: Mirror) -> None:
    polling.run_once()
    state = MirrorState.objects.get()
    assert state.polling
    assert state.token == ""


def test_dead_letters_that_come_are_counted_and_those_that_were_there_are_not(
    transactional_db: None, broker: RunningBroker, admin: Admin, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.mirror.changes.LISTING_INTERVAL_MS", 0)
    admin.create_topic("orders", queues=1)
    record = admin.message_by_offset_id(producer.send("orders", "x").offset_message_id)
    for group in ("billing", "shipping"):
        admin.create_group(group)
    moment = [100 * SLOT_MS]

    def give_up(group: str) -> None:
        admin.send_back(group, record, delay_level=-1, max_reconsume_times=0)

    give_up("billing")
    with PlainAdmin(broker.namesrv) as plain:
        follower = Mirror(plain, clock=lambda: moment[0])
        follower.run_once()
        moment[0] += SLOT_MS
        give_up("billing")
        give_up("shipping")
        # a turn after it was listed a new topic is read
        for later_ms in (0, 0, SLOT_MS):
            moment[0] += later_ms
            follower.run_once()
        follower.close()
    counted = {row.name: row.counts for row in RateHistory.objects.filter(kind="topic")}
    assert counted == {"%DLQ%billing": [1], "%DLQ%shipping": [1]}
