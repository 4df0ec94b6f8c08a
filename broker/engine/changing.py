"""What an administrator may change while an engine runs."""

from __future__ import annotations

from .config import EngineConfig
from .store import Store
from .transaction.service import Transactions

RETENTION_INTERVAL_MS = 10_000


class Changeable:
    """The part of an engine that is steered by its settings."""

    config: EngineConfig
    transactions: Transactions
    _store: Store
    _retention_ms: int

    def reconfigure(self, config: EngineConfig) -> None:
        """Take over changed settings: topics made at their first message, retention, disk limit, transactions.

        The others must be what they were. A half message that is open keeps the moment at which it is due.
        """
        self.config = self._store.config = config
        book = self.transactions.book
        book.timeout_ms, book.interval_ms = config.transaction_timeout_ms, config.transaction_interval_ms
        book.most_checks = config.transaction_checks

    def expire_soon(self) -> None:
        """Have the next upkeep look for segments whose time has come."""
        self._retention_ms = -RETENTION_INTERVAL_MS
