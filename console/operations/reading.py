"""Operations as their pages show them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from console.access.masking import Masks, masks
from console.access.topics import Eyes, eyes
from console.operations import runner
from console.operations.alerts import UNDONE_BY
from console.operations.preview import Preview
from console.operations.reach import reach_of
from console.operations.registry import KINDS
from console.operations.rows import AuditEntry, Operation, OperationItem
from console.operations.undoing import Undo, back_of, undo_of
from console.queries.clock import now_ms

#: items on one page, and operations in the list
ITEMS = 100
LISTED = 50
#: of the newest operations, so many are looked through for those that somebody sees who does not see all
LOOKED_THROUGH = 2_000
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
    rows = Operation.objects.exclude(state=Operation.State.DRAFT)
    if eyes().see_all:
        found = list(rows[offset : offset + LISTED + 1])
    else:
        found = list(seen_operations())[offset : offset + LISTED + 1]
    return OperationList(tuple(found[:LISTED]), offset + LISTED if len(found) > LISTED else None)


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


def seen_operations() -> Iterator[Operation]:
    """Of the newest that were confirmed, those that may be seen here."""
    seen = eyes()
    rows = Operation.objects.exclude(state=Operation.State.DRAFT)[:LOOKED_THROUGH]
    return (row for row in rows if is_seen(row, seen))
