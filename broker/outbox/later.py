"""The outbox in its classical form: `send_later` writes a row, a worker (`manage.py outbox`) sends it. At least once.

No round trip to the broker inside the transaction, and none needed: the broker may be away. A worker that dies between
the send and the delete of the row sends it again, with the same unique id.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Unpack

from django.db import connections, router, transaction

from ..client import ClientError, Outgoing, SendResult, TransactionProducer, prepare
from ..client.errors import InvalidArgument
from ..client.names import check_writable_topic
from ..client.tracing import tracing
from .models import OutboxMessage
from .options import MessageOptions

#: Rows that one turn of a worker takes.
BATCH = 500
#: A row that failed so often is left for a person; the others pass it.
MAX_ATTEMPTS = 1000


def send_later(
    topic: str,
    body: bytes | str,
    *,
    using: str | None = None,
    **options: Unpack[MessageOptions],
) -> OutboxMessage:
    """Write the message into the transaction of `using`; raises InvalidArgument for one that can never be sent.

    A delay counts from the worker's send; give `deliver_at_ms` for a fixed moment.
    """
    check_writable_topic(topic)
    message = prepare(body, **options)
    if (spans := tracing.spans()) is not None:
        message = spans.created(topic, message)  # the worker that sends it knows nothing of this request
    return OutboxMessage.objects.using(using or router.db_for_write(OutboxMessage)).create(
        topic=topic, body=message.body, properties=message.properties.encode(), unique_id=message.unique_id
    )


def send_waiting(producer: TransactionProducer, using: str) -> tuple[int, int]:
    """One turn of a worker: (sent, failed) of the oldest rows. Workers at once take different rows.

    Raises Django's Error; what the broker refuses stays with its error and is tried again.
    """
    with transaction.atomic(using=using, durable=True):
        rows = OutboxMessage.objects.using(using).filter(attempts__lt=MAX_ATTEMPTS).order_by("attempts", "pk")
        if connections[using].features.has_select_for_update_skip_locked:
            rows = rows.select_for_update(skip_locked=True)
        taken = sorted(rows[:BATCH], key=lambda row: (row.topic, row.pk))
        sent: list[int] = []
        failed: list[OutboxMessage] = []
        for topic, of_topic in groupby(taken, key=lambda row: row.topic):
            group = list(of_topic)
            for row, outcome in zip(group, _send(producer, topic, group), strict=True):
                if isinstance(outcome, ClientError):
                    row.attempts, row.last_error = row.attempts + 1, str(outcome)[:1000]
                    failed.append(row)
                else:
                    sent.append(row.pk)
        OutboxMessage.objects.using(using).filter(pk__in=sent).delete()
        OutboxMessage.objects.using(using).bulk_update(failed, ["attempts", "last_error"])
    return len(sent), len(failed)


def _send(
    producer: TransactionProducer, topic: str, rows: Sequence[OutboxMessage]
) -> Sequence[SendResult | ClientError]:
    messages = [Outgoing(bytes(row.body), bytes(row.properties).decode(), row.unique_id) for row in rows]
    try:
        return producer.send_each(topic, messages)
    except InvalidArgument as error:
        return [error] * len(rows)
    except ClientError as error:
        return [error] * len(rows)
