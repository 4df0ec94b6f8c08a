"""Figures at two moments as cells of a table."""

from __future__ import annotations

from bisect import bisect_right

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from console.charts.kept import Column, kept_svg
from console.pages.past import Past
from console.queries.shapes.past import Measure, Pair, Sums
from console.queries.timer_zoom import DAY, MINUTE, SECOND
from console.templatetags.escapement import UNKNOWN, figure, moment
from console.templatetags.timers import stamp

register = template.Library()

#: words below the columns
_TICKS = 6

#: counters of a queue, of which only the step says something
_STEPS = {Measure.END_OFFSET, Measure.DELAY_OFFSET, Measure.OFFSET_SUM, Measure.END_SUM}


@register.simple_tag
def pair_width(measure: Measure) -> int:
    """Columns that a figure has: before, after and difference, but moments and counters."""
    return 1 if measure in _STEPS else 2 if measure is Measure.NEXT_DUE_MS else 3


@register.simple_tag
def pair_cells(measure: Measure, pair: Pair) -> SafeString:
    """Those cells."""
    cells: list[SafeString | str]
    if measure is Measure.NEXT_DUE_MS:
        cells = [moment(pair.before, "time"), moment(pair.after, "time")]
    elif measure in _STEPS:
        cells = [difference(pair.difference)]
    else:
        cells = [figure(pair.before), figure(pair.after), difference(pair.difference)]
    return format_html_join("", '<td class="n">{}</td>', ((cell,) for cell in cells))


@register.simple_tag
def kept_line(past: Past) -> SafeString:
    """All kept snapshots, each a link to the same page at its moment."""
    moments = [row.at_ms for row in past.sums]
    columns = [
        Column(row.waiting, row.lag, escape(_column_words(row)), escape(past.to(row.at_ms))) for row in past.sums
    ]  # fmt: skip
    at_ms = past.moment.at_ms if past.moment else None
    # not every moment has a column when there are many: the one before stands for it
    chosen = None if at_ms is None else max(0, bisect_right(moments, at_ms) - 1)
    every = max(1, len(moments) // _TICKS)
    is_long = bool(moments) and moments[-1] - moments[0] > DAY
    ticks = [(index, stamp(moments[index], MINUTE if is_long else SECOND)) for index in range(0, len(moments), every)]
    label = _("Kept snapshots, oldest first: what waited, and the lag of all groups")
    return mark_safe(kept_svg(columns, chosen=chosen, label=escape(label), ticks=ticks))  # noqa: S308 - escaped


def _column_words(row: Sums) -> str:
    words = {
        "at": stamp(row.at_ms, MINUTE),
        "waiting": "\u2013" if row.waiting is None else f"{row.waiting:,}",
        "lag": "\u2013" if row.lag is None else f"{row.lag:,}",
    }
    return _("%(at)s: %(waiting)s waiting, lag %(lag)s") % words


@register.filter
def difference(value: int | None) -> SafeString | str:
    """With its sign; nothing moved is quiet."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return format_html('<span class="q">{}</span>', "0")
    return format_html("<b>{}</b>", f"{value:+,}".replace("-", "\u2212"))
