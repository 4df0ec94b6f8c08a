"""Charts as SVG, made by pure functions: classes and presentation attributes only, a text alternative each.

Numbers to places, the scales that the charts share; and what a drawing tells the cursor of all charts of a page.

The cursor (static/js/cursor.js) reads which moments, where, and its figures from attributes of the drawing's `<svg>`:

    data-time     line: from left to right, evenly; log: by the logarithm of what is left; stops: one moment a slot;
                  rings: three stretches, clockwise; cells: each link has its own data-at
    data-start    epoch ms of the left edge; log: missing, the sheet says it once (data-ahead-of)
    data-end      epoch ms of the right edge; log: data-least and data-reach, ms from the start
    data-moments  epoch ms, one a slot, for stops
    data-box      left, right, top and foot of the plot, in units of the drawing
    data-values   one text a slot, apart by "|"; empty: unknown; "=9": the one before nine times more

Moments on a line: the life of a message, and the snapshots that are kept.

In a life a physical record is a dot, what a client told a square, and idle time is folded. Kept snapshots are drawn
as what waited and how far groups were behind: one column each, which leads to its moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TypeVar

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.site.mirrored import SLOT_MS, History

Each = TypeVar("Each")


def place(value: float, decimals: int = 2) -> str:
    """Return a coordinate with so many decimals at most and no needless zeros."""
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".")


def opened(width: int, height: int, label: str, told: str = "", *, style: str = "chart", role: str = "img") -> str:
    """Return the beginning of a drawing; its label is escaped, `told` is what it tells the cursor."""
    return f'<svg class="{style}" viewBox="0 0 {width} {height}" role="{role}" aria-label="{label}"{told}>'


def log_place(ms: float, start_ms: float, end_ms: float, width: float) -> float:
    """Return the place of `ms` on a logarithmic axis from start_ms (0) to end_ms (width)."""
    if ms <= start_ms:
        return 0.0
    return min(width, width * math.log(ms / start_ms) / math.log(end_ms / start_ms))


def heat(count: int, peak: int) -> int:
    """Return the heat class 0 to 5 of a count: 0 is nothing, the rest by the log of its share of 10,000 or the peak."""
    if count <= 0:
        return 0
    return min(5, 1 + int(4.999 * math.log1p(count) / math.log1p(max(peak, 10_000))))


def nice_ceiling(value: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if value <= step * power * (1 + 1e-9))


@dataclass(frozen=True, slots=True)
class Times:
    """An even stretch of time, cut into as many slots as there are values. Values are escaped; empty is unknown."""

    start_ms: int
    end_ms: int
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Box:
    """The plot within a drawing."""

    left: float
    right: float
    top: float
    foot: float

    @property
    def attribute(self) -> str:
        """The box as an attribute that the chart's cursor reads."""
        return f' data-box="{place(self.left)} {place(self.right)} {place(self.top)} {place(self.foot)}"'


def _told(values: Sequence[str]) -> str:
    """Return the figures as the chart's cursor reads them."""
    told: list[str] = []
    for each, same in groupby(values):
        more = len(list(same)) - 1
        told += [each, f"={more}"] if more > 1 else [each] * (more + 1)
    return "|".join(told)


def even(times: Times | None, box: Box) -> str:
    """Return attributes of a drawing from left to right; nothing where the moments are not known."""
    if times is None:
        return ""
    return (
        f' data-time="line" data-start="{times.start_ms}" data-end="{times.end_ms}"{box.attribute}'
        f' data-values="{_told(times.values)}"'
    )


def ahead(least_ms: int, reach_ms: int, values: Sequence[str], box: Box) -> str:
    """Return attributes of a logarithmic stretch from now on: `least_ms` ahead at the left, `reach_ms` at the right."""
    return (
        f' data-time="log" data-least="{least_ms}" data-reach="{reach_ms}"{box.attribute} data-values="{_told(values)}"'
    )


def slots(moments: Sequence[int], values: Sequence[str], box: Box) -> str:
    """Return attributes of a drawing with a slot for each moment, ascending; between two of them time goes evenly."""
    if len(moments) < 2 or sorted(moments) != list(moments):
        return ""
    told = " ".join(map(str, moments))
    return f' data-time="stops" data-moments="{told}"{box.attribute} data-values="{_told(values)}"'


def turns(stretches: Sequence[Times], centre: float, radii: Sequence[tuple[float, float]]) -> str:
    """Return attributes of a wheel: `start end inner outer` of each ring, apart by ";", so are their values."""
    if not stretches:
        return ""
    told = ";".join(
        f"{times.start_ms} {times.end_ms} {place(inner)} {place(outer)}"
        for times, (inner, outer) in zip(stretches, radii, strict=True)
    )
    values = ";".join(_told(times.values) for times in stretches)
    return f' data-time="rings" data-rings="{told}" data-centre="{place(centre)}" data-values="{values}"'


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
    #: it should have been
    is_late: bool = False

    @property
    def is_ahead(self) -> bool:
        """Tell whether it is still to come; what is left until then is its gap, which the browser counts down."""
        return self.kind == "ahead"


def counted_down(due_ms: int, is_late: bool) -> str:
    """Return the attributes of a text that the browser counts down; what is late counts up."""
    return f'{" data-is-late" if is_late else ""} data-due-ms="{due_ms}"'


def drawn_of(events: Sequence[Each], most: int) -> tuple[list[Each], int]:
    """Return the events that a line has room for, the first and the newest, and how many are left out between them."""
    left = max(0, len(events) - most)
    return ([events[0], *events[left + 1 :]], left) if left else (list(events), 0)


def left_out(count: int) -> str:
    """Return what stands on the line where events are left out: a place has room for a few words."""
    return escape(ngettext("%(count)s left out", "%(count)s left out", count) % {"count": count})


_MARKS = {"done": "fill-verd", "moved": "fill-ink", "failed": "fill-ruby", "ahead": "fill-sheet"}


def life_svg(stops: Sequence[Stop], *, label: str, width: int = 960) -> str:
    """Draw dots from left to right in order of time, names above and below in turn; a fold says how long it is."""
    step = (width - 2 * LIFE_EDGE) / max(1, len(stops) - 1)
    plot = Box(LIFE_EDGE - step / 2, width - LIFE_EDGE + step / 2, LIFE_LINE - 14, LIFE_LINE + 14)
    told = slots([stop.ms for stop in stops], (), plot)
    parts = [opened(width, LIFE_HEIGHT, label, told, style="chart min-wide")]
    for index, stop in enumerate(stops[1:], 1):
        start, end = LIFE_EDGE + (index - 1) * step, LIFE_EDGE + index * step
        parts.append(_stretch(start, end, stop))
    for index, stop in enumerate(stops):
        x = LIFE_EDGE + index * step if len(stops) > 1 else width / 2
        up = index % 2 == 0
        y = LIFE_LINE - 26 if up else LIFE_LINE + 24
        ring = ' class="fill-sheet outlined"' if stop.is_ahead else f' class="{_MARKS[stop.kind]}"'
        parts.append(f'<path class="axis" d="M{place(x)} {LIFE_LINE}V{LIFE_LINE - 14 if up else LIFE_LINE + 12}"/>')
        if stop.is_told:
            parts.append(f'<rect{ring} x="{place(x - 4.5)}" y="{LIFE_LINE - 4.5}" width="9" height="9" rx="1"/>')
        else:
            parts.append(f'<circle{ring} cx="{place(x)}" cy="{LIFE_LINE}" r="5"/>')
        parts.append(f'<text x="{place(x)}" y="{y}" class="text-strong text-middle">{stop.title}</text>')
        parts.append(f'<text x="{place(x)}" y="{y + 12}" class="text-middle">{stop.when}</text>')
    parts.append("</svg>")
    return "".join(parts)


def _stretch(start: float, end: float, stop: Stop) -> str:
    line, counted = ("line-faint dash", counted_down(stop.ms, stop.is_late)) if stop.is_ahead else ("line-faint", "")
    if not stop.gap:
        return f'<path class="{line}" d="M{place(start)} {LIFE_LINE}H{place(end)}"/>'
    middle = (start + end) / 2
    half = 4 * len(stop.gap) / 2 + 8
    left, right = place(middle - half), place(middle + half)
    return (
        f'<path class="{line}" d="M{place(start)} {LIFE_LINE}H{left}M{right} {LIFE_LINE}H{place(end)}"/>'
        f'<text x="{place(middle)}" y="{LIFE_LINE + 4}" class="text-middle"{counted}>{stop.gap}</text>'
    )


KEPT_WIDTH, KEPT_HEIGHT = 1000, 84
KEPT_TOP, KEPT_FOOT = 14, 62


@dataclass(frozen=True, slots=True)
class Column:
    """A snapshot's column; None is unknown. Texts are already escaped."""

    waiting: int | None
    lag: int | None
    title: str
    href: str
    at_ms: int = 0
    #: both figures in words
    figures: str = ""


def kept_svg(columns: Sequence[Column], *, chosen: int | None, label: str, ticks: Sequence[tuple[int, str]]) -> str:
    """Draw two lines, each on a scale of its own, whose end stands above it: at the left what waits, at the right lag.

    `chosen` is the column that is shown."""
    step = KEPT_WIDTH / max(1, len(columns))
    moments, figures = [column.at_ms for column in columns], [column.figures for column in columns]
    told = slots(moments, figures, Box(0, KEPT_WIDTH, KEPT_TOP - 8, KEPT_FOOT + 4))
    parts = [opened(KEPT_WIDTH, KEPT_HEIGHT, label, told, style="chart kept", role="group")]
    parts.append(f'<path class="axis-2" d="M0 {KEPT_FOOT}H{KEPT_WIDTH}"/>')
    parts += _lines(columns, step, lambda column: column.waiting, "line-steel")
    parts += _lines(columns, step, lambda column: column.lag, "line-quiet")
    for peak, style, edge in zip(kept_peaks(columns), ("text-steel", "text-end"), (0, KEPT_WIDTH), strict=True):
        if peak is not None:
            parts.append(f'<text class="{style}" x="{edge}" y="{KEPT_TOP - 4}">{peak:,}</text>')
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


def kept_peaks(columns: Sequence[Column]) -> tuple[int | None, int | None]:
    """Return the highest that waited and the highest lag: where the scale of each line ends. None: it has no line."""
    waiting = max((column.waiting for column in columns if column.waiting is not None), default=None)
    return waiting, max((column.lag for column in columns if column.lag is not None), default=None)


def _lines(columns: Sequence[Column], step: float, read: Callable[[Column], int | None], style: str) -> list[str]:
    """Return the line, broken where nothing is known; a moment alone is a dot."""
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


def spark_svg(
    values: Sequence[float | None], *, label: str, width: int = 64, height: int = 16, times: Times | None = None
) -> str:
    """Return the line from 0 to the peak; only a dotted foot when nothing is known or nothing happened."""
    peak = max((value for value in values if value is not None), default=0.0)
    if peak <= 0:
        return (
            f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
            f'<path class="line-faint dash" d="M0 {height - 1.5}h{width}"/></svg>'
        )
    step = width / max(1, len(values) - 1)
    # most slots of most lines say the same, nothing: each height is written once, and each place once for all lines
    down = {value: place(height - 1 - (height - 2.5) * value / peak, 1) for value in set(values) if value is not None}
    runs: list[list[tuple[str, str]]] = [[]]
    for x, value in zip(_across(len(values), width), values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((x, down[value]))
    told = even(times, Box(-step / 2, width + step / 2, 0, height))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [f'<svg {size} role="img" aria-label="{label}"{told}>']
    for run in map(_corners, filter(None, runs)):
        line = " ".join([f"{x},{y}" for x, y in run])
        foot = f"{run[0][0]},{height} {line} {run[-1][0]},{height}"
        parts.append(f'<polygon class="wedge" points="{foot}"/>')
        if len(run) == 1:
            parts.append(f'<circle class="h4" cx="{run[0][0]}" cy="{run[0][1]}" r="1"/>')
        else:
            parts.append(f'<polyline class="line-steel" points="{line}"/>')
    parts.append("</svg>")
    return "".join(parts)


def _corners(run: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the points of a line but for those on the way from one to another as high."""
    between = [b for a, b, c in zip(run, run[1:], run[2:], strict=False) if not a[1] == b[1] == c[1]]
    return [run[0], *between, *run[1:][-1:]]


@lru_cache(64)
def _across(count: int, width: int) -> tuple[str, ...]:
    """Return the horizontal place of each of so many values, as text."""
    return tuple(place(index * width / max(1, count - 1), 1) for index in range(count))


def sparks(what: str, width: int = 64) -> Callable[[History], SafeString]:
    """Return a function that draws the rate lines of a list's rows: their words are looked up once."""
    words = _("%(what)s per second, last 5 min, now %(latest)s")

    def draw(history: History) -> SafeString:
        latest = "\u2013" if history.latest is None else f"{history.latest:.3g}"
        times = None
        if history.end_ms is not None:
            written = {value: "" if value is None else f"{value:.3g}/s" for value in set(history.per_s)}
            values = [written[value] for value in history.per_s]
            times = Times(history.end_ms - SLOT_MS * len(values), history.end_ms, values)
        label = escape(words % {"what": what, "latest": latest})
        drawing = spark_svg(history.per_s, label=label, width=width, times=times)
        return mark_safe(drawing)  # noqa: S308 - the label is escaped, the rest is numbers # nosec B308 B703

    return draw
