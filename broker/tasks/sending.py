"""A task on its way to the broker: a row of the task and a row of the outbox, in one transaction.

The outbox and not a half of `transactional()`: a half costs a round trip inside the transaction, and cannot be sent
while the broker is away. A row costs neither; its price is that a message may be sent twice, which does no harm here
because the task's row says what a message may still do (`turn`).

This process sends right after the commit what it wrote. Where that fails, or it dies before, the outbox's workers do
(`manage.py outbox`, and every `tasks_worker`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from django.conf import settings
from django.db import Error, close_old_connections, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone
from django.utils.crypto import get_random_string

from ..client import ClientError, InvalidArgument, MessageOptions, plain_sends
from ..client.names import check_tag
from ..outbox.after_commit import Worker, as_outgoing, is_refusal, send_later
from ..outbox.configuration import producer_group
from ..outbox.models import OutboxMessage
from ..outbox.transaction_block import producer_of
from .configuration import Options
from .framework import InvalidTask, Task, TaskResult, normalize_json, task_enqueued
from .models import Status, TaskRow
from .states import as_result, clean

logger = logging.getLogger(__name__)

#: Of a message: the task's path, which the console shows beside its tag.
PATH_PROPERTY = "taskPath"
ID_CHARACTERS = 32
SEND_TIMEOUT_MS = 3_000
#: More tasks of one transaction are left to the outbox's workers.
MOST_AT_ONCE = 500
#: Once a broker did not answer, callers leave sending to the outbox's workers for so long.
AWAY_S = 5.0
CLEAN_EVERY_S = 3600.0
POLL_S = 0.2
LONGEST_PAUSE_S = 5.0

_decided_by: ContextVar[str | None] = ContextVar("escapement_tasks_decided_by", default=None)


class Order(msgspec.Struct, frozen=True):
    """The body of a message: which task it is for, and which of its messages it is."""

    id: str
    turn: int
    database: str


@contextmanager
def decided_by(using: str) -> Iterator[None]:
    """Have tasks that are enqueued in the block share the fate of the transaction of this database.

    Needed only where transactions of several databases are open together.
    """
    token = _decided_by.set(using)
    try:
        yield
    finally:
        _decided_by.reset(token)


def database_of(options: Options) -> str:
    """Return the database whose transaction decides; raises InvalidTask where that cannot be said."""
    own = options.own_databases()
    if (said := _decided_by.get()) is not None:
        if said not in own:
            raise InvalidTask(f"decided_by({said!r}): its tasks are in {', '.join(own)}; see DATABASES of OPTIONS.")
        return said
    within = [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]
    mine = [alias for alias in within if alias in own]
    if len(mine) > 1:
        raise InvalidTask(
            f"Transactions of {' and '.join(mine)} are open: say which of them decides, "
            f"`with decided_by({mine[0]!r}):` around enqueue()."
        )
    if within and not mine:
        raise InvalidTask(
            f"A transaction of {' and '.join(within)} is open, and tasks are in {', '.join(own)}: the task would run "
            f"whatever becomes of it. Name the database in DATABASES of OPTIONS, or `with decided_by({own[0]!r}):`."
        )
    return mine[0] if mine else own[0]


def enqueue(
    backend: type, options: Options, alias: str, task: Task[Any, Any], args: Any, kwargs: Any
) -> TaskResult[Any, Any]:
    """Write a task down, have it sent, and return it as Django's TaskResult."""
    using = database_of(options)
    now = timezone.now()
    row = TaskRow(
        id=get_random_string(ID_CHARACTERS), task_path=task.module_path, backend=alias, queue_name=task.queue_name,
        priority=task.priority, run_after=as_stored(task.run_after), args=normalize_json(args),
        kwargs=normalize_json(kwargs), enqueued_at=now, due_at=as_stored(task.run_after) or now,
    )  # fmt: skip
    with transaction.atomic(using=using):
        sending = _write(row, using, options)
        row.save(using=using, force_insert=True)
    if (refused := sending.refusal) is not None:
        TaskRow.objects.using(using).filter(pk=row.pk).delete()
        OutboxMessage.objects.using(using).filter(pk=sending.pk).delete()
        raise refused
    result = as_result(row)
    task_enqueued.send(sender=backend, task_result=result)
    return result


def as_stored(moment: datetime | None) -> datetime | None:
    """Return the moment as rows have it: without a zone in a project without USE_TZ."""
    if moment is None or settings.USE_TZ or timezone.is_naive(moment):
        return moment
    return timezone.make_naive(moment)


# The message of a row.


class Sending:
    """A row of the outbox that this process sends after the commit; `refusal`: the broker will not have it."""

    def __init__(self, pk: int) -> None:
        self.pk = pk
        self.refusal: ClientError | None = None


def send(row: TaskRow, using: str, options: Options) -> Sending:
    """Write the message for the row's turn into the transaction; it is sent after the commit."""
    sending = _write(row, using, options)
    TaskRow.objects.using(using).filter(pk=row.pk).update(message_id=row.message_id)
    return sending


def _write(row: TaskRow, using: str, options: Options) -> Sending:
    """Write the message, and its id into the row as it is here."""
    outgoing: MessageOptions = {"keys": [row.pk], "properties": {PATH_PROPERTY: row.task_path}}
    if (tag := _tag(row.task_path)) is not None:
        outgoing["tag"] = tag
    if row.due_at > timezone.now():
        outgoing |= {"deliver_at_ms": epoch_ms(row.due_at), "schedule_key": row.pk, "on_conflict": "replace"}
    body = msgspec.json.encode(Order(row.pk, row.turn, using))
    message = send_later(options.topic(row.queue_name, row.priority), body, using=using, **outgoing)
    row.message_id = message.message_id
    sending = Sending(message.pk)
    _pending.setdefault(connections[using], []).append(sending)
    transaction.on_commit(lambda: _send_pending(using), using=using, robust=True)
    return sending


def epoch_ms(moment: datetime) -> int:
    """Return milliseconds since 1970, rounded up: a task is never early."""
    return -(-round(moment.timestamp() * 1_000_000) // 1000)


def _tag(path: str) -> str | None:
    name = path.rpartition(".")[2]
    try:
        check_tag(name)
    except InvalidArgument:
        return None
    return name


#: What was written in the open transaction of a connection, and what became nothing because a savepoint rolled back.
_pending: WeakKeyDictionary[BaseDatabaseWrapper, list[Sending]] = WeakKeyDictionary()
_away_until_s = 0.0


def broker_is_back() -> None:
    """Send at once again, whatever happened before."""
    global _away_until_s
    _away_until_s = 0.0


def _send_pending(using: str) -> None:
    """Send all that was written in the transaction; the first of its hooks does it for all."""
    sendings = _pending.pop(connections[using], [])
    if not 0 < len(sendings) <= MOST_AT_ONCE or time.monotonic() < _away_until_s:
        return
    try:
        _send_rows(using, sendings)
    except Error as error:
        logger.warning("%d tasks are left to the outbox's workers: %s", len(sendings), error)


def _send_rows(using: str, sendings: Sequence[Sending]) -> None:
    global _away_until_s
    by_pk = {each.pk: each for each in sendings}
    producer = producer_of(producer_group(None))
    with transaction.atomic(using=using), plain_sends(allowed=True):
        found = OutboxMessage.objects.using(using).filter(pk__in=by_pk)
        if connections[using].features.has_select_for_update_skip_locked:
            found = found.select_for_update(skip_locked=True)
        by_topic: dict[str, list[OutboxMessage]] = {}
        for each in found.order_by("pk"):
            by_topic.setdefault(each.topic, []).append(each)
        messages = {topic: [as_outgoing(each) for each in mine] for topic, mine in by_topic.items()}
        results = producer.send_topics(messages, timeout_ms=SEND_TIMEOUT_MS)
        sent: list[int] = []
        for topic, mine in by_topic.items():
            for each, outcome in zip(mine, results[topic], strict=True):
                if not isinstance(outcome, ClientError):
                    sent.append(each.pk)
                elif is_refusal(outcome):
                    by_pk[each.pk].refusal = outcome
                else:
                    _away_until_s = time.monotonic() + AWAY_S
                    logger.warning("tasks for %s are left to the outbox's workers: %s", topic, outcome)
        OutboxMessage.objects.using(using).filter(pk__in=sent).delete()


# What every worker does beside its tasks.


def send_again(using: str, options: Options, alias: str, before: datetime) -> int:
    """Send anew the tasks that were due before this moment and did not run; return how many.

    For messages that a broker lost or deleted. A task of which a message is still there runs once all the same.
    """
    count = 0
    rows = TaskRow.objects.using(using).filter(backend=alias, status=Status.READY, due_at__lt=before)
    for row in list(rows):
        with transaction.atomic(using=using):
            if TaskRow.objects.using(using).filter(pk=row.pk, turn=row.turn, status=Status.READY).update(
                turn=row.turn + 1
            ):  # fmt: skip
                OutboxMessage.objects.using(using).filter(message_id=row.message_id).delete()
                row.turn += 1
                send(row, using, options)
                count += 1
    return count


def keep_up(options: Options, stopping: threading.Event) -> None:
    """Send the outbox of each database and delete what is over, until the event; in a thread of its own."""
    workers = [(using, Worker(producer_of(producer_group(None)), using)) for using in options.own_databases()]
    clean_at_s, failures = 0.0, 0
    while not stopping.is_set():
        sent = 0
        try:
            for _, worker in workers:
                sent += worker.turn().sent
            if time.monotonic() >= clean_at_s:
                clean_at_s = time.monotonic() + CLEAN_EVERY_S
                for using, _ in workers:
                    clean(using, options.keep_days)
            failures = 0
        except Error as error:
            failures += 1
            # said once for each outage
            logger.log(logging.DEBUG if failures > 1 else logging.WARNING, "the outbox cannot be read: %s", error)
        finally:
            close_old_connections()
        if not sent:
            stopping.wait(min(POLL_S * 2 ** min(failures, 10), LONGEST_PAUSE_S))
    connections.close_all()
