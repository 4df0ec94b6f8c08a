"""Operations as their pages show them, and what of one on timers can be taken back: how many, until when, by whom."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import BigIntegerField, Count, Max, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from console.features.alerts.operations import UNDONE_BY
from console.features.timers.undo_operations import BACK, OF, TAKEN_BACK, TakeBack
from console.operations import runner
from console.operations.models import AuditEntry, Operation, OperationItem
from console.operations.preview import Preview
from console.operations.registry import KINDS
from console.operations.scope import reach_of
from console.security.masking import Masks, masks
from console.security.topic_scope import Eyes, eyes
from console.site.clock import now_ms

#: items on one page, and operations in the list
ITEMS = 100
LISTED = 50
#: operations that are looked through for one page of somebody who does not see all, and for how long
LOOKED_THROUGH, PATIENCE_S = 5_000, 1.5
#: kinds whose items are messages or values: named by a key, or by what is in them
_OF_MESSAGES = ("timers.", "transactions.", "dead_letters.", "redisson.", "messages.")


@dataclass(frozen=True, slots=True)
class OperationPage:
    """One operation with a page of its items and its audit."""

    row: Operation
    now_ms: int
    preview: Preview
    items: tuple[OperationItem, ...]
    audit: tuple[AuditEntry, ...]
    #: number to go on behind; None: this was the last
    following: int | None
    #: only items with this outcome; "": all
    outcome: str
    #: its runner gives no sign: it can be taken up again
    is_lost: bool
    needs_moment: bool
    permission: str
    #: the family of its kind: whose words and list its page uses
    family: str
    #: what has to be typed to confirm; "": nothing but the number of many
    typed_word: str
    #: how timers can be taken back; None: not this way
    undo: Undo | None
    #: number of an item -> what took it back
    back: Mapping[int, OperationItem]

    @property
    def is_undoable(self) -> bool:
        """Of alerts: it did something that another operation takes back."""
        outcomes = {"made", "changed", "deleted", "silenced"}
        return self.row.kind in UNDONE_BY and self.row.is_over and bool(outcomes & set(self.row.results))

    @property
    def percent(self) -> int | None:
        """How far it is; None before it was counted."""
        return None if self.row.total is None else 100 * self.row.done // self.row.total if self.row.total else 100


@dataclass(frozen=True, slots=True)
class OperationList:
    """A page of operations."""

    rows: tuple[Operation, ...]
    #: offset of the next page; None: this was the last
    following: int | None
    #: offset of the page before; None: this is the first
    previous: int | None = None
    #: so many were looked through where the look ended before the page was full; 0: it did not
    looked: int = 0


def number_of(text: str) -> uuid.UUID | None:
    """The operation's id; None for what is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def operation_page(text: str, outcome: str = "", after: int = 0) -> OperationPage | None:
    """One operation; None if there is no such."""
    number = number_of(text)
    row = Operation.objects.filter(pk=number).first() if number else None
    if row is None or not is_seen(row, eyes()):
        return None
    items = row.items.filter(number__gt=after)
    found = list((items.filter(outcome=outcome) if outcome else items)[: ITEMS + 1])
    kind = KINDS[row.kind]
    hide = masks_of(row.kind)
    return OperationPage(
        row=row,
        now_ms=now_ms(),
        preview=_masked_preview(row, hide),
        items=tuple(_masked_item(item, hide) for item in found[:ITEMS]),
        audit=tuple(AuditEntry.objects.filter(operation=row.pk).order_by("at", "id")),
        following=found[ITEMS - 1].number if len(found) > ITEMS else None,
        outcome=outcome,
        is_lost=runner.is_lost(row),
        needs_moment=kind.needs_moment,
        permission=kind.permission,
        family=kind.page,
        typed_word=kind.typed_word(row.parameters),
        undo=undo_of(row),
        back=back_of(row, found),
    )


def operation_list(offset: int = 0) -> OperationList:
    """Operations that were confirmed, the newest first."""
    rows, seen = Operation.objects.exclude(state=Operation.State.DRAFT), eyes()
    if not seen.see_all:
        return _seen_list(rows, offset, seen)
    found = list(rows[offset : offset + LISTED + 1])
    following = offset + LISTED if len(found) > LISTED else None
    return OperationList(tuple(found[:LISTED]), following, max(0, offset - LISTED) if offset else None)


def _seen_list(rows: QuerySet[Operation], offset: int, seen: Eyes) -> OperationList:
    """A page of those that are seen; offsets are those of all, so that the next page goes on where this one ends."""
    previous, until_s = _before(rows, offset, seen), time.monotonic() + PATIENCE_S
    found: list[Operation] = []
    for looked, row in enumerate(rows[offset:].iterator(200)):
        if looked >= LOOKED_THROUGH or time.monotonic() > until_s:
            return OperationList(tuple(found), offset + looked, previous, looked)
        if is_seen(row, seen):
            if len(found) == LISTED:
                return OperationList(tuple(found), offset + looked, previous)
            found.append(row)
    return OperationList(tuple(found), None, previous)


def _before(rows: QuerySet[Operation], offset: int, seen: Eyes) -> int | None:
    """Where the page of those that are seen before `offset` begins; None: there are none."""
    first, until_s = max(0, offset - LOOKED_THROUGH), time.monotonic() + PATIENCE_S / 3
    hits: list[int] = []
    for place, row in enumerate(reversed(rows[first:offset]), 1):
        if is_seen(row, seen):
            hits.append(offset - place)
        if len(hits) == LISTED or time.monotonic() > until_s:
            return offset - place
    return (hits[-1] if hits else None) if first == 0 else first


def _masked_preview(row: Operation, hide: Masks) -> Preview:
    shown = Preview.of_row(row.preview)
    return replace(shown, examples=_masked_examples(shown.examples, hide))


def masked_examples(kind: str, examples: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those of a preview, as they may be seen: where they are messages, they are named by a key or a value."""
    return _masked_examples(examples, masks_of(kind))


def _masked_examples(examples: Iterable[Mapping[str, Any]], hide: Masks) -> list[dict[str, Any]]:
    return [
        dict(each) if (name := hide.name(each.get("topic"))) is None or "name" not in each else {**each, "name": name}
        for each in examples
    ]


def masks_of(kind: str, rules: Masks | None = None) -> Masks:
    """The rules for what operations of this kind are about; none where that has no names of messages."""
    return (masks() if rules is None else rules) if kind.startswith(_OF_MESSAGES) else Masks()


def _masked_item(item: OperationItem, hide: Masks) -> OperationItem:
    """So is an item; it is not saved."""
    if (name := hide.name(item.topic)) is not None:
        item.label = {**item.label, "name": name}
    return item


def is_seen(row: Operation, seen: Eyes) -> bool:
    """Whether all that it touches is seen."""
    return reach_of(row.kind, row.parameters, row.preview).is_seen(seen)


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
