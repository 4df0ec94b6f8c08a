"""What the page of an operation on timers says of taking it back: how many could be, until when, and who did it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import BigIntegerField, Count, Max, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from console.operations.rows import Operation
from console.operations.taking_back import TAKEN_BACK, TakeBack
from console.queries.clock import now_ms


@dataclass(frozen=True, slots=True)
class Undo:
    """`count` timers were cancelled or moved; `ahead` of them had a moment that is not past yet, the last `last_ms`."""

    count: int
    ahead: int
    last_ms: int | None
    #: operations that took them back, or some of them, the newest first
    done: tuple[Operation, ...]


def undo_of(row: Operation) -> Undo | None:
    """None for what cannot be taken back this way, or did nothing."""
    outcomes = TAKEN_BACK.get(row.kind)
    if outcomes is None or not row.is_over or not any(row.results.get(each) for each in outcomes):
        return None
    former = "result__previous_due_ms" if row.kind == "timers.reschedule" else "result__due_ms"
    items = row.items.filter(outcome__in=outcomes).annotate(
        former=Cast(Coalesce(KT(former), KT("label__due_ms")), BigIntegerField())
    )
    found = items.aggregate(count=Count("pk"), ahead=Count("pk", filter=Q(former__gt=now_ms())), last=Max("former"))
    done = Operation.objects.filter(kind=TakeBack.name, parameters__operation=str(row.pk))
    shown = tuple(done.exclude(state=Operation.State.DRAFT)[:5])
    return Undo(found["count"], found["ahead"], found["last"], shown)
