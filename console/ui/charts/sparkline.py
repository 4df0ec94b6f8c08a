"""Sixty slots as a line; a gap in what is known breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from console.ui.charts.scale import place
from console.ui.charts.times import Box, Times, even


def spark_svg(
    values: Sequence[float | None], *, label: str, width: int = 64, height: int = 16, times: Times | None = None
) -> str:
    """The line from 0 to the peak; only a dotted foot when nothing is known or nothing happened."""
    peak = max((value for value in values if value is not None), default=0.0)
    if peak <= 0:
        return (
            f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
            f'<path class="line-faint dash" d="M0 {height - 1.5}h{width}"/></svg>'
        )
    step = width / max(1, len(values) - 1)
    # most slots of most lines say the same, nothing: each height is written once, and each place once for all lines
    down = {value: place(height - 1 - (height - 2.5) * value / peak) for value in set(values) if value is not None}
    runs: list[list[tuple[str, str]]] = [[]]
    for x, value in zip(_across(len(values), width), values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((x, down[value]))
    told = even(times, Box(-step / 2, width + step / 2, 0, height))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [f'<svg {size} role="img" aria-label="{label}"{told}>']
    for run in filter(None, runs):
        line = " ".join([f"{x},{y}" for x, y in run])
        foot = f"{run[0][0]},{height} {line} {run[-1][0]},{height}"
        parts.append(f'<polygon class="wedge" points="{foot}"/>')
        if len(run) == 1:
            parts.append(f'<circle class="h4" cx="{run[0][0]}" cy="{run[0][1]}" r="1"/>')
        else:
            parts.append(f'<polyline class="line-steel" points="{line}"/>')
    parts.append("</svg>")
    return "".join(parts)


@lru_cache(64)
def _across(count: int, width: int) -> tuple[str, ...]:
    """Where each of so many values stands."""
    return tuple(place(index * width / max(1, count - 1)) for index in range(count))
