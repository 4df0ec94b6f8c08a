"""Looking back at several brokers: in total, each by its nearest snapshot; one that is away by what was known last."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from broker.client import Decision, TransactionProducer, prepare
from broker.mirror.models import Broker, MirrorState
from console.comparison import compared
from console.features.groups.kept import GroupsKept, GroupTopic, together
from console.features.groups.pages import groups_at
from console.features.groups.read import GroupRow, GroupState
from console.features.overview.findings import forget
from console.features.overview.pages import read_overview
from console.features.schedule.read import lanes_at
from console.features.schedule.shapes import NextMinute
from console.features.schedule.total import minute_of_all
from console.features.timers import read as timers_read
from console.features.timers.pages import timers_at
from console.features.timers.shapes import Stretch, WheelSlot
from console.features.timers.total import stretch_of_all
from console.features.transactions.pages import read_transactions
from console.last_known import Away
from console.past import OldPart, Snapshot, moment_of, sums
from console.site.chosen import choice_of, choosing
from console.site.clock import now_ms
from console.snapshots import Taken, keep, take
from tests.console.several import A, B, Several
from tests.console.ui.test_pages import words
from tests.console.ui.test_snapshots import MINUTE_MS, START_MS, lanes_of

HOUR_MS = 3_600_000


def fill(brokers: Several) -> None:
    """At broker-a 3 parked and 2 timers, at broker-b 1 parked and 4 timers; a group is behind at both."""
    due_ms = now_ms() + HOUR_MS
    for name, parked, timers in ((A, 3, 2), (B, 1, 4)):
        for _ in range(parked):
            brokers.send(name, "orders", "late", delay_level=2)
        for _ in range(timers):
            brokers.send(name, "orders", "later", deliver_at_ms=due_ms)
        brokers.send(name, "orders", "now", queue_id=0)
    brokers.consume(count=2)
    for name, count in ((A, 1), (B, 2)):
        for _ in range(count):
            brokers.send(name, "orders", "behind", queue_id=0)
    brokers.wait_for(lambda: all(admin.timer_status().pending for admin in brokers.admins.values()))
    brokers.mirror()


def moved(minutes: int) -> int:
    """Let the snapshots that were just taken be older; returns the moment of the last of them."""
    rows = list(Snapshot.objects.filter(at_ms__gt=now_ms() - 30_000))
    assert len(rows) == 2
    for row in rows:
        Snapshot.objects.filter(pk=row.pk).update(
            at_ms=row.at_ms - minutes * MINUTE_MS, slot_ms=row.slot_ms - minutes * MINUTE_MS
        )
    return max(row.at_ms for row in rows) - minutes * MINUTE_MS


def test_looking_back_shows_all_brokers_in_total(brokers: Several, operator: Client) -> None:
    fill(brokers)
    take()
    at_ms = moved(10)
    moment, lanes = lanes_at(at_ms)
    assert (moment.has_several, moment.older, moment.at_ms) == (True, (), at_ms)
    assert lanes is not None
    assert (lanes.lanes[1].backlog, lanes.figures.pending) == (4, 4)
    assert [(part.broker, part.backlog) for part in lanes.lanes[1].parts] == [(A, 3), (B, 1)]
    _, timers = timers_at(at_ms, "1d")
    assert timers is not None
    assert timers.wheel is not None
    assert (timers.figures.pending, timers.wheel.strip.total, timers.is_past) == (6, 6, True)
    _, groups = groups_at(at_ms)
    assert groups is not None
    billing = next(row for row in groups.rows if row.name == "billing")
    assert (billing.lag, billing.brokers) == (3, (A, B))
    assert [line.lag for line in groups.topics if (line.group, line.topic) == ("billing", "orders")] == [3]
    with choosing(choice_of(B)):
        own = lanes_at(at_ms)[1]
        assert own is not None
        assert (own.lanes[1].backlog, own.has_several) == (1, False)
    for path in ("/schedule/", "/timers/", "/groups/"):
        page = words(operator.get(f"{path}?as_of={at_ms}"))
        assert "all brokers" in page
        assert "is shown as known at" not in page
    listed = operator.get(f"/groups/?as_of={at_ms}&as=csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(listed.streaming_content).decode())))  # type: ignore[attr-defined]  # of a streamed answer
    assert {row["name"]: row["broker"] for row in rows}["billing"] == f"{A} {B}"
    assert sums()[-1].waiting == 10


def test_what_was_not_read_of_a_broker_is_what_was_known_before(brokers: Several, operator: Client) -> None:
    fill(brokers)
    take()
    before_ms = moved(10)
    brokers.kill(B)
    brokers.send(A, "orders", "late", delay_level=2)
    brokers.mirror()
    take()
    after_ms = moved(0)
    moment, lanes = lanes_at(after_ms)
    old = Snapshot.objects.get(broker=B, at_ms__lte=before_ms)
    assert moment.older == (OldPart(B, old.at_ms, moment.older[0].why),)
    assert moment.older[0].why == "broker-unreachable"
    assert lanes is not None
    assert lanes.lanes[1].backlog == 5
    timers = timers_at(after_ms)[1]
    assert timers is not None
    assert timers.figures.pending == 6
    page = words(operator.get(f"/schedule/?as_of={after_ms}"))
    assert "broker-b is shown as known at" in page
    assert "the broker cannot be reached" in page
    assert [row.lanes_pending for row in sums()] == [4, 5]

    found = compared(before_ms, after_ms)
    waiting = {line.name: line.pairs[0][1] for line in found.lanes}
    assert (waiting["2"].before, waiting["2"].after) == (4, 5)
    figures = {measure: pair for line in found.figures for measure, pair in line.pairs}
    assert (figures["timers_pending"].before, figures["timers_pending"].after) == (6, 6)
    assert (found.before.older, [part.broker for part in found.after.older]) == ((), [B])
    assert "broker-b is shown as known at" in words(operator.get(f"/compare/?from={before_ms}&to={after_ms}"))


def test_a_moment_is_compared_with_the_present_of_all(brokers: Several, operator: Client) -> None:
    fill(brokers)
    take()
    at_ms = moved(10)
    for name in (A, B):
        brokers.send(name, "orders", "more", queue_id=0)
        brokers.send(name, "orders", "more", delay_level=2)
    brokers.mirror()
    found = compared(at_ms, None)
    waiting = {line.name: line.pairs[0][1] for line in found.lanes}
    assert waiting["2"].difference == 2
    lags = {line.name: line.pairs[0][1] for line in found.groups}
    assert lags["billing"].difference == 2
    figures = {measure: pair for line in found.figures for measure, pair in line.pairs}
    assert (figures["timers_pending"].before, figures["timers_pending"].difference) == (6, 0)
    assert "all brokers" in words(operator.get("/compare/"))


def taken_at(broker: str, at_ms: int, *backlogs: int | None) -> Taken:
    lanes = replace(lanes_of(*backlogs), broker=broker) if backlogs else None
    why = {} if backlogs else {"lanes": "broker-unreachable"}
    return Taken(broker, at_ms, lanes, None, None, GroupsKept((), ()), why)


@pytest.fixture
def two(db: None) -> None:
    for name in (A, B):
        Broker.mirror_writer.bulk_create([Broker(name=name)])
        MirrorState.mirror_writer.bulk_create([MirrorState(broker_id=name, as_of_ms=START_MS)])


@pytest.mark.usefixtures("two")
def test_snapshots_of_one_interval_are_one_moment() -> None:
    for minute in (0, 1, 5):
        keep(taken_at(A, START_MS + minute * MINUTE_MS, 1))
        keep(taken_at(B, START_MS + minute * MINUTE_MS + 40, 2))
    middle = moment_of(START_MS + 90_000)
    assert (middle.previous_ms, middle.at_ms, middle.next_ms) == (
        START_MS + 40, START_MS + MINUTE_MS + 40, START_MS + 5 * MINUTE_MS + 40,
    )  # fmt: skip
    assert moment_of(START_MS - 1).next_ms == START_MS + 40
    # between the two of an interval: of the other one the last one before
    moment, lanes = lanes_at(START_MS + MINUTE_MS + 10)
    assert moment.older == (OldPart(B, START_MS + 40),)
    assert lanes is not None
    assert lanes.lanes[0].backlog == 3
    assert [row.at_ms for row in sums()] == [START_MS + 40, START_MS + MINUTE_MS + 40, START_MS + 5 * MINUTE_MS + 40]


@pytest.mark.usefixtures("two")
def test_a_broker_without_a_snapshot_is_named() -> None:
    keep(taken_at(A, START_MS, 7))
    keep(taken_at(B, START_MS + MINUTE_MS, 2))
    moment, lanes = lanes_at(START_MS + 1)
    assert (moment.is_known, moment.older) == (True, (OldPart(B, None),))
    assert lanes is not None
    assert (lanes.has_several, lanes.lanes[0].backlog, lanes.lanes[0].is_everywhere) == (True, 7, True)


@pytest.mark.usefixtures("two")
def test_a_moment_of_which_nothing_is_known_says_why() -> None:
    for name in (A, B):
        keep(taken_at(name, START_MS))
    moment, lanes = lanes_at(START_MS)
    assert (moment.why, moment.is_known, lanes) == ("broker-unreachable", False, None)


@pytest.mark.usefixtures("two")
def test_several_brokers_take_a_fixed_number_of_queries(django_assert_num_queries: Any) -> None:
    for name in (A, B):
        keep(taken_at(name, START_MS, 1))
    with django_assert_num_queries(6):
        lanes_at(START_MS)


def group(name: str, lag: int | None, topics: int = 1, state: GroupState = GroupState.BEHIND) -> GroupRow:
    return GroupRow(name, state, 1, topics, lag, None, None, None, True, 16, False)


def test_a_group_in_total() -> None:
    here = GroupsKept((group("billing", 3), group("new", None, 0, GroupState.NEVER_USED)), (
        GroupTopic("billing", "orders", 2, 3, 7, 10),
    ))  # fmt: skip
    there = GroupsKept((group("billing", 4), group("odd", None)), (GroupTopic("billing", "orders", 1, None, 5, None),))
    found = together([(A, here), (B, there)])
    assert [(row.name, row.lag, row.brokers) for row in found.rows] == [
        ("billing", 7, (A, B)), ("new", None, (A,)), ("odd", None, (B,)),
    ]  # fmt: skip
    assert found.topics == (GroupTopic("billing", "orders", 3, None, 12, None),)


def test_what_begins_apart_is_added_by_its_moment() -> None:
    def stretch(start_ms: int, *counts: int) -> Stretch:
        return Stretch(start_ms, 10, tuple(WheelSlot(start_ms + n * 10, count, 0) for n, count in enumerate(counts)))

    found = stretch_of_all([stretch(100, 1, 2, 3), stretch(120, 10, 20, 30)])
    assert (found.start_ms, [slot.count for slot in found.slots]) == (120, [13, 20, 30])
    minutes = [NextMinute(start, (*counts, *(0,) * 57), 0, 4, exact=True) for start, counts in (
        (1_000, (1, 2, 3)), (3_000, (5, 0, 0)),
    )]  # fmt: skip
    total = minute_of_all(minutes)
    assert total is not None
    assert (total.start_ms, total.counts[:3], total.peak_second, total.exact) == (3_000, (8, 0, 0), 0, False)
    assert minute_of_all([minutes[0], None]) is None


def test_a_total_does_not_shrink_when_a_broker_dies(brokers: Several, operator: Client) -> None:
    fill(brokers)
    brokers.admins[B].create_topic("pay", queues=1)
    with TransactionProducer("tills", brokers[B].namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        producer.send_half("pay", prepare("paid"))
        brokers.wait_for(lambda: brokers.admins[B].transaction_status().open == 1)
    take()
    forget()
    assert (timers_read.timers().figures.pending, read_overview().timers_pending) == (6, 6)
    assert read_transactions().figures.open == 1
    brokers.kill(B)
    forget()
    kept = Snapshot.objects.get(broker=B)
    timers, halves, first = timers_read.timers(), read_transactions(), read_overview()
    assert (timers.figures.pending, timers.away) == (6, (Away(B, kept.at_ms, 4),))
    assert [(row.topic, row.pending) for row in timers.topics] == [("orders", 6)]
    assert (first.timers_pending, first.timers_away) == (6, (Away(B, kept.at_ms, 4),))
    assert (halves.figures.open, halves.away) == (1, (Away(B, kept.at_ms, 1, 0),))
    assert "broker-b is unreachable. At" in words(operator.get("/timers/"))
    assert "it had 4 pending timers. None of them is in this list." in words(operator.get("/timers/list/"))
    assert "it had 1 undecided and 0 parked half messages" in words(operator.get("/transactions/"))
    assert "None of them is in this list." in words(operator.get("/transactions/list/"))
    assert "broker-b is unreachable: its 4 of" in words(operator.get("/"))
    found = compared(kept.at_ms, None)
    figures = {measure: pair for line in found.figures for measure, pair in line.pairs}
    assert (figures["timers_pending"].difference, figures["open"].difference) == (0, 0)
    assert B in [part.broker for part in found.after.older]


def test_a_broker_of_which_nothing_is_kept_is_named(brokers: Several, operator: Client) -> None:
    fill(brokers)
    brokers.kill(B)
    forget()
    timers, first = timers_read.timers(), read_overview()
    assert (timers.figures.pending, timers.away) == (2, (Away(B),))
    assert (first.timers_pending, first.timers_away) == (2, (Away(B),))
    assert "is unreachable and has no snapshot: totals exclude it" in words(operator.get("/timers/"))
    assert "without broker-b, which is unreachable" in words(operator.get("/"))
