"""Messages and a database transaction on the same side: publish if and only if it commits.

>>> with transactional() as producer:
...     order = Order.objects.create(item="book")
...     producer.send("orders", str(order.pk))

Three ways, from safest to cheapest:

- `transactional`: exactly when the transaction commits, whatever dies in between (a half, and a row that decides);
- `send_later`: a row that `manage.py outbox` sends after the commit: at least once;
- `send_on_commit`: sent after the commit by this process: at most once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .after_commit import send_later as send_later
    from .after_commit import send_on_commit as send_on_commit
    from .configuration import NotInTransaction as NotInTransaction
    from .configuration import OutboxError as OutboxError
    from .timers import BlockTimers as BlockTimers
    from .transaction_block import Block as Block
    from .transaction_block import producer as producer
    from .transaction_block import run_in_transaction as run_in_transaction
    from .transaction_block import transactional as transactional

_HOMES = {
    "Block": "transaction_block",
    "BlockTimers": "timers",
    "NotInTransaction": "configuration",
    "OutboxError": "configuration",
    "producer": "transaction_block",
    "run_in_transaction": "transaction_block",
    "send_later": "after_commit",
    "send_on_commit": "after_commit",
    "transactional": "transaction_block",
}
__all__ = [
    "Block",
    "BlockTimers",
    "NotInTransaction",
    "OutboxError",
    "producer",
    "run_in_transaction",
    "send_later",
    "send_on_commit",
    "transactional",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for at its first use: Django imports this package before models may be."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
