"""Read the lanes: everything from the mirror, no request to the broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from broker.mirror.models import ScheduleLevel
from broker.mirror.watch import Mark, due_by, paired
from console.features.schedule.shapes import EDGES_MS, DueSpread, Lane, LaneFigures, Lanes, LaneState, NextMinute
from console.site.history import History
from console.site.mirrored import Mirrored, mirrored

Number = TypeVar("Number", int, float)

#: requests that give a lane on an Apache RocketMQ broker: topic stats, delay offsets, queue entries
LANE_REQUESTS = (202, 45, 321)
#: a head that is overdue by more is behind, not just being released
LATE_MS = 1_000
#: a p99 lateness above 10 ms deserves a look
LATENESS_LIMIT_MS = 10.0
#: RocketMQ saves every 10 s; three times missed deserves a look
UNSAVED_LIMIT_MS = 30_000


def lanes() -> Lanes:
    """Return all lanes of the broker: counts and moments, no names."""
    here = mirrored()
    rows = levels(here)
    exact = here.evidence(polled_by=LANE_REQUESTS)
    placed = here.evidence(polled_by=LANE_REQUESTS, exact=False)
    histories = here.histories("level", [str(row.level) for row in rows])
    drawn = tuple(lane_of(row, here, histories[str(row.level)]) for row in rows)
    minute = next_minute(here, rows)
    return Lanes(exact, here.now_ms, here.name, figures(here, drawn), drawn, minute, placed)


def highest_level() -> int:
    """Return the number of the last level, 0 while none is known."""
    here = mirrored()
    return ScheduleLevel.objects.filter(broker=here.name).count()


def levels(here: Mirrored) -> list[ScheduleLevel]:
    """The rows, level 1 first."""
    return list(ScheduleLevel.objects.filter(broker=here.name).order_by("level"))


def lane_of(row: ScheduleLevel, here: Mirrored, released: History) -> Lane:
    """One lane as the pages draw it."""
    as_of_ms = here.as_of_ms or here.now_ms
    backlog = _backlog(row)
    rate = row.released_per_s if row.released_per_s is not None else released.latest
    return Lane(
        level=row.level,
        delay_ms=row.delay_ms,
        state=_state(row, backlog, as_of_ms),
        backlog=backlog,
        next_due_ms=row.next_due_ms,
        oldest_store_ms=row.oldest_store_ms,
        min_offset=row.min_offset,
        delay_offset=row.delay_offset,
        persisted_offset=row.persisted_offset,
        persisted_ms=row.persisted_ms,
        end_offset=row.max_offset,
        spread=_spread(row, as_of_ms),
        released_per_s=rate,
        released=released,
        released_total=row.released_total,
        lateness_p50_ms=row.lateness_p50_ms,
        lateness_p99_ms=row.lateness_p99_ms,
        early_total=row.early_total,
        warnings=frozenset(_warnings(row, as_of_ms)),
    )


def figures(here: Mirrored, drawn: Sequence[Lane]) -> LaneFigures:
    """The strip above the lanes; None where nothing is known."""
    waiting = [lane for lane in drawn if lane.next_due_ms is not None]
    first = min(waiting, key=lambda lane: lane.next_due_ms or 0, default=None)
    late = [lane for lane in drawn if lane.lateness_p99_ms is not None]
    worst = max(late, key=lambda lane: lane.lateness_p99_ms or 0, default=None)
    unsaved = [lane for lane in drawn if _unsaved(lane)]
    oldest = min(unsaved, key=lambda lane: lane.persisted_ms or 0, default=None)
    return LaneFigures(
        pending=_sum([lane.backlog for lane in drawn]),
        released_per_s=_sum([lane.released_per_s for lane in drawn]),
        next_due_ms=first.next_due_ms if first else None,
        next_due_level=first.level if first else None,
        lateness_p50_ms=_typical(drawn),
        lateness_p99_ms=worst.lateness_p99_ms if worst else None,
        lateness_p99_level=worst.level if worst else None,
        early_total=_sum([lane.early_total for lane in drawn]),
        started_ms=here.broker.started_ms if here.broker else None,
        persisted_oldest_ms=oldest.persisted_ms if oldest else None,
        persisted_oldest_level=oldest.level if oldest else None,
    )


def next_minute(here: Mirrored, rows: Sequence[ScheduleLevel]) -> NextMinute | None:
    """Messages due in each of the coming 60 seconds; None while a waiting lane's due times are unknown."""
    if here.as_of_ms is None:
        return None
    start = here.as_of_ms
    moments = [start + 1_000 * second for second in range(1, 61)]
    by_level: dict[int, list[int]] = {}
    for row in rows:
        if not _backlog(row):
            continue
        points = _points(row)
        if not points:
            return None
        by_level[row.level] = _steps(_due(row, points, moments))
    counts = tuple(sum(column) for column in zip(*by_level.values(), strict=True)) or (0,) * 60
    peak = max(range(60), key=lambda second: counts[second]) if any(counts) else None
    level = max(by_level, key=lambda number: by_level[number][peak]) if peak is not None else None
    return NextMinute(start, counts, peak, level, exact=False)


def _backlog(row: ScheduleLevel) -> int | None:
    if row.delay_offset is None or row.max_offset is None:
        return None
    return max(0, row.max_offset - row.delay_offset)


def _state(row: ScheduleLevel, backlog: int | None, as_of_ms: int) -> LaneState:
    if backlog is None:
        return LaneState.UNKNOWN
    if row.max_offset == 0:
        return LaneState.NEVER_USED
    if backlog == 0:
        return LaneState.EMPTY
    late = row.next_due_ms is not None and row.next_due_ms < as_of_ms - LATE_MS
    return LaneState.LATE if late else LaneState.WAITING


def _points(row: ScheduleLevel) -> list[Mark]:
    """The marks from the first pending entry on."""
    marks = list(paired(row.marks))
    if row.next_due_ms is None or row.delay_offset is None:
        return marks
    ahead = [mark for mark in marks if mark[1] > row.next_due_ms and mark[0] >= row.delay_offset]
    return [(row.delay_offset, row.next_due_ms), *ahead]


def _due(row: ScheduleLevel, points: Sequence[Mark], moments: Sequence[int]) -> list[int]:
    return due_by(moments, delay_offset=row.delay_offset or 0, end_offset=row.max_offset or 0, points=points)


def _steps(rising: Sequence[int]) -> list[int]:
    return [count - before for before, count in zip([0, *rising], rising, strict=False)]


def _spread(row: ScheduleLevel, as_of_ms: int) -> DueSpread | None:
    backlog, points = _backlog(row), _points(row)
    if backlog is None or (backlog and not points):
        return None
    moments = [as_of_ms, *(as_of_ms + edge for edge in EDGES_MS)]
    overdue, *rising = _due(row, points, moments)
    counts = tuple(_steps(rising))
    return DueSpread(counts, beyond=backlog - rising[-1], overdue=overdue, exact=backlog <= 1)


def _warnings(row: ScheduleLevel, as_of_ms: int) -> list[str]:
    found = []
    if row.lateness_p99_ms is not None and row.lateness_p99_ms > LATENESS_LIMIT_MS:
        found.append("p99")
    unsaved = row.persisted_offset is not None and row.persisted_offset != row.delay_offset
    if unsaved and row.persisted_ms is not None and as_of_ms - row.persisted_ms > UNSAVED_LIMIT_MS:
        found.append("persisted")
    if row.next_due_ms is not None and row.next_due_ms < as_of_ms - LATE_MS:
        found.append("late")
    return found


def _unsaved(lane: Lane) -> bool:
    return lane.persisted_ms is not None and lane.persisted_offset != lane.delay_offset


def _sum(values: Sequence[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _typical(drawn: Sequence[Lane]) -> float | None:
    """The median of the lanes' medians, each weighing as much as it releases."""
    weighed = sorted(
        (lane.lateness_p50_ms, lane.released_per_s or 0.0) for lane in drawn if lane.lateness_p50_ms is not None
    )
    if not weighed:
        return None
    half, passed = sum(weight for _, weight in weighed) / 2, 0.0
    for lateness, weight in weighed:
        passed += weight
        if passed >= half:
            return lateness
    return weighed[-1][0]
