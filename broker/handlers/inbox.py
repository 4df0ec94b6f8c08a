"""Handlers that do each message once: the message's id and what the handler writes are one database transaction.

A message that comes again (delivery is at least once: after a crash, after a send that was tried again) finds its row
and is passed by. Two at a time are told apart by the database: the second waits for the first, and goes on only if that
one was rolled back. What the handler does outside of this database is not undone by a rollback, and may be done twice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256

from django.conf import settings
from django.db import router, transaction
from django.utils import timezone

from ..client import DeadLetter, Handler, Message, RetryIn
from ..client.handlers import for_messages
from ..rocketmq.properties import ORIGIN_MESSAGE_ID
from .models import InboxMessage

DEFAULT_KEEP_DAYS = 30
_KEY_CHARACTERS = 64


def once(handler: Handler, group: str, using: str | None = None) -> Callable[[Message], object]:
    """Return a function that calls the handler with a message, unless its group has handled that already."""
    call = for_messages(handler)

    def handle(message: Message) -> None:
        alias = using or router.db_for_write(InboxMessage)
        with transaction.atomic(using=alias):
            rows = InboxMessage.objects.using(alias)
            _, is_new = rows.get_or_create(group=group, message_key=key_of(message))
            if not is_new:
                return
            said = call(message)
            if isinstance(said, (RetryIn, DeadLetter)):
                raise said  # nothing was done: the row goes as well

    return handle


def key_of(message: Message) -> str:
    """Return what is the same each time the message comes."""
    key = message.unique_key or message.properties.get(ORIGIN_MESSAGE_ID) or message.offset_message_id
    return key if len(key) <= _KEY_CHARACTERS else sha256(key.encode(errors="surrogatepass")).hexdigest()


def clean(using: str | None = None) -> int:
    """Delete rows that are older than ESCAPEMENT_INBOX_DAYS (30); return how many."""
    days = float(getattr(settings, "ESCAPEMENT_INBOX_DAYS", DEFAULT_KEEP_DAYS))
    rows = InboxMessage.objects.using(using or router.db_for_write(InboxMessage))
    return rows.filter(handled_at__lt=timezone.now() - timedelta(days=days)).delete()[0]
