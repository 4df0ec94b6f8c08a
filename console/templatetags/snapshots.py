"""Figures at two moments as cells of a table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as text

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from console.comparison import ComparedLine, Measure, Pair, Part
from console.features.timers.shapes import DAY, MINUTE, SECOND
from console.past import Past, Sums
from console.templatetags.escapement import UNKNOWN, delay_name, figure, moment
from console.templatetags.timers import stamp
from console.ui.charts import Column, kept_peaks, kept_svg

register = template.Library()

#: words below the columns
_TICKS = 6

#: counters of a queue, of which only the step says something
_STEPS = {Measure.END_OFFSET, Measure.DELAY_OFFSET, Measure.OFFSET_SUM, Measure.END_SUM}


@register.simple_tag
def pair_width(measure: Measure) -> int:
    """Columns that a figure has: before, after and difference, but moments and counters."""
    return 1 if measure in _STEPS else 2 if measure is Measure.NEXT_DUE_MS else 3


@register.filter
def moved(lines: Sequence[ComparedLine]) -> list[ComparedLine]:
    """The lines of which any figure is not what it was."""
    return [line for line in lines if line.has_moved]


@register.simple_tag
def pair_rows(lines: Sequence[ComparedLine], most: int) -> SafeString:
    """The first lines of a table, each with its cells."""
    new, gone = text(_("did not exist before")), text(_("did not exist after"))
    new, gone = f' <span class="faint">{new}</span>', f' <span class="faint">{gone}</span>'
    beside = {(True, True): "", (False, True): new, (False, False): new, (True, False): gone}
    rows = (
        f'<tr><td class="stretch">{_named(line)}{beside[line.is_before, line.is_after]}</td>'
        f"{_topic(line)}{''.join([_cells(measure, pair) for measure, pair in line.pairs])}</tr>"
        for line in lines[:most]
    )
    return mark_safe("\n".join(rows))  # noqa: S308 - names are escaped, the rest is numbers and moments # nosec B308 B703


def _named(line: ComparedLine) -> str:
    if line.delay_ms:
        return f'<span class="faint mono">{text(line.name)}</span>&ensp;<b>{delay_name(line.delay_ms)}</b>'
    return text(str(line.pairs[0][0].label)) if line.part is Part.FIGURE else text(line.name)


def _topic(line: ComparedLine) -> str:
    if line.part is not Part.READING:
        return ""
    name = text(line.topic)
    return f'<td class="narrow" title="{name}">{name}</td>'


def _cells(measure: Measure, pair: Pair) -> str:
    """The cells of one figure."""
    if measure is Measure.NEXT_DUE_MS:
        return (
            f'<td class="number">{moment(pair.before, "time")}</td><td class="number">{moment(pair.after, "time")}</td>'
        )
    moved = f'<td class="number">{difference(pair.difference)}</td>'
    if measure in _STEPS:
        return moved
    return f'<td class="number">{figure(pair.before)}</td><td class="number">{figure(pair.after)}</td>{moved}'


@dataclass(frozen=True, slots=True)
class Scales:
    """Where the scale of each line of the kept snapshots ends; None: there is no such line."""

    waiting: int | None
    lag: int | None


@register.simple_tag
def kept_scales(past: Past) -> Scales:
    """The ends of both scales."""
    return Scales(*kept_peaks([Column(row.waiting, row.lag, "", "") for row in past.sums]))


@register.simple_tag
def kept_line(past: Past) -> SafeString:
    """All kept snapshots, each a link to the same page at its moment."""
    moments = [row.at_ms for row in past.sums]
    columns = [
        Column(
            row.waiting, row.lag, escape(_column_words(row)), escape(past.to(row.at_ms)), row.at_ms,
            escape(_("%(waiting)s pending, lag %(lag)s") % _figures(row)),
        )
        for row in past.sums
    ]  # fmt: skip
    at_ms = past.moment.at_ms if past.moment else None
    # not every moment has a column when there are many: the one before stands for it
    chosen = None if at_ms is None else max(0, bisect_right(moments, at_ms) - 1)
    every = max(1, len(moments) // _TICKS)
    is_long = bool(moments) and moments[-1] - moments[0] > DAY
    ticks = [(index, stamp(moments[index], MINUTE if is_long else SECOND)) for index in range(0, len(moments), every)]
    label = _("Kept snapshots, oldest first: pending messages, and the lag of all groups")
    return mark_safe(kept_svg(columns, chosen=chosen, label=escape(label), ticks=ticks))  # noqa: S308 - escaped # nosec B308 B703


def _column_words(row: Sums) -> str:
    return _("%(at)s: %(waiting)s pending, lag %(lag)s") % {"at": stamp(row.at_ms, MINUTE), **_figures(row)}


def _figures(row: Sums) -> dict[str, str]:
    return {
        "waiting": "\u2013" if row.waiting is None else f"{row.waiting:,}",
        "lag": "\u2013" if row.lag is None else f"{row.lag:,}",
    }


_STILL = mark_safe('<span class="faint">0</span>')  # nosec B308 - our own text


def difference(value: int | None) -> SafeString:
    """With its sign; nothing moved is quiet."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return _STILL
    return mark_safe("<b>{}</b>".format(f"{value:+,}".replace("-", "\u2212")))  # noqa: S308 - a number # nosec B308 B703
