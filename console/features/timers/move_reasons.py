"""Why timers were moved: the log keeps the reason of a cancel only, that of a move stands with the operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.db.models import BigIntegerField, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from console.features.timers.shapes import LifeEvent, LifeKind
from console.operations.models import Operation, OperationItem
from console.operations.reading import is_seen
from console.security.topic_scope import eyes

_MOVING = ("timers.reschedule", "timers.take_back")
#: a broker's clock and the console's differ; operations that are asked for one page
_APART, _MOST = timedelta(minutes=5), 32


def with_reasons(events: Sequence[LifeEvent]) -> tuple[LifeEvent, ...]:
    """The events, each move with the reason of the operation that wrote its record, if this console did and it is
    seen."""
    moves = {event.position: event for event in events if event.kind is LifeKind.RESCHEDULED and not event.reason}
    found = _reasons(moves)
    return tuple(
        replace(event, reason=found[event.position]) if event in moves.values() and event.position in found else event
        for event in events
    )


def _reasons(moves: dict[int | None, LifeEvent]) -> dict[int | None, str]:
    """Position of the record that a move wrote -> reason."""
    if not moves:
        return {}
    during = Q()
    for event in moves.values():
        at = datetime.fromtimestamp(event.ms / 1000, UTC)
        during |= Q(started_at__lte=at + _APART) & (Q(finished_at=None) | Q(finished_at__gte=at - _APART))
    seen = eyes()
    rows = {row.pk: row for row in Operation.objects.filter(during, kind__in=_MOVING)[:_MOST] if is_seen(row, seen)}
    items = OperationItem.objects.filter(operation__in=rows).annotate(
        wrote=Cast(KT("result__new_position"), BigIntegerField())
    )
    return {item.wrote: rows[item.operation_id].reason for item in items.filter(wrote__in=list(moves))}
