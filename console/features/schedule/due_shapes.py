"""When what waits is due: the log-scaled stretch of a lane and the bars of the next minute."""

from __future__ import annotations

from dataclasses import dataclass

#: buckets of a lane's stretch
BUCKETS = 50
#: the log axis begins here (the first bucket also holds everything nearer and overdue) and ends at HORIZON_MS
AXIS_START_MS = 500
#: 2 h, RocketMQ's longest default level; what lies beyond is counted in `beyond`
HORIZON_MS = 7_200_000
#: right edges of the buckets as ms from now: AXIS_START_MS * (HORIZON_MS / AXIS_START_MS) ** ((i + 1) / BUCKETS)
EDGES_MS: tuple[int, ...] = tuple(
    round(AXIS_START_MS * (HORIZON_MS / AXIS_START_MS) ** ((index + 1) / BUCKETS)) for index in range(BUCKETS)
)


@dataclass(frozen=True, slots=True)
class DueSpread:
    """How many messages of one lane fall due in each bucket of EDGES_MS; the sum with `beyond` is the backlog."""

    #: BUCKETS counts, nearest first
    counts: tuple[int, ...]
    #: due after HORIZON_MS (a custom level longer than 2 h)
    beyond: int
    #: of counts[0]: already past due
    overdue: int
    #: False: the place inside a stretch between two known entries is interpolated (the sum is exact all the same)
    exact: bool

    @property
    def peak(self) -> int:
        """The fullest bucket."""
        return max(self.counts)


@dataclass(frozen=True, slots=True)
class NextMinute:
    """Messages due in each of the next 60 seconds, all lanes together. counts[0] also holds what is overdue."""

    #: epoch ms at the left edge
    start_ms: int
    #: 60 counts
    counts: tuple[int, ...]
    #: index of the fullest second and the level that gives most of it; None when nothing is due
    peak_second: int | None
    peak_level: int | None
    exact: bool

    @property
    def peak(self) -> int:
        """The fullest second's count."""
        return max(self.counts)

    @property
    def total(self) -> int:
        """Everything due within the minute."""
        return sum(self.counts)
