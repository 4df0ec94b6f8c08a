"""Numbers to places: the scales that the charts share."""

from __future__ import annotations

import math


def place(value: float) -> str:
    """A coordinate with two decimals at most and no needless zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def log_place(ms: float, start_ms: float, end_ms: float, width: float) -> float:
    """Where `ms` stands on a logarithmic axis from start_ms (0) to end_ms (width)."""
    if ms <= start_ms:
        return 0.0
    return min(width, width * math.log(ms / start_ms) / math.log(end_ms / start_ms))


def heat(count: int, peak: int) -> int:
    """The heat class 0 to 5 of a count: nothing is 0, the rest by the logarithm of its share of 10,000 or the peak."""
    if count <= 0:
        return 0
    return min(5, 1 + int(4.999 * math.log1p(count) / math.log1p(max(peak, 10_000))))


def nice_ceiling(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if value <= step * power * (1 + 1e-9))
