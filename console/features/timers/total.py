"""Timers of several brokers in total: figures, stretches and lateness added up, lists merged by due time.

Counts and rates are sums, limits the narrowest, a moment the earliest. What a broker does not tell counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from console.features.timers.shapes import (
    ClockSteps,
    Forecast,
    Herd,
    Lateness,
    Stretch,
    TimerFigures,
    TimerList,
    TimersPage,
    TopicTimers,
    Wheel,
    WheelSlot,
)
from console.site.evidence import joined
from console.site.merged import Part, Places, merged

Number = TypeVar("Number", int, float)
Value = TypeVar("Value")


def page_of_all(pages: Sequence[TimersPage], source: str, first: TimerList) -> TimersPage:
    """Return the page of all brokers from those of each; `first` is what fires next at any of them."""
    page = pages[0]
    lateness = [each.lateness for each in pages if each.lateness is not None]
    return TimersPage(
        evidence=joined(source, [each.evidence for each in pages]),
        now_ms=page.now_ms,
        broker=source,
        zoom=page.zoom,
        at_ms=page.at_ms,
        figures=figures_of([each.figures for each in pages], together(lateness)),
        topics=_topics(chain.from_iterable(each.topics for each in pages)),
        topics_left=0,
        lateness=together(lateness),
        first=first,
        wheel=_wheel(pages, source),
        forecast=_forecast(pages, source),
        polled=all(each.polled for each in pages),
        has_several=True,
        polled_of=tuple(each.broker for each in pages if each.polled),
        paused_of=tuple(each.broker for each in pages if each.figures.paused),
        switched_of=tuple(each.broker for each in pages if each.figures.paused is not None),
    )


def figures_of(several: Sequence[TimerFigures], lateness: Lateness | None) -> TimerFigures:
    """Return the strip in total."""

    def known(of: Callable[[TimerFigures], Value | None]) -> list[Value]:
        return [value for value in map(of, several) if value is not None]

    paused, clocks = known(lambda each: each.paused), known(lambda each: each.clock)
    return TimerFigures(
        paused=all(paused) if paused else None,
        pending=_sum(known(lambda each: each.pending)),
        next_due_ms=min(known(lambda each: each.next_due_ms), default=None),
        read_ms=min(known(lambda each: each.read_ms), default=None),
        overdue=_sum(known(lambda each: each.overdue)),
        released_per_s=_sum(known(lambda each: each.released_per_s)),
        capacity_per_s=_sum(known(lambda each: each.capacity_per_s)),
        released_total=_sum(known(lambda each: each.released_total)),
        cancelled_total=_sum(known(lambda each: each.cancelled_total)),
        rescheduled_total=_sum(known(lambda each: each.rescheduled_total)),
        rolled_total=_sum(known(lambda each: each.rolled_total)),
        early_total=_sum(known(lambda each: each.early_total)),
        lateness_p50_ms=lateness.p50_ms if lateness else None,
        lateness_p99_ms=lateness.p99_ms if lateness else None,
        lateness_count=lateness.count if lateness else None,
        log_bytes=_sum(known(lambda each: each.log_bytes)),
        indexed_offset=_sum(known(lambda each: each.indexed_offset)),
        end_offset=_sum(known(lambda each: each.end_offset)),
        max_delay_ms=min(known(lambda each: each.max_delay_ms), default=None),
        max_pending=_sum(known(lambda each: each.max_pending)),
        max_per_slot=min(known(lambda each: each.max_per_slot), default=None),
        clock=_clock(clocks) if clocks else None,
    )


def together(several: Sequence[Lateness]) -> Lateness | None:
    """Return the lateness of several; shares of a whole are read from the buckets, each taken at its upper edge."""
    if len(several) < 2:
        return several[0] if several else None
    counts: dict[float | None, int] = {}
    for row in several:
        for edge, count in row.histogram:
            counts[edge] = counts.get(edge, 0) + count
    edges = sorted(counts, key=lambda edge: float("inf") if edge is None else edge)
    return Lateness(
        several[0].topic if len({row.topic for row in several}) == 1 else "",
        sum(row.count for row in several),
        _edge_of(0.50, edges, counts),
        _edge_of(0.99, edges, counts),
        max((row.max_ms for row in several if row.max_ms is not None), default=None),
        tuple((edge, counts[edge]) for edge in edges),
    )


def list_of_all(lists: Sequence[TimerList], names: Sequence[str], before: Places, source: str, count: int) -> TimerList:
    """Return a page of the list of all brokers from a page of each, which has `count` rows if there are so many."""
    pairs = list(zip(names, lists, strict=True))
    parts = [Part(name, each.rows, each.cursor) for name, each in pairs if each.rows or not each.evidence.stale]
    whole = merged(
        parts, before=before, key=lambda row: row.due_ms, place=lambda row: f"{row.due_ms}-{row.offset}", count=count
    )
    polled = [each for each in lists if each.newest_read is not None]
    is_polled = len(polled) == len(lists)
    return replace(
        lists[0],
        evidence=joined(source, [each.evidence for each in lists]),
        rows=whole.rows,
        cursor=whole.cursor,
        complete=all(each.complete for each in lists) or len(whole.rows) >= count,
        newest_read=sum(each.newest_read or 0 for each in polled) if is_polled else None,
        records=sum(each.records or 0 for each in polled) if is_polled else None,
        has_several=True,
        polled_of=tuple(name for name, each in pairs if each.newest_read is not None),
    )


def _sum(known: Sequence[Number]) -> Number | None:
    return sum(known) if known else None


def _clock(clocks: Sequence[ClockSteps]) -> ClockSteps:
    return ClockSteps(
        max(each.back_ms for each in clocks),
        max(each.forward_ms for each in clocks),
        max((each.at_ms for each in clocks if each.at_ms is not None), default=None),
    )


def _edge_of(share: float, edges: Sequence[float | None], counts: dict[float | None, int]) -> float | None:
    wanted, passed = share * sum(counts.values()), 0
    for edge in edges:
        passed += counts[edge]
        if passed >= wanted:
            return edge
    return None


def _topics(rows: Iterable[TopicTimers]) -> tuple[TopicTimers, ...]:
    by_topic: dict[str, list[TopicTimers]] = {}
    for row in rows:
        by_topic.setdefault(row.topic, []).append(row)
    found = [
        TopicTimers(
            topic,
            _sum([row.pending for row in mine if row.pending is not None]),
            together([row.lateness for row in mine if row.lateness is not None]),
        )
        for topic, mine in by_topic.items()
    ]
    return in_order(found)


def in_order(rows: Iterable[TopicTimers]) -> tuple[TopicTimers, ...]:
    """Return topics sorted by what waits, then by what was released."""
    return tuple(
        sorted(rows, key=lambda row: (-(row.pending or 0), -(row.lateness.count if row.lateness else 0), row.topic))
    )


def _wheel(pages: Sequence[TimersPage], source: str) -> Wheel | None:
    wheels = [each.wheel for each in pages if each.wheel is not None]
    if not wheels:
        return None
    rings = [stretch_of_all([wheel.rings[number] for wheel in wheels]) for number in range(3)]
    rolls: dict[int, int] = {}
    for roll_ms, count in chain.from_iterable(wheel.rolls for wheel in wheels):
        rolls[roll_ms] = rolls.get(roll_ms, 0) + count
    return Wheel(
        evidence=joined(source, [each.wheel.evidence if each.wheel else each.evidence for each in pages]),
        rings=(rings[0], rings[1], rings[2]),
        strip=stretch_of_all([wheel.strip for wheel in wheels]),
        rolls=tuple(sorted(rolls.items())),
        beyond=_sum([wheel.beyond for wheel in wheels if wheel.beyond is not None]),
        read_ms=min((wheel.read_ms for wheel in wheels if wheel.read_ms is not None), default=None),
        precision_ms=max((wheel.precision_ms for wheel in wheels if wheel.precision_ms is not None), default=None),
        slots=min((wheel.slots for wheel in wheels if wheel.slots is not None), default=None),
        whole=all(wheel.whole for wheel in wheels),
    )


def stretch_of_all(several: Sequence[Stretch]) -> Stretch:
    """Return the counts in total, from the newest beginning on.

    All that are asked for at one moment are cut alike; kept ones may begin some slots apart: of one that began earlier
    what was due before does not count, and what it has behind its own end is not known.
    """
    first = max(several, key=lambda each: each.start_ms)
    columns: list[list[WheelSlot]] = [[slot] for slot in first.slots]
    for each in (each for each in several if each is not first and each.step_ms == first.step_ms):
        ahead = each.slots[(first.start_ms - each.start_ms) // first.step_ms :]
        for column, slot in zip(columns, ahead, strict=False):
            column.append(slot)
    return replace(first, slots=tuple(_slot(column) for column in columns))


def _slot(column: Sequence[WheelSlot]) -> WheelSlot:
    sizes = [slot.size_bytes for slot in column if slot.size_bytes is not None]
    return WheelSlot(
        column[0].start_ms, sum(slot.count for slot in column), sum(sizes) if len(sizes) == len(column) else None
    )


def _forecast(pages: Sequence[TimersPage], source: str) -> Forecast | None:
    found = [each.forecast for each in pages if each.forecast is not None]
    if not found:
        return None
    herds: dict[int, list[Herd]] = {}
    for herd in chain.from_iterable(each.herds for each in found):
        herds.setdefault(herd.due_ms, []).append(herd)
    told = [each.forecast.evidence if each.forecast else each.evidence for each in pages if not each.polled]
    return Forecast(
        joined(source, told),
        stretch_of_all([each.stretch for each in found]),
        _sum([each.capacity_per_s for each in found if each.capacity_per_s is not None]),
        tuple(_herd(herds[due_ms]) for due_ms in sorted(herds)),
    )


def _herd(several: Sequence[Herd]) -> Herd:
    """Return what is due in one second; each broker releases its own, so the last is as late as the latest of any."""
    counts: dict[str, int] = {}
    for topic, count in chain.from_iterable(herd.topics for herd in several):
        counts[topic] = counts.get(topic, 0) + count
    return Herd(
        several[0].due_ms,
        sum(herd.count for herd in several),
        max(herd.last_late_ms for herd in several),
        tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))),
    )
