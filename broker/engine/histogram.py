"""Counts by size class since the start, with fixed bounds: what Prometheus calls a histogram."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

#: Bounds of how long something took, or how late it was, in ms.
LATENCY_BOUNDS_MS = (1, 2, 3, 5, 7, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 3_000, 10_000, 60_000)


class Histogram:
    """How many values were at most as large as each bound; values are whole numbers of at least 0."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0

    def add(self, value: int, count: int = 1) -> None:
        """Count one value, or several that are the same."""
        self._counts[bisect_left(self._bounds, value)] += count
        self.sum += value * count

    def buckets(self) -> Iterator[tuple[int | None, int]]:
        """Each bound and how many were at most as large; the last has the bound None and counts all."""
        return zip((*self._bounds, None), accumulate(self._counts), strict=True)
