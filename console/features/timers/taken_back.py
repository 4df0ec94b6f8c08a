"""What of an operation on timers was, and still can be, taken back; each item knows its own moment before.

An operation that takes back has in the label of each item the number of the item that it takes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import BigIntegerField, Count, Max, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from console.operations.kind import Undo
from console.operations.models import Operation, OperationItem
from console.site.clock import now_ms

#: the kind of operation that takes back cancels and moves
TAKE_BACK = "timers.take_back"
#: in a label: the number of the item that is taken back
OF = "of_item"
#: outcomes of what was taken back
BACK = ("taken_back", "parked_again", "moved_back")


def former_ms(item: OperationItem, former: str) -> int:
    """Return the moment at which an item was due before it was touched, by the field `former` of its result or by its
    label; 0: not known."""
    return int(item.result.get(former) or item.label.get("due_ms") or 0)


def undo_of(row: Operation, outcomes: Sequence[str], former: str) -> Undo | None:
    """Return how far an operation can be taken back, whose items with these outcomes were due at `former` before; None:
    it is not over, or did nothing."""
    if not row.is_over or not any(row.results.get(each) for each in outcomes):
        return None
    items = row.items.filter(outcome__in=outcomes).annotate(
        former=Cast(Coalesce(KT(f"result__{former}"), KT("label__due_ms")), BigIntegerField())
    )
    is_back = Q(number__in=_taken_back(row).values("of"))
    found = items.aggregate(
        count=Count("pk"),
        back=Count("pk", filter=is_back),
        ahead=Count("pk", filter=Q(former__gt=now_ms()) & ~is_back),
        last=Max("former"),
    )
    shown = tuple(_undoing(row).exclude(state=Operation.State.DRAFT)[:5])
    return Undo(found["ahead"] > 0, found["count"], found["back"], found["ahead"], found["last"], shown)


def taken_back(row: Operation, items: Sequence[OperationItem]) -> dict[int, OperationItem]:
    """Return by the number of an item the item of the other operation that took it back."""
    found = _taken_back(row).filter(of__in=[item.number for item in items]).order_by("pk")
    return {item.of: item for item in found}


def _undoing(row: Operation) -> QuerySet[Operation]:
    return Operation.objects.filter(kind=TAKE_BACK, parameters__operation=str(row.pk))


def _taken_back(row: Operation) -> QuerySet[Any]:
    """Return items of those operations that did it; `of` is the number of the item that each took back."""
    found = OperationItem.objects.filter(operation__in=_undoing(row), outcome__in=BACK)
    return found.annotate(of=Cast(KT(f"label__{OF}"), BigIntegerField())).filter(of__isnull=False)
