"""The timers of one second, read from wheel and timer log and ordered by ms."""

from __future__ import annotations

from array import array
from collections import deque
from typing import NamedTuple


class Entry(NamedTuple):
    """A timer whose moment is near."""

    due_ms: int
    offset: int
    position: int
    size: int


class Second:
    """The timers of one second by ms; each array holds offset, position, size of one after another."""

    __slots__ = ("at", "buckets", "moments", "second")

    def __init__(self, second: int, buckets: dict[int, array[int]]) -> None:
        self.second = second
        self.buckets = buckets
        self.moments = deque(sorted(buckets))
        self.at = 0


def put_in_order(bucket: array[int]) -> None:
    """Order the timers of one ms by offset, each once: re-indexed ones stand behind younger ones, or twice."""
    offsets = bucket[0::3].tolist()
    if all(map(int.__lt__, offsets, offsets[1:])):
        return
    triples = sorted(set(zip(offsets, bucket[1::3], bucket[2::3], strict=True)))
    bucket[:] = array("q", [number for triple in triples for number in triple])
