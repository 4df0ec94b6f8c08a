"""What the pages are told, from a real broker and its mirror in a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client import Admin, Consumer, Producer
from broker.mirror.follower import Mirror
from console.features.groups import read as groups_read
from console.features.groups.read import GroupState
from console.features.messages import read as messages_read
from console.features.messages.shapes import BodyForm, HopKind
from console.features.overview import findings
from console.features.overview.finding_kinds import FindingCode
from console.features.overview.pages import read_overview
from console.features.schedule import read as lane_read
from console.features.schedule import read as schedule_read
from console.features.schedule.shapes import BUCKETS, LaneState
from console.features.topics import pages as topics_pages
from console.features.topics.shapes import TopicKind
from console.site.broker import hang_up
from console.site.clock import now_ms
from console.site.evidence import StaleReason
from tests.mirror.running import RunningBroker, running_broker
from tests.waiting import until


class Site:
    """A broker, a producer, a mirror, and settings that point the pages there."""

    def __init__(self, broker: RunningBroker, admin: Admin, producer: Producer) -> None:
        self.broker, self.admin, self.producer = broker, admin, producer
        self.mirror = Mirror(admin)

    def mirrored(self) -> None:
        self.mirror.run_once()


@pytest.fixture
def site(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Site]:
    with running_broker(tmp_path / "store", delay_levels="1s 5s 1h 2h") as broker:
        settings.ESCAPEMENT_NAMESRV = broker.namesrv
        with Admin(broker.namesrv) as admin, Producer(group="tests", namesrv=broker.namesrv) as producer:
            made = Site(broker, admin, producer)
            yield made
            made.mirror.close()
        hang_up()


def test_before_the_mirror_all_is_unknown(db: None) -> None:
    lanes = schedule_read.lanes()
    assert lanes.evidence.stale_reason is StaleReason.MIRROR_EMPTY
    assert lanes.figures.pending is None
    assert lanes.lanes == ()
    assert read_overview().mirror.state == "never"
    assert topics_pages.read_topics().total == 0


def test_a_lane_never_used_is_not_an_empty_one(site: Site) -> None:
    site.mirrored()
    lanes = schedule_read.lanes()
    assert {lane.state for lane in lanes.lanes} == {LaneState.NEVER_USED}
    assert [lane.delay_ms for lane in lanes.lanes] == [1_000, 5_000, 3_600_000, 7_200_000]
    assert lanes.figures.pending == 0
    assert not lanes.evidence.stale


def test_the_spread_of_a_lane_sums_up_to_its_backlog(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    site.mirrored()
    for _ in range(20):
        site.producer.send("orders", "x", delay_level=3)
    site.mirrored()
    lane = schedule_read.lanes().lanes[2]
    assert (lane.state, lane.backlog) == (LaneState.WAITING, 20)
    assert lane.spread is not None
    assert len(lane.spread.counts) == BUCKETS
    assert sum(lane.spread.counts) + lane.spread.beyond == 20
    # one hour ahead: all in the last buckets, nothing near
    assert sum(lane.spread.counts[:40]) == 0
    assert lane.released_share == 0


def test_the_next_minute_shows_what_is_due_in_it(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    site.mirrored()
    site.producer.send("orders", "x", delay_level=2)
    site.producer.send("orders", "x", delay_level=3)
    site.mirrored()
    minute = schedule_read.lanes().next_minute
    assert minute is not None
    assert minute.total == 1
    assert minute.peak_level == 2
    assert minute.peak_second in (4, 5)


def test_a_lane_opens_into_its_messages_in_due_order(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    sent = [site.producer.send("orders", f"{n}", delay_level=3, keys=[f"k{n}"], tag="paid") for n in range(60)]
    site.mirrored()
    page = lane_read.lane(3)
    assert [message.offset for message in page.messages] == list(range(50))
    first = page.messages[0]
    assert (first.real_topic, first.keys, first.tag) == ("orders", ("k0",), "paid")
    assert first.unique_key == sent[0].message_id
    assert first.offset_message_id == sent[0].offset_message_id
    assert [m.due_ms for m in page.messages] == sorted(m.due_ms for m in page.messages)
    assert (page.previous_offset, page.next_offset) == (None, 50)
    rest = lane_read.lane(3, 50)
    assert len(rest.messages) == 10
    assert rest.previous_offset == 0
    assert rest.next_offset is None


def test_a_level_that_is_not_there(site: Site) -> None:
    site.mirrored()
    assert lane_read.lane(99).lane is None
    assert lane_read.lane(0).lane is None


def test_a_parked_message_has_one_record_and_is_pending(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    sent = site.producer.send("orders", json.dumps({"n": 2**70}), delay_level=3, keys=["k"])
    site.mirrored()
    page = messages_read.message(sent.offset_message_id)
    assert page.found
    assert page.pending
    assert [hop.kind for hop in page.hops] == [HopKind.PARKED]
    assert page.hops[0].due_ms == page.due_ms == page.hops[0].store_ms + 3_600_000
    assert page.topic == "orders"
    assert page.body is not None
    assert page.body.form is BodyForm.JSON
    assert str(2**70) in page.body.text
    assert messages_read.raw_body(sent.offset_message_id) == ("orders", json.dumps({"n": 2**70}).encode())
    assert messages_read.raw_body("F" * 32, "orders") is None


def test_a_delivered_message_has_both_records(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    sent = site.producer.send("orders", "x", delay_level=1)
    arrived = wait_for_message(site.admin, "orders")
    site.mirrored()
    for page in (messages_read.message(sent.message_id, "orders"), messages_read.message(sent.offset_message_id)):
        assert page.evidence.stale_reason is None
        assert [hop.kind for hop in page.hops] == [HopKind.PARKED, HopKind.RELEASED]
        assert not page.pending
        assert page.hops[1].position == arrived.position
        assert page.hops[1].late_ms is not None
        assert page.hops[1].late_ms >= 0
    by_id = messages_read.message(arrived.offset_message_id)
    assert [hop.current for hop in by_id.hops] == [False, True]


@pytest.mark.parametrize(
    ("message_id", "topic"),
    [
        ("nonsense", None),
        ("7F00000100002A9F" + "0" * 16, None),
        ("F" * 32, "orders"),
        ("F" * 32, "nowhere"),
        ("", None),
    ],
)
def test_ids_of_nothing_are_said_to_be_nothing(site: Site, message_id: str, topic: str | None) -> None:
    site.admin.create_topic("orders", queues=1)
    page = messages_read.message(message_id, topic)
    assert not page.found
    assert page.evidence.stale_reason is StaleReason.NOT_THERE


def test_a_search_finds_waiting_and_stored(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    site.producer.send("orders", "now", keys=["k"])
    site.producer.send("orders", "later", keys=["k"], delay_level=3)
    site.producer.send("orders", "other", keys=["other"])
    hits = messages_read.messages("orders", "k").hits
    assert sorted(hit.pending for hit in hits) == [False, True]


def test_topics_are_found_sorted_and_paged(site: Site) -> None:
    for name in ("orders", "orders-eu", "flights"):
        site.admin.create_topic(name, queues=2)
    for _ in range(3):
        site.producer.send("flights", "x")
    site.mirrored()
    assert [row.name for row in topics_pages.read_topics(search="ORDERS").rows] == ["orders", "orders-eu"]
    busiest = topics_pages.read_topics(order="-messages", count=1)
    assert [row.name for row in busiest.rows] == ["flights"]
    assert busiest.rows[0].messages == 3
    assert busiest.total == 3
    assert topics_pages.read_topics(kind=TopicKind.SYSTEM).total > 0
    unused = topics_pages.read_topics(search="orders-eu").rows[0]
    assert unused.never_used


def test_a_topic_shows_its_queues(site: Site) -> None:
    site.admin.create_topic("orders", queues=2)
    site.producer.send("orders", "x", queue_id=1)
    site.mirrored()
    page = topics_pages.read_topic("orders")
    assert [(queue.queue_id, queue.messages) for queue in page.queues] == [(0, 0), (1, 1)]
    assert topics_pages.read_topic("nowhere").topic is None


def test_messages_of_a_queue_newest_page_first(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    for number in range(70):
        site.producer.send("orders", f"body {number}")
    page = topics_pages.queue_messages("orders", 0)
    assert [row.offset for row in page.messages] == list(range(38, 70))
    assert page.messages[-1].preview == "body 69"
    assert page.previous_offset == 6
    assert page.next_offset is None
    middle = topics_pages.queue_messages("orders", 0, 10, 40)
    assert [row.offset for row in middle.messages] == list(range(10, 50))
    assert topics_pages.queue_messages("orders", 7).messages == ()
    assert topics_pages.queue_messages("nowhere", 0).evidence.stale_reason is StaleReason.NOT_THERE


def test_a_group_nobody_knows(site: Site) -> None:
    site.mirrored()
    page = groups_read.group("nobody")
    assert page.group is None
    assert page.members == ()


def test_lag_of_a_group_without_consumer_is_a_finding(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    consumer = Consumer("readers", site.broker.namesrv, from_where="first")
    heard: list[bytes] = []
    consumer.subscribe("orders", "*", lambda message: heard.append(message.body))
    site.producer.send("orders", "x")
    consumer.start()
    until(lambda: len(heard) == 1)
    site.mirrored()
    page = groups_read.group("readers")
    assert page.members is not None
    assert len(page.members) == 1
    consumer.stop()
    for _ in range(4):
        site.producer.send("orders", "y")

    def said() -> bool:
        site.mirrored()
        row = next((row for row in groups_read.groups().rows if row.name == "readers"), None)
        return row is not None and row.state is GroupState.NO_CONSUMER and row.lag == 4

    until(said)
    codes = {finding.code for finding in read_overview().findings}
    assert FindingCode.GROUP_WITHOUT_CONSUMER in codes
    assert topics_pages.read_topic("orders").readers[0].lag == 4


def test_a_broker_that_is_away_is_evidence(site: Site) -> None:
    site.admin.create_topic("orders", queues=1)
    site.producer.send("orders", "x", delay_level=3)
    site.mirrored()
    site.broker.stop()
    assert lane_read.lane(3).evidence.stale_reason is StaleReason.BROKER_UNREACHABLE
    assert lane_read.lane(3).lane is not None
    assert messages_read.message("F" * 32, "orders").evidence.stale_reason is StaleReason.BROKER_UNREACHABLE
    assert topics_pages.queue_messages("orders", 0).evidence.stale_reason is StaleReason.BROKER_UNREACHABLE
    assert groups_read.group("x").members is None


def wait_for_message(admin: Admin, topic: str) -> Any:
    found: list[Any] = []

    def arrived() -> bool:
        found[:] = admin.pull(topic, 0, 0, 1)
        return bool(found)

    until(arrived)
    return found[0]


def test_flow_says_how_many_timers_are_released(site: Site) -> None:
    site.producer.send("orders", "later", deliver_at_ms=now_ms() + 3_600_000)
    site.mirrored()
    findings.forget()
    flows = read_overview().flows
    assert [flow.name for flow in flows] == ["accepted", "released", "timers", "consumed"]
    assert (flows[2].waiting, flows[2].per_s, flows[2].is_mean) == (1, 0.0, True)
