"""`send_on_commit`: sent by this process once the transaction has committed. At most once.

No half, no row: nothing is sent for a transaction that rolls back, but a process that dies between the commit and the
send, or a broker that is away just then, loses the message.
"""

from __future__ import annotations

import logging
from typing import Unpack

from django.db import transaction

from ..client import ClientError, Outgoing, prepare
from ..client.transaction_guard import plain_sends
from .configuration import producer_group as chosen_group
from .options import MessageOptions
from .producers import producer_of

logger = logging.getLogger(__name__)


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
