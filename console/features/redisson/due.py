"""When values of Redisson's delayed queues fall due, counted by Redis itself: no value is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.redisson.survey import due_counts, queue_names
from console.features.redisson.read import ask_redis, server
from console.site.clock import real_ms
from console.site.evidence import Evidence

#: queues that are counted for one answer, by name; more are said to be left out
MOST_QUEUES = 200


@dataclass(frozen=True, slots=True)
class QueuesDue:
    """How many values are due at or before each moment that was asked for; None: Redis does not say."""

    evidence: Evidence
    counts: tuple[int, ...] | None
    #: queues that were counted, that could not be read, and that are more than are counted
    counted: int = 0
    unread: int = 0
    left: int = 0


def due_of_queues(moments_ms: Sequence[int], is_seen: Callable[[str], bool]) -> QueuesDue:
    """Count the values of the queues that are seen; moments are of the broker's clock, and Redis keeps real time."""
    found, evidence = ask_redis(lambda: _counted([real_ms(each) for each in moments_ms], is_seen))
    return QueuesDue(evidence, None) if found is None else QueuesDue(evidence, *found)


def _counted(moments_ms: Sequence[int], is_seen: Callable[[str], bool]) -> tuple[tuple[int, ...], int, int, int]:
    names = [name for name in queue_names(server()) if is_seen(name)]
    sums, unread = due_counts(server(), names[:MOST_QUEUES], moments_ms)
    return tuple(sums), len(names[:MOST_QUEUES]) - unread, unread, len(names[MOST_QUEUES:])
