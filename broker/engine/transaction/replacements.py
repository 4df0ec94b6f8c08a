"""Halves that Apache RocketMQ put back: each check (and each round of an immune half) made it a new record there.

The records of one transaction have the same unique key and producer group; only the newest may be open, and a decision
about any of them is one about all. Escapement puts nothing back, and takes the marks of it from what clients send, so
two halves with one key (a client that sends the same message twice) stay two transactions.
"""

from __future__ import annotations

from ...rocketmq.message import Message
from ...rocketmq.properties import CHECK_TIMES, PREPARED_QUEUE_OFFSET, PRODUCER_GROUP
from ..errors import CorruptRecord
from ..tables.topics import HALF_TOPIC
from .state import Book, find_decision

#: Records of one transaction looked at: RocketMQ's limit is 15 checks, and a few that were resumed.
_MOST_RECORDS = 256
_EVER_MS = (1 << 62) - 1


def was_put_back(half: Message) -> bool:
    """Tell whether Apache RocketMQ wrote this record in place of an older one."""
    return CHECK_TIMES in half.properties or PREPARED_QUEUE_OFFSET in half.properties


def relatives(book: Book, half: Message) -> list[Message]:
    """Return the other records of the same transaction that can be read, oldest first."""
    key = half.unique_key
    if not key:
        return []
    store = book.store
    found: dict[int, Message] = {}
    for position in store.index.find(HALF_TOPIC, key, _MOST_RECORDS, 0, _EVER_MS):
        if position == half.position or not store.log.min_position <= position < store.log.end_position:
            continue
        other = _half_at(book, position)
        if (
            other is not None
            and other.unique_key == key
            and other.properties.get(PRODUCER_GROUP) == half.properties.get(PRODUCER_GROUP)
        ):
            found[position] = other
    return [found[position] for position in sorted(found)]


def predecessors(book: Book, half: Message) -> list[Message]:
    """Return the older records of a transaction that was put back, oldest first."""
    return [other for other in relatives(book, half) if other.position < half.position]


def successor(book: Book, half: Message) -> Message | None:
    """Return the newer record that took the place of this one and is undecided, None if there is none."""
    for other in reversed(relatives(book, half)):
        if other.position > half.position and was_put_back(other) and book.undecided(other.queue_offset) is not None:
            return other
    return None


def is_decided(book: Book, records: list[Message]) -> bool:
    """Tell whether an op record names one of these."""
    if not records:
        return False
    offsets = frozenset(record.queue_offset for record in records)
    return any(offset in book.settled for offset in offsets) or (
        find_decision(book.store, offsets, records[0].position) is not None
    )


def _half_at(book: Book, position: int) -> Message | None:
    try:
        return book.half_in_log(position)
    except CorruptRecord:
        return None
