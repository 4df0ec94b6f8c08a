"""Lanes of several brokers as one: sums, the earliest moment, the worst lateness.

Lanes with the same delay are one, whatever number their level has at each broker: who configures other levels than the
others shows up as a lane that is not everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from console.features.schedule.shapes import DueSpread, Lane, LanePart, LaneState, NextMinute
from console.site.mirrored import added

Number = TypeVar("Number", int, float)

#: of several states the first one in this order is that of the lane in total
_FIRST = (LaneState.LATE, LaneState.WAITING, LaneState.EMPTY, LaneState.NEVER_USED, LaneState.UNKNOWN)


def in_total(lanes: Iterable[tuple[str, Lane]], brokers: int) -> tuple[Lane, ...]:
    """Return a lane for each delay, in order of level and delay; `lanes` come with their broker, of so many brokers."""
    by_delay: dict[int, list[tuple[str, Lane]]] = {}
    for broker, lane in lanes:
        by_delay.setdefault(lane.delay_ms, []).append((broker, lane))
    found = [total_of(parts, brokers) for parts in by_delay.values()]
    return tuple(sorted(found, key=lambda lane: (lane.level, lane.delay_ms)))


def total_of(parts: Sequence[tuple[str, Lane]], brokers: int) -> Lane:
    """Return one lane for those of several brokers; what is not known of one counts nothing in the sums."""
    lanes = [lane for _broker, lane in parts]
    unsaved = [lane for lane in lanes if is_unsaved(lane)] or lanes
    saved = [lane.persisted_offset for lane in lanes if lane.persisted_offset is not None]
    return Lane(
        level=min(lane.level for lane in lanes),
        delay_ms=lanes[0].delay_ms,
        state=min((lane.state for lane in lanes), key=_FIRST.index),
        backlog=sum_of([lane.backlog for lane in lanes]),
        next_due_ms=_least([lane.next_due_ms for lane in lanes]),
        oldest_store_ms=_least([lane.oldest_store_ms for lane in lanes]),
        min_offset=sum_of([lane.min_offset for lane in lanes]),
        delay_offset=sum_of([lane.delay_offset for lane in lanes]),
        # who does not tell how far it has saved is taken to have saved all
        persisted_offset=sum_of([_saved(lane) for lane in lanes]) if saved else None,
        persisted_ms=_least([lane.persisted_ms for lane in unsaved]),
        end_offset=sum_of([lane.end_offset for lane in lanes]),
        spread=_spread(lanes),
        released_per_s=sum_of([lane.released_per_s for lane in lanes]),
        released=added([lane.released for lane in lanes]),
        released_total=sum_of([lane.released_total for lane in lanes]),
        lateness_p50_ms=typical(lanes),
        lateness_p99_ms=max((lane.lateness_p99_ms for lane in lanes if lane.lateness_p99_ms is not None), default=None),
        early_total=sum_of([lane.early_total for lane in lanes]),
        warnings=frozenset[str]().union(*(lane.warnings for lane in lanes)),
        parts=tuple(_part(broker, lane) for broker, lane in parts),
        is_everywhere=len(parts) == brokers and len({lane.level for lane in lanes}) == 1,
    )


def minute_of_all(minutes: Sequence[NextMinute | None]) -> NextMinute | None:
    """Return the messages due in each second from the newest beginning on; None where those of one are not known.

    What one that began earlier has behind its own end is not known, and what was due before does not count.
    """
    known = [minute for minute in minutes if minute is not None]
    if not known or len(known) < len(minutes):
        return None
    start_ms = max(minute.start_ms for minute in known)
    counts = [0] * 60
    for minute in known:
        ahead = minute.counts[max(0, start_ms - minute.start_ms) // 1_000 :]
        for second, count in enumerate(ahead):
            counts[second] += count
    peak = max(range(60), key=lambda second: counts[second]) if any(counts) else None
    most = max(known, key=lambda minute: minute.peak)
    return NextMinute(start_ms, tuple(counts), peak, most.peak_level, exact=False)


def is_unsaved(lane: Lane) -> bool:
    """Tell whether a restart would begin before what was released."""
    return lane.persisted_ms is not None and lane.persisted_offset != lane.delay_offset


def sum_of(values: Sequence[Number | None]) -> Number | None:
    """Return the sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def typical(lanes: Sequence[Lane]) -> float | None:
    """Return the median of the lanes' medians, each weighing as much as it releases."""
    weighed = sorted(
        (lane.lateness_p50_ms, lane.released_per_s or 0.0) for lane in lanes if lane.lateness_p50_ms is not None
    )
    if not weighed:
        return None
    half, passed = sum(weight for _, weight in weighed) / 2, 0.0
    for lateness, weight in weighed:
        passed += weight
        if passed >= half:
            return lateness
    return weighed[-1][0]


def _least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _saved(lane: Lane) -> int | None:
    return lane.delay_offset if lane.persisted_offset is None else lane.persisted_offset


def _spread(lanes: Sequence[Lane]) -> DueSpread | None:
    """Return the counts in total; None where those of a lane with messages are not known."""
    known = [lane.spread for lane in lanes if lane.spread is not None]
    if not known or any(lane.spread is None and lane.backlog for lane in lanes):
        return None
    return DueSpread(
        tuple(sum(column) for column in zip(*(spread.counts for spread in known), strict=True)),
        beyond=sum(spread.beyond for spread in known),
        overdue=sum(spread.overdue for spread in known),
        exact=all(spread.exact for spread in known),
    )


def _part(broker: str, lane: Lane) -> LanePart:
    return LanePart(
        broker, lane.level, lane.delay_ms, lane.state, lane.backlog, lane.next_due_ms, lane.delay_offset,
        lane.end_offset, lane.released_per_s, lane.lateness_p99_ms,
    )  # fmt: skip
