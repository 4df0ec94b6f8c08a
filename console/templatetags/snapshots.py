"""Figures at two moments as cells of a table."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.queries.shapes.past import Measure, Pair
from console.templatetags.escapement import UNKNOWN, figure, moment

register = template.Library()

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


@register.filter
def difference(value: int | None) -> SafeString | str:
    """With its sign; nothing moved is quiet."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return format_html('<span class="q">{}</span>', "0")
    return format_html("<b>{}</b>", f"{value:+,}".replace("-", "\u2212"))
