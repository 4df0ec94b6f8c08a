"""The wheel unrolled: a stretch of time as a band of slots, with the pointer, the rolls and the scale below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.ui.charts.scale import heat, place
from console.ui.charts.times import Box, Times, even

WIDTH, HEIGHT = 1120, 84
_TOP, _HIGH = 24, 34


@dataclass(frozen=True, slots=True)
class Cell:
    """One slot with something in it; texts are already escaped."""

    index: int
    count: int
    title: str
    #: empty: it leads nowhere
    href: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A word at a place of the band: `share` is 0 at the left edge, 1 at the right."""

    share: float
    text: str


def strip_svg(
    cells: Sequence[Cell],
    length: int,
    *,
    label: str,
    pointer: Mark | None,
    ticks: Sequence[Mark],
    rolls: Sequence[Mark],
    span_ms: tuple[int, int] | None = None,
) -> str:
    """`length` slots from left to right over `span_ms`; what is empty is only ground."""
    step = WIDTH / length
    peak = max((cell.count for cell in cells), default=0)
    counts = {cell.index: cell.count for cell in cells}
    times = span_ms and Times(*span_ms, [f"{counts.get(index, 0):,}" for index in range(length)])
    told = even(times or None, Box(0, WIDTH, _TOP - 8, _TOP + _HIGH + 4))
    parts = [f'<svg class="chart strip" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="{label}"{told}>']
    parts.append(f'<rect class="h0" x="0" y="{_TOP}" width="{WIDTH}" height="{_HIGH}" rx="2"/>')
    wide = place(max(step - 0.6, 1))
    for cell in cells:
        bar = f"M{place(cell.index * step)} {_TOP}h{wide}v{_HIGH}h-{wide}z"
        drawing = f'<path class="h{heat(cell.count, peak)}" d="{bar}"/>'
        if cell.href:
            parts.append(f'<a href="{cell.href}"><title>{cell.title}</title>{drawing}</a>')
        else:
            parts.append(drawing.replace("/>", f"><title>{cell.title}</title></path>"))
    for tick in ticks:
        left = place(tick.share * WIDTH)
        parts.append(f'<path class="axis-2" d="M{left} {_TOP - 3}V{_TOP + _HIGH + 4}"/>')
        parts.append(f'<text x="{place(tick.share * WIDTH + 4)}" y="{_TOP + _HIGH + 18}">{tick.text}</text>')
    for index, roll in enumerate(rolls):
        x = roll.share * WIDTH
        parts.append(f'<path class="line-brass" d="M{place(x)} {_TOP - 6}V{_TOP + _HIGH + 4}"/>')
        if index == 0:
            parts.append(_word(x, roll.text, "text-brass"))
    if pointer is not None:
        x = max(0.75, pointer.share * WIDTH)
        parts.append(f'<path class="now" d="M{place(x)} {_TOP - 8}V{_TOP + _HIGH + 4}"/>')
        parts.append(_word(x, pointer.text, "text-strong"))
    parts.append("</svg>")
    return "".join(parts)


def _word(x: float, text: str, style: str) -> str:
    """Above the band, on the side where there is room."""
    if x > WIDTH * 0.7:
        return f'<text class="{style} text-end" x="{place(x - 6)}" y="12">{text}</text>'
    return f'<text class="{style}" x="{place(x + 6 if x > 2 else 0)}" y="12">{text}</text>'
