"""Dashboards in words and drawings: bars by moment, bars by name, hours by days. Texts come escaped.

Bars by moment are many: they are links for a pointer only, a keyboard finds the same in the table below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from django import template
from django.utils.html import escape
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.features.dashboards.read import Panel
from console.features.dashboards.runs import ARCHIVE, LIVE
from console.site.clock import local_time
from console.templatetags.escapement import size, span
from console.ui.charts import Box, Times, even, heat, nice_ceiling, opened, place

WIDTH, HEIGHT, FOOT, SCALE = 1140, 112, 92, 1060
#: room for two moments beside each other
CLOCKS = 240
#: bars by name: height of one, room for the name
LINE, NAMED = 22, 300
_HOUR_MS = 3_600_000
#: more moments than that do not tell their figures to the cursor
_MOST_TOLD = 800


def time_svg(
    moments: Sequence[tuple[int, float]],
    *,
    step_ms: int,
    label: str,
    figure: Callable[[float], str],
    clock: Callable[[int], str],
    address: Callable[[int], str],
) -> str:
    """Bars by moment, each a link, a scale at the right; what lies between two moments without one is empty."""
    start, last_ms = (moments[0][0], moments[-1][0]) if moments else (0, -step_ms)
    count = (last_ms - start) // step_ms + 1
    wide = min(SCALE / max(1, count), 40.0)
    told = _told(moments, start, count, step_ms, wide, figure) if 0 < count <= _MOST_TOLD else ""
    parts = [opened(WIDTH, HEIGHT, label, told, style="chart min-wide", role="group")]
    if not moments:
        return "".join([*parts, "</svg>"])
    peak = max(value for _, value in moments)
    top = nice_ceiling(peak)
    for share in (0, 0.5, 1):
        y = FOOT - 72 * share
        parts.append(f'<path class="axis" d="M0 {place(y)}H{SCALE}"/>')
        if share:
            parts.append(f'<text x="{SCALE + 8}" y="{place(y + 4)}">{figure(top * share)}</text>')
    for at_ms, value in moments:
        if value > 0:
            high = max(1.5, 72 * value / top)
            x = (at_ms - start) // step_ms * wide
            level = 5 if value == peak else 3 if value > peak / 2 else 2
            said = f"{clock(at_ms)}: {figure(value)}"
            parts.append(
                f'<a href="{address(at_ms)}" tabindex="-1" aria-label="{said}"><rect class="h{level}" '
                f'x="{place(x + wide * 0.06)}" y="{place(FOOT - high)}" width="{place(wide * 0.88)}" '
                f'height="{place(high)}" rx="1"><title>{said}</title></rect></a>'
            )
    first, last = clock(start), clock(moments[-1][0])
    if count > 1 and count * wide < CLOCKS:
        first, last = f"{first} \u2013 {last}", ""
    parts.append(f'<text x="0" y="{HEIGHT - 2}">{first}</text>')
    if count > 1 and last:
        parts.append(f'<text x="{place(count * wide)}" y="{HEIGHT - 2}" class="text-end">{last}</text>')
    parts.append("</svg>")
    return "".join(parts)


def _told(
    moments: Sequence[tuple[int, float]], start: int, count: int, step_ms: int, wide: float,
    figure: Callable[[float], str],
) -> str:  # fmt: skip
    """For the cursor: a moment without a figure is unknown."""
    values = [""] * count
    for at_ms, value in moments:
        values[(at_ms - start) // step_ms] = figure(value)
    return even(Times(start, start + count * step_ms, values), Box(0, count * wide, FOOT - 78, FOOT))


def bars_svg(bars: Sequence[tuple[str, float, str]], *, label: str, figure: Callable[[float], str], none: str) -> str:
    """One bar a name, longest first as given; a bar with an address is a link. Names and addresses come escaped."""
    high = max(1, len(bars)) * LINE
    peak = max((value for _, value, _ in bars), default=0) or 1
    room = SCALE - NAMED
    parts = [opened(WIDTH, high, label, style="chart min-wide", role="group")]
    for number, (name, value, address) in enumerate(bars):
        y = number * LINE
        long = max(1.5, room * value / peak) if value > 0 else 0
        drawn = (
            f'<text x="{NAMED - 10}" y="{y + 15}" class="text-end">{name or none}</text>'
            f'<rect class="h{heat(int(value), int(peak))}" x="{NAMED}" y="{y + 4}" width="{place(long)}" '
            f'height="{LINE - 8}" rx="1.5"/><text x="{place(NAMED + long + 8)}" y="{y + 15}">{figure(value)}</text>'
        )
        parts.append(f'<a href="{address}">{drawn}</a>' if address else drawn)
    parts.append("</svg>")
    return "".join(parts)


def heat_svg(
    moments: Sequence[tuple[int, float]],
    *,
    label: str,
    figure: Callable[[float], str],
    local: Callable[[int], datetime],
    address: Callable[[int], str],
) -> str:
    """Hours from left to right, days from top to bottom, each a link; a cell without a figure stays empty."""
    cells: dict[tuple[str, int], float] = {}
    hours: dict[tuple[str, int], int] = {}
    places: dict[tuple[str, int], int] = {}
    for at_ms, value in moments:
        at = local(at_ms)
        cell = f"{at:%Y-%m-%d}", at.hour
        cells[cell], places[cell] = max(value, cells.get(cell, 0)), at_ms
        hours[cell] = at_ms - (at.minute * 60 + at.second) * 1000 - at_ms % 1000
    days = sorted({day for day, _ in cells})
    wide, row = (SCALE - 110) / 24, 20
    peak = max(cells.values(), default=0)
    high = len(days) * row + 20
    parts = [
        f'<svg class="chart min-wide" viewBox="0 0 {WIDTH} {high}" role="group" aria-label="{label}" data-time="cells">'
    ]
    parts += [f'<text x="{place(110 + hour * wide)}" y="12">{hour:02d}</text>' for hour in range(0, 24, 3)]
    for number, day in enumerate(days):
        y = 18 + number * row
        parts.append(f'<text x="0" y="{y + 14}">{day}</text>')
        for hour in range(24):
            if (day, hour) in cells:
                value = cells[day, hour]
                said = f"{day} {hour:02d}:00: {figure(value)}"
                parts.append(
                    f'<a href="{address(places[day, hour])}" tabindex="-1" aria-label="{said}" '
                    f'data-at="{hours[day, hour]}"><rect '
                    f'class="h{heat(int(value), int(peak))}" x="{place(110 + hour * wide)}" y="{y}" '
                    f'width="{place(wide - 2)}" height="{row - 2}" rx="1.5"><title>{said}</title></rect></a>'
                )
    parts.append("</svg>")
    return "".join(parts)


register = template.Library()


@register.filter
def window_words(window: str) -> str:
    """A window of the dashboards for people: the last 24 hours, 7 days, all, or as it goes on."""
    if window == "all":
        return _("everything")
    if window == ARCHIVE:
        return _("everything, with the archive")
    if window == LIVE:
        return _("live")
    number, unit = window[:-1], window[-1:]
    if not number.isdigit() or unit not in "hd":
        return window
    if unit == "h":
        return ngettext("%(count)s hour", "%(count)s hours", int(number)) % {"count": number}
    return ngettext("%(count)s day", "%(count)s days", int(number)) % {"count": number}


@register.filter
def in_unit(value: float, unit: str) -> str:
    """A figure as its unit is written."""
    if unit == "bytes":
        return str(size(int(value)))
    if unit == "ms":
        return span(value)
    if unit == "share":
        return f"{value:.1%}".replace("%", " %")
    if unit == "moment":
        return _("not before it is decided") if value < 0 else f"{_local(int(value)):%Y-%m-%d %H:%M %Z}"
    return f"{value:,.0f}"


@register.simple_tag
def drawing(panel: Panel, query: str) -> SafeString | str:
    """The drawing of a panel; its table says the same. A bar leads to what is behind it, with the same `query`."""
    unit, series = panel.spec.unit, panel.spec.series

    def figure(value: float) -> str:
        return escape(in_unit(value, unit))

    def behind(at_ms: int) -> str:
        return escape(bar_address(query, series=series, at=at_ms, step=panel.step_ms))

    words = {"title": panel.spec.title, "count": f"{panel.total:,}"}
    label = escape(_("%(title)s, %(count)s values; same data in the table below") % words)
    if panel.spec.kind == "bars":
        bars = [
            (escape(_shortened(name)), value, escape(bar_address(query, series=series, name=name)))
            for name, value in panel.bars
        ]
        drawn = bars_svg(bars, label=label, figure=figure, none=escape(_("none")))
    elif panel.spec.kind == "time":
        drawn = time_svg(panel.moments, step_ms=panel.step_ms, label=label, figure=figure, clock=_clock, address=behind)
    elif panel.spec.kind == "heat":
        drawn = heat_svg(panel.moments, label=label, figure=figure, local=_local, address=behind)
    else:
        return ""
    return mark_safe(drawn)  # noqa: S308 - names, addresses and texts are escaped above, the rest is numbers # nosec B308 B703


#: The year 9998: no time zone leads from there beyond what a date can say.
_LAST_MS = 253_370_764_800_000


def bar_address(query: str, **bar: str | int) -> str:
    """The address, on the page itself, of what is behind a bar."""
    return "?" + "&".join(filter(None, (query, urlencode(bar)))) + "#behind"


@register.filter
def figure_of(figures: dict[str, float], name: str) -> float | None:
    """One of the figures of a line, None where it is missing."""
    return figures.get(name)


def _local(at_ms: int) -> datetime:
    """A moment of the log, which rot may have put anywhere: beyond the calendar it is the calendar's end."""
    return local_time(min(max(at_ms, 0), _LAST_MS))


def _clock(at_ms: int) -> str:
    return f"{_local(at_ms):%Y-%m-%d %H:%M}"


def _shortened(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "\u2026"
