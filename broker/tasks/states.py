"""Rows as Django's task results, the errors in them, and what is over and old enough to be deleted.

Errors that this package writes into a task itself:

TaskEnded
├── TaskCancelled  somebody took it back before it ran
└── WorkerDied     its workers died so often that it is not tried again
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from traceback import format_exception
from typing import Any

from django.utils import timezone
from django.utils.module_loading import import_string

from .configuration import Options
from .framework import Task, TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from .models import Status, TaskRow

_DELETED_AT_ONCE = 1_000


class TaskEnded(Exception):
    """A task ended without an exception of its own."""


class TaskCancelled(TaskEnded):
    """The task was cancelled before it ran."""


class WorkerDied(TaskEnded):
    """The task's workers died while they ran it, so often that it is not tried again."""


def find(options: Options, result_id: str) -> tuple[TaskRow, str]:
    """Return a task's row and its database; raises TaskResultDoesNotExist."""
    for using in options.own_databases():
        row = TaskRow.objects.using(using).filter(pk=result_id).first()
        if row is not None:
            return row, using
    raise TaskResultDoesNotExist(result_id)


def task_of(row: TaskRow) -> Task[Any, Any]:
    """Return the task with what it was enqueued with; raises ImportError where its function is no longer there."""
    task = import_string(row.task_path)
    if not isinstance(task, Task):
        raise ImportError(f"{row.task_path} is no task: decorate it with @task.")
    return task.using(
        priority=row.priority, queue_name=row.queue_name, run_after=row.run_after, backend=row.backend
    )  # fmt: skip


def as_result(row: TaskRow) -> TaskResult[Any, Any]:
    """Return the row as Django's TaskResult; raises ImportError where its function is no longer there."""
    result: TaskResult[Any, Any] = TaskResult(
        task=task_of(row),
        id=row.pk,
        status=TaskResultStatus[row.status],
        enqueued_at=row.enqueued_at,
        started_at=row.started_at,
        last_attempted_at=row.last_attempted_at,
        finished_at=row.finished_at,
        args=row.args,
        kwargs=row.kwargs,
        backend=row.backend,
        errors=[TaskError(**each) for each in row.errors],
        worker_ids=list(row.worker_ids),
    )
    object.__setattr__(result, "_return_value", row.return_value)
    return result


def as_error(error: BaseException) -> dict[str, str]:
    """Return an exception as it stands in a row."""
    kind = type(error)
    return {
        "exception_class_path": f"{kind.__module__}.{kind.__qualname__}",
        "traceback": "".join(format_exception(error)),
    }


def change(row: TaskRow, using: str, make: Callable[[TaskRow], dict[str, Any] | None]) -> bool:
    """Change a row by what it says: `make` returns the new values, or None to leave it; False if it was left.

    Nothing is locked: the values are written if the row is still as it was read, and made anew if it is not. `row` is
    brought up to date. Raises TaskResultDoesNotExist if it was deleted meanwhile.
    """
    rows = TaskRow.objects.using(using)
    while True:
        changes = make(row)
        if changes is None:
            return False
        as_read = rows.filter(pk=row.pk, turn=row.turn, status=row.status, holder=row.holder)
        if as_read.update(**changes):
            for name, value in changes.items():
                setattr(row, name, value)
            return True
        if (now := rows.filter(pk=row.pk).first()) is None:
            raise TaskResultDoesNotExist(row.pk)
        for field in TaskRow._meta.concrete_fields:
            setattr(row, field.attname, getattr(now, field.attname))


def clean(using: str, keep_days: float) -> int:
    """Delete tasks that were over for so long; return how many."""
    before = timezone.now() - timedelta(days=keep_days)
    over = TaskRow.objects.using(using).filter(
        status__in=(Status.FAILED, Status.SUCCESSFUL), finished_at__lt=before
    )  # fmt: skip
    count = 0
    while ids := list(over.values_list("pk", flat=True)[:_DELETED_AT_ONCE]):
        count += over.filter(pk__in=ids).delete()[0]
    return count
