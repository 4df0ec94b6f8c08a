"""The broker's timers in the shapes of the pages: the one place that knows the client's types."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from broker.client import Admin
from broker.client.timers import Timer, TimerTarget
from console.features.timers.shapes import LifeEvent, LifeKind, TimerFilter, TimerRow

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
