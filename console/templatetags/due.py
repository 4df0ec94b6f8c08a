"""What falls due, in drawings and addresses."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.features.due.shapes import WINDOWS, Band, DueKind, DuePage, Measured, Part
from console.features.due.wheel import DueWheel
from console.security.topic_scope import current_topics
from console.site.clock import local_time
from console.templatetags.escapement import is_late, until, wheel_marks
from console.ui.charts import Times
from console.ui.time_charts import Layer, stacked_svg, ticks
from console.ui.timer_charts import Hub, Share, shared_wheel_svg

register = template.Library()

#: the colour of each kind, in the same tokens as everywhere; retries are timers of groups, checks are those of halves
STYLES = {
    DueKind.LANES: "fill-lane", DueKind.TIMERS: "fill-timer", DueKind.RETRIES: "fill-retry",
    DueKind.REDISSON: "fill-faint", DueKind.CHECKS: "fill-half",
}  # fmt: skip

_PAGES = {
    DueKind.LANES: "schedule", DueKind.TIMERS: "timers", DueKind.REDISSON: "delayed_queues",
    DueKind.CHECKS: "transaction_list",
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
    return reverse(_PAGES[kind])


@register.simple_tag
def due_bars(page: DuePage, part: Part) -> SafeString:
    """The slots of the window, stacked by kind; what brokers release stands beside what they have to."""
    layers = [
        Layer(STYLES[band.kind], band.counts, escape(_band_words(band)), escape(band_address(page, band)))
        for band in part.bands
        if band.counts is not None
    ]
    words = {
        "count": f"{part.total or 0:,}", "start": clock(page.start_ms), "end": clock(page.end_ms),
        "most": f"{part.peak.total if part.peak else 0:,}",
    }  # fmt: skip
    label = _("%(count)s fall due from %(start)s to %(end)s; the fullest bar has %(most)s") % words
    capacity = page.capacity_per_s if part.bands[0].is_of_all else None
    limit = None if capacity is None else capacity * page.window.slot_ms / 1000
    limit_text = _("what can be released: %(rate)s/s") % {"rate": f"{capacity or 0:,.0f}"}
    drawing = stacked_svg(
        layers, start_ms=page.start_ms, slot_ms=page.window.slot_ms, label=escape(label),
        marks=list(ticks(page.start_ms, page.end_ms, get_current_timezone())), now_ms=page.now_ms,
        now=escape(_("now")), limit=limit, limit_text=escape(limit_text),
    )  # fmt: skip
    return mark_safe(drawing)  # noqa: S308 - every text is escaped # nosec B308 B703


@register.simple_tag
def due_wheel(wheel: DueWheel, now_ms: int) -> SafeString:
    """The next minute, hour and day as rings, each slot shared by what stands on lanes and what timers there are."""
    shares = []
    for kind in wheel.drawn:
        counts = [dict(ring.kinds)[kind] for ring in wheel.rings]
        words = f"{kind.label}: {sum(counts[2]):,}"
        shares.append(Share(STYLES[kind], counts, escape(words), reverse(_PAGES[kind])))
    totals = [sum(ring.totals) for ring in wheel.rings]
    label = _(
        "Delay levels and timers: outer ring the next 60 seconds (%(seconds)s due), middle ring the next 60 minutes "
        "(%(minutes)s due), inner ring the next 24 hours (%(hours)s due); now at the top, clockwise"
    ) % dict(zip(("seconds", "minutes", "hours"), (f"{total:,}" for total in totals), strict=True))  # fmt: skip
    drawing = shared_wheel_svg(
        shares, label=escape(label), now=escape(_("now")), marks=wheel_marks(),
        hub=_hub(wheel, now_ms),
        times=[Times(ring.start_ms, ring.end_ms, [f"{total:,}" for total in ring.totals]) for ring in wheel.rings],
    )  # fmt: skip
    return mark_safe(drawing)  # noqa: S308 - every text is escaped # nosec B308 B703


def _hub(wheel: DueWheel, now_ms: int) -> Hub:
    if wheel.next_due_ms is None or wheel.next_kind is None:
        return Hub("", escape(_("nothing")), escape(_("is pending")))
    if not current_topics().is_all:
        # whose message is the next one of the whole broker is not known
        return Hub("", "", escape(_("of the whole broker")))
    left = until(wheel.next_due_ms, now_ms)
    late = is_late(wheel.next_due_ms, now_ms)
    kind = escape(wheel.next_kind.label)
    return Hub(escape(_("next due")), left, kind, due_ms=wheel.next_due_ms, is_late=late)


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
