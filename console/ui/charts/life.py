"""The life of a message on one line: a physical record is a dot, what a client told a square; idle time is folded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.ui.charts.scale import place
from console.ui.charts.times import Box, slots

HEIGHT, LINE = 96, 48
_EDGE = 88
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
    step = (width - 2 * _EDGE) / max(1, len(stops) - 1)
    plot = Box(_EDGE - step / 2, width - _EDGE + step / 2, LINE - 14, LINE + 14)
    told = slots([stop.ms for stop in stops], (), plot)
    parts = [f'<svg class="chart min-wide" viewBox="0 0 {width} {HEIGHT}" role="img" aria-label="{label}"{told}>']
    for index, stop in enumerate(stops[1:], 1):
        start, end = _EDGE + (index - 1) * step, _EDGE + index * step
        parts.append(_stretch(start, end, stop, dashed=stop.kind == "ahead"))
    for index, stop in enumerate(stops):
        x = _EDGE + index * step if len(stops) > 1 else width / 2
        up = index % 2 == 0
        y = LINE - 26 if up else LINE + 24
        ring = ' class="fill-sheet outlined"' if stop.kind == "ahead" else f' class="{_MARKS[stop.kind]}"'
        parts.append(f'<path class="axis" d="M{place(x)} {LINE}V{LINE - 14 if up else LINE + 12}"/>')
        if stop.is_told:
            parts.append(f'<rect{ring} x="{place(x - 4.5)}" y="{LINE - 4.5}" width="9" height="9" rx="1"/>')
        else:
            parts.append(f'<circle{ring} cx="{place(x)}" cy="{LINE}" r="5"/>')
        parts.append(f'<text x="{place(x)}" y="{y}" class="text-strong text-middle">{stop.title}</text>')
        parts.append(f'<text x="{place(x)}" y="{y + 12}" class="text-middle">{stop.when}</text>')
    parts.append("</svg>")
    return "".join(parts)


def _stretch(start: float, end: float, stop: Stop, *, dashed: bool) -> str:
    line = "line-faint dash" if dashed else "line-faint"
    if not stop.gap:
        return f'<path class="{line}" d="M{place(start)} {LINE}H{place(end)}"/>'
    middle = (start + end) / 2
    half = 4 * len(stop.gap) / 2 + 8
    left, right = place(middle - half), place(middle + half)
    return (
        f'<path class="{line}" d="M{place(start)} {LINE}H{left}M{right} {LINE}H{place(end)}"/>'
        f'<text x="{place(middle)}" y="{LINE + 4}" class="text-middle">{stop.gap}</text>'
    )
