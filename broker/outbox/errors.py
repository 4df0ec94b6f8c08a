"""Every error of the outbox, as one tree; errors of the broker stay those of the client (ClientError).

OutboxError
├── NotInTransaction      send() outside of transactional()
├── BlockEnded            send() with the producer of a block that has ended
├── WrongThread           send() in another thread than its block: that has another database connection
├── TransactionTooLong    the row could no longer decide (databases other than PostgreSQL)
└── NotConfigured         a setting is missing or does not fit
"""

from __future__ import annotations


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


class TransactionTooLong(OutboxError):
    """The transaction took longer than the row may take to decide."""

    def __init__(self, using: str, limit_s: float) -> None:
        super().__init__(
            f"The transaction on {using!r} took longer than ESCAPEMENT_TRANSACTION_LIMIT_S ({limit_s:g} s) and was "
            "rolled back: its messages may have been dropped already. Raise the limit, or do less in one transaction."
        )


class NotConfigured(OutboxError):
    """A setting is missing or does not fit."""
