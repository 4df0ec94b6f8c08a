"""What falls due, in drawings and addresses."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.features.due.shapes import WINDOWS, Band, DueKind, DuePage, Measured
from console.site.clock import local_time
from console.ui.time_charts import Layer, stacked_svg, ticks

register = template.Library()

#: the colour of each kind, in the same tokens as everywhere; retries are timers of groups, checks are those of halves
STYLES = {
    DueKind.LANES: "fill-lane", DueKind.TIMERS: "fill-timer", DueKind.RETRIES: "fill-retry",
    DueKind.REDISSON: "fill-faint", DueKind.CHECKS: "fill-half",
}  # fmt: skip


@register.simple_tag
def window_names() -> dict[str, str]:
    """The windows and their words."""
    words = {"10m": _("10 minutes"), "1h": _("1 hour"), "1d": _("1 day")}
    return {name: words[name] for name in WINDOWS}


@register.filter
def band_style(kind: DueKind) -> str:
    """The class that a kind is filled with."""
    return STYLES[kind]


@register.simple_tag
def band_address(page: DuePage, band: Band) -> str:
    """Where a kind leads, with the window where its page takes one."""
    kind = band.kind
    if kind in (DueKind.TIMERS, DueKind.RETRIES):
        return f"{reverse('timer_list')}?{urlencode({'from': page.now_ms, 'to': page.end_ms})}"
    names = {DueKind.LANES: "schedule", DueKind.REDISSON: "delayed_queues", DueKind.CHECKS: "transaction_list"}
    return reverse(names[kind])


@register.simple_tag
def due_bars(page: DuePage) -> SafeString:
    """The slots of the window, stacked by kind."""
    layers = [
        Layer(STYLES[band.kind], band.counts, escape(_band_words(band)), escape(band_address(page, band)))
        for band in page.bands
        if band.counts is not None
    ]
    words = {
        "count": f"{page.total or 0:,}", "start": clock(page.start_ms), "end": clock(page.end_ms),
        "most": f"{page.peak.total if page.peak else 0:,}",
    }  # fmt: skip
    label = _("%(count)s fall due from %(start)s to %(end)s; the fullest bar has %(most)s") % words
    capacity = page.capacity_per_s
    limit = None if capacity is None else capacity * page.window.slot_ms / 1000
    limit_text = _("what can be released: %(rate)s/s") % {"rate": f"{capacity or 0:,.0f}"}
    drawing = stacked_svg(
        layers, start_ms=page.start_ms, slot_ms=page.window.slot_ms, label=escape(label),
        marks=list(ticks(page.start_ms, page.end_ms, get_current_timezone())), now_ms=page.now_ms,
        now=escape(_("now")), limit=limit, limit_text=escape(limit_text),
    )  # fmt: skip
    return mark_safe(drawing)  # noqa: S308 - every text is escaped # nosec B308 B703


def _band_words(band: Band) -> str:
    return f"{band.kind.label}: {band.total or 0:,}"


@register.filter
def clock(ms: int | None) -> str:
    """A time of day by the reader's clock, with seconds where it has some."""
    if ms is None:
        return "\u2013"
    at = local_time(ms)
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


@register.filter
def whole_percent(share: float | None) -> str:
    """A share of one in per cent; what is there is never said to be nothing."""
    if share is None:
        return "\u2013"
    return "< 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")


@register.filter
def measured_by(how: str) -> str:
    """How a capacity was found, in words."""
    return str(Measured(how).label)
