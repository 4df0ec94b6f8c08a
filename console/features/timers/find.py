"""Pending timers for operations, from either kind of broker: all that match, or named ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.client import Admin, ClientError, NotSupported
from console.features.timers.apache_records import WHEEL_TOPIC, matches, read_newest, row_of_record
from console.features.timers.rows import all_timers, one_timer
from console.features.timers.shapes import TimerFilter, TimerRow
from console.site.clock import now_ms


@dataclass(frozen=True, slots=True)
class Found:
    """`named` has a place for each name that was asked for, None where nothing waits."""

    now_ms: int
    rows: list[TimerRow]
    #: False: there are more
    is_whole: bool = True
    #: True: an Apache RocketMQ broker, and only its newest records were read
    is_polled: bool = False
    named: tuple[TimerRow | None, ...] = ()


def find_timers(admin: Admin, wanted: TimerFilter, *, most: int, patience_s: float | None) -> Found:
    """All that match, at most `most`; raises ClientError."""
    begun_ms = now_ms()
    try:
        rows, is_whole = all_timers(admin, wanted, most=most, patience_s=patience_s)
    except NotSupported:
        newest = read_newest(admin)
        rows = [row for row in newest.rows if matches(row, wanted)]
        return Found(begun_ms, rows[:most], newest.is_whole, is_polled=True)
    return Found(begun_ms, rows, is_whole)


def find_named(admin: Admin, targets: Sequence[Mapping[str, Any]]) -> Found:
    """Each of them, where it still waits; raises ClientError."""
    begun_ms = now_ms()
    named: list[TimerRow | None] = []
    is_polled = False
    for target in targets:
        if not is_polled:
            try:
                state, row, _ = one_timer(admin, target)
                named.append(row if state == "pending" else None)
                continue
            except NotSupported:
                is_polled = True
        named.append(_parked(admin, target))
    rows = [row for row in named if row is not None]
    return Found(begun_ms, rows, is_polled=is_polled, named=tuple(named))


def _parked(admin: Admin, target: Mapping[str, Any]) -> TimerRow | None:
    """The record at the target's position, on a broker that cannot be asked for a timer."""
    if "position" not in target:
        return None
    try:
        row = row_of_record(admin.message_at(target["position"], topic=WHEEL_TOPIC))
    except ClientError:
        return None
    return row if row is not None and row.due_ms > now_ms() else None
