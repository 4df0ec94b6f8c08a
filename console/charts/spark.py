"""Sixty slots as a line; a gap in what is known breaks it."""

from __future__ import annotations

from collections.abc import Sequence

from console.charts.scale import place


def spark_svg(values: Sequence[float | None], *, label: str, width: int = 64, height: int = 16) -> str:
    """The line from 0 to the peak; only a dotted foot when nothing is known or nothing happened."""
    peak = max((value for value in values if value is not None), default=0.0)
    if peak <= 0:
        return (
            f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
            f'<path class="lq dash" d="M0 {height - 1.5}h{width}"/></svg>'
        )
    step = width / max(1, len(values) - 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((index * step, height - 1 - (height - 2.5) * value / peak))
    parts = [f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">']
    for run in filter(None, runs):
        line = " ".join(f"{place(x)},{place(y)}" for x, y in run)
        foot = f"{place(run[0][0])},{height} {line} {place(run[-1][0])},{height}"
        parts.append(f'<polygon class="wedge" points="{foot}"/>')
        if len(run) == 1:
            parts.append(f'<circle class="h4" cx="{place(run[0][0])}" cy="{place(run[0][1])}" r="1"/>')
        else:
            parts.append(f'<polyline class="ls" points="{line}"/>')
    parts.append("</svg>")
    return "".join(parts)
