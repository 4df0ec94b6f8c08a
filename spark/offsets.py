"""Queues, how far they are read, and how reading is divided into tasks; pure functions.

Offsets are written as JSON, by topic, broker and queue, each the next message to read:

    {"orders": {"broker-a": {"0": 1200, "1": 1187}, "broker-b": {"0": 0}}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

#: Offsets by topic, broker and queue, as Spark keeps them in a checkpoint.
Written = dict[str, dict[str, dict[str, int]]]


class Queue(NamedTuple):
    """One queue of a topic on one broker."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"queue {self.queue_id} of topic {self.topic!r} on {self.broker}"


Offsets = dict[Queue, int]


@dataclass(frozen=True, slots=True)
class Range:
    """The messages of a queue from ``start`` to before ``end``."""

    queue: Queue
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many offsets it has."""
        return self.end - self.start


def written(offsets: Mapping[Queue, int]) -> Written:
    """Return offsets in the form of JSON; the same offsets are always the same text."""
    found: Written = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.queue_id)] = offsets[queue]
    return found


def read_offsets(said: object) -> Offsets:
    """Return what offsets in the form of JSON say. Raises ValueError for anything else."""
    found: Offsets = {}
    for topic, brokers in _members(said):
        for broker, queues in _members(brokers):
            for queue_id, offset in _members(queues):
                if type(offset) is not int or offset < 0 or not (queue_id.isascii() and queue_id.isdigit()):
                    raise ValueError(f"{queue_id!r}: {offset!r} is no queue and offset")
                found[Queue(topic, broker, int(queue_id))] = offset
    return found


def _members(said: object) -> Iterable[tuple[str, object]]:
    if not isinstance(said, dict):
        raise ValueError(f"{said!r} should be an object")
    return said.items()


def limited(start: Mapping[Queue, int], latest: Mapping[Queue, int], most: int) -> Offsets:
    """Return how far to read of each queue so that it is at most ``most`` messages: each gives its share.

    Every queue that has some gives one at least, also where these are more than ``most``.
    """
    waiting = {queue: end - start.get(queue, 0) for queue, end in latest.items() if end > start.get(queue, 0)}
    total = sum(waiting.values())
    if total <= most:
        return dict(latest)
    shares = {queue: max(1, count * most // total) for queue, count in waiting.items()}
    # what the shortest got beyond their share, the longest give
    above = sum(shares.values()) - max(most, len(shares))
    for queue in sorted(shares, key=lambda each: -shares[each]):
        given = max(0, min(above, shares[queue] - 1))
        shares[queue] -= given
        above -= given
    return {queue: start.get(queue, 0) + shares[queue] if queue in shares else end for queue, end in latest.items()}


def ranges_of(start: Mapping[Queue, int], end: Mapping[Queue, int]) -> list[Range]:
    """Return what lies between; a queue that is not in ``start`` is read from its beginning."""
    return [Range(queue, begin, end[queue]) for queue in sorted(end) if (begin := start.get(queue, 0)) < end[queue]]


def tasks_of(ranges: Iterable[Range], split_messages: int) -> list[list[Range]]:
    """Return ranges in tasks of one broker each and at most so many messages: long ranges are cut into equal parts,
    short ones are put together, for a task costs more than a few messages."""
    found: list[list[Range]] = []
    by_broker: dict[str, list[Range]] = {}
    for one in ranges:
        by_broker.setdefault(one.queue.broker, []).extend(_cut(one, split_messages))
    for parts in by_broker.values():
        open_task: list[Range] = []
        count = 0
        for part in parts:
            if open_task and count + part.count > split_messages:
                found.append(open_task)
                open_task, count = [], 0
            open_task.append(part)
            count += part.count
        found.append(open_task)
    return found


def _cut(one: Range, split_messages: int) -> list[Range]:
    parts = -(-one.count // split_messages)
    edges = [one.start + one.count * number // parts for number in range(parts + 1)]
    return [replace(one, start=begin, end=end) for begin, end in pairwise(edges)]
