"""Running a confirmed operation, batch by batch: each is recorded before the next, so a lost one can go on.

Operations that were over long ago are deleted, and previews that nobody confirmed; the audit stays.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from broker.client import ClientError
from console.operations.errors import OperationError
from console.operations.kind import BATCH, ItemResult, Kind
from console.operations.models import AuditEntry, Operation, OperationItem
from console.operations.registry import kind_of, preview_of
from console.site.chosen import choice_of, choosing

logger = logging.getLogger(__name__)

#: a runner that gave no sign for so long is gone: a batch takes 15 s at most
LOST_AFTER = timedelta(seconds=60)


@shared_task(name="console.run_operation")
def run_operation(number: str) -> None:
    """Run a confirmed operation."""
    run(uuid.UUID(number))


def run(number: uuid.UUID) -> None:
    """Run it, if nobody else does; errors are in its row, not raised."""
    if not _claim(number):
        return
    row = Operation.objects.get(pk=number)
    kind = kind_of(row.kind)
    try:
        with choosing(choice_of(row.broker)):
            if row.total is None:
                _count_again(row, kind)
            _work(row, kind)
    except (ClientError, OperationError) as error:
        fail(number, str(error))
    except Exception as error:
        logger.exception("operation %s failed", number)
        fail(number, f"{type(error).__name__}; the log of the worker has the rest.")


def fail(number: uuid.UUID, error: str) -> None:
    """End it as failed; somebody can go on with what was not touched."""
    _finish(Operation.objects.get(pk=number), Operation.State.FAILED, error)


def is_lost(row: Operation) -> bool:
    """Return whether it should be running, but its runner gives no sign."""
    alive = row.beat_at or row.started_at
    return row.state == Operation.State.RUNNING and (alive is None or timezone.now() - alive > LOST_AFTER)


def _claim(number: uuid.UUID) -> bool:
    """Claim it for this runner; there is one at a time, and the row says which."""
    now = timezone.now()
    free = Q(state=Operation.State.QUEUED) | Q(state=Operation.State.RUNNING, beat_at__lt=now - LOST_AFTER)
    claimed = Operation.objects.filter(free, pk=number).update(state=Operation.State.RUNNING, beat_at=now)
    Operation.objects.filter(pk=number, started_at=None).update(started_at=now)
    return claimed == 1


def _count_again(row: Operation, kind: Kind[Any]) -> None:
    """Decide now what is touched, and keep it: what was previewed may have fired meanwhile."""
    found = kind.targets(row.parameters, preview_of(row))
    items = [
        OperationItem(operation=row, number=number, target=dict(each.target), label=dict(each.label))
        for number, each in enumerate(found, 1)
    ]
    with transaction.atomic():
        OperationItem.objects.bulk_create(items, batch_size=1_000)
        row.total = len(items)
        row.save(update_fields=["total"])


def _work(row: Operation, kind: Kind[Any]) -> None:
    while True:
        batch = list(row.items.filter(outcome="")[:BATCH])
        if not batch:
            _finish(row, Operation.State.DONE)
            return
        if Operation.objects.values_list("is_abort_wanted", flat=True).get(pk=row.pk):
            _finish(row, Operation.State.ABORTED)
            return
        results = kind.act_as(row.actor, row.parameters, row.reason, [item.target for item in batch])
        _record(row, batch, results)


def _record(row: Operation, batch: Sequence[OperationItem], results: Sequence[ItemResult]) -> None:
    for item, result in zip(batch, results, strict=True):
        item.outcome, item.result = result.outcome, dict(result.result)
    counts = Counter(row.results) + Counter(result.outcome for result in results)
    with transaction.atomic():
        OperationItem.objects.bulk_update(batch, ["outcome", "result"], batch_size=BATCH)
        row.done += len(batch)
        row.results = dict(counts)
        row.beat_at = timezone.now()
        row.save(update_fields=["done", "results", "beat_at"])


def _finish(row: Operation, state: Operation.State, error: str = "") -> None:
    row.state, row.error, row.finished_at = state, error, timezone.now()
    with transaction.atomic():
        row.save(update_fields=["state", "error", "finished_at"])
        AuditEntry.objects.create(
            user_id=row.created_by_id,
            actor=row.actor,
            what=AuditEntry.What.FINISHED,
            kind=row.kind,
            operation=row.pk,
            reason=row.reason,
            result={"state": str(state), "outcomes": row.results, "done": row.done, "total": row.total, "error": error},
        )


#: a preview is good for minutes; its page may be looked at for a day
DRAFT_KEPT = timedelta(days=1)
#: rows of a table in one transaction, and transactions of one round: a large operation may take several of either
ROWS, ROUNDS = 5_000, 100
OVER = tuple(str(state) for state in Operation.State if Operation(state=state).is_over)

_TABLE, _ITEMS = Operation._meta.db_table, OperationItem._meta.db_table
#: what was over by then was made before, which is what the index knows
_OVER = f"""SELECT id FROM "{_TABLE}" WHERE created_at < %(until)s AND state = ANY(%(over)s)
    AND coalesce(finished_at, created_at) < %(until)s ORDER BY created_at LIMIT %(batch)s"""  # noqa: S608 - our names # nosec B608
_DRAFTS = f"""SELECT id FROM "{_TABLE}" WHERE created_at < %(drafted)s AND state = 'draft'
    LIMIT %(batch)s"""  # noqa: S608 - our names # nosec B608


def forget() -> int:
    """Delete old rows, for a while, and return how many. Nothing is old with OPERATIONS_KEEP_DAYS of 0."""
    gone = 0
    for _ in range(ROUNDS if settings.OPERATIONS_KEEP_DAYS else 0):
        found = _batch(_OVER) + _batch(_DRAFTS)
        gone += found
        if not found:
            break
    return gone


def _batch(old: str) -> int:
    now = timezone.now()
    until = now - timedelta(days=settings.OPERATIONS_KEEP_DAYS)
    asked: dict[str, Any] = {"over": list(OVER), "until": until, "drafted": now - DRAFT_KEPT, "batch": ROWS}
    items = f"""DELETE FROM "{_ITEMS}" WHERE id IN (
        SELECT id FROM "{_ITEMS}" WHERE operation_id IN ({old}) LIMIT %(batch)s)"""  # noqa: S608 - our names # nosec B608
    operations = f"""DELETE FROM "{_TABLE}" WHERE id IN ({old}) AND NOT EXISTS (
        SELECT 1 FROM "{_ITEMS}" WHERE operation_id = "{_TABLE}".id)"""  # noqa: S608 - our names # nosec B608
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(items, asked)
        gone = cursor.rowcount
        cursor.execute(operations, asked)
        return gone + cursor.rowcount
