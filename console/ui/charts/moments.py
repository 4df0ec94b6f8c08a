"""Moments on a line: the life of a message, and the snapshots that are kept.

In a life a physical record is a dot, what a client told a square, and idle time is folded. Kept snapshots are drawn
as what waited and how far groups were behind: one column each, which leads to its moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from console.ui.charts.scale import Box, opened, place, slots

LIFE_HEIGHT, LIFE_LINE = 96, 48
LIFE_EDGE = 88
#: what is further apart than this is folded
FOLD_MS = 5_000


@dataclass(frozen=True, slots=True)
class Stop:
    """A dot: texts are already escaped; `kind` is done, moved, failed or ahead."""

    ms: int
    title: str
    when: str
    kind: str
    gap: str = ""
    #: a client told it, no record shows it
    is_told: bool = False


_MARKS = {"done": "fill-verd", "moved": "fill-brass", "failed": "fill-ruby", "ahead": "fill-sheet"}


def life_svg(stops: Sequence[Stop], *, label: str, width: int = 960) -> str:
    """Dots left to right in order of time, their names above and below in turn; a fold says how long it is."""
    step = (width - 2 * LIFE_EDGE) / max(1, len(stops) - 1)
    plot = Box(LIFE_EDGE - step / 2, width - LIFE_EDGE + step / 2, LIFE_LINE - 14, LIFE_LINE + 14)
    told = slots([stop.ms for stop in stops], (), plot)
    parts = [opened(width, LIFE_HEIGHT, label, told, style="chart min-wide")]
    for index, stop in enumerate(stops[1:], 1):
        start, end = LIFE_EDGE + (index - 1) * step, LIFE_EDGE + index * step
        parts.append(_stretch(start, end, stop, dashed=stop.kind == "ahead"))
    for index, stop in enumerate(stops):
        x = LIFE_EDGE + index * step if len(stops) > 1 else width / 2
        up = index % 2 == 0
        y = LIFE_LINE - 26 if up else LIFE_LINE + 24
        ring = ' class="fill-sheet outlined"' if stop.kind == "ahead" else f' class="{_MARKS[stop.kind]}"'
        parts.append(f'<path class="axis" d="M{place(x)} {LIFE_LINE}V{LIFE_LINE - 14 if up else LIFE_LINE + 12}"/>')
        if stop.is_told:
            parts.append(f'<rect{ring} x="{place(x - 4.5)}" y="{LIFE_LINE - 4.5}" width="9" height="9" rx="1"/>')
        else:
            parts.append(f'<circle{ring} cx="{place(x)}" cy="{LIFE_LINE}" r="5"/>')
        parts.append(f'<text x="{place(x)}" y="{y}" class="text-strong text-middle">{stop.title}</text>')
        parts.append(f'<text x="{place(x)}" y="{y + 12}" class="text-middle">{stop.when}</text>')
    parts.append("</svg>")
    return "".join(parts)


def _stretch(start: float, end: float, stop: Stop, *, dashed: bool) -> str:
    line = "line-faint dash" if dashed else "line-faint"
    if not stop.gap:
        return f'<path class="{line}" d="M{place(start)} {LIFE_LINE}H{place(end)}"/>'
    middle = (start + end) / 2
    half = 4 * len(stop.gap) / 2 + 8
    left, right = place(middle - half), place(middle + half)
    return (
        f'<path class="{line}" d="M{place(start)} {LIFE_LINE}H{left}M{right} {LIFE_LINE}H{place(end)}"/>'
        f'<text x="{place(middle)}" y="{LIFE_LINE + 4}" class="text-middle">{stop.gap}</text>'
    )


KEPT_WIDTH, KEPT_HEIGHT = 1000, 84
KEPT_TOP, KEPT_FOOT = 14, 62


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
    step = KEPT_WIDTH / max(1, len(columns))
    moments, figures = [column.at_ms for column in columns], [column.figures for column in columns]
    told = slots(moments, figures, Box(0, KEPT_WIDTH, KEPT_TOP - 8, KEPT_FOOT + 4))
    parts = [opened(KEPT_WIDTH, KEPT_HEIGHT, label, told, style="chart kept", role="group")]
    parts.append(f'<path class="axis-2" d="M0 {KEPT_FOOT}H{KEPT_WIDTH}"/>')
    parts += _lines(columns, step, lambda column: column.waiting, "line-steel")
    parts += _lines(columns, step, lambda column: column.lag, "line-brass")
    for index, text in ticks:
        x = (index + 0.5) * step
        style = ' class="text-end"' if x > KEPT_WIDTH * 0.9 else ""
        parts.append(f'<path class="axis-2" d="M{place(x)} {KEPT_FOOT}v5"/>')
        parts.append(f'<text{style} x="{place(x)}" y="{KEPT_HEIGHT - 4}">{text}</text>')
    if chosen is not None:
        parts.append(f'<path class="now" d="M{place((chosen + 0.5) * step)} {KEPT_TOP - 8}V{KEPT_FOOT + 4}"/>')
    for index, column in enumerate(columns):
        area = f'<rect x="{place(index * step)}" y="0" width="{place(step)}" height="{KEPT_FOOT}" fill="none"/>'
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
            runs[-1].append(
                f"{place((index + 0.5) * step)},{place(KEPT_FOOT - 1 - (KEPT_FOOT - KEPT_TOP) * value / peak)}"
            )
    lines = [f'<polyline class="{style}" points="{" ".join(run)}"/>' for run in runs if len(run) > 1]
    dots = [run[0].split(",") for run in runs if len(run) == 1]
    return lines + [f'<circle class="{style}" cx="{x}" cy="{y}" r="1.5"/>' for x, y in dots]
