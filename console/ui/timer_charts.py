"""Timers by time: the wheel, a stretch of it unrolled, what it will put out against what can be released, and lateness.

The wheel is three rings, the next 60 seconds, 60 minutes and 24 hours: now at the top, clockwise. The strip is a band
of slots with the pointer, the rolls and the scale below. Lateness is bars, how many releases were how late; heights are
logarithmic, so that a single late one is seen."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from console.site.durations import sign_of
from console.ui.charts import Box, Times, counted_down, even, heat, nice_ceiling, opened, place, turns

CENTRE = 230
#: inner and outer radius of each ring, the seconds outside
RADII = ((178, 224), (128, 166), (88, 116))
#: degrees left free between two slots
_GAP = 0.6


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a ring; texts are already escaped. `href` empty: it leads nowhere."""

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
    is_late: bool = False


def wheel_svg(
    rings: Sequence[Sequence[Slot]],
    *,
    label: str,
    now: str,
    marks: Sequence[str],
    hub: Hub,
    times: Sequence[Times] = (),
) -> str:
    """Draw rings: height and depth of blue are the count. `marks`: at the outer quarters; `times`: of the rings."""
    parts, outlines = _ground(label, times), list[str]()
    for slots, (inner, outer) in zip(rings, RADII, strict=True):
        peak = max((slot.count for slot in slots), default=0)
        for index, slot in enumerate(slots):
            if slot.count:
                reach = inner + (outer - inner) * _share_of_ring(slot.count, peak)
                path = sector(index / len(slots), (index + 1) / len(slots), inner, reach)
                parts.append(_linked(slot, f'<path class="h{heat(slot.count, peak)}" d="{path}"/>'))
                if slot.is_herd:
                    whole = sector(index / len(slots), (index + 1) / len(slots), inner - 1, outer + 1)
                    outlines.append(f'<path class="outlined" d="{whole}"/>')
    return "".join([*parts, *_face(marks, now), *outlines, _hub(hub), "</svg>"])


@dataclass(frozen=True, slots=True)
class Share:
    """One kind within all rings: its counts by ring and slot, and where it leads; texts are already escaped."""

    style: str
    counts: Sequence[Sequence[int]]
    title: str
    href: str


def shared_wheel_svg(
    shares: Sequence[Share], *, label: str, now: str, marks: Sequence[str], hub: Hub, times: Sequence[Times]
) -> str:
    """Draw rings in which each slot is shared by kinds, from the hub outwards; its height is the count of all."""
    parts = _ground(label, times)
    totals = [
        [sum(column) for column in zip(*(share.counts[ring] for share in shares), strict=True)]
        for ring in range(len(RADII))
    ]
    feet = [[0.0] * len(ring) for ring in totals]
    for share in shares:
        pieces = []
        for ring, (inner, outer) in enumerate(RADII):
            peak = max(totals[ring], default=0)
            for index, count in enumerate(share.counts[ring]):
                if count:
                    total = totals[ring][index]
                    whole = (outer - inner) * _share_of_ring(total, peak)
                    foot = inner + feet[ring][index]
                    feet[ring][index] += whole * count / total
                    length = len(share.counts[ring])
                    pieces.append(sector(index / length, (index + 1) / length, foot, inner + feet[ring][index]))
        if pieces:
            drawing = f'<path class="{share.style}" d="{"".join(pieces)}"/>'
            parts.append(f'<a href="{share.href}"><title>{share.title}</title>{drawing}</a>')
    return "".join([*parts, *_face(marks, now), _hub(hub), "</svg>"])


def _share_of_ring(count: int, peak: int) -> float:
    """Return how much of its ring a slot takes, by the logarithm; where all are small, none is whole."""
    return 0.12 + 0.88 * math.log1p(count) / math.log1p(max(peak, 100))


def _ground(label: str, times: Sequence[Times]) -> list[str]:
    """Return the beginning of a wheel and the edges of its rings."""
    told = turns(times, CENTRE, RADII)
    parts = [f'<svg class="chart wheel" viewBox="-46 -22 552 504" role="group" aria-label="{label}"{told}>']
    for inner, outer in RADII:
        parts.append(f'<circle class="axis" cx="{CENTRE}" cy="{CENTRE}" r="{outer + 2}"/>')
        parts.append(f'<circle class="axis" cx="{CENTRE}" cy="{CENTRE}" r="{inner - 2}"/>')
    return parts


def _face(marks: Sequence[str], now: str) -> Iterator[str]:
    """Yield the ticks around a wheel, their words, and the hand."""
    yield from (f'<path class="axis-2" d="{_tick(turn / 12)}"/>' for turn in range(12))
    places = ((473, CENTRE + 4, ""), (CENTRE, 477, "text-middle"), (-13, CENTRE + 4, "text-end"))
    for word, (x, y, anchor) in zip(marks, places, strict=True):
        yield f'<text class="{anchor}" x="{x if anchor != "text-end" else -8}" y="{y}">{word}</text>'
    yield f'<path class="now" d="M{CENTRE} {CENTRE - RADII[2][0] + 8}V-6"/>'
    yield f'<text class="text-middle text-strong" x="{CENTRE}" y="-8">{now}</text>'


def sector(start: float, end: float, inner: float, outer: float) -> str:
    """Return the path of a piece of a ring; `start` and `end` are turns, 0 at the top, clockwise."""
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
    """Return the point that a hand of this length points to."""
    angle = 2 * math.pi * turn
    return CENTRE + radius * math.sin(angle), CENTRE - radius * math.cos(angle)


def _at(value: float) -> str:
    """Write a number with one decimal, a tenth of a pixel: a ring of 60 slots stays small."""
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
    counted = counted_down(hub.due_ms, hub.is_late) if hub.due_ms is not None else ""
    return (
        f'<text class="text-middle" x="{CENTRE}" y="204">{hub.above}</text>'
        f'<text class="text-middle big" x="{CENTRE}" y="{place(238)}"{counted}>{hub.figure}</text>'
        f'<text class="text-middle text-muted" x="{CENTRE}" y="258">{hub.below}</text>'
        f'<text class="text-middle fine" x="{CENTRE}" y="276">{hub.last}</text>'
    )


#: as far to the right as the bars of the forecast reach, which lies below: one moment, one place
STRIP_WIDTH, STRIP_SCALE, STRIP_HEIGHT = 1120, 1050, 84
STRIP_TOP, STRIP_HIGH = 24, 34


@dataclass(frozen=True, slots=True)
class Cell:
    """A slot with something in it; texts are already escaped."""

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
    """Draw `length` slots from left to right over `span_ms`; what is empty is only ground."""
    step = STRIP_SCALE / length
    peak = max((cell.count for cell in cells), default=0)
    counts = {cell.index: cell.count for cell in cells}
    times = span_ms and Times(*span_ms, [f"{counts.get(index, 0):,}" for index in range(length)])
    told = even(times or None, Box(0, STRIP_SCALE, STRIP_TOP - 8, STRIP_TOP + STRIP_HIGH + 4))
    parts = [opened(STRIP_WIDTH, STRIP_HEIGHT, label, told, style="chart strip", role="group")]
    parts.append(f'<rect class="h0" x="0" y="{STRIP_TOP}" width="{STRIP_SCALE}" height="{STRIP_HIGH}" rx="2"/>')
    wide = _at(max(step - 0.6, 1))
    for cell in cells:
        bar = f"M{_at(cell.index * step)} {STRIP_TOP}h{wide}v{STRIP_HIGH}h-{wide}z"
        drawing = f'<path class="h{heat(cell.count, peak)}" d="{bar}"/>'
        if cell.href:
            parts.append(f'<a href="{cell.href}"><title>{cell.title}</title>{drawing}</a>')
        else:
            parts.append(drawing.replace("/>", f"><title>{cell.title}</title></path>"))
    for tick in ticks:
        left = place(tick.share * STRIP_SCALE)
        parts.append(f'<path class="axis-2" d="M{left} {STRIP_TOP - 3}V{STRIP_TOP + STRIP_HIGH + 4}"/>')
        parts.append(
            f'<text x="{place(tick.share * STRIP_SCALE + 4)}" y="{STRIP_TOP + STRIP_HIGH + 18}">{tick.text}</text>'
        )
    for index, roll in enumerate(rolls):
        x = roll.share * STRIP_SCALE
        parts.append(f'<path class="line-ink" d="M{place(x)} {STRIP_TOP - 6}V{STRIP_TOP + STRIP_HIGH + 4}"/>')
        if index == 0:
            parts.append(_word(x, roll.text, "text-muted"))
    if pointer is not None:
        x = max(0.75, pointer.share * STRIP_SCALE)
        parts.append(f'<path class="now" d="M{place(x)} {STRIP_TOP - 8}V{STRIP_TOP + STRIP_HIGH + 4}"/>')
        parts.append(_word(x, pointer.text, "text-strong"))
    parts.append("</svg>")
    return "".join(parts)


def _word(x: float, text: str, style: str) -> str:
    """Write a word above the band, on the side where there is room."""
    if x > STRIP_SCALE * 0.7:
        return f'<text class="{style} text-end" x="{place(x - 6)}" y="12">{text}</text>'
    return f'<text class="{style}" x="{place(x + 6 if x > 2 else 0)}" y="12">{text}</text>'


FORECAST_WIDTH, FORECAST_SCALE, FORECAST_HEIGHT, FORECAST_FOOT = 1120, STRIP_SCALE, 172, 150
FORECAST_HIGH = 142
#: annotations that are drawn
HERDS = 2
#: the capacity is drawn if the axis need not be longer than so many times the fullest bar
_STRETCH = 3


@dataclass(frozen=True, slots=True)
class HerdMark:
    """A herd, its words already escaped."""

    share: float
    first: str
    second: str


def forecast_svg(
    per_s: Sequence[float], *, label: str, capacity: float | None, capacity_text: str, ticks: Sequence[Mark],
    warnings: Sequence[HerdMark], is_now: bool, span_ms: tuple[int, int] | None = None,
) -> str:  # fmt: skip
    """Draw bars of messages per second (the mean of a slot) over `span_ms`; the dashed line is the capacity."""
    peak = max(per_s, default=0.0)
    shown = capacity is not None and peak > 0 and capacity <= peak * _STRETCH
    top = nice_ceiling(max(peak, capacity if shown and capacity else 0.0))
    step = FORECAST_SCALE / max(1, len(per_s))
    times = span_ms and Times(*span_ms, [f"{rate_text(value)}/s" for value in per_s])
    told = even(times or None, Box(0, FORECAST_SCALE, 6, FORECAST_FOOT))
    parts = [opened(FORECAST_WIDTH, FORECAST_HEIGHT, label, told, style="chart min-wide")]
    for share in (0, 1 / 3, 2 / 3, 1):
        y = place(FORECAST_FOOT - FORECAST_HIGH * share)
        parts.append(f'<path class="axis" d="M0 {y}H{FORECAST_SCALE}"/>')
        parts.append(
            f'<text class="text-end" x="{FORECAST_WIDTH}" y="{place(FORECAST_FOOT - FORECAST_HIGH * share + 4)}">'
            f"{rate_text(top * share)}/s</text>"
        )
    by_heat: dict[int, list[str]] = {}
    for index, value in enumerate(per_s):
        if value > 0:
            high = max(1.5, FORECAST_HIGH * value / top)
            left, wide, up = _at(index * step + 0.5), _at(max(step - 1, 0.8)), _at(high)
            bar = f"M{left} {FORECAST_FOOT}v-{up}h{wide}v{up}z"
            by_heat.setdefault(heat(round(value * 1000), round(peak * 1000)), []).append(bar)
    parts += [f'<path class="h{level}" d="{"".join(bars)}"/>' for level, bars in sorted(by_heat.items())]
    if shown and capacity is not None:
        y = place(FORECAST_FOOT - FORECAST_HIGH * capacity / top)
        parts.append(
            f'<path class="cap" d="M0 {y}H{FORECAST_SCALE}"/>'
            f'<text class="text-ruby" x="6" y="{_above(y)}">{capacity_text}</text>'
        )
    for index, warning in enumerate(warnings[:HERDS]):
        parts += _annotated(warning, 24 + 34 * index)
    for tick in ticks:
        x = place(tick.share * FORECAST_SCALE)
        parts.append(f'<text class="text-middle" x="{x}" y="{FORECAST_FOOT + 18}">{tick.text}</text>')
    if is_now:
        parts.append(f'<path class="now" d="M.75 6V{FORECAST_FOOT}"/>')
    parts.append("</svg>")
    return "".join(parts)


def _annotated(warning: HerdMark, y: int) -> list[str]:
    x = warning.share * FORECAST_SCALE
    left = x > FORECAST_SCALE * 0.6
    anchor, at = (" text-end", x - 8) if left else ("", x + 10)
    return [
        f'<path class="line-brass" d="M{place(x)} {y - 14}V{FORECAST_FOOT}"/>',
        f'<text class="text-brass{anchor}" x="{place(at)}" y="{y}">{warning.first}</text>',
        f'<text class="text-muted{anchor}" x="{place(at)}" y="{y + 15}">{warning.second}</text>',
    ]


def _above(y: str) -> str:
    return place(max(12.0, float(y) - 5))


def rate_text(value: float) -> str:
    """Return a rate with as many digits as it needs."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


LATENESS_WIDTH, LATENESS_HEIGHT, LATENESS_FOOT = 420, 150, 126
#: later than this deserves a look: the most that the broker's own figures allow
LATE_MS = 50.0
#: upper edges of the bars in ms, behind the last none; the same in every drawing, so that two can be compared
LATE_EDGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1_000.0)
#: a bar of so many is as high as the drawing where none is higher: few releases are low bars
_FULL = 100


def lateness_svg(buckets: Sequence[tuple[float | None, int]], *, label: str) -> str:
    """Draw lateness by `buckets`: upper edge in ms (None: none) and count, ascending."""
    parts = [opened(LATENESS_WIDTH, LATENESS_HEIGHT, label, style="chart lateness")]
    parts.append(f'<path class="axis" d="M0 {LATENESS_FOOT}h{LATENESS_WIDTH}"/>')
    step = LATENESS_WIDTH / max(1, len(buckets))
    peak = max(_FULL, *(count for _, count in buckets))
    lower = 0.0
    for index, (edge, count) in enumerate(buckets):
        x, middle = index * step + 4, index * step + step / 2
        parts.append(
            f'<text class="text-middle" x="{_at(middle)}" y="{LATENESS_FOOT + 16}">{_words(lower, edge)}</text>'
        )
        if count:
            high = 106 * math.log1p(count) / math.log1p(peak)
            style = "fill-brass" if lower >= LATE_MS else "h4"
            parts.append(
                f'<rect class="{style}" x="{_at(x)}" y="{_at(LATENESS_FOOT - high)}" width="{_at(step - 8)}" '
                f'height="{_at(high)}" rx="2"/>'
            )
            parts.append(
                f'<text class="text-middle text-muted" x="{_at(middle)}" y="{_at(LATENESS_FOOT - high - 5)}">'
                f"{short(count)}</text>"
            )
        lower = edge if edge is not None else lower
    parts.append("</svg>")
    return "".join(parts)


def small_svg(buckets: Sequence[tuple[float | None, int]], *, label: str, width: int = 96, height: int = 18) -> str:
    """Draw the lateness of a row of a table as small bars, without words."""
    parts = [f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">']
    step = width / max(1, len(buckets))
    peak = max(_FULL, *(count for _, count in buckets))
    lower = 0.0
    for index, (edge, count) in enumerate(buckets):
        if count:
            high = max(1.5, (height - 2) * math.log1p(count) / math.log1p(peak))
            style = "fill-brass" if lower >= LATE_MS else "h4"
            parts.append(
                f'<rect class="{style}" x="{_at(index * step)}" y="{_at(height - 1 - high)}" '
                f'width="{_at(step - 1)}" height="{_at(high)}"/>'
            )
        lower = edge if edge is not None else lower
    parts.append(f'<path class="axis" d="M0 {height - 0.5}h{width}"/></svg>')
    return "".join(parts)


def binned(buckets: Sequence[tuple[float | None, int]]) -> list[tuple[float | None, int]]:
    """Return the counts by LATE_EDGES; the broker's own classes are finer."""
    counts = [0] * (len(LATE_EDGES) + 1)
    for edge, count in buckets:
        counts[len(LATE_EDGES) if edge is None else bisect_left(LATE_EDGES, edge)] += count
    return list(zip((*LATE_EDGES, None), counts, strict=True))


def short(count: int) -> str:
    """Return a count that fits above a narrow bar."""
    if count < 100_000:
        return f"{count:,}"
    return f"{count / 1e6:,.1f}M" if count >= 1_000_000 else f"{count / 1e3:,.0f}k"


def _words(lower: float, edge: float | None) -> str:
    if edge is None or edge >= 2**31:
        return f"&gt;{lower / 1000:g} {sign_of('s')}" if lower >= 1000 else f"&gt;{lower:g}"
    return f"{lower / 1000:g}\u2013{edge / 1000:g} {sign_of('s')}" if edge >= 1000 else f"{lower:g}\u2013{edge:g}"
