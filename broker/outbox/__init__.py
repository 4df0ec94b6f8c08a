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
    from .blocks import Block as Block
    from .blocks import producer as producer
    from .blocks import transactional as transactional
    from .errors import NotInTransaction as NotInTransaction
    from .errors import OutboxError as OutboxError
    from .later import send_later as send_later
    from .oncommit import send_on_commit as send_on_commit

_HOMES = {
    "Block": "blocks",
    "NotInTransaction": "errors",
    "OutboxError": "errors",
    "producer": "blocks",
    "send_later": "later",
    "send_on_commit": "oncommit",
    "transactional": "blocks",
}
__all__ = ["Block", "NotInTransaction", "OutboxError", "producer", "send_later", "send_on_commit", "transactional"]


def __getattr__(name: str) -> Any:
    """Load what is asked for at its first use: Django imports this package before models may be."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
