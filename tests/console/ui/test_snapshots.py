"""Snapshots: what was taken is what is shown, the last one before a moment is found, old ones are thinned out."""

from __future__ import annotations

import time
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.mirror.models import Broker, MirrorState
from console.comparison import Measure, Pair, compared
from console.features.groups import read as groups_read
from console.features.groups.kept import GroupsKept, GroupTopic
from console.features.groups.pages import groups_at
from console.features.groups.read import GroupRow, GroupState
from console.features.schedule import read as schedule_read
from console.features.schedule.read import lanes_at
from console.features.schedule.shapes import Lane, LaneFigures, Lanes, LaneState
from console.features.timers import read as timers_read
from console.features.timers.pages import KEPT_ZOOMS, timers_at
from console.features.timers.shapes import Stretch, TimerFigures, WheelSlot
from console.past import Snapshot, moment_of, pack, unpack
from console.site.broker import hang_up
from console.site.evidence import Evidence
from console.site.mirrored import History
from console.snapshots import HOUR_MS, KINDS, Taken, keep, look, take, thin
from tests.console.stage import Stage

MINUTE_MS = 60_000
START_MS = 1_795_000_000_000 - 1_795_000_000_000 % HOUR_MS
_COUNT = st.none() | st.integers(0, 2**62)
_TEXT = st.text(max_size=20)
_GROUPS = st.builds(
    GroupRow, name=_TEXT, state=st.sampled_from(GroupState), members=_COUNT, topics=st.integers(0, 9), lag=_COUNT,
    retry=_COUNT, dead=_COUNT, consumed_per_s=st.none() | st.floats(0, 1e9), consume_enable=st.booleans(),
    retry_max_times=st.integers(0, 99), is_system=st.booleans(), quiet_ms=_COUNT, newly_dead=st.integers(0, 9),
)  # fmt: skip
_TOPICS = st.builds(GroupTopic, _TEXT, _TEXT, st.integers(1, 99), _COUNT, st.integers(0, 2**62), _COUNT)


def stretch_of(counts: list[int]) -> Stretch:
    slots = (WheelSlot(5 + at * 10, count, None if count else 0) for at, count in enumerate(counts))
    return Stretch(5, 10, tuple(slots))


@given(st.lists(_GROUPS, max_size=4), st.lists(_TOPICS, max_size=4), st.integers(0, 9))
def test_what_is_packed_is_what_is_unpacked(rows: list[GroupRow], lines: list[GroupTopic], left_out: int) -> None:
    kept = GroupsKept(tuple(rows), tuple(lines), left_out)
    assert unpack(GroupsKept, pack(kept)) == kept


@given(st.lists(st.integers(0, 2**40), max_size=70))
def test_slots_keep_their_counts(counts: list[int]) -> None:
    assert unpack(Stretch, pack(stretch_of(counts))) == stretch_of(counts)


@given(st.builds(TimerFigures, pending=_COUNT, next_due_ms=_COUNT, overdue=_COUNT, paused=st.none() | st.booleans()))
def test_what_is_unknown_stays_unknown(figures: TimerFigures) -> None:
    assert unpack(TimerFigures, pack(figures)) == figures


@pytest.mark.django_db
def test_what_was_taken_is_what_is_shown(stage: Stage) -> None:
    stage.fill()
    stage.consume()
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS // 2
    stage.producer.send("orders", "later", deliver_at_ms=due_ms)
    stage.wait_for(lambda: len(stage.admin.timers(0, 2**62).items) == 1)
    stage.mirror.run_once()
    taken = look()
    assert taken is not None
    assert taken.why == {}
    row = keep(taken)
    assert (row.lanes_pending, row.timers_pending) == (19, 1)

    moment, lanes = lanes_at(taken.at_ms)
    assert (moment.at_ms, moment.is_known) == (taken.at_ms, True)
    assert lanes is not None
    assert taken.lanes is not None
    assert lanes.lanes == taken.lanes.lanes
    assert (lanes.figures, lanes.next_minute) == (taken.lanes.figures, taken.lanes.next_minute)
    assert lanes.lanes[15].backlog == 12
    assert lanes.lanes[15].next_due_ms == schedule_read.lanes().lanes[15].next_due_ms

    for zoom in KEPT_ZOOMS:
        _, timers = timers_at(taken.at_ms, zoom)
        assert timers is not None
        assert (timers.zoom, timers.figures.pending) == (zoom, 1)
        assert timers.figures.next_due_ms == timers_read.timers().figures.next_due_ms
        assert timers.wheel is not None
        assert timers.forecast is not None
        assert timers.wheel.strip == timers.forecast.stretch
        assert timers.wheel.strip.total == (0 if zoom == "1m" else 1)
        assert [row.topic for row in timers.topics] == ["orders"]

    _, groups = groups_at(taken.at_ms)
    assert groups is not None
    assert {row.name: row.lag for row in groups.rows} == {row.name: row.lag for row in groups_read.groups().rows}
    reading = next(line for line in groups.topics if (line.group, line.topic) == ("billing", "orders"))
    assert reading.end_sum is not None
    assert reading.lag == reading.end_sum - reading.offset_sum


@pytest.mark.django_db
def test_of_a_broker_that_is_away_nothing_is_said(stage: Stage) -> None:
    stage.fill()
    MirrorState.mirror_writer.update(error="no route")
    stage.broker.stop()
    hang_up()
    [row] = take()
    assert row is not None
    assert row.why == dict.fromkeys(KINDS, "broker-unreachable")
    assert {getattr(row, part) for part in (*KINDS, "lanes_pending", "timers_pending", "lag")} == {None}
    moment, lanes = lanes_at(row.at_ms)
    assert (moment.at_ms, moment.why, lanes) == (row.at_ms, "broker-unreachable", None)
    assert groups_at(row.at_ms)[1] is None
    assert timers_at(row.at_ms)[1] is None
    found = compared(row.at_ms, None)
    assert {(cell.before, cell.difference) for cell in found.rows} == {(None, None)}


def taken_at(at_ms: int, **parts: Any) -> Taken:
    given = {"lanes": None, "timers": None, "transactions": None, "groups": GroupsKept((), ())} | parts
    return Taken(broker="broker-a", at_ms=at_ms, why={}, **given)


@pytest.fixture
def mirrored_broker(db: None) -> None:
    Broker.mirror_writer.bulk_create([Broker(name="broker-a")])
    MirrorState.mirror_writer.bulk_create([MirrorState(broker_id="broker-a", as_of_ms=START_MS)])


@pytest.mark.usefixtures("mirrored_broker")
def test_the_last_one_before_a_moment_is_found() -> None:
    for minute in (0, 1, 5):
        keep(taken_at(START_MS + minute * MINUTE_MS))
    found = {asked: moment_of(START_MS + asked).at_ms for asked in (-1, 0, 1, 59_999, 60_000, 299_999, 300_000, 9**9)}
    assert found == {
        -1: None, 0: START_MS, 1: START_MS, 59_999: START_MS, 60_000: START_MS + 60_000, 299_999: START_MS + 60_000,
        300_000: START_MS + 300_000, 9**9: START_MS + 300_000,
    }  # fmt: skip
    before, middle = moment_of(START_MS - 1), moment_of(START_MS + 60_500)
    assert (before.first_ms, before.next_ms, before.previous_ms) == (START_MS, START_MS, None)
    assert (middle.previous_ms, middle.next_ms, middle.gap_ms) == (START_MS, START_MS + 300_000, 500)


@pytest.mark.usefixtures("mirrored_broker")
def test_an_interval_has_one_snapshot() -> None:
    first = keep(taken_at(START_MS + 100))
    again = keep(taken_at(START_MS + 59_999))
    assert (again.pk, again.at_ms) == (first.pk, START_MS + 100)
    keep(taken_at(START_MS + 60_000))
    assert Snapshot.objects.count() == 2


@pytest.mark.usefixtures("mirrored_broker")
def test_old_ones_are_thinned_to_one_an_hour_and_go_at_last(settings: Any) -> None:
    settings.SNAPSHOT_KEEP_H, settings.SNAPSHOT_KEEP_DAYS = 2, 1
    for quarter in range(4 * 30):
        keep(taken_at(START_MS + quarter * 15 * MINUTE_MS))
    now_ms = START_MS + 30 * HOUR_MS
    assert thin(now_ms) == 6 * 4 + 3 * 22
    assert thin(now_ms) == 0
    ages_h = [
        (now_ms - at_ms) / HOUR_MS for at_ms in Snapshot.objects.order_by("at_ms").values_list("at_ms", flat=True)
    ]
    assert ages_h == [*range(24, 2, -1), *(quarter / 4 for quarter in range(8, 0, -1))]


@pytest.mark.usefixtures("mirrored_broker")
def test_the_hour_keeps_one_that_knows_something() -> None:
    unknown, known = taken_at(START_MS), taken_at(START_MS + MINUTE_MS, lanes=lanes_of(7))
    rows = [keep(unknown), keep(known)]
    thin(START_MS + 25 * HOUR_MS)
    assert [row.pk for row in Snapshot.objects.all()] == [rows[1].pk]


def lanes_of(*backlogs: int | None) -> Lanes:
    unsaid = Evidence("", None, True)
    blank: dict[str, Any] = dict.fromkeys(each.name for each in fields(Lane) if each.default is MISSING)
    lanes = tuple(
        Lane(**{
            **blank, "level": level, "delay_ms": 1_000 * level, "state": LaneState.WAITING, "backlog": backlog,
            "released": History(), "warnings": frozenset({"late"}),
        }) for level, backlog in enumerate(backlogs, 1)
    )  # fmt: skip
    figures = LaneFigures(**dict.fromkeys(each.name for each in fields(LaneFigures)))
    return Lanes(unsaid, START_MS, "broker-a", figures, lanes, None, unsaid)


@pytest.mark.usefixtures("mirrored_broker")
def test_two_moments_are_compared_the_earlier_one_first() -> None:
    keep(taken_at(START_MS, lanes=lanes_of(5, None, 3)))
    keep(taken_at(START_MS + MINUTE_MS, lanes=lanes_of(12, 4)))
    for moments in ((START_MS, START_MS + MINUTE_MS), (START_MS + MINUTE_MS, START_MS)):
        found = compared(*moments)
        waiting = {line.name: line.pairs[0][1] for line in found.lanes}
        assert waiting == {"1": Pair(5, 12), "2": Pair(None, 4), "3": Pair(3, None)}
        assert [waiting[level].difference for level in "123"] == [7, None, None]


@pytest.mark.usefixtures("mirrored_broker")
def test_a_group_that_had_no_topic_of_dead_letters_had_none() -> None:
    """The comparison gave no figure before, and no difference, of 13 dead letters."""
    then = GroupRow("billing", GroupState.CURRENT, 1, 1, 0, None, None, 0.0, True, 16, False)
    now = replace(then, retry=2, dead=13)
    keep(taken_at(START_MS, groups=GroupsKept((then,), ())))
    keep(taken_at(START_MS + MINUTE_MS, groups=GroupsKept((now,), ())))
    (line,) = compared(START_MS, START_MS + MINUTE_MS).groups
    pairs = dict(line.pairs)
    assert (pairs[Measure.DEAD], pairs[Measure.DEAD].difference) == (Pair(0, 13), 13)
    assert pairs[Measure.RETRY].difference == 2


def test_a_total_that_began_anew_has_no_difference() -> None:
    assert Pair(900, 20, is_total=True).difference is None
    assert Pair(900, 20).difference == -880
