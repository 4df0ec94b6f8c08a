"""The life of one transaction, as the log tells it: half, checks, parking, decision, what went out."""

from __future__ import annotations

from typing import Any

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import REAL_TOPIC, TAGS
from ..errors import CorruptRecord, RecordNotFound
from ..tables.topics import CHECKS_TOPIC, PARKED_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from .check_records import CHECK_TAG, RESUME_TAG, read_checks, read_decider, read_resumed
from .listing import Row, decided_row, open_row, parked_row
from .state import Book, records_of

#: Note records read for one life.
_MOST_NOTES = 4_096


def life_of(book: Book, half: Message) -> Row:
    """Return the state of a transaction and what happened to it, oldest first (body of request 14012)."""
    offset = half.queue_offset
    events: list[dict[str, Any]] = [{"kind": "half", "atMs": half.store_ms, "position": half.position}]
    events += _notes(book, half) + _parked(book, half)
    row: Row
    if (open_half := book.halves.get(offset)) is not None:
        row = open_row(book, open_half)
    elif (parked := book.parked.get(offset)) is not None:
        row = parked_row(book, parked)
    elif (settled := book.settled_at(offset, half.position)) is not None:
        row = decided_row(book, offset, settled)
        decision = settled.decision
        events.append({"kind": decision.word, "atMs": settled.at_ms, "by": decision.by, "reason": decision.reason})
    else:
        row = {"offset": offset, "position": half.position, "state": "replaced", "storeMs": half.store_ms}
    events += _copies(book, half)
    events.sort(key=lambda event: event["atMs"])
    return row | {"life": events}


def _notes(book: Book, half: Message) -> list[dict[str, Any]]:
    """Return when a producer was asked, and when checks were resumed."""
    queue = book.store.queues.get(CHECKS_TOPIC, 0)
    if queue is None:
        return []
    at = queue.search(queue.min_offset, queue.max_offset, half.position)
    events: list[dict[str, Any]] = []
    for record in records_of(book.store, queue, at, min(queue.max_offset, at + _MOST_NOTES)):
        if record.properties.get(TAGS) == CHECK_TAG:
            offsets, counts = read_checks(record.body)
            if half.queue_offset in offsets:
                count = counts[offsets.index(half.queue_offset)]
                events.append({"kind": "check", "atMs": record.store_ms, "count": count})
        elif record.properties.get(TAGS) == RESUME_TAG and half.queue_offset in read_resumed(record.body):
            who, why = read_decider(record.properties)
            events.append({"kind": "resumed", "atMs": record.store_ms, "by": who, "reason": why})
    return events


def _parked(book: Book, half: Message) -> list[dict[str, Any]]:
    return [
        {"kind": "parked", "atMs": message.store_ms, "position": message.position}
        for message in _same(book, half, PARKED_HALF_TOPIC)
    ]


def _copies(book: Book, half: Message) -> list[dict[str, Any]]:
    """Return what of the message went out: to its topic, or first to where it waits for its moment."""
    topics = {half.properties.get(REAL_TOPIC, ""): "delivered", SCHEDULE_TOPIC: "scheduled", TIMER_TOPIC: "scheduled"}
    return [
        {
            "kind": kind,
            "atMs": message.store_ms,
            "topic": message.topic,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "position": message.position,
        }
        for topic, kind in topics.items()
        for message in _same(book, half, topic)
        if message.prepared_position == half.position
    ]


def _same(book: Book, half: Message, topic: str) -> list[Message]:
    """Return the records of a topic that have the half's unique key."""
    store, key = book.store, half.unique_key
    found: list[Message] = []
    for position in store.index.find(topic, key, 64, 0, (1 << 62) - 1) if key else []:
        try:
            message = decode(store.look_at(position), verify=False)
        except (RecordNotFound, CorruptRecord):
            continue
        if message.topic == topic and message.unique_key == key and message.position > half.position:
            found.append(message)
    return found
