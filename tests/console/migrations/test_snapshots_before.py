"""Snapshots in the form of older releases: packed anew by a migration, which says what it cannot read."""

from __future__ import annotations

import zlib
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from console.features.groups.kept import GroupsKept, GroupTopic
from console.features.groups.read import GroupRow, GroupState
from console.features.schedule.shapes import DueSpread, Lanes, LaneState, NextMinute
from console.features.timers.kept import TimersKept
from console.features.timers.shapes import ClockSteps, Herd, Lateness, Stretch, TimerFigures, TopicTimers, WheelSlot
from console.features.transactions.shapes import TransactionFigures
from console.past import Snapshot, unpack
from console.site.evidence import Evidence
from console.site.mirrored import History

#: as they were written
LANES = (
    '{"now_ms":7,"broker":"broker-a","figures":{"pending":19},"lanes":{"f":["level","delay_ms","state","backlog",'
    '"spread","released","warnings"],"r":[[1,1000,"late",19,{"counts":[1,2],"beyond":0,"overdue":1,"exact":true},{},'
    '["late","p99"]],[2,5000,"unknown",null,null,{},[]]]},"next_minute":{"start_ms":7,"counts":[0,3],'
    '"peak_second":1,"peak_level":1,"exact":true}}'
)
TIMERS = (
    '{"page":{"now_ms":7,"broker":"broker-a","zoom":"1h","figures":{"paused":false,"pending":5,"clock":{"back_ms":1,'
    '"forward_ms":2}},"topics":{"f":["topic","pending","lateness"],"r":[["orders",5,{"topic":"orders","count":3,'
    '"p50_ms":1.5,"max_ms":2.0}]]},"topics_left":0,"first":{"now_ms":7,"wanted":{},"rows":[]},"wheel":{"rings":'
    '[[5,10,2,[0,1]],[5,10,1,[]],[5,10,1,[0,2]]],"strip":[5,10,2,[1,4]],"rolls":[[9,2]],"beyond":1}},"zooms":{"f":'
    '["zoom","forecast","strip"],"r":[["1h",{"stretch":[5,10,2,[0,4]],"herds":{"f":["due_ms","count","last_late_ms",'
    '"topics"],"r":[[9,5,6,[["orders",5]]]]}},null],["1d",null,[5,10,3,[2,8]]]]}}'
)
GROUPS = (
    '{"rows":{"f":["name","state","topics","lag","retry","consumed_per_s","consume_enable","retry_max_times",'
    '"is_system"],"r":[["billing","behind",1,3,0,2.5,true,16,false]]},"topics":{"f":["group","topic","queues","lag",'
    '"offset_sum","end_sum"],"r":[["billing","orders",2,3,9,12]]},"left_out":1}'
)


def migrate() -> None:
    migration = import_module("console.migrations.0023_snapshots_in_messagepack")
    migration.pack_anew(apps, SimpleNamespace(connection=connection))


def stretch(*counts: int) -> Stretch:
    slots = (WheelSlot(5 + at * 10, count, None if count else 0) for at, count in enumerate(counts))
    return Stretch(5, 10, tuple(slots))


@pytest.mark.django_db
def test_what_was_kept_is_what_is_read() -> None:
    parts = {"lanes": LANES, "timers": TIMERS, "transactions": "{}", "groups": GROUPS}
    packed = {part: zlib.compress(text.encode()) for part, text in parts.items()}
    Snapshot.objects.create(broker="broker-a", slot_ms=0, at_ms=7, **packed)
    migrate()
    row = Snapshot.objects.get()
    assert row.why == {}
    lanes = unpack(Lanes, bytes(row.lanes))
    assert (lanes.now_ms, lanes.evidence, lanes.figures.pending) == (7, Evidence("", None, True), 19)
    assert lanes.next_minute == NextMinute(7, (0, 3), 1, 1, True)
    assert [(lane.level, lane.state, lane.backlog, lane.spread) for lane in lanes.lanes] == [
        (1, LaneState.LATE, 19, DueSpread((1, 2), 0, 1, True)),
        (2, LaneState.UNKNOWN, None, None),
    ]
    assert {(lane.released, lane.next_due_ms) for lane in lanes.lanes} == {(History(), None)}
    assert lanes.lanes[0].warnings == {"late", "p99"}

    kept = unpack(TimersKept, bytes(row.timers))
    assert kept.page.figures == TimerFigures(pending=5, paused=False, clock=ClockSteps(1, 2, None))
    assert kept.page.topics == (TopicTimers("orders", 5, Lateness("orders", 3, 1.5, None, 2.0)),)
    assert kept.page.wheel is not None
    assert (kept.page.wheel.rings, kept.page.wheel.strip) == ((stretch(1, 0), stretch(0), stretch(2)), stretch(0, 4))
    assert (kept.page.wheel.rolls, kept.page.first.rows, kept.page.at_ms) == (((9, 2),), (), None)
    hour, day = kept.zooms
    assert hour.forecast is not None
    assert (hour.forecast.stretch, hour.forecast.capacity_per_s) == (stretch(4, 0), None)
    assert hour.forecast.herds == (Herd(9, 5, 6, (("orders", 5),)),)
    assert (day.forecast, day.strip) == (None, stretch(0, 0, 8))

    assert unpack(TransactionFigures, bytes(row.transactions)) == TransactionFigures()
    assert unpack(GroupsKept, bytes(row.groups)) == GroupsKept(
        (GroupRow("billing", GroupState.BEHIND, None, 1, 3, 0, None, 2.5, True, 16, False),),
        (GroupTopic("billing", "orders", 2, 3, 9, 12),),
        1,
    )


@pytest.mark.django_db
def test_what_cannot_be_read_is_not_known_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    Snapshot.objects.create(broker="broker-a", slot_ms=0, at_ms=7, groups=zlib.compress(GROUPS.encode()), lanes=b"?")
    migrate()
    row = Snapshot.objects.get()
    assert (row.lanes, row.why, row.groups is None) == (None, {"lanes": "not-supported"}, False)
    assert "1 parts of snapshots could not be read" in capsys.readouterr().out
