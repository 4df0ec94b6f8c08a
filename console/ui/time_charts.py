"""Counts over time as SVG: what falls due, stacked by kind. Pure functions; every text is already escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from console.ui.charts import Box, Times, even, nice_ceiling, opened, place

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
WIDTH, SCALE, FOOT, HIGH, HEIGHT = 1120, 1050, 150, 138, 172
#: distances of the marks below a chart, and how many there may be
_STEPS = (
    MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR,
    12 * HOUR, DAY, 2 * DAY, 7 * DAY,
)  # fmt: skip
_MOST_TICKS = 9
#: a line of what is possible is drawn if the axis need not be longer than so many times the fullest bar
_STRETCH = 3


@dataclass(frozen=True, slots=True)
class Layer:
    """One kind of a stack, from the foot up; `href` is where it leads."""

    style: str
    counts: Sequence[int]
    title: str
    href: str


def ticks(start_ms: int, end_ms: int, zone: tzinfo) -> Iterator[tuple[int, str]]:
    """Yield round moments of a stretch by a zone's clock, each in words: with the day where it is not one day."""
    span_ms = max(1, end_ms - start_ms)
    step_ms = next((step for step in _STEPS if span_ms / step <= _MOST_TICKS), _STEPS[-1])
    offset = datetime.fromtimestamp(start_ms / 1000, zone).utcoffset()
    ahead_ms = round(offset.total_seconds() * 1000) if offset else 0
    first = -(-(start_ms + ahead_ms) // step_ms) * step_ms - ahead_ms
    for ms in range(first, end_ms + 1, step_ms):
        at = datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone)
        is_day = step_ms >= DAY or (span_ms > DAY and (at.hour, at.minute) == (0, 0))
        yield ms, f"{at:%m-%d}" if is_day else f"{at:%H:%M}"


def stacked_svg(
    layers: Sequence[Layer], *, start_ms: int, slot_ms: int, label: str, marks: Sequence[tuple[int, str]],
    now_ms: int, now: str, limit: float | None = None, limit_text: str = "",
) -> str:  # fmt: skip
    """Draw slots from left to right; `limit` is what is possible in one slot, a dashed line."""
    totals = [sum(column) for column in zip(*(layer.counts for layer in layers), strict=True)]
    peak = max(totals, default=0)
    is_limited = limit is not None and peak > 0 and limit <= peak * _STRETCH
    top = nice_ceiling(max(peak, limit or 0)) if is_limited else nice_ceiling(peak)
    end_ms = start_ms + slot_ms * len(totals)
    told = even(Times(start_ms, end_ms, [f"{total:,}" for total in totals]), Box(0, SCALE, 6, FOOT))
    parts = [opened(WIDTH, HEIGHT, label, told, style="chart min-wide", role="group"), *_grid(top)]
    feet = [0.0] * len(totals)
    step = SCALE / max(1, len(totals))
    for layer in layers:
        bars = []
        for index, count in enumerate(layer.counts):
            if count:
                high = max(1.5, HIGH * count / top)
                bars.append(
                    f"M{place(index * step + 0.5)} {place(FOOT - feet[index])}v-{place(high)}"
                    f"h{place(max(step - 1, 0.8))}v{place(high)}z"
                )
                feet[index] += high
        if bars:
            drawing = f'<path class="{layer.style}" d="{"".join(bars)}"/>'
            parts.append(f'<a href="{layer.href}"><title>{layer.title}</title>{drawing}</a>')
    if is_limited and limit is not None:
        y = FOOT - HIGH * limit / top
        parts.append(f'<path class="cap" d="M0 {place(y)}H{SCALE}"/>')
        parts.append(f'<text class="text-ruby" x="6" y="{place(max(12.0, y - 5))}">{limit_text}</text>')
    parts += _below(marks, start_ms, end_ms)
    x = place(max(0.75, SCALE * (now_ms - start_ms) / (end_ms - start_ms)))
    parts.append(f'<path class="now" d="M{x} 6V{FOOT}"/><text class="text-strong" x="0" y="{FOOT + 18}">{now}</text>')
    return "".join([*parts, "</svg>"])


def _grid(top: float) -> Iterator[str]:
    """Yield three lines with their figures at the right."""
    for share in (0, 0.5, 1):
        y = FOOT - HIGH * share
        yield f'<path class="axis" d="M0 {place(y)}H{SCALE}"/>'
        yield f'<text class="text-end" x="{WIDTH}" y="{place(y + 4)}">{scaled(top * share)}</text>'


def _below(marks: Sequence[tuple[int, str]], start_ms: int, end_ms: int) -> Iterator[str]:
    for ms, text in marks:
        share = (ms - start_ms) / (end_ms - start_ms)
        # neither below the word "now" nor beyond the end
        if 0.06 < share < 0.985:
            yield f'<text class="text-middle" x="{place(share * SCALE)}" y="{FOOT + 18}">{text}</text>'


def scaled(value: float) -> str:
    """Return a figure of a scale with as many digits as it needs."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


#: a chart of half a page
HALF, HALF_SCALE, HALF_TOP, HALF_FOOT, HALF_HEIGHT = 540, 484, 10, 112, 140


@dataclass(frozen=True, slots=True)
class Course:
    """A line over time; None is a gap."""

    style: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Flag:
    """A mark on the axis that leads somewhere."""

    at_ms: int
    title: str
    href: str


def courses_svg(
    courses: Sequence[Course], told: Sequence[str], *, start_ms: int, end_ms: int, label: str,
    marks: Sequence[tuple[int, str]], flags: Sequence[Flag],
) -> str:  # fmt: skip
    """Draw lines over one stretch on one scale from 0; `told` is what the cursor says of each value of them."""
    top = nice_ceiling(max((value for course in courses for value in course.values if value is not None), default=0.0))
    box = Box(0, HALF_SCALE, HALF_TOP, HALF_FOOT)
    attributes = even(Times(start_ms, end_ms, told), box) + " data-zoom"
    parts = [opened(HALF, HALF_HEIGHT, label, attributes, style="chart min-half", role="group")]
    for share in (0, 0.5, 1):
        y = HALF_FOOT - (HALF_FOOT - HALF_TOP) * share
        parts.append(f'<path class="axis" d="M0 {place(y)}H{HALF_SCALE}"/>')
        parts.append(f'<text class="text-end" x="{HALF}" y="{place(y + 4)}">{scaled(top * share)}</text>')
    for course in courses:
        parts += _drawn(course, top)
    for ms, text in marks:
        share = (ms - start_ms) / (end_ms - start_ms)
        if 0.02 < share < 0.96:
            x = place(share * HALF_SCALE)
            parts.append(f'<path class="axis-2" d="M{x} {HALF_FOOT}v4"/>')
            parts.append(f'<text class="text-middle" x="{x}" y="{HALF_FOOT + 17}">{text}</text>')
    for flag in flags:
        share = min(1.0, max(0.0, (flag.at_ms - start_ms) / (end_ms - start_ms)))
        parts.append(f'<path class="axis-2" d="M{place(share * HALF_SCALE)} {HALF_TOP}V{HALF_FOOT}"/>')
        shape = f"M{place(share * HALF_SCALE)} {HALF_FOOT - 1}l5 9h-10z"
        drawing = f'<path class="fill-ink hit" d="{shape}"/>'
        parts.append(f'<a href="{flag.href}"><title>{flag.title}</title>{drawing}</a>')
    return "".join([*parts, "</svg>"])


def _drawn(course: Course, top: float) -> Iterator[str]:
    """Yield the pieces of a line, each a stretch in which all is known; a value between two gaps is a dot."""
    step = HALF_SCALE / max(1, len(course.values))
    run: list[str] = []
    for index, value in enumerate([*course.values, None]):
        if value is not None:
            y = HALF_FOOT - (HALF_FOOT - HALF_TOP) * value / top
            run.append(f"{_tenth((index + 0.5) * step)},{_tenth(y)}")
            continue
        if len(run) > 1:
            yield f'<polyline class="{course.style}" points="{" ".join(run)}"/>'
        elif run:
            x, _, y_text = run[0].partition(",")
            yield f'<circle class="{course.style}" cx="{x}" cy="{y_text}" r="1.5"/>'
        run = []


def _tenth(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
