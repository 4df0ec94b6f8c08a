"""One attempt at a task, in a thread of a worker: claimed, run, and what came of it written down.

| the row, when a message comes                       | what is done                                            |
|-----------------------------------------------------|---------------------------------------------------------|
| ready, and the message is of its turn               | it is claimed and run                                   |
| running, its worker has not been heard of in time   | the same: that worker died                              |
| running, its worker lives                           | the message comes again when that is to be heard of     |
| over, cancelled, moved, of another turn, deleted    | nothing: the message is done                            |

A task that ran and whose worker died before the message was acknowledged is over: it does not run again. One whose
worker died while it ran does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import close_old_connections, transaction
from django.utils import timezone

from .backend import EscapementBackend
from .configuration import Options
from .framework import TaskContext, TaskResult, TaskResultDoesNotExist, normalize_json, task_finished, task_started
from .models import Status, TaskRow
from .retrying import Retry, retry_of
from .sending import Order, send
from .states import TaskEnded, WorkerDied, as_error, as_result, change

logger = logging.getLogger(__name__)

#: Workers that may die at a task; then it has failed: it may be what kills them.
MOST_DEATHS = 3
#: Beyond what another worker holds it for, clocks apart.
MARGIN_MS = 200


@dataclass(frozen=True, slots=True)
class Worker:
    """Who runs tasks, with which options, and for how long it is believed without a word."""

    id: str
    options: Options
    held_s: float


def attempt(order: Order, token: str, worker: Worker) -> int | None:
    """Run a task if its message may; return None when that is done, or in how many ms it is to come again.

    Raises Django's Error where the database cannot be asked.
    """
    close_old_connections()
    try:
        row = TaskRow.objects.using(order.database).filter(pk=order.id).first()
        if row is None:
            logger.warning("task %s is gone, its message does nothing", order.id)
            return None
        try:
            if not change(row, order.database, lambda now: _claim(now, order, token, worker)):
                return _left(row, order)
        except TaskResultDoesNotExist:
            return None
        _run(row, order, worker)
        return None
    finally:
        close_old_connections()


def renew(using: str, tokens: Iterable[str], held_s: float) -> None:
    """Say that these attempts are alive."""
    close_old_connections()
    rows = TaskRow.objects.using(using).filter(holder__in=list(tokens), status=Status.RUNNING)
    rows.update(held_until=timezone.now() + timedelta(seconds=held_s))


def _claim(row: TaskRow, order: Order, token: str, worker: Worker) -> dict[str, Any] | None:
    """Return the row's values with this attempt; None if the message may not run it."""
    now = timezone.now()
    is_free = row.status == Status.READY or (
        row.status == Status.RUNNING and (row.held_until is None or row.held_until <= now)
    )
    if row.turn != order.turn or not is_free:
        return None
    return {
        "status": Status.RUNNING, "holder": token, "held_until": now + timedelta(seconds=worker.held_s),
        "started_at": row.started_at or now, "last_attempted_at": now, "worker_ids": [*row.worker_ids, worker.id],
    }  # fmt: skip


def _left(row: TaskRow, order: Order) -> int | None:
    """Return in how many ms a message comes again that may not run its task now; None: never."""
    if row.status == Status.RUNNING and row.turn == order.turn and row.held_until is not None:
        left_s = (row.held_until - timezone.now()).total_seconds()
        return max(int(left_s * 1000), 0) + MARGIN_MS
    return None


def _run(row: TaskRow, order: Order, worker: Worker) -> None:
    """Run a claimed task and write down what came of it."""
    if len(row.worker_ids) - len(row.errors) > MOST_DEATHS:
        died = WorkerDied(f"{MOST_DEATHS} workers died while they ran this task: {', '.join(row.worker_ids[:-1])}.")
        _fail(row, order.database, died)
        return
    try:
        result = as_result(row)
    except Exception as error:  # whatever keeps a module from being imported is the task's failure
        _fail(row, order.database, error)
        return
    task_started.send_robust(sender=EscapementBackend, task_result=result)
    try:
        value = normalize_json(_call(result))
    except BaseException as error:  # a task may also end by SystemExit; no signal comes to this thread
        retry = retry_of(result.task.func, worker.options.retry)
        if not _again(row, order.database, error, retry, worker.options):
            _fail(row, order.database, error)
        return
    _finish(row, order.database, {"status": Status.SUCCESSFUL, "return_value": value})


def _call(result: TaskResult[Any, Any]) -> Any:
    if result.task.takes_context:
        return result.task.call(TaskContext(task_result=result), *result.args, **result.kwargs)
    return result.task.call(*result.args, **result.kwargs)


def _again(row: TaskRow, using: str, error: BaseException, retry: Retry, options: Options) -> bool:
    """Have a task that failed tried again after a pause; False if that was its last attempt."""
    errors = [*row.errors, as_error(error)]
    pause = retry.pause_after(len(errors), error)
    if pause is None:
        return False
    due_at = timezone.now() + pause
    changes = {"status": Status.READY, "holder": "", "held_until": None, "errors": errors, "due_at": due_at}
    with transaction.atomic(using=using):
        if not _write(row, using, changes | {"turn": row.turn + 1}):
            return True
        send(row, using, options)
    logger.warning("task %s (%s) failed and is retried at %s", row.pk, row.task_path, due_at, exc_info=error)
    return True


def _fail(row: TaskRow, using: str, error: BaseException) -> None:
    _finish(row, using, {"status": Status.FAILED, "errors": [*row.errors, as_error(error)]}, error)


def _finish(row: TaskRow, using: str, changes: dict[str, Any], error: BaseException | None = None) -> None:
    changes |= {"finished_at": timezone.now(), "holder": "", "held_until": None}
    if not _write(row, using, changes):
        return
    try:
        result = as_result(row)
    except Exception:  # the same that made it fail; nobody can be told of a task without its function
        logger.error("task %s (%s) has failed", row.pk, row.task_path, exc_info=error)
        return
    if isinstance(error, TaskEnded):
        logger.error("task %s (%s) has failed: %s", row.pk, row.task_path, error)
    if error is None:
        task_finished.send_robust(sender=EscapementBackend, task_result=result)
        return
    try:
        raise error
    except BaseException:  # receivers look at what is being handled
        task_finished.send_robust(sender=EscapementBackend, task_result=result)


def _write(row: TaskRow, using: str, changes: dict[str, Any]) -> bool:
    """Write what an attempt brought, unless another one has the task by now."""
    mine = TaskRow.objects.using(using).filter(pk=row.pk, turn=row.turn, status=Status.RUNNING, holder=row.holder)
    if not mine.update(**changes):
        logger.error("task %s (%s) was taken over while it ran here: its outcome is dropped", row.pk, row.task_path)
        return False
    for name, value in changes.items():
        setattr(row, name, value)
    return True
