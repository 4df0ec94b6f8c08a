"""Deleting operations that were over long ago, and previews that nobody confirmed; the audit stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from console.operations.models import Operation, OperationItem

#: a preview is good for minutes; its page may be looked at for a day
DRAFT_KEPT = timedelta(days=1)
#: rows of a table in one transaction, and transactions of one round: a large operation may take several of either
BATCH, BATCHES = 5_000, 100
OVER = tuple(str(state) for state in Operation.State if Operation(state=state).is_over)

_TABLE, _ITEMS = Operation._meta.db_table, OperationItem._meta.db_table
#: what was over by then was made before, which is what the index knows
_OVER = f"""SELECT id FROM "{_TABLE}" WHERE created_at < %(until)s AND state = ANY(%(over)s)
    AND coalesce(finished_at, created_at) < %(until)s ORDER BY created_at LIMIT %(batch)s"""  # noqa: S608 - our names
_DRAFTS = f"""SELECT id FROM "{_TABLE}" WHERE created_at < %(drafted)s AND state = 'draft'
    LIMIT %(batch)s"""  # noqa: S608 - our names


def forget() -> int:
    """Delete old rows, for a while, and return how many. Nothing is old with OPERATIONS_KEEP_DAYS of 0."""
    gone = 0
    for _ in range(BATCHES if settings.OPERATIONS_KEEP_DAYS else 0):
        found = _batch(_OVER) + _batch(_DRAFTS)
        gone += found
        if not found:
            break
    return gone


def _batch(old: str) -> int:
    now = timezone.now()
    until = now - timedelta(days=settings.OPERATIONS_KEEP_DAYS)
    asked: dict[str, Any] = {"over": list(OVER), "until": until, "drafted": now - DRAFT_KEPT, "batch": BATCH}
    items = f"""DELETE FROM "{_ITEMS}" WHERE id IN (
        SELECT id FROM "{_ITEMS}" WHERE operation_id IN ({old}) LIMIT %(batch)s)"""  # noqa: S608 - our names
    operations = f"""DELETE FROM "{_TABLE}" WHERE id IN ({old}) AND NOT EXISTS (
        SELECT 1 FROM "{_ITEMS}" WHERE operation_id = "{_TABLE}".id)"""  # noqa: S608 - our names
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(items, asked)
        gone = cursor.rowcount
        cursor.execute(operations, asked)
        return gone + cursor.rowcount
