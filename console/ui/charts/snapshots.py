"""What waited and how far groups were behind over the kept snapshots: one column each, which leads to its moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from console.ui.charts.scale import place
from console.ui.charts.times import Box, slots

WIDTH, HEIGHT = 1000, 84
_TOP, _FOOT = 14, 62


@dataclass(frozen=True, slots=True)
class Column:
    """One snapshot; None is unknown. Texts are already escaped."""

    waiting: int | None
    lag: int | None
    title: str
    href: str
    at_ms: int = 0
    #: both figures in words
    figures: str = ""


def kept_svg(columns: Sequence[Column], *, chosen: int | None, label: str, ticks: Sequence[tuple[int, str]]) -> str:
    """Two lines, each on a scale of its own: only their courses are compared. `chosen` is the column that is shown."""
    step = WIDTH / max(1, len(columns))
    moments, figures = [column.at_ms for column in columns], [column.figures for column in columns]
    told = slots(moments, figures, Box(0, WIDTH, _TOP - 8, _FOOT + 4))
    parts = [f'<svg class="chart kept" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="{label}"{told}>']
    parts.append(f'<path class="axis-2" d="M0 {_FOOT}H{WIDTH}"/>')
    parts += _lines(columns, step, lambda column: column.waiting, "line-steel")
    parts += _lines(columns, step, lambda column: column.lag, "line-brass")
    for index, text in ticks:
        x = (index + 0.5) * step
        style = ' class="text-end"' if x > WIDTH * 0.9 else ""
        parts.append(f'<path class="axis-2" d="M{place(x)} {_FOOT}v5"/>')
        parts.append(f'<text{style} x="{place(x)}" y="{HEIGHT - 4}">{text}</text>')
    if chosen is not None:
        parts.append(f'<path class="now" d="M{place((chosen + 0.5) * step)} {_TOP - 8}V{_FOOT + 4}"/>')
    for index, column in enumerate(columns):
        area = f'<rect x="{place(index * step)}" y="0" width="{place(step)}" height="{_FOOT}" fill="none"/>'
        area = area.replace("/>", ' pointer-events="all"/>')
        parts.append(f'<a href="{column.href}" tabindex="-1"><title>{column.title}</title>{area}</a>')
    parts.append("</svg>")
    return "".join(parts)


def _lines(columns: Sequence[Column], step: float, read: Callable[[Column], int | None], style: str) -> list[str]:
    """The line, broken where nothing is known; a moment alone is a dot."""
    values = [read(column) for column in columns]
    peak = max((value for value in values if value is not None), default=0) or 1
    runs: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{place((index + 0.5) * step)},{place(_FOOT - 1 - (_FOOT - _TOP) * value / peak)}")
    lines = [f'<polyline class="{style}" points="{" ".join(run)}"/>' for run in runs if len(run) > 1]
    dots = [run[0].split(",") for run in runs if len(run) == 1]
    return lines + [f'<circle class="{style}" cx="{x}" cy="{y}" r="1.5"/>' for x, y in dots]
