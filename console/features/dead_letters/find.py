"""Which dead letters an operation is about, as the broker has them now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from broker.client import Admin
from console.features.dead_letters.records import STEP, bounds_of, letter_of, marked, message_at, newest_first
from console.features.dead_letters.shapes import DeadLetter, DeadLetterFilter
from console.site.clock import now_ms


@dataclass(frozen=True, slots=True)
class Found:
    """What an operation is about, the newest first."""

    now_ms: int
    rows: Sequence[DeadLetter]
    #: all that match were found
    is_whole: bool = True


def find_matching(admin: Admin, group: str, wanted: DeadLetterFilter, *, most: int, patience_s: float | None) -> Found:
    """All that match and were not sent again yet, at most `most`; raises ClientError."""
    begun_ms = now_ms()
    end_s = None if patience_s is None else time.monotonic() + patience_s
    rows: list[DeadLetter] = []
    part: list[DeadLetter] = []
    is_whole = True
    for row in newest_first(admin, group, bounds_of(admin, group), None):
        if matches(row, wanted):
            part.append(row)
        if len(part) == STEP:
            rows, part = rows + _untouched(group, part), []
        if len(rows) >= most or (end_s is not None and time.monotonic() > end_s):
            is_whole = False
            break
    rows += _untouched(group, part)
    return Found(begun_ms, rows[:most], is_whole)


def find_named(admin: Admin, group: str, targets: Sequence[tuple[int, int]]) -> list[DeadLetter | None]:
    """Those at these queues and offsets, None for one that is not there; raises ClientError."""
    rows = [letter_of(message) if (message := message_at(admin, group, *each)) else None for each in targets]
    known = marked(group, [row for row in rows if row is not None])
    by_place = {(row.queue_id, row.offset): row for row in known}
    return [by_place.get(place) for place in targets]


def matches(row: DeadLetter, wanted: DeadLetterFilter) -> bool:
    """Whether the filter is about this one."""
    if wanted.topic and row.topic != wanted.topic:
        return False
    if wanted.key and wanted.key not in (*row.keys, row.unique_key, row.tag):
        return False
    if wanted.from_ms is not None and row.died_ms < wanted.from_ms:
        return False
    return wanted.to_ms is None or row.died_ms < wanted.to_ms


def _untouched(group: str, rows: list[DeadLetter]) -> list[DeadLetter]:
    return [row for row in marked(group, rows) if not row.sent_again]
