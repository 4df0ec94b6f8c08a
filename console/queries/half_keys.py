"""Transactions by a key of their message, from the broker's index of keys."""

from __future__ import annotations

from broker.client import Admin, RouteNotFound
from console.queries.asking import ask
from console.queries.mirrored import mirrored
from console.queries.shapes.transactions import TransactionRow
from console.queries.transaction_finding import find_named

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
#: by key, transaction by position
REQUESTS = (12, 14_011)
#: of one key
MOST = 64


def halves_named(key: str) -> tuple[TransactionRow, ...]:
    """Those with this key or unique id as they are now, the newest first; none if the broker does not answer."""
    found, _evidence = ask(lambda admin: _named(admin, key), source=mirrored().name, requests=REQUESTS)
    return tuple(found or ())


def _named(admin: Admin, key: str) -> list[TransactionRow]:
    try:
        records = admin.messages_by_key(HALF_TOPIC, key, MOST)
    except RouteNotFound:
        return []
    targets = [{"offset": record.queue_offset, "position": record.position} for record in records]
    return [row for row in find_named(admin, targets).named if row is not None]
