"""What an operation on timers would put into one second, against what the broker was measured to release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.client import Admin, ClientError
from console.queries.lags import lags_by_group
from console.queries.mirrored import mirrored
from console.queries.shapes.timers import TimerRow

SECOND_MS = 1_000
#: of the seconds that most are moved to, so many are looked at
_LOOKED_AT = 3


@dataclass(frozen=True, slots=True)
class Load:
    """The busiest second: `met_count` are due in it already, `count` would be; the last of them `late_ms` late."""

    ms: int
    count: int
    met_count: int
    late_ms: int | None


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


def late_of(count: int, capacity_per_s: float | None) -> int | None:
    """How late the last of so many is that are due in one second; None: in time, or not known."""
    return round(1000 * count / capacity_per_s) if capacity_per_s and count > capacity_per_s else None


def second_ms(due_ms: int) -> int:
    """The end of the second in which a timer stands: one that is due at the end of a second stands in that one."""
    return -(-due_ms // SECOND_MS) * SECOND_MS


def lags(topics: Mapping[str, int]) -> tuple[int, int] | None:
    """Messages that the groups of these topics are behind, now and when so many more arrive; None: not known."""
    broker, before, after = mirrored().name, 0, 0
    for topic, count in topics.items():
        for group in lags_by_group(broker, topic=topic):
            if group.lag is None:
                return None
            before += group.lag
            after += group.lag + count
    return before, after
