"""A message's steps as the stops of its life line: dots are records, squares are what clients told."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.features.messages.shapes import LifeStep, MessagePage, StepKind
from console.templatetags.spans import span
from console.ui.charts.life import FOLD_MS, Stop, life_svg

_KINDS = {StepKind.RETRY: "moved", StepKind.DEAD_LETTER: "failed"}
#: steps drawn; the table has all
_MOST = 12
#: a name under the line: what is longer is in the table
_NAME_LENGTH = 14


def life_of(data: MessagePage) -> SafeString | None:
    """The drawing, None when there is nothing to draw."""
    if not data.hops:
        return None
    stops: list[Stop] = []
    for step in [step for step in data.steps if step.ms is not None][-_MOST:]:
        stops.append(_stop(step, stops[-1].ms if stops else None))
    if data.pending and data.due_ms is not None:
        gap = escape(span(data.due_ms - stops[-1].ms))
        stops.append(Stop(data.due_ms, escape(_("due")), _time(data.due_ms), "ahead", gap))
    label = escape(_("The life of the message: %(count)s steps") % {"count": len(data.steps)})
    return mark_safe(life_svg(stops, label=label))  # noqa: S308 - every text is escaped


def _stop(step: LifeStep, before_ms: int | None) -> Stop:
    ms = step.ms or 0
    apart = ms - before_ms if before_ms is not None else 0
    gap = escape(span(apart)) if apart > FOLD_MS else ""
    kind = "failed" if step.succeeded is False else _KINDS.get(step.kind, "done")
    return Stop(ms, escape(_title(step)), _time(ms), kind, gap, is_told=step.is_told)


def _title(step: LifeStep) -> str:
    if step.kind is StepKind.CONSUMED:
        name = step.group or _("somebody")
        return name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"
    if step.succeeded is False:
        return _("not sent") if step.kind is StepKind.SENT else _("failed")
    return {
        StepKind.RETRY: _("retried"), StepKind.PARKED: _("parked"), StepKind.ENDED: _("decided"),
    }.get(step.kind, str(step.kind.label))  # fmt: skip


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone(get_current_timezone()):%H:%M:%S}.{ms % 1000:03d}"
