"""The timer wheel as three rings: the next 60 seconds, 60 minutes and 24 hours; now at the top, clockwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from console.ui.charts.scale import heat, place
from console.ui.charts.times import Times, turns

CENTRE = 230
#: inner and outer radius of each ring, the seconds outside
RADII = ((178, 224), (128, 166), (88, 116))
#: degrees left free between two slots
_GAP = 0.6


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a ring; texts are already escaped. `href` empty: it leads nowhere."""

    count: int
    title: str = ""
    href: str = ""
    #: outlined: more than can be released in time
    is_herd: bool = False


@dataclass(frozen=True, slots=True)
class Hub:
    """The words in the middle, already escaped; `due_ms` is counted down by the browser."""

    above: str
    figure: str
    below: str
    last: str = ""
    due_ms: int | None = None


def wheel_svg(
    rings: Sequence[Sequence[Slot]],
    *,
    label: str,
    now: str,
    marks: Sequence[str],
    hub: Hub,
    times: Sequence[Times] = (),
) -> str:
    """Height and depth of blue are the count. `marks`: at the quarters of the outer ring; `times`: of the rings."""
    told = turns(times, CENTRE, RADII)
    parts = [f'<svg class="chart wheel" viewBox="-46 -22 552 504" role="group" aria-label="{label}"{told}>']
    for inner, outer in RADII:
        parts.append(f'<circle class="axis" cx="{CENTRE}" cy="{CENTRE}" r="{outer + 2}"/>')
        parts.append(f'<circle class="axis" cx="{CENTRE}" cy="{CENTRE}" r="{inner - 2}"/>')
    outlines: list[str] = []
    for slots, (inner, outer) in zip(rings, RADII, strict=True):
        peak = max((slot.count for slot in slots), default=0)
        for index, slot in enumerate(slots):
            if slot.count:
                high = 0.12 + 0.88 * math.log1p(slot.count) / math.log1p(max(peak, 100))
                path = sector(index / len(slots), (index + 1) / len(slots), inner, inner + (outer - inner) * high)
                parts.append(_linked(slot, f'<path class="h{heat(slot.count, peak)}" d="{path}"/>'))
                if slot.is_herd:
                    whole = sector(index / len(slots), (index + 1) / len(slots), inner - 1, outer + 1)
                    outlines.append(f'<path class="outlined" d="{whole}"/>')
    parts += [f'<path class="axis-2" d="{_tick(turn / 12)}"/>' for turn in range(12)]
    places = ((473, CENTRE + 4, ""), (CENTRE, 477, "text-middle"), (-13, CENTRE + 4, "text-end"))
    for word, (x, y, anchor) in zip(marks, places, strict=True):
        parts.append(f'<text class="{anchor}" x="{x if anchor != "text-end" else -8}" y="{y}">{word}</text>')
    parts.append(f'<path class="now" d="M{CENTRE} {CENTRE - RADII[2][0] + 8}V-6"/>')
    parts.append(f'<text class="text-middle text-strong" x="{CENTRE}" y="-8">{now}</text>')
    return "".join([*parts, *outlines, _hub(hub), "</svg>"])


def sector(start: float, end: float, inner: float, outer: float) -> str:
    """The path of a piece of a ring; `start` and `end` are turns, 0 at the top, clockwise."""
    pad = min(_GAP / 360, (end - start) / 4)
    start, end = start + pad, end - pad
    (x1, y1), (x2, y2), (x3, y3), (x4, y4) = (
        at(start, outer), at(end, outer), at(end, inner), at(start, inner)
    )  # fmt: skip
    far = 1 if end - start > 0.5 else 0
    return (
        f"M{_at(x1)} {_at(y1)}A{_at(outer)} {_at(outer)} 0 {far} 1 {_at(x2)} {_at(y2)}"
        f"L{_at(x3)} {_at(y3)}A{_at(inner)} {_at(inner)} 0 {far} 0 {_at(x4)} {_at(y4)}Z"
    )


def at(turn: float, radius: float) -> tuple[float, float]:
    """Where a hand of this length points."""
    angle = 2 * math.pi * turn
    return CENTRE + radius * math.sin(angle), CENTRE - radius * math.cos(angle)


def _at(value: float) -> str:
    """One decimal is a tenth of a pixel: a ring of 60 slots stays small."""
    return f"{value:.1f}".removesuffix(".0")


def _tick(turn: float) -> str:
    (x1, y1), (x2, y2) = at(turn, 226), at(turn, 234)
    return f"M{_at(x1)} {_at(y1)}L{_at(x2)} {_at(y2)}"


def _linked(slot: Slot, drawing: str) -> str:
    title = f"<title>{slot.title}</title>"
    if not slot.href:
        return drawing.replace("/>", f">{title}</path>")
    # the strip has the same slots for the keyboard
    return f'<a href="{slot.href}" tabindex="-1">{title}{drawing}</a>'


def _hub(hub: Hub) -> str:
    counted = f' data-due-ms="{hub.due_ms}"' if hub.due_ms is not None else ""
    return (
        f'<text class="text-middle" x="{CENTRE}" y="204">{hub.above}</text>'
        f'<text class="text-middle big" x="{CENTRE}" y="{place(238)}"{counted}>{hub.figure}</text>'
        f'<text class="text-middle text-muted" x="{CENTRE}" y="258">{hub.below}</text>'
        f'<text class="text-middle fine" x="{CENTRE}" y="276">{hub.last}</text>'
    )
