"""Operations as their pages show them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from console.operations import runner
from console.operations.preview import Preview
from console.operations.registry import KINDS
from console.operations.rows import AuditEntry, Operation, OperationItem
from console.operations.undoing import Undo, undo_of
from console.queries.clock import now_ms

#: items on one page, and operations in the list
ITEMS = 100
LISTED = 50


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

    @property
    def percent(self) -> int | None:
        """How far it is; None before it was counted."""
        return None if self.row.total is None else 100 * self.row.done // self.row.total if self.row.total else 100


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
    if row is None:
        return None
    items = row.items.filter(number__gt=after)
    found = list((items.filter(outcome=outcome) if outcome else items)[: ITEMS + 1])
    kind = KINDS[row.kind]
    return OperationPage(
        row=row,
        now_ms=now_ms(),
        preview=Preview.of_row(row.preview),
        items=tuple(found[:ITEMS]),
        audit=tuple(AuditEntry.objects.filter(operation=row.pk).order_by("at", "id")),
        following=found[ITEMS - 1].number if len(found) > ITEMS else None,
        outcome=outcome,
        is_lost=runner.is_lost(row),
        needs_moment=kind.needs_moment,
        permission=kind.permission,
        family=kind.page,
        typed_word=kind.typed_word(row.parameters),
        undo=undo_of(row),
    )


def operation_list(offset: int = 0) -> tuple[tuple[Operation, ...], bool]:
    """Operations that were confirmed, the newest first, and whether there are more."""
    rows = Operation.objects.exclude(state=Operation.State.DRAFT)
    found = list(rows[offset : offset + LISTED + 1])
    return tuple(found[:LISTED]), len(found) > LISTED
