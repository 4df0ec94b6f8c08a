"""A message's hops as the stops of its life line."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.charts.life import FOLD_MS, Stop, life_svg
from console.queries.shapes.messages import Hop, HopKind, MessagePage
from console.templatetags.spans import span

_KINDS = {HopKind.RETRY: "moved", HopKind.DEAD_LETTER: "failed"}
#: records drawn; the table has all
_MOST = 12


def life_of(data: MessagePage) -> SafeString | None:
    """The drawing, None when there is nothing to draw."""
    if not data.hops:
        return None
    stops: list[Stop] = []
    if data.born_ms is not None:
        stops.append(Stop(data.born_ms, escape(_("born")), _time(data.born_ms), "done"))
    for hop in data.hops[-_MOST:]:
        stops.append(_stop(hop, stops[-1].ms if stops else None))
    if data.pending and data.due_ms is not None:
        gap = escape(span(data.due_ms - stops[-1].ms))
        stops.append(Stop(data.due_ms, escape(_("due")), _time(data.due_ms), "ahead", gap))
    label = escape(_("The life of the message: %(count)s records") % {"count": len(data.hops)})
    return mark_safe(life_svg(stops, label=label))  # noqa: S308 - every text is escaped


def _stop(hop: Hop, before_ms: int | None) -> Stop:
    apart = hop.store_ms - before_ms if before_ms is not None else 0
    gap = escape(span(apart)) if apart > FOLD_MS else ""
    return Stop(hop.store_ms, escape(hop.kind.label), _time(hop.store_ms), _KINDS.get(hop.kind, "done"), gap)


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone(get_current_timezone()):%H:%M:%S}.{ms % 1000:03d}"
