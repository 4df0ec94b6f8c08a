"""When timers fall due, how fast their broker was measured to release, and which of them are tries of groups.

A message that a group could not handle waits as a timer where the group's own policy says for how long; by a delay
level it waits on a lane, whose entries do not say of which topic they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from broker.client import Admin
from broker.client.timers import TimerStatus
from broker.rocketmq.codes import Request
from broker.rocketmq.topics import RETRY_PREFIX
from console.site.broker import ask, read_each
from console.site.evidence import Evidence
from console.site.mirrored import Cluster, Mirrored

#: topics of tries that are looked through, those with most timers first, and timers of each
MOST_TOPICS, MOST_TRIES = 8, 1_000
_REQUESTS = (Request.GET_TIMER_STATUS, Request.GET_TIMER_FORECAST)


@dataclass(frozen=True, slots=True)
class LateSecond:
    """A second that holds more timers than their broker releases in one."""

    due_ms: int
    count: int
    late_ms: int


@dataclass(frozen=True, slots=True)
class TimersDue:
    """The timers of one broker that fall due within a stretch, by steps."""

    #: all timers, tries of groups among them
    counts: tuple[int, ...]
    tries: tuple[int, ...]
    #: False: there are more tries than were looked through; the others are in `counts` alone
    is_whole: bool
    overdue: int
    is_paused: bool
    #: the measured speed of release, when and how it was measured; None: it never was
    capacity_per_s: float | None
    capacity_at_ms: int | None
    capacity_how: str | None
    #: the mean of its last five minutes
    released_per_s: float
    late: tuple[LateSecond, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time in steps."""

    start_ms: int
    end_ms: int
    step_ms: int

    @property
    def length(self) -> int:
        """The number of steps."""
        return (self.end_ms - self.start_ms) // self.step_ms

    def counted(self, buckets: Counter[int]) -> tuple[int, ...]:
        """Return the count of each step, from counts by any moment in it."""
        counts = [0] * self.length
        for ms, count in buckets.items():
            at = (ms - self.start_ms) // self.step_ms
            if 0 <= at < len(counts):
                counts[at] += count
        return tuple(counts)


def timers_due(of: Cluster, stretch: Stretch) -> list[tuple[Mirrored, TimersDue | None, Evidence]]:
    """Return what each broker tells; None with the reason where it does not."""

    def asked(here: Mirrored) -> tuple[Mirrored, TimersDue | None, Evidence]:
        found, evidence = ask(lambda admin: _due(admin, stretch), source=here.name, requests=_REQUESTS)
        return here, found, evidence

    return read_each(asked, of)


def _due(admin: Admin, stretch: Stretch) -> TimersDue:
    status = admin.timer_status()
    found = admin.timer_forecast(stretch.start_ms, stretch.end_ms, stretch.step_ms)
    tries, is_whole = _tries(admin, status, stretch)
    return TimersDue(
        counts=stretch.counted(Counter({bucket.start_ms: bucket.count for bucket in found.buckets})),
        tries=tries,
        is_whole=is_whole,
        overdue=status.backlog,
        is_paused=status.paused,
        capacity_per_s=found.capacity_per_s or status.capacity_per_s,
        capacity_at_ms=status.capacity_at_ms,
        capacity_how=status.capacity_how,
        released_per_s=status.released_per_s,
        late=tuple(LateSecond(herd.due_ms, herd.count, herd.last_late_ms) for herd in found.herds),
    )


def _tries(admin: Admin, status: TimerStatus, stretch: Stretch) -> tuple[tuple[int, ...], bool]:
    """Return how many tries of groups are due in each step, and False where not all were looked through."""
    topics = [row.topic for row in status.by_topic if row.pending and row.topic.startswith(RETRY_PREFIX)]
    moments: Counter[int] = Counter()
    is_whole = len(topics) <= MOST_TOPICS
    for topic in topics[:MOST_TOPICS]:
        page = admin.timers(stretch.start_ms, stretch.end_ms, topic=topic, limit=MOST_TRIES)
        is_whole = is_whole and page.cursor is None and page.complete
        # a moment belongs to the step in which its second ends, as all timers are counted
        moments.update(-(-each.due_ms // 1000) * 1000 for each in page.items)
    return stretch.counted(moments), is_whole


def as_steps(rising: Sequence[int]) -> tuple[int, ...]:
    """Return what comes with each step, from what is due at or before the ends of all; the first is what was before."""
    return tuple(count - before for before, count in pairwise(rising))
