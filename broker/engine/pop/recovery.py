"""Coming to the state that the log says, after a start."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import POPPED
from ..errors import CorruptRecord, RecordNotFound
from ..tables.topics import DLQ_PREFIX, POP_TOPIC, RETRY_PREFIX
from . import records as pop_records
from .orderly import Orderly, next_offset_in
from .popqueue import Key, PopQueue
from .records import (
    ACKED,
    CHANGED,
    CUT,
    FORGOTTEN,
    ORDER_ACKED,
    ORDER_CHANGED,
    ORDERED,
    PLACED,
    Entry,
    read_page,
)
from .revive import read_source
from .state import Book
from .take import Taker

_READ_AHEAD = 256


class Recovering:
    """Hears of records in order of position and keeps the book."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def rebuild(self) -> None:
        """Hear of everything the queues hold: there is no snapshot."""
        store = self._book.store
        topics = [
            name for name in {topic for topic, _ in store.queues.known} if name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        ]
        for position in merge(*(_positions(self._book, topic) for topic in (POP_TOPIC, *sorted(topics)))):
            try:
                self.walked(decode(store.log.record_at(position), verify=False))
            except (RecordNotFound, CorruptRecord):
                continue

    def walked(self, message: Message) -> None:
        """Hear of a record of the ledger, or of a copy that was made of a popped message."""
        if message.topic == POP_TOPIC:
            try:
                for entry in read_page(message.body):
                    self._entry(entry, message.position)
            except ValueError:
                self._book.store.note_damage(message.position, message.position + message.size)
        elif (source := read_source(message.properties.get(POPPED, ""))) is not None:
            key, start, pop_ms, offset = source
            queue = self._book.queues.get(key)
            if queue is not None and self._is_of_now(key, message.position):
                queue.heard_copy(start, pop_ms, offset)

    def fit(self, taker: Taker) -> None:
        """Bring every queue in line with what the log and the tables hold."""
        book = self._book
        store = book.store
        for queue in list(book.queues.values()):
            high = book.bounds(queue.key)[1]
            if store.topics.get(queue.key[1]) is None:
                book.remove(queue.key)
                continue
            if queue.next_offset > high:
                taker.cut(queue, high)
            committed = store.offsets.get(*queue.key)
            if store.offsets.is_foreign and committed is not None and committed > queue.base_offset:
                # Apache RocketMQ was here and its consumers went on
                taker.place(queue, min(committed, high))

    def _is_of_now(self, key: Key, position: int) -> bool:
        """Tell whether a record speaks of the topic that is there, not of one that was deleted."""
        return position >= self._book.store.topics.void_below(key[1])

    def _entry(self, entry: Entry, position: int) -> None:
        kind, key, numbers, more = entry
        if not self._is_of_now(key, position):
            return
        book = self._book
        if kind == PLACED:
            (offset,) = numbers
            if offset == FORGOTTEN:
                book.remove(key)
            else:
                queue = book.queue_at(key, offset)
                book.void(queue)
                queue.place(offset)
        elif kind == pop_records.POPPED:
            start, next_offset, pop_ms, invisible_ms = numbers
            book.queue_at(key, start).pop(start, next_offset, pop_ms, pop_ms + invisible_ms, more)
        elif kind == ORDERED:
            next_offset = next_offset_in(more, numbers[0])
            book.queue_at(key, next_offset).order(Orderly.from_json(more), next_offset)
        elif (known := book.queues.get(key)) is not None:
            _settle(known, kind, numbers, more)
        book.is_changed = True


def _settle(queue: PopQueue, kind: int, numbers: tuple[int, ...], mask: int) -> None:
    """Carry out an entry about something that is out."""
    orderly = queue.orderly
    if kind == CUT:
        queue.cut(*numbers)
    elif kind == ACKED:
        if (point := queue.points.get((numbers[0], numbers[1]))) is not None:
            queue.ack(point, mask)
    elif kind == CHANGED:
        start, pop_ms, offset, new_pop_ms, invisible_ms = numbers
        if (point := queue.points.get((start, pop_ms))) is not None:
            queue.change(point, offset, new_pop_ms, new_pop_ms + invisible_ms)
    elif kind == ORDER_ACKED and orderly is not None:
        orderly.ack(*numbers)
    elif kind == ORDER_CHANGED and orderly is not None:
        orderly.change(*numbers)
    queue.packed = None


def _positions(book: Book, topic: str) -> Iterator[int]:
    """Yield the log positions of everything a topic's first queue holds."""
    queue = book.store.queues.get(topic, 0)
    offset = queue.min_offset if queue is not None else 0
    while queue is not None and offset < queue.max_offset:
        entries = queue.entries(offset, _READ_AHEAD)
        if not entries:
            return
        yield from (entry.position for entry in entries)
        offset += len(entries)
