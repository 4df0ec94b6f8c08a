"""Dashboards in templates: the words around the drawings of console.ui.charts.dashboards."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template
from django.utils.html import escape
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.features.dashboards.read import Panel
from console.templatetags.escapement import size, span
from console.ui.charts.dashboards import bars_svg, heat_svg, time_svg

register = template.Library()


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
    label = escape(_("%(title)s, %(count)s figures; the table below says the same") % words)
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
    return mark_safe(drawn)  # noqa: S308 - names, addresses and texts are escaped above, the rest is numbers


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
    return datetime.fromtimestamp(min(max(at_ms, 0), _LAST_MS) / 1000, UTC).astimezone(get_current_timezone())


def _clock(at_ms: int) -> str:
    return f"{_local(at_ms):%Y-%m-%d %H:%M}"


def _shortened(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "\u2026"
