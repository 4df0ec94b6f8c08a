"""What a dashboard is asked beside the log, and the measures its figures have: the same for Spark and for DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.rocketmq.layout import RETENTION_HOURS

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
#: How far ahead a forecast counts by each unit: the unit, and how far.
AHEAD_MS = {"minute": (MINUTE_MS, HOUR_MS), "hour": (HOUR_MS, 2 * DAY_MS), "day": (DAY_MS, 60 * DAY_MS)}
#: Positions that a point names at most.
MOST_POSITIONS = 100
#: Spans of time for histograms: (upper bound in ms, name); the last one is open.
SPANS: tuple[tuple[int, str], ...] = (
    (0, "early"),
    (1, "< 1 ms"),
    (10, "< 10 ms"),
    (100, "< 100 ms"),
    (1_000, "< 1 s"),
    (10_000, "< 10 s"),
    (60_000, "< 1 min"),
    (600_000, "< 10 min"),
    (3_600_000, "< 1 h"),
    (21_600_000, "< 6 h"),
    (86_400_000, "< 1 d"),
    (604_800_000, "< 7 d"),
    (2_592_000_000, "< 30 d"),
    (31_536_000_000, "< 1 y"),
    (1 << 62, ">= 1 y"),
)


@dataclass(frozen=True, slots=True)
class Question:
    """The input of a job beside the log.

    ``as_of_ms``: the moment that is now. ``offsets``: rows (topic, group, queue_id, offset) of what groups have
    consumed. ``segments``: (start, size) of each. ``retention_ms``: how long the broker keeps a segment.

    In a run of several logs ``brokers`` are their names by number, rows of ``offsets`` have that number as well, a
    ``start`` is a place (``places.py``), and ``retentions_ms`` says by number which log is kept for another time.
    """

    as_of_ms: int
    offsets: Sequence[tuple[str, str, int, int] | tuple[str, str, int, int, int]] = ()
    segments: Sequence[tuple[int, int]] = ()
    retention_ms: int = RETENTION_HOURS * HOUR_MS
    #: A message that is due for longer and still waits is an alarm of the ledger.
    grace_ms: int = MINUTE_MS
    #: How many producers, keys and the like are named.
    top: int = field(default=20)
    brokers: Sequence[str] = ()
    retentions_ms: Mapping[int, int] = field(default_factory=dict)
