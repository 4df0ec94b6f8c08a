"""Charts over time, in words, drawings and addresses; their markup stands in templates/ui/chart.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.kept_figures import FigureSubject
from console.operations.marks import Mark
from console.over_time import DAY_MS, SPANS, Line, Measure, OverTime
from console.site.clock import local_time
from console.site.durations import sign_of
from console.templatetags.escapement import millis, rate
from console.ui.time_charts import Course, Flag, courses_svg, ticks

register = template.Library()

_KIND = FigureSubject.Kind
#: lanes and timers have the colours of their kinds, what is of neither has none
_STYLES: Mapping[str, str] = {_KIND.LANES: "line-lane", _KIND.TIMERS: "line-timer"}
#: rows of the table, each with the values of so much time together
MOST_ROWS = 24


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing: lines that are counted in the same unit."""

    measure: Measure
    title: str
    unit: str
    lines: tuple[Line, ...]
    names: tuple[str, ...]
    #: the class of each line, its name, and its highest and newest value in words
    key: tuple[tuple[str, str, str], ...]


@register.simple_tag
def panels(over: OverTime) -> list[Panel]:
    """The drawings of a page, one for each measure, in the order in which its lines are asked for."""
    found = []
    for measure in dict.fromkeys(line.wanted.measure for line in over.lines):
        lines = tuple(line for line in over.lines if line.wanted.measure is measure)
        title, unit = _words(measure)
        names = tuple(_name(line) for line in lines)
        words = [_peak_words(over, measure, line) for line in lines]
        found.append(
            Panel(measure, title, unit, lines, names, tuple(zip(map(_style, lines), names, words, strict=True)))
        )
    return found


def _words(measure: Measure) -> tuple[str, str]:
    if measure is Measure.PASSED:
        return _("Throughput"), _("per second")
    if measure is Measure.PENDING:
        return _("Pending"), _("messages")
    if measure is Measure.LAG:
        return _("Lag"), _("messages")
    return _("Lateness p99"), _("ms, each point of the 5 min before it")


def _style(line: Line) -> str:
    if line.wanted.name == "consumed" and line.wanted.measure is Measure.PASSED:
        return "line-quiet"
    return _STYLES.get(line.wanted.kind, "line-ink")


def _name(line: Line) -> str:
    """What a line is called beside others."""
    kind, name = line.wanted.kind, line.wanted.name
    if line.wanted.measure is Measure.LAG:
        return _("Lag") if kind == _KIND.GROUP else _("Consumer groups")
    if kind == _KIND.FLOW:
        return {"accepted": _("Accepted"), "consumed": _("Consumed")}.get(name, name)
    if kind == _KIND.LANES:
        return _("Released, delay levels") if line.wanted.measure is Measure.PASSED else _("Delay levels")
    if kind == _KIND.TIMERS:
        return _("Released, timers") if line.wanted.measure is Measure.PASSED else _("Timers")
    if kind == _KIND.TOPIC:
        return {
            Measure.PASSED: _("Stored"), Measure.PENDING: _("Timers"), Measure.LATENESS: _("Timers"),
        }[line.wanted.measure]  # fmt: skip
    return _("Consumed")


@register.simple_tag
def span_links(over: OverTime) -> list[tuple[str, str, bool]]:
    """The spans that a page offers: address, word, and whether it is the one that is shown."""
    words = {"hour": _("1 hour"), "day": _("1 day"), "week": _("1 week")}
    return [(over.address(over=name), words[name], name == over.stretch.over) for name in SPANS]


@register.simple_tag
def beside_links(over: OverTime) -> dict[str, str]:
    """The addresses of the stretch before and after this one; empty where that is still to come."""
    stretch = over.stretch
    span_ms = stretch.end_ms - stretch.start_ms
    later = {"from": stretch.end_ms, "to": stretch.end_ms + span_ms} if stretch.end_ms + 60_000 < over.now_ms else None
    return {
        "earlier": over.address(**{"from": stretch.start_ms - span_ms, "to": stretch.start_ms}),
        "later": over.address(**later) if later else "",
    }


@register.simple_tag
def stretch_words(over: OverTime) -> str:
    """From when to when, and how wide one value is."""
    stretch = over.stretch
    start, end = moment_words(stretch.start_ms, over), moment_words(stretch.end_ms, over)
    minutes = stretch.width_ms // 60_000
    if minutes >= 60:
        hours = minutes // 60
        width = ngettext("%(count)s hour each", "%(count)s hours each", hours) % {"count": hours}
    else:
        width = ngettext("%(count)s minute each", "%(count)s minutes each", minutes) % {"count": minutes}
    return _("%(start)s to %(end)s, %(width)s") % {"start": start, "end": end, "width": width}


def moment_words(ms: int, over: OverTime) -> str:
    """A moment by the reader's clock, with its day where the stretch is longer than one or not today."""
    at, today = local_time(ms), local_time(over.now_ms)
    is_today = at.date() == today.date() and over.stretch.end_ms - over.stretch.start_ms <= DAY_MS
    return f"{at:%H:%M}" if is_today else f"{at:%m-%d %H:%M}"


def figure_text(value: float | None, measure: Measure) -> str:
    """A value as words have it."""
    if value is None:
        return "\u2013"
    if measure is Measure.PASSED:
        return f"{rate(value)}/s"
    if measure is Measure.LATENESS:
        return f"{millis(value)} {sign_of('ms')}"
    return f"{value:,.0f}"


def _peak_words(over: OverTime, measure: Measure, line: Line) -> str:
    """The highest value, when it was, and the newest."""
    if line.peak is None or line.peak_at is None:
        return _("nothing known")
    at_ms = over.stretch.start_ms + line.peak_at * over.stretch.width_ms
    words = {
        "most": figure_text(line.peak, measure), "at": moment_words(at_ms, over),
        "last": figure_text(line.last, measure),
    }  # fmt: skip
    return _("highest %(most)s at %(at)s, last %(last)s") % words


@register.simple_tag
def panel_drawing(over: OverTime, panel: Panel) -> SafeString:
    """The lines of one measure, with the operations as marks below them."""
    stretch = over.stretch
    told = [
        " ".join([figure_text(value, panel.measure) for value in column])
        for column in zip(*(line.values for line in panel.lines), strict=True)
    ]
    words = "; ".join(f"{name}: {about}" for _style, name, about in panel.key)
    label = f"{panel.title}, {panel.unit}, {stretch_words(over)}: {words}"
    drawing = courses_svg(
        [Course(style, line.values) for (style, *_words), line in zip(panel.key, panel.lines, strict=True)],
        told, start_ms=stretch.start_ms, end_ms=stretch.end_ms, label=escape(label),
        marks=list(ticks(stretch.start_ms, stretch.end_ms, get_current_timezone()))[:8],
        flags=[_flag(mark, over) for mark in over.marks],
    )  # fmt: skip
    return mark_safe(drawing)  # noqa: S308 - every text is escaped # nosec B308 B703


def _flag(mark: Mark, over: OverTime) -> Flag:
    href = reverse("operation", args=[mark.operation]) if mark.count == 1 else reverse("operations")
    return Flag(mark.at_ms, escape(mark_words(mark, over)), escape(href))


def mark_words(mark: Mark, over: OverTime) -> str:
    """What was done, by whom and when; of several the last."""
    words = {"at": moment_words(mark.at_ms, over), "what": mark.label, "who": mark.actor, "count": mark.count}
    if mark.count == 1:
        return _("%(at)s: %(what)s, %(who)s") % words
    return _("%(at)s: %(count)s operations, the last: %(what)s, %(who)s") % words


@register.simple_tag
def operation_links(over: OverTime) -> list[tuple[str, str]]:
    """The operations that are marked, each with its address."""
    return [
        (reverse("operation", args=[mark.operation]) if mark.count == 1 else reverse("operations"),
         mark_words(mark, over))
        for mark in over.marks
    ]  # fmt: skip


@register.simple_tag
def table_rows(over: OverTime, found: Sequence[Panel]) -> list[tuple[str, list[str]]]:
    """The same in some rows: of what goes through the mean, of the others the highest."""
    length = over.stretch.length
    wide = max(1, -(-length // MOST_ROWS))
    rows = []
    for at in range(0, length, wide):
        cells = [
            figure_text(_together(line.values[at : at + wide], panel.measure), panel.measure)
            for panel in found
            for line in panel.lines
        ]
        rows.append((moment_words(over.stretch.start_ms + at * over.stretch.width_ms, over), cells))
    return rows


def _together(values: Sequence[Any], measure: Measure) -> float | None:
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    return sum(known) / len(known) if measure.is_rate else max(known)
