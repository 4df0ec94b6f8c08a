"""Transactions by a key of their message, from the broker's index of keys."""

from __future__ import annotations

from collections.abc import Callable

from broker.client import Admin, RouteNotFound
from broker.rocketmq.properties import REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC
from console.features.transactions.find import find_named
from console.features.transactions.shapes import TransactionRow
from console.security.masking import masks
from console.security.topic_scope import Eyes, authorised
from console.site.broker import ask
from console.site.mirrored import mirrored

#: by key, transaction by position
KEY_REQUESTS = (12, 14_011)
#: of one key; records that are looked through for them
MOST, LOOKED = 64, 256


@authorised
def halves_named(scope: Eyes, key: str) -> tuple[TransactionRow, ...]:
    """Return transactions with this key or unique id as they are now, the newest first; none if the broker does not
    answer."""
    found, _evidence = ask(lambda admin: _named(admin, key, scope.topic), source=mirrored().name, requests=KEY_REQUESTS)
    return masks().rows(found or ())


def _named(admin: Admin, key: str, is_seen: Callable[[str], bool]) -> list[TransactionRow]:
    try:
        records = admin.messages_by_key(HALF_TOPIC, key, LOOKED)
    except RouteNotFound:
        return []
    records = [record for record in records if is_seen(record.properties.get(REAL_TOPIC, ""))][:MOST]
    targets = [{"offset": record.queue_offset, "position": record.position} for record in records]
    return [row for row in find_named(admin, targets).named if row is not None]
