"""What an operation on timers would put into one second, against what the broker was measured to release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.client import Admin, ClientError
from console.features.timers.shapes import TimerRow

SECOND_MS = 1_000
#: of the seconds that most are moved to, so many are looked at
_LOOKED_AT = 3
#: what falls due while a crowd is released is looked at for so long
_AHEAD_S = 60


@dataclass(frozen=True, slots=True)
class Load:
    """The busiest second: `met_count` are due in it already, `count` would be; the last of them `late_ms` late.

    Of what fires at once `also_due` are due besides until all of it is out; None: the broker does not tell.
    """

    ms: int
    count: int
    met_count: int
    late_ms: int | None
    also_due: int | None = None


def busiest(
    admin: Admin, rows: Sequence[TimerRow], moved_to: Sequence[int], capacity_per_s: float | None
) -> Load | None:
    """Of the seconds that the rows would be moved to; None: nothing moves, or the broker does not tell its wheel."""
    leaving = Counter(second_ms(row.due_ms) for row in rows)
    best: Load | None = None
    for ms, count in Counter(map(second_ms, moved_to)).most_common(_LOOKED_AT):
        try:
            there = sum(bucket.count for bucket in admin.timer_wheel(ms, ms + SECOND_MS, SECOND_MS).buckets)
        except ClientError:
            return None
        met = max(0, there - leaving[ms])
        if best is None or met + count > best.count:
            best = Load(ms, met + count, met, late_of(met + count, capacity_per_s))
    return best


def at_once(admin: Admin, rows: Sequence[TimerRow], capacity_per_s: float | None) -> Load | None:
    """All of these now, behind what is overdue; `late_ms` is until they and what falls due meanwhile are out.

    None: the broker does not tell what is overdue.
    """
    try:
        status = admin.timer_status()
    except ClientError:
        return None
    overdue, now_ms, count = status.backlog, status.now_ms, len(rows)
    if not capacity_per_s:
        return Load(second_ms(now_ms), overdue + count, overdue, None)
    leaving = Counter(second_ms(row.due_ms) for row in rows)
    also = _due_meanwhile(admin, now_ms, overdue + count, capacity_per_s, leaving)
    whole = overdue + count + (also or 0)
    return Load(second_ms(now_ms), whole, overdue, round(1000 * whole / capacity_per_s), also)


def _due_meanwhile(
    admin: Admin, now_ms: int, count: int, capacity_per_s: float, leaving: Mapping[int, int]
) -> int | None:
    """What is due before so many are out, and before those are out too, and so on; None: the broker does not tell."""
    start_ms = second_ms(now_ms)
    try:
        buckets = admin.timer_wheel(start_ms, start_ms + _AHEAD_S * SECOND_MS, SECOND_MS).buckets
    except ClientError:
        return None
    also = 0
    for bucket in sorted(buckets, key=lambda each: each.start_ms):
        if bucket.start_ms - now_ms >= 1000 * (count + also) / capacity_per_s:
            break
        also += max(0, bucket.count - leaving.get(bucket.start_ms, 0))
    return also


def capacity_of(admin: Admin) -> float | None:
    """How many timers a second the broker was measured to release; None: not measured, or not told."""
    try:
        return admin.timer_status().capacity_per_s
    except ClientError:
        return None


def late_of(count: int, capacity_per_s: float | None) -> int | None:
    """How late the last of so many is that are due in one second; None: in time, or not known."""
    return round(1000 * count / capacity_per_s) if capacity_per_s and count > capacity_per_s else None


def second_ms(due_ms: int) -> int:
    """The end of the second in which a timer stands: one that is due at the end of a second stands in that one."""
    return -(-due_ms // SECOND_MS) * SECOND_MS
