"""Lateness as bars: how many releases were how late. Heights are logarithmic, so that a single late one is seen."""

from __future__ import annotations

import math
from collections.abc import Sequence

from console.ui.charts.scale import place

WIDTH, HEIGHT, FOOT = 420, 150, 126
#: later than this deserves a look: the most that the broker's own figures allow
LATE_MS = 50.0


def lateness_svg(buckets: Sequence[tuple[float | None, int]], *, label: str) -> str:
    """`buckets`: upper edge in ms (None: none) and count, ascending."""
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
    step = WIDTH / max(1, len(buckets))
    peak = max((count for _, count in buckets), default=0)
    lower = 0.0
    for index, (edge, count) in enumerate(buckets):
        high = 106 * math.log1p(count) / math.log1p(peak) if count else 1
        style = "h0" if not count else "fill-brass" if lower >= LATE_MS else "h4"
        x, middle = index * step + 4, index * step + step / 2
        parts.append(
            f'<rect class="{style}" x="{place(x)}" y="{place(FOOT - high)}" width="{place(step - 8)}" '
            f'height="{place(high)}" rx="2"/>'
        )
        parts.append(f'<text class="text-middle" x="{place(middle)}" y="{FOOT + 16}">{_words(lower, edge)}</text>')
        parts.append(
            f'<text class="text-middle text-muted" x="{place(middle)}" y="{place(FOOT - high - 5)}">'
            f"{short(count)}</text>"
        )
        lower = edge if edge is not None else lower
    parts.append("</svg>")
    return "".join(parts)


def small_svg(buckets: Sequence[tuple[float | None, int]], *, label: str, width: int = 96, height: int = 18) -> str:
    """The same within a row of a table, without words."""
    parts = [f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">']
    step = width / max(1, len(buckets))
    peak = max((count for _, count in buckets), default=0)
    lower = 0.0
    for index, (edge, count) in enumerate(buckets):
        if count:
            high = max(1.5, (height - 2) * math.log1p(count) / math.log1p(peak))
            style = "fill-brass" if lower >= LATE_MS else "h4"
            parts.append(
                f'<rect class="{style}" x="{place(index * step)}" y="{place(height - 1 - high)}" '
                f'width="{place(step - 1)}" height="{place(high)}"/>'
            )
        lower = edge if edge is not None else lower
    parts.append(f'<path class="axis" d="M0 {height - 0.5}h{width}"/></svg>')
    return "".join(parts)


def condensed(buckets: Sequence[tuple[float | None, int]], most: int = 9) -> list[tuple[float | None, int]]:
    """At most `most` buckets: neighbours with the smallest sum of counts become one."""
    rows = list(buckets)
    while len(rows) > most:
        at = min(range(len(rows) - 1), key=lambda index: rows[index][1] + rows[index + 1][1])
        rows[at : at + 2] = [(rows[at + 1][0], rows[at][1] + rows[at + 1][1])]
    return rows


def short(count: int) -> str:
    """A count that fits above a narrow bar."""
    if count < 100_000:
        return f"{count:,}"
    return f"{count / 1e6:,.1f}M" if count >= 1_000_000 else f"{count / 1e3:,.0f}k"


def _words(lower: float, edge: float | None) -> str:
    return f"&gt;{lower:g}" if edge is None or edge >= 2**31 else f"{lower:g}\u2013{edge:g}"
