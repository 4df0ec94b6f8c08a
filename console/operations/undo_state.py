"""What the page of an operation on timers says of taking it back: how many could be, until when, and who did it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Count, Max, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from console.features.timers.undo_operations import BACK, OF, TAKEN_BACK, TakeBack
from console.operations.models import Operation, OperationItem
from console.site.clock import now_ms


@dataclass(frozen=True, slots=True)
class Undo:
    """`count` timers were cancelled or moved; `back` of them were taken back, and of the others `ahead` had a moment
    that is not past yet. The last of all moments was `last_ms`."""

    count: int
    back: int
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
    is_back = Q(number__in=_taken_back(row).values("of"))
    found = items.aggregate(
        count=Count("pk"), back=Count("pk", filter=is_back),
        ahead=Count("pk", filter=Q(former__gt=now_ms()) & ~is_back), last=Max("former"),
    )  # fmt: skip
    shown = tuple(_undoing(row).exclude(state=Operation.State.DRAFT)[:5])
    return Undo(found["count"], found["back"], found["ahead"], found["last"], shown)


def back_of(row: Operation, items: Iterable[OperationItem]) -> dict[int, OperationItem]:
    """Number of an item -> what took it back."""
    if row.kind not in TAKEN_BACK:
        return {}
    found = _taken_back(row).filter(of__in=[item.number for item in items]).order_by("pk")
    return {item.of: item for item in found}


def _undoing(row: Operation) -> QuerySet[Operation]:
    return Operation.objects.filter(kind=TakeBack.name, parameters__operation=str(row.pk))


def _taken_back(row: Operation) -> QuerySet[Any]:
    """Items of those operations that did it; `of` is the number of the item that each took back."""
    found = OperationItem.objects.filter(operation__in=_undoing(row), outcome__in=BACK)
    return found.annotate(of=Cast(KT(f"label__{OF}"), BigIntegerField())).filter(of__isnull=False)
