"""Recovery of what was popped: the last snapshot, and what the log says behind it.

The snapshot holds what was handed out as of one moment, so that a start need not read all that was ever popped. It is
in ``escapement.pops.0`` and ``.1``, written in turn (the form of such files: disk.py), magic "ESCPOPS1". The
content is a row for each queue:

    2 length, name (as in records.py)             8 next offset   4 length, JSON of Orderly (empty without)
    4 count, check points that pin:   8 start  8 pop_ms  8 due_ms  mask held  mask pinned
    4 count, those of one message:    8 offset  8 pop_ms  8 due_ms  8 start of its parent  8 pop_ms of its parent

A mask is 2 length and bytes, lowest first. What is being copied counts as held: the copy may not be durable yet.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from heapq import merge

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import POPPED
from ...rocketmq.topics import DLQ_PREFIX, POP_TOPIC, RETRY_PREFIX
from ..disk import Files, load_snapshot, save_snapshot
from ..errors import CorruptRecord, RecordNotFound
from . import records as pop_records
from .popqueue import CheckPoint, Key, Orderly, PopQueue, PopTable, next_offset_in
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
    read_key,
    read_page,
)
from .revive import read_source
from .take import Taker

_READ_AHEAD = 256


class Recovering:
    """Takes records into the table, in order of position."""

    def __init__(self, table: PopTable) -> None:
        self._table = table

    def rebuild(self) -> None:
        """Hear of everything the queues hold: there is no snapshot."""
        store = self._table.store
        topics = [
            name for name in {topic for topic, _ in store.queues.known} if name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        ]
        for position in merge(*(_positions(self._table, topic) for topic in (POP_TOPIC, *sorted(topics)))):
            try:
                self.walked(decode(store.log.record_at(position), verify=False))
            except (RecordNotFound, CorruptRecord):
                continue

    def walked(self, message: Message) -> None:
        """Hear of a pop record, or of a copy that was made of a popped message."""
        if message.topic == POP_TOPIC:
            try:
                for entry in read_page(message.body):
                    self._entry(entry, message.position)
            except ValueError:
                self._table.store.note_damage(message.position, message.position + message.size)
        elif (source := read_source(message.properties.get(POPPED, ""))) is not None:
            key, start, pop_ms, offset = source
            queue = self._table.queues.get(key)
            if queue is not None and self._is_of_now(key, message.position):
                queue.heard_copy(start, pop_ms, offset)

    def fit(self, taker: Taker) -> None:
        """Bring every queue in line with what the log and the tables hold."""
        table = self._table
        store = table.store
        for queue in list(table.queues.values()):
            high = table.bounds(queue.key)[1]
            if store.topics.get(queue.key[1]) is None:
                table.remove(queue.key)
                continue
            if queue.next_offset > high:
                taker.cut(queue, high)
            committed = store.offsets.get(*queue.key)
            if store.offsets.is_foreign and committed is not None and committed > queue.base_offset:
                # Apache RocketMQ was here and its consumers went on
                taker.place(queue, min(committed, high))

    def _is_of_now(self, key: Key, position: int) -> bool:
        """Tell whether a record speaks of the topic that is there, not of one that was deleted."""
        return position >= self._table.store.topics.void_below(key[1])

    def _entry(self, entry: Entry, position: int) -> None:
        kind, key, numbers, more = entry
        if not self._is_of_now(key, position):
            return
        table = self._table
        if kind == PLACED:
            (offset,) = numbers
            if offset == FORGOTTEN:
                table.remove(key)
            else:
                queue = table.queue_at(key, offset)
                table.void(queue)
                queue.place(offset)
        elif kind == pop_records.POPPED:
            start, next_offset, pop_ms, invisible_ms = numbers
            table.queue_at(key, start).pop(start, next_offset, pop_ms, pop_ms + invisible_ms, more)
        elif kind == ORDERED:
            next_offset = next_offset_in(more, numbers[0])
            table.queue_at(key, next_offset).order(Orderly.from_json(more), next_offset)
        elif (known := table.queues.get(key)) is not None:
            _settle(known, kind, numbers, more)
        table.is_changed = True


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


def _positions(table: PopTable, topic: str) -> Iterator[int]:
    """Yield the log positions of everything a topic's first queue holds."""
    queue = table.store.queues.get(topic, 0)
    offset = queue.min_offset if queue is not None else 0
    while queue is not None and offset < queue.max_offset:
        entries = queue.entries(offset, _READ_AHEAD)
        if not entries:
            return
        yield from (entry.position for entry in entries)
        offset += len(entries)


# The snapshot.

_MAGIC = b"ESCPOPS1"
_LENGTH = struct.Struct(">H")
_COUNT = struct.Struct(">I")
_NUMBER = struct.Struct(">q")
_ROOT = struct.Struct(">3q")
_CHILD = struct.Struct(">5q")


def save(files: Files, path: str, sequence: int, parts: list[bytes]) -> None:
    """Write a snapshot, durable on return. Safe in any thread; raises OSError."""
    content = b"".join(parts)
    save_snapshot(files, path, _MAGIC, sequence, len(content), [content])


def load(files: Files, path: str, sequence: int) -> bytes | None:
    """Return the content of the snapshot with this sequence, None if it is not there or damaged."""
    return load_snapshot(files, path, _MAGIC, sequence)


def dump(queues: Iterable[PopQueue]) -> list[bytes]:
    """Return the rows of these queues; those of queues that have not changed are kept from the last time."""
    rows: list[bytes] = []
    for queue in queues:
        if queue.packed is None:
            queue.packed = _pack(queue)
        rows.append(queue.packed)
    return rows


def _pack(queue: PopQueue) -> bytes:
    orderly = json.dumps(queue.orderly.to_json()).encode() if queue.orderly is not None else b""
    roots = [root for root in queue.roots if root.pinned]
    children = [point for point in queue.points.values() if point.parent is not None]
    parts = [
        _LENGTH.pack(len(queue.name)),
        queue.name,
        _NUMBER.pack(queue.next_offset),
        _COUNT.pack(len(orderly)),
        orderly,
    ]
    parts.append(_COUNT.pack(len(roots)))
    for root in roots:
        parts.append(_ROOT.pack(root.start, root.pop_ms, root.due_ms))
        parts += [_mask(root.held | root.reviving), _mask(root.pinned)]
    parts.append(_COUNT.pack(len(children)))
    parts += [
        _CHILD.pack(child.start, child.pop_ms, child.due_ms, child.root.start, child.root.pop_ms) for child in children
    ]
    return b"".join(parts)


def _mask(mask: int) -> bytes:
    raw = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    return _LENGTH.pack(len(raw)) + raw


class _Reader:
    """Reads a snapshot from front to back."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._content)

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        found = form.unpack_from(self._content, self._at)
        self._at += form.size
        return found

    def piece(self, form: struct.Struct) -> bytes:
        (length,) = self.numbers(form)
        piece = self._content[self._at : self._at + length]
        if len(piece) != length:
            raise ValueError("the snapshot is too short")
        self._at += length
        return piece

    def mask(self) -> int:
        return int.from_bytes(self.piece(_LENGTH), "little")


def parse(content: bytes) -> Iterator[PopQueue]:
    """Yield the queues of a snapshot. Raises ValueError if the content does not hold together."""
    reader = _Reader(content)
    try:
        while reader:
            yield _unpack(reader)
    except (struct.error, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"the snapshot does not hold together: {error}") from None


def _unpack(reader: _Reader) -> PopQueue:
    key = read_key(reader.piece(_LENGTH))
    queue = PopQueue(key, *reader.numbers(_NUMBER))
    if orderly := reader.piece(_COUNT):
        value = json.loads(orderly)
        queue.orderly = Orderly.from_json(value)
        queue.next_offset = next_offset_in(value, queue.next_offset)
    parents: dict[tuple[int, int], CheckPoint] = {}
    unspoken: dict[CheckPoint, int] = {}
    for _ in range(*reader.numbers(_COUNT)):
        start, pop_ms, due_ms = reader.numbers(_ROOT)
        root = CheckPoint(start, pop_ms, due_ms, reader.mask())
        root.pinned = reader.mask()
        parents[start, pop_ms] = root
        unspoken[root] = root.pinned & ~root.held
    children: list[CheckPoint] = []
    for _ in range(*reader.numbers(_COUNT)):
        offset, pop_ms, due_ms, *parent = reader.numbers(_CHILD)
        root = parents[parent[0], parent[1]]
        children.append(CheckPoint(offset, pop_ms, due_ms, 1, root))
        if offset - root.start < unspoken[root].bit_length():
            unspoken[root] &= ~(1 << (offset - root.start))
    for root, mask in unspoken.items():
        # the message of one that was being copied: its own handle is gone, so the first one speaks for it again
        root.held |= mask
        queue.restore(root)
    for child in children:
        queue.restore(child)
    return queue
