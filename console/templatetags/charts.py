"""Charts in templates: the words around the pure drawings of console.ui.charts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.features.schedule.shapes import AXIS_START_MS, BUCKETS, HORIZON_MS, Lane, LaneState, NextMinute
from console.site.mirrored import SLOT_MS, History
from console.templatetags.escapement import delay_name
from console.ui.charts.lanes import axis_svg, minute_svg, progress_svg, spark_svg, spread_svg
from console.ui.charts.scale import Times

register = template.Library()


@register.simple_tag
def lane_axis(zero: str = "") -> SafeString:
    """The words above the lanes; `zero` stands where they begin."""
    return mark_safe(axis_svg(escape(zero or _("now"))))  # noqa: S308 - escaped above


@register.simple_tag
def lane_spread(lane: Lane) -> SafeString:
    """A lane's stretch of due times."""
    words = {"level": lane.level, "count": f"{lane.backlog or 0:,}", "delay": delay_name(lane.delay_ms)}
    label = _("Level %(level)s: %(count)s messages due over the next %(delay)s") % words
    counts = lane.spread.counts if lane.spread is not None else (0,) * BUCKETS
    is_known = lane.spread is not None and lane.state != LaneState.NEVER_USED
    drawing = spread_svg(
        counts,
        delay_ms=lane.delay_ms,
        start_ms=AXIS_START_MS,
        end_ms=HORIZON_MS,
        label=escape(label),
        is_known=is_known,
    )
    return mark_safe(drawing)  # noqa: S308 - the label is escaped, the rest is numbers


@register.simple_tag
def lane_progress(lane: Lane) -> SafeString | str:
    """Released and saved up to here."""
    if lane.released_share is None:
        return ""
    return mark_safe(progress_svg(lane.released_share, lane.persisted_share))  # noqa: S308 - numbers only


@register.simple_tag
def spark(history: History, what: str, width: int = 64) -> SafeString:
    """Five minutes as a line."""
    return sparks(what, width)(history)


def sparks(what: str, width: int = 64) -> Callable[[History], SafeString]:
    """What draws such lines, of a list's rows: their words are looked up once."""
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
        return mark_safe(drawing)  # noqa: S308 - the label is escaped, the rest is numbers

    return draw


@register.simple_tag
def minute(bars: NextMinute, zero: str = "") -> SafeString:
    """The next sixty seconds."""
    peak_text = ""
    label = _("Messages due in each of the next 60 seconds, all levels; none")
    if bars.peak_second is not None:
        at = datetime.fromtimestamp(bars.start_ms // 1000 + bars.peak_second, UTC).astimezone(get_current_timezone())
        words = {
            "count": f"{bars.peak:,}",
            "level": bars.peak_level,
            "at": f"{at:%H:%M:%S}",
            "total": f"{bars.total:,}",
        }
        peak_text = _("%(count)s at %(at)s, most on level %(level)s") % words
        label = _("%(total)s messages due in the next 60 seconds, all levels; highest %(count)s at %(at)s") % words
    texts = {"label": escape(label), "now": escape(zero or _("now")), "peak_text": escape(peak_text)}
    drawing = minute_svg(bars.counts, start_s=bars.start_ms // 1000, **texts)
    return mark_safe(drawing)  # noqa: S308 - texts are escaped, the rest is numbers
