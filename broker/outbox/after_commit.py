"""Messages that are sent after the commit: by a worker at least once, or by this process at most once.

`send_later` is the outbox in its classical form: it writes a row, and a worker (`manage.py outbox`) sends it. No round
trip to the broker inside the transaction, and none needed: the broker may be away for as long as it likes. A worker
that dies between the send and the delete of the row sends it again, with the same unique id.

`send_on_commit` sends from this process once the transaction has committed. No half, no row: nothing is sent for a
transaction that rolls back, but a process that dies between the commit and the send, or a broker that is away just
then, loses the message.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import Unpack

from django.db import router, transaction

from ..client import ClientError, MessageOptions, Outgoing, plain_sends, prepare, with_trace
from ..client.names import check_writable_topic
from .configuration import producer_group as chosen_group
from .models import OutboxMessage
from .transaction_block import producer_of

logger = logging.getLogger(__name__)

_LANE_CHARACTERS = 40


def send_later(
    topic: str,
    body: bytes | str,
    *,
    using: str | None = None,
    producer_group: str | None = None,
    **options: Unpack[MessageOptions],
) -> OutboxMessage:
    """Write the message into the transaction of `using`; raises InvalidArgument for one that can never be sent.

    A delay counts from the worker's send; give `deliver_at_ms` for a fixed moment. Messages with one `sharding_key`,
    or for one `queue_id` of a topic, are sent in the order in which they were written: each waits for the one before.
    `producer_group`: in whose name, if not in the worker's; raises NotConfigured for one that is not in the settings.
    """
    check_writable_topic(topic)
    group = "" if producer_group is None else chosen_group(producer_group)
    message = with_trace(topic, prepare(body, **options))  # the worker that sends it knows nothing of this request
    return OutboxMessage.objects.using(using or router.db_for_write(OutboxMessage)).create(
        topic=topic, body=message.body, properties=message.properties.encode(), unique_id=message.unique_id,
        producer_group=group, queue_id=message.queue_id, lane=_lane(topic, message),
    )  # fmt: skip


def as_outgoing(row: OutboxMessage) -> Outgoing:
    """The message that the row holds."""
    properties = bytes(row.properties).decode()
    return Outgoing.of_stored(bytes(row.body), properties, row.unique_id, row.producer_group or None, row.queue_id)


def _lane(topic: str, message: Outgoing) -> str | None:
    """What is the same for messages that keep their order, and for no others."""
    if message.sharding_key is not None:
        name = f"{topic} key {message.sharding_key}"
    elif message.queue_id is not None:
        name = f"{topic} queue {message.queue_id}"
    else:
        return None
    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:_LANE_CHARACTERS]


def send_on_commit(
    topic: str,
    body: bytes | str,
    *,
    using: str | None = None,
    producer_group: str | None = None,
    timeout_ms: int = 3000,
    **options: Unpack[MessageOptions],
) -> None:
    """Send after the commit of `using` (at once outside of a transaction); what fails then is logged, and lost.

    Raises ClientError (InvalidArgument) now for a message that can never be sent.
    """
    group = chosen_group(producer_group)
    message = prepare(body, **options)
    transaction.on_commit(lambda: _send(group, topic, message, timeout_ms), using=using, robust=True)


def _send(group: str, topic: str, message: Outgoing, timeout_ms: int) -> None:
    with plain_sends(allowed=True):  # the block of another database may still be open
        try:
            outcome = producer_of(group).send_each(topic, [message], timeout_ms=timeout_ms)[0]
        except ClientError as error:
            outcome = error
    if isinstance(outcome, ClientError):
        logger.error("message %s for %s is lost, its transaction has committed: %s", message.unique_id, topic, outcome)
