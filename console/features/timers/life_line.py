"""A timer's events as the stops of its life line."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.features.timers.shapes import LifeEvent, LifeKind, TimerLife
from console.templatetags.spans import span
from console.ui.charts.life import FOLD_MS, Stop, life_svg

_KINDS = {LifeKind.CANCELLED: "failed", LifeKind.RESCHEDULED: "moved", LifeKind.ROLLED: "moved"}
#: events drawn; the table has all
_MOST = 10


def line_of(data: TimerLife) -> SafeString | None:
    """The drawing, None when there is nothing to draw."""
    stops: list[Stop] = []
    if data.timer is not None and data.timer.born_ms is not None:
        stops.append(Stop(data.timer.born_ms, escape(_("born")), _time(data.timer.born_ms), "done"))
    for event in data.events[-_MOST:]:
        stops.append(_stop(event, stops[-1].ms if stops else None))
    if data.state == "pending" and data.timer is not None and stops:
        gap = escape(span(data.timer.due_ms - max(data.now_ms, stops[-1].ms)))
        stops.append(Stop(data.timer.due_ms, escape(_("due")), _time(data.timer.due_ms), "ahead", gap))
    if not stops:
        return None
    label = escape(_("The life of the timer: %(count)s events") % {"count": len(data.events)})
    return mark_safe(life_svg(stops, label=label))  # noqa: S308 - every text is escaped


def _stop(event: LifeEvent, before_ms: int | None) -> Stop:
    apart = event.ms - before_ms if before_ms is not None else 0
    gap = escape(span(apart)) if apart > FOLD_MS else ""
    return Stop(event.ms, escape(event.kind.label), _time(event.ms), _KINDS.get(event.kind, "done"), gap)


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone(get_current_timezone()):%m-%d %H:%M:%S}.{ms % 1000:03d}"
