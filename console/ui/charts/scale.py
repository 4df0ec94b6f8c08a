"""Numbers to places, the scales that the charts share; and what a drawing tells the cursor of all charts of a page.

The cursor (static/js/cursor.js) reads which moments, where, and its figures from attributes of the drawing's `<svg>`:

    data-time     line: from left to right, evenly; log: by the logarithm of what is left; stops: one moment a slot;
                  rings: three stretches, clockwise; cells: each link has its own data-at
    data-start    epoch ms of the left edge; log: missing, the sheet says it once (data-ahead-of)
    data-end      epoch ms of the right edge; log: data-least and data-reach, ms from the start
    data-moments  epoch ms, one a slot, for stops
    data-box      left, right, top and foot of the plot, in units of the drawing
    data-values   one text a slot, apart by "|"; empty: unknown
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def place(value: float) -> str:
    """A coordinate with two decimals at most and no needless zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def opened(width: int, height: int, label: str, told: str = "", *, style: str = "chart", role: str = "img") -> str:
    """Return the beginning of a drawing; its label is escaped, `told` is what it tells the cursor."""
    return f'<svg class="{style}" viewBox="0 0 {width} {height}" role="{role}" aria-label="{label}"{told}>'


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


@dataclass(frozen=True, slots=True)
class Times:
    """An even stretch of time, cut into as many slots as there are values. Values are escaped; empty is unknown."""

    start_ms: int
    end_ms: int
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Box:
    """The plot within a drawing."""

    left: float
    right: float
    top: float
    foot: float

    @property
    def attribute(self) -> str:
        """As the cursor reads it."""
        return f' data-box="{place(self.left)} {place(self.right)} {place(self.top)} {place(self.foot)}"'


def even(times: Times | None, box: Box) -> str:
    """Attributes of a drawing from left to right; nothing where the moments are not known."""
    if times is None:
        return ""
    return (
        f' data-time="line" data-start="{times.start_ms}" data-end="{times.end_ms}"{box.attribute}'
        f' data-values="{"|".join(times.values)}"'
    )


def ahead(least_ms: int, reach_ms: int, values: Sequence[str], box: Box) -> str:
    """Attributes of a logarithmic stretch from now on: `least_ms` ahead at the left edge, `reach_ms` at the right."""
    return (
        f' data-time="log" data-least="{least_ms}" data-reach="{reach_ms}"{box.attribute}'
        f' data-values="{"|".join(values)}"'
    )


def slots(moments: Sequence[int], values: Sequence[str], box: Box) -> str:
    """Attributes of a drawing with a slot for each moment, ascending; between two of them time goes evenly."""
    if len(moments) < 2 or sorted(moments) != list(moments):
        return ""
    told = " ".join(map(str, moments))
    return f' data-time="stops" data-moments="{told}"{box.attribute} data-values="{"|".join(values)}"'


def turns(stretches: Sequence[Times], centre: float, radii: Sequence[tuple[float, float]]) -> str:
    """Attributes of a wheel: `start end inner outer` of each ring, apart by ";", so are their values."""
    if not stretches:
        return ""
    told = ";".join(
        f"{times.start_ms} {times.end_ms} {place(inner)} {place(outer)}"
        for times, (inner, outer) in zip(stretches, radii, strict=True)
    )
    values = ";".join("|".join(times.values) for times in stretches)
    return f' data-time="rings" data-rings="{told}" data-centre="{place(centre)}" data-values="{values}"'
