"""The console's pages on an Apache RocketMQ broker: lanes, a lane, a message with both its records, topics, groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.client import Admin, Producer
from broker.mirror.follower import Mirror
from console.features.messages import read as messages_read
from console.features.messages.shapes import HopKind
from console.features.overview.pages import read_overview
from console.features.schedule import read as lane_read
from console.features.schedule import read as schedule_read
from console.features.schedule.shapes import LaneState
from console.features.topics.pages import read_topics
from console.site.broker import hang_up
from tests.interop.servers import Server
from tests.waiting import until

TOPIC = "PagesTopic"


@pytest.fixture
def mirror(apache: Server, transactional_db: None, settings: Any) -> Iterator[Mirror]:
    settings.ESCAPEMENT_NAMESRV = apache.namesrv
    with Admin(apache.namesrv) as admin:
        admin.create_topic(TOPIC, queues=1)
        follower = Mirror(admin)
        yield follower
        follower.close()
    hang_up()


@pytest.fixture
def producer(apache: Server, mirror: Mirror) -> Iterator[Producer]:
    with Producer(group="pages", namesrv=apache.namesrv) as client:
        yield client


def test_lanes_and_a_lane(mirror: Mirror, producer: Producer) -> None:
    sent = [producer.send(TOPIC, f"{number}", delay_level=18, keys=[f"k{number}"]) for number in range(40)]

    def waiting() -> bool:
        mirror.run_once()
        return schedule_read.lanes().lanes[17].backlog == 40

    until(waiting)
    lanes = schedule_read.lanes()
    assert lanes.evidence.requests == (202, 45, 321)
    assert not lanes.evidence.stale
    lane = lanes.lanes[17]
    assert lane.state is LaneState.WAITING
    assert lane.next_due_ms is not None
    assert lane.persisted_offset is None
    assert lane.lateness_p99_ms is None
    assert lane.spread is not None
    assert sum(lane.spread.counts) + lane.spread.beyond == 40
    page = lane_read.lane(18)
    assert [message.keys for message in page.messages] == [(f"k{number}",) for number in range(40)]
    assert [message.unique_key for message in page.messages] == [result.message_id for result in sent]
    assert {message.real_topic for message in page.messages} == {TOPIC}
    parked = messages_read.message(page.messages[0].offset_message_id or "")
    assert parked.pending
    assert parked.due_ms == lane.next_due_ms


def test_a_delivered_message_has_both_its_records(mirror: Mirror, producer: Producer) -> None:
    sent = producer.send(TOPIC, "soon", delay_level=1)
    until(lambda: len(messages_read.message(sent.message_id, TOPIC).hops) == 2)
    page = messages_read.message(sent.message_id, TOPIC)
    assert [hop.kind for hop in page.hops] == [HopKind.PARKED, HopKind.RELEASED]
    assert not page.pending


def test_topics_and_overview(mirror: Mirror, producer: Producer) -> None:
    producer.send(TOPIC, "now")

    def stored() -> bool:
        mirror.run_once()
        row = next((row for row in read_topics(search=TOPIC).rows if row.name == TOPIC), None)
        return row is not None and (row.messages or 0) > 0

    until(stored)
    overview = read_overview()
    assert overview.mirror.state == "polling"
    assert overview.brokers[0].state == "UNKNOWN"
    assert overview.brokers[0].version.startswith("V5")
    assert overview.brokers[0].started_ms is not None
