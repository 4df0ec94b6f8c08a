"""Cancelling and moving tasks that wait: the answer is definite, whatever becomes of the broker.

The row is changed first, and only while the task waits: a worker that comes a moment later finds it cancelled, or finds
that its message is of an earlier turn. Then the broker is asked to take back the timer, and its word is in the answer;
if it is away, the timer goes off one day and does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ..client import Admin, ClientError, TimerTarget
from ..outbox.configuration import namesrv
from ..outbox.models import OutboxMessage
from .backend import EscapementBackend
from .framework import InvalidTask, task_backends, task_finished
from .models import Status, TaskRow
from .sending import as_stored, send
from .states import TaskCancelled, as_error, as_result, change, find

Outcome = Literal["cancelled", "rescheduled", "running", "finished", "already_cancelled"]


@dataclass(slots=True)
class Answer:
    """What became of the wish to cancel or to move a task.

    | outcome             | meaning                                |
    |---------------------|----------------------------------------|
    | `cancelled`         | it waited, and never runs              |
    | `rescheduled`       | it waited, and runs at the new time    |
    | `running`           | a worker is at it: nothing was changed |
    | `finished`          | it is over: nothing was changed        |
    | `already_cancelled` | it was cancelled before                |

    `timer`: the broker's word on the timer that it waited for ("cancelled", "already_delivered", ... or why there is no
    word); None where it waited for none, or where a transaction is open: the broker is asked after the commit.
    """

    outcome: Outcome
    timer: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the task is as it was wished to be."""
        return self.outcome in ("cancelled", "rescheduled", "already_cancelled")


def cancel(result_id: str, *, backend: str = "default", reason: str = "") -> Answer:
    """Cancel a waiting task: it becomes FAILED with a TaskCancelled as its last error, and never runs.

    Inside of a transaction that is so if it commits. Raises TaskResultDoesNotExist.
    """
    options = _backend(backend).named
    row, using = find(options, result_id)
    errors = as_error(TaskCancelled(reason or "The task was cancelled before it ran."))
    old = _Waiting()

    def make(now: TaskRow) -> dict[str, Any] | None:
        old.note(now)
        if now.status != Status.READY:
            return None
        ended = {"status": Status.FAILED, "is_cancelled": True, "finished_at": timezone.now()}
        return {**ended, "errors": [*now.errors, errors]}

    with transaction.atomic(using=using):
        if not change(row, using, make):
            return Answer(_outcome(row))
        answer = Answer("cancelled")
        old.withdraw(using, options.topic(row.queue_name, row.priority), answer)
    _tell(row)
    return answer


def reschedule(result_id: str, run_after: datetime | None, *, backend: str = "default") -> Answer:
    """Have a waiting task run at another time (None: immediately), also one that waits for its next attempt.

    Inside of a transaction that is so if it commits. Raises TaskResultDoesNotExist, InvalidTask for a time without a
    zone, and ClientError where the broker takes no timer for that time: then the task waits as it did.
    """
    if settings.USE_TZ and run_after is not None and timezone.is_naive(run_after):
        raise InvalidTask("run_after must be an aware datetime.")
    options = _backend(backend).named
    row, using = find(options, result_id)
    old = _Waiting()
    moment = as_stored(run_after)
    due_at = moment or timezone.now()

    def make(now: TaskRow) -> dict[str, Any] | None:
        old.note(now)
        return {"turn": now.turn + 1, "due_at": due_at, "run_after": moment} if now.status == Status.READY else None

    with transaction.atomic(using=using):
        if not change(row, using, make):
            return Answer(_outcome(row))
        answer = Answer("rescheduled")
        if due_at > timezone.now():
            old.forget(using)  # a timer with its key replaces the one before
        else:
            old.withdraw(using, options.topic(row.queue_name, row.priority), answer)
        sending = send(row, using, options)
    if (refused := sending.refusal) is not None:
        OutboxMessage.objects.using(using).filter(pk=sending.pk).delete()
        reschedule(result_id, old.due_at, backend=backend)
        raise refused
    if due_at > timezone.now() and old.is_timer:
        answer.timer = "replaced"
    return answer


async def acancel(result_id: str, *, backend: str = "default", reason: str = "") -> Answer:
    """Cancel as `cancel` does, in a coroutine."""
    return await sync_to_async(cancel, thread_sensitive=True)(result_id, backend=backend, reason=reason)


async def areschedule(result_id: str, run_after: datetime | None, *, backend: str = "default") -> Answer:
    """Move as `reschedule` does, in a coroutine."""
    return await sync_to_async(reschedule, thread_sensitive=True)(result_id, run_after, backend=backend)


def _backend(alias: str) -> EscapementBackend:
    found = task_backends[alias]
    if not isinstance(found, EscapementBackend):
        raise InvalidTask(f"TASKS[{alias!r}] is another backend: only EscapementBackend's tasks are cancelled here.")
    return found


def _outcome(row: TaskRow) -> Outcome:
    if row.status == Status.RUNNING:
        return "running"
    return "already_cancelled" if row.is_cancelled else "finished"


def _tell(row: TaskRow) -> None:
    """Tell the receivers of Django's signal that a task is over."""
    try:
        result = as_result(row)
    except ImportError:  # its function is gone, which may be why it was cancelled
        return
    task_finished.send_robust(sender=EscapementBackend, task_result=result)


class _Waiting:
    """What a task waited for before it was changed."""

    def note(self, row: TaskRow) -> None:
        """Keep what the row says."""
        self.id, self.message_id, self.due_at = row.pk, row.message_id, row.due_at
        self.is_timer = row.due_at > timezone.now()

    def forget(self, using: str) -> bool:
        """Delete its message from the outbox; False if it is not there any more."""
        return bool(OutboxMessage.objects.using(using).filter(message_id=self.message_id).delete()[0])

    def withdraw(self, using: str, topic: str, answer: Answer) -> None:
        """Have the timer taken back after the commit, and note what the broker says."""
        if self.forget(using):
            answer.timer = "not_sent_yet" if self.is_timer else None
        elif self.is_timer:
            transaction.on_commit(lambda: self._ask(topic, answer), using=using, robust=True)

    def _ask(self, topic: str, answer: Answer) -> None:
        target = TimerTarget(topic=topic, schedule_key=self.id)
        try:
            with Admin(namesrv()) as admin:
                for broker in admin.brokers():
                    steered = admin.steer_timers("cancel", [target], reason="task", address=broker.address)
                    answer.timer = steered.results[0].outcome
                    if answer.timer != "unknown":
                        return
        except ClientError as error:
            answer.timer = str(error)
