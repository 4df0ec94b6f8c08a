"""The broker's timers in the shapes of the pages: rows, and the wheel and the forecast as stretches of slots.

This is the one place that knows the client's types; its answers leave out what is empty.

A second of RocketMQ's wheel holds what is due after its beginning and up to its end. The broker counts it where it
ends, so that whole seconds, which people choose, stand in their own slot: the slot at 14:00:04 holds what is due after
14:00:03 and up to 14:00:04. Below a second the slots are cut from the timers themselves, after their beginning up to
their end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from broker.client import Admin
from broker.client.timers import DueBucket, Timer, TimerTarget, WheelBucket
from console.features.timers.shapes import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Forecast,
    Herd,
    LifeEvent,
    LifeKind,
    Stretch,
    TimerFilter,
    TimerRow,
    Wheel,
    WheelSlot,
    Window,
)
from console.site.evidence import Evidence

#: timers of one request, the broker's own limit
PAGE = 1_000
#: the end of time for a list: RocketMQ's moments have 63 bits
FOREVER_MS = 2**62


def timers_between(
    admin: Admin, wanted: TimerFilter, *, limit: int, cursor: str | None = None
) -> tuple[list[TimerRow], str | None, bool]:
    """A page of pending timers in due order, the next page's cursor, and False if the broker ran out of time."""
    found = admin.timers(
        wanted.from_ms or 0,
        FOREVER_MS if wanted.to_ms is None else wanted.to_ms,
        topic=wanted.topic or None,
        key=wanted.key or None,
        limit=min(limit, PAGE),
        cursor=cursor,
    )
    return [row_of(timer) for timer in found.items], found.cursor, found.complete


def all_timers(
    admin: Admin, wanted: TimerFilter, *, most: int, patience_s: float | None = None
) -> tuple[list[TimerRow], bool]:
    """Up to `most` pending timers in due order; False: there are more, or patience ended before all were found."""
    rows: list[TimerRow] = []
    end_s = None if patience_s is None else time.monotonic() + patience_s
    for page, cursor in _pages(admin, wanted):
        rows.extend(page)
        if len(rows) > most:
            return rows[:most], False
        if cursor is not None and end_s is not None and time.monotonic() > end_s:
            return rows, False
    return rows, True


def _pages(admin: Admin, wanted: TimerFilter) -> Iterator[tuple[list[TimerRow], str | None]]:
    cursor: str | None = None
    while True:
        page, cursor, _ = timers_between(admin, wanted, limit=PAGE, cursor=cursor)
        yield page, cursor
        if cursor is None:
            return


def one_timer(admin: Admin, target: Mapping[str, Any]) -> tuple[str, TimerRow | None, tuple[LifeEvent, ...]]:
    """State, the timer while it is known, and its events, oldest first; `target` as in PROTOCOL.md (14005)."""
    found = admin.timer(target_of(target))
    events = tuple(
        LifeEvent(LifeKind(event.kind), event.ms, event.position, event.late_ms, event.reason or "")
        for event in found.events
    )
    return found.state, row_of(found.timer) if found.timer is not None else None, events


def target_of(given: Mapping[str, Any]) -> TimerTarget:
    """The client's form of a target."""
    return msgspec.convert(given, TimerTarget)


def row_of(timer: Timer) -> TimerRow:
    """A timer of the client as a row."""
    return TimerRow(
        position=timer.position,
        offset=timer.offset,
        due_ms=timer.due_ms,
        topic=timer.topic,
        queue_id=timer.queue_id,
        size_bytes=timer.size_bytes,
        message_id=timer.message_id,
        unique_key=timer.unique_key or "",
        keys=tuple(timer.keys),
        tag=timer.tags or "",
        schedule_key=timer.schedule_key or "",
        store_ms=timer.store_ms or None,
        born_ms=timer.born_ms or None,
        rolled=timer.roll_times,
        handle=timer.handle or "",
    )


#: the rings: span and slot
RINGS = ((MINUTE, SECOND), (HOUR, MINUTE), (DAY, HOUR))
#: timers that are looked at one by one, where the wheel is too coarse
ONE_BY_ONE = 5_000
_UNSAID = Evidence("", None, True)


def wheel_of(admin: Admin, window: Window, now_ms: int) -> Wheel:
    """Three rings from now on and the stretch; raises ClientError. Evidence is the caller's."""
    zoom = window.zoom
    # the wheel of the stretch tells rolls and reach; the rings need counts alone, which the forecast gives much sooner
    step_ms = max(zoom.step_ms, SECOND)
    asked = admin.timer_wheel(window.start_ms, window.end_ms, step_ms)
    strip = None
    reach_ms = now_ms + asked.slots * asked.precision_ms
    if zoom.step_ms < SECOND or (zoom.step_ms < HOUR and window.end_ms > reach_ms):
        strip = _one_by_one(admin, window, must=zoom.step_ms < SECOND)
    if strip is None:
        strip = stretch_of(asked.buckets, window.start_ms, zoom.span_ms, zoom.step_ms)
    return Wheel(
        evidence=_UNSAID, rings=_rings(admin, now_ms), strip=strip,
        rolls=tuple((roll.roll_ms, roll.count) for roll in asked.rolls), beyond=asked.far,
        read_ms=asked.read_ms or None, precision_ms=asked.precision_ms, slots=asked.slots,
    )  # fmt: skip


def _rings(admin: Admin, now_ms: int) -> tuple[Stretch, Stretch, Stretch]:
    """From now on; a day in minutes gives the hour's ring and the day's."""
    second, minute = now_ms - now_ms % SECOND, now_ms - now_ms % MINUTE
    near = _slots(admin.timer_forecast(second, second + MINUTE, SECOND).buckets)
    far = _slots(admin.timer_forecast(minute, minute + DAY, MINUTE).buckets)
    return (
        stretch_of(near, second, MINUTE, SECOND),
        stretch_of(far, minute, HOUR, MINUTE),
        stretch_of(far, minute, DAY, HOUR),
    )


def _slots(buckets: Iterable[DueBucket]) -> list[WheelBucket]:
    return [WheelBucket(bucket.start_ms, bucket.count) for bucket in buckets]


def forecast_of(admin: Admin, window: Window) -> Forecast:
    """What is due in the stretch and its herds; raises ClientError. Evidence is the caller's."""
    step_ms = max(window.zoom.step_ms, SECOND)
    found = admin.timer_forecast(window.start_ms, window.end_ms, step_ms)
    herds = tuple(
        Herd(herd.due_ms, herd.count, herd.last_late_ms, tuple((each.topic, each.count) for each in herd.topics))
        for herd in found.herds
    )
    stretch = stretch_of(_slots(found.buckets), window.start_ms, window.zoom.span_ms, step_ms)
    return Forecast(_UNSAID, stretch, found.capacity_per_s, herds)


def stretch_of(buckets: Iterable[WheelBucket], start_ms: int, span_ms: int, step_ms: int) -> Stretch:
    """Slots without gaps; bytes of a slot are known only if those of all its parts are."""
    length = span_ms // step_ms
    counts = [0] * length
    sizes: list[int | None] = [0] * length
    for bucket in buckets:
        at = (bucket.start_ms - start_ms) // step_ms
        if 0 <= at < length:
            counts[at] += bucket.count
            known = sizes[at]
            sizes[at] = None if known is None or bucket.size_bytes is None else known + bucket.size_bytes
    slots = (
        WheelSlot(start_ms + index * step_ms, count, size if count else 0)
        for index, (count, size) in enumerate(zip(counts, sizes, strict=True))
    )
    return Stretch(start_ms, step_ms, tuple(slots))


def stretch_of_rows(rows: Sequence[TimerRow], start_ms: int, span_ms: int, step_ms: int) -> Stretch:
    """Return the stretch as it follows from timers that were read."""
    if step_ms < SECOND:
        places = (WheelBucket(row.due_ms - 1, 1, row.size_bytes) for row in rows)
    else:
        places = (WheelBucket(-(-row.due_ms // SECOND) * SECOND, 1, row.size_bytes) for row in rows)
    return stretch_of(places, start_ms, span_ms, step_ms)


def within(start_ms: int, end_ms: int, step_ms: int) -> TimerFilter:
    """The timers of slots of `step_ms` from `start_ms` to `end_ms`."""
    before_ms = SECOND if step_ms >= SECOND else 0
    return TimerFilter(from_ms=max(0, start_ms - before_ms + 1), to_ms=end_ms - before_ms + 1)


def _one_by_one(admin: Admin, window: Window, *, must: bool) -> Stretch | None:
    """Below a second, and below an hour beyond its reach, the wheel knows nothing: the timers themselves do. None: they
    are too many, and the wheel's own answer is better than a part of them."""
    rows, is_whole = all_timers(admin, within(window.start_ms, window.end_ms, window.zoom.step_ms), most=ONE_BY_ONE)
    if not is_whole and not must:
        return None
    return stretch_of_rows(rows, window.start_ms, window.zoom.span_ms, window.zoom.step_ms)
