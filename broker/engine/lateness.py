"""Two ways to count how late things happened: over the last minutes for percentiles, since the start for Prometheus.

``Lateness`` takes little memory: counts by size class and by slice of ten seconds, of the last five minutes. A class is
about 9 % wide, so a percentile is exact to within that. ``Histogram`` counts by size class since the start, with fixed
bounds: what Prometheus calls a histogram.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

_WINDOW_MS = 300_000
_SLICE_MS = 10_000
_BOUNDS: tuple[float, ...] = tuple(0.0 if step == 0 else round(0.5 * 1.09**step, 3) for step in range(170))


class Lateness:
    """A histogram of ms late that forgets after five minutes."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: dict[int, dict[int, int]] = {}

    def add(self, now_ms: int, late_ms: int, count: int = 1) -> None:
        """Count one, or several at once."""
        number = now_ms // _SLICE_MS
        counts = self._slices.get(number)
        if counts is None:
            self._forget(now_ms)
            counts = self._slices[number] = {}
        size_class = bisect_left(_BOUNDS, late_ms) if late_ms > 0 else 0
        counts[size_class] = counts.get(size_class, 0) + count

    def _forget(self, now_ms: int) -> None:
        oldest = (now_ms - _WINDOW_MS) // _SLICE_MS
        for number in [number for number in self._slices if number < oldest or number * _SLICE_MS > now_ms + _SLICE_MS]:
            del self._slices[number]

    def percentile(self, now_ms: int, share: float) -> float | None:
        """Return the ms that ``share`` of all were at most late, None without any."""
        total = self._total(now_ms)
        wanted = share * sum(total.values())
        seen = 0
        for size_class in sorted(total):
            seen += total[size_class]
            if seen >= wanted:
                return _BOUNDS[min(size_class, len(_BOUNDS) - 1)]
        return None

    def counts(self, now_ms: int) -> list[tuple[float, int]]:
        """Return (upper bound in ms, count) of each class that is not empty, ascending."""
        total = self._total(now_ms)
        return [(_BOUNDS[min(number, len(_BOUNDS) - 1)], total[number]) for number in sorted(total)]

    def _total(self, now_ms: int) -> dict[int, int]:
        """Return how many there were of each size class, over the last five minutes."""
        self._forget(now_ms)
        total: dict[int, int] = {}
        for counts in self._slices.values():
            for size_class, count in counts.items():
                total[size_class] = total.get(size_class, 0) + count
        return total

    def per_second(self, now_ms: int) -> float:
        """Return how many a second there were, over the last ten to twenty seconds."""
        number = now_ms // _SLICE_MS
        count = sum(sum(self._slices.get(n, {}).values()) for n in (number - 1, number))
        return round(count * 1000 / (_SLICE_MS + now_ms % _SLICE_MS + 1), 2)


#: Bounds of how long something took, or how late it was, in ms.
LATENCY_BOUNDS_MS = (1, 2, 3, 5, 7, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 3_000, 10_000, 60_000)


class Histogram:
    """Counts of the values that were at most as large as each bound; values are whole numbers of at least 0."""

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
        """Yield each bound and how many were at most as large; the last has the bound None and counts all."""
        return zip((*self._bounds, None), accumulate(self._counts), strict=True)
