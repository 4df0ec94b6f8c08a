"""The operations that single calls did to one thing: without draft and runner, over from the beginning.

Written when it was done, for many calls at once, so that such a call stays quick.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from django.db import connection
from django.db.models import AutoField, Model
from django.utils import timezone

from console.operations.actor import Actor
from console.operations.kind import ItemResult, Target
from console.operations.models import AuditEntry, Operation, OperationItem
from console.operations.registry import kind_of

#: what a preview of one thing would have counted: whether it needs a second person follows from it
ONE: Mapping[str, Any] = {"count": 1}


@dataclass(frozen=True, slots=True)
class Single:
    """A thing that was done. `parameters` in the checked form of the kind; `at_ms` before it was asked for;
    `broker`: of several the one that it was done at."""

    number: uuid.UUID
    kind: str
    parameters: Mapping[str, Any]
    item: Target
    result: ItemResult
    actor: Actor
    reason: str
    at_ms: int
    broker: str = ""


def record(singles: Sequence[Single]) -> None:
    """Write them, with their audit, in one statement; raises DatabaseError."""
    now = timezone.now()
    rows = (
        [_operation(each, now) for each in singles],
        [_item(each) for each in singles],
        [entry for each in singles for entry in _entries(each, now)],
    )
    with connection.cursor() as cursor:
        cursor.execute(_statement(), [msgspec.json.encode(each).decode() for each in rows])


@cache
def _statement() -> str:
    """Return one insert for each table; reading rows from JSON costs a tenth of what Django's objects cost."""
    inserts = []
    for model in (Operation, OperationItem, AuditEntry):
        table = model._meta.db_table
        columns = ", ".join(f'"{column}"' for column in _defaults(model))
        given = f'json_populate_recordset(NULL::"{table}", %s::json)'
        insert = f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM {given}'  # noqa: S608 - names of our models # nosec B608
        inserts.append(insert)
    operations, items, audit = inserts
    return f"WITH operations AS ({operations}), items AS ({items}) {audit}"


@cache
def _defaults(model: type[Model]) -> Mapping[str, Any]:
    """Return what a new row has in each column, without the number that the database gives it."""
    row = model()
    fields = [field for field in model._meta.concrete_fields if not isinstance(field, AutoField)]
    return {str(field.column): getattr(row, field.attname) for field in fields}


def _operation(single: Single, now: datetime) -> dict[str, Any]:
    shown = kind_of(single.kind).preview_of_one(single.at_ms, single.item.label)
    return {
        **_defaults(Operation),
        "id": single.number,
        "kind": single.kind,
        "broker": single.broker,
        "state": str(Operation.State.DONE),
        "parameters": single.parameters,
        "preview": shown,
        "previewed_at": now,
        "reason": single.reason,
        "created_by_id": single.actor.user_id,
        "actor": single.actor.name,
        "created_at": now,
        "started_at": now,
        "finished_at": now,
        "total": 1,
        "done": 1,
        "results": {single.result.outcome: 1},
    }


def _item(single: Single) -> dict[str, Any]:
    return {
        **_defaults(OperationItem),
        "operation_id": single.number,
        "number": 1,
        "target": single.item.target,
        "label": single.item.label,
        "outcome": single.result.outcome,
        "result": single.result.result,
    }


def _entries(single: Single, now: datetime) -> list[dict[str, Any]]:
    """Return the audit's entries as of any other operation: who asked for what, and what came of it."""
    asked = {"parameters": single.parameters, "count": 1, **single.actor.told}
    end = {
        "state": str(Operation.State.DONE),
        "outcomes": {single.result.outcome: 1},
        "done": 1,
        "total": 1,
        "error": "",
    }
    return [
        {
            **_defaults(AuditEntry),
            "at": now,
            "user_id": single.actor.user_id,
            "actor": single.actor.name,
            "what": str(what),
            "kind": single.kind,
            "operation": single.number,
            "reason": single.reason,
            "result": result,
        }
        for what, result in ((AuditEntry.What.CONFIRMED, asked), (AuditEntry.What.FINISHED, end))
    ]
