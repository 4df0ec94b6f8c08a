"""The settings of the outbox, and every error that it raises; those of the broker stay the client's (ClientError).

Settings are read from Django's at each use, so that tests may override them.

| setting                        | default        | meaning                                                         |
|--------------------------------|----------------|-----------------------------------------------------------------|
| ESCAPEMENT_NAMESRV             | 127.0.0.1:9876 | name server, `host:port;host:port`                              |
| ESCAPEMENT_CLIENT              | nothing        | arguments of its clients: access_key, secret_key, tls           |
| ESCAPEMENT_PRODUCER_GROUPS     | none           | groups for which this project answers; the first is the default |
| ESCAPEMENT_TRANSACTION_LIMIT_S | 60             | databases but PostgreSQL: the longest that a transaction takes  |

OutboxError
├── NotInTransaction      send() outside of transactional()
├── BlockEnded            send() with the producer of a block that has ended
├── WrongThread           send() in another thread than its block: that has another database connection
├── AsynchronousBlock     a block in a coroutine: other coroutines would share its transaction
├── TransactionTooLong    the row could no longer decide (databases other than PostgreSQL)
└── NotConfigured         a setting is missing or does not fit
"""

from __future__ import annotations

from django.conf import settings

from ..client.errors import InvalidArgument
from ..client.names import check_group
from ..django import namesrv as namesrv


class OutboxError(Exception):
    """A message could not be joined to the database transaction."""


class NotInTransaction(OutboxError):
    """send() outside of transactional()."""

    def __init__(self) -> None:
        super().__init__(
            "producer.send() belongs inside `with transactional():`. For a message that no transaction decides use "
            "send_later(), send_on_commit() or a plain Producer."
        )


class BlockEnded(OutboxError):
    """send() with the producer of a block that has ended."""

    def __init__(self) -> None:
        super().__init__("This transactional() block has ended; send inside it, with the producer that it gives.")


class WrongThread(OutboxError):
    """send() in another thread than its block."""

    def __init__(self) -> None:
        super().__init__(
            "This transactional() block was entered in another thread. Each thread has its own database connection: "
            "send in the thread that entered the block."
        )


class AsynchronousBlock(OutboxError):
    """A block in a coroutine: other coroutines would share its transaction."""

    def __init__(self) -> None:
        super().__init__(
            "Django's transactions belong to a thread, which coroutines share (those of a request, or all of a "
            "loop): while one awaits inside a block, the others would write into its transaction. Put the block's work "
            "into a plain function, and call `await run_in_transaction(function, ...)`."
        )


class TransactionTooLong(OutboxError):
    """The transaction took longer than the row may take to decide."""

    def __init__(self, using: str, limit_s: float) -> None:
        super().__init__(
            f"The transaction on {using!r} took longer than ESCAPEMENT_TRANSACTION_LIMIT_S ({limit_s:g} s) and was "
            "rolled back: its messages may have been dropped already. Raise the limit, or do less in one transaction."
        )


class NotConfigured(OutboxError):
    """A setting is missing or does not fit."""


# The settings.

DEFAULT_LIMIT_S = 60.0


def producer_groups() -> tuple[str, ...]:
    """Return the groups for which this project answers checks; raise NotConfigured."""
    groups = getattr(settings, "ESCAPEMENT_PRODUCER_GROUPS", ())
    if isinstance(groups, str) or not groups:
        raise NotConfigured(
            "Set ESCAPEMENT_PRODUCER_GROUPS to a list of producer groups, such as ['shop']: brokers ask their members "
            "what became of a message. A group belongs to one project with its databases."
        )
    for group in groups:
        try:
            check_group(group)
        except InvalidArgument as error:
            raise NotConfigured(f"ESCAPEMENT_PRODUCER_GROUPS: {error}") from None
    return tuple(groups)


def producer_group(wanted: str | None) -> str:
    """Return `wanted`, or the default; raise NotConfigured for one that nobody would answer for."""
    groups = producer_groups()
    if wanted is None:
        return groups[0]
    if wanted not in groups:
        raise NotConfigured(
            f"Producer group {wanted!r} is not in ESCAPEMENT_PRODUCER_GROUPS ({', '.join(groups)}): nobody would "
            "answer for its messages. Add it there, and restart `manage.py checkback`."
        )
    return wanted


def transaction_limit_s() -> float:
    """Return seconds after which a missing row means that the transaction rolled back (not on PostgreSQL)."""
    return float(getattr(settings, "ESCAPEMENT_TRANSACTION_LIMIT_S", DEFAULT_LIMIT_S))
