"""Recovery of transactions: the right state after a start, whatever was lost with the last one.

    half, nothing else             open
    half, its copy, no op          committed: the op record is written now
    half, op "commit", no copy     the copy was lost in a power failure: it is made again, exactly once
    half, op "rollback"            rolled back
    half, parked copy              parked
    half put back (RocketMQ's)     the newest one is open, unless a decision names one of them

Below the checkpoint everything is durable, so an op record there is believed without a look at the copy; and no
checkpoint passes a copy whose op record is not visible yet.

A snapshot holds the open and parked halves, so that a start need not read all half messages. It is in
``escapement.halves.0`` and ``.1``, written in turn; the checkpoint names the one that counts by its sequence:

    0  8 magic "ESCHALF1"   8  8 sequence   16  8 length   24  4 CRC32 of all the rest   28  4 zero   32  content
    content:  4 length of the head   head: JSON {"groups": [...], "open": n, "parked": n}
              open rows by column:    n x 8 offset, position, store_ms, next_ms   n x 2 checks   n x 4 group
              parked rows by column:  n x 8 offset, position, store_ms, copy offset, copy position, parked_ms

Numbers are big-endian. ``group`` is an index into the head's groups, some of which may be nobody's. A file that does
not match its checksum or the sequence asked for is as good as none: the half, op and note queues are read from their
beginning.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import CHECK_TIMES, PARKED_HALF, PRODUCER_GROUP, TAGS
from ...rocketmq.topics import CHECKS_TOPIC, HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC
from ..disk import Files, load_snapshot, save_snapshot
from ..errors import CorruptRecord, RecordNotFound
from ..store import Store
from .halves import Calendar, Columns, Half, OpenHalves, Parked, ParkedHalves, equal
from .records import CHECK_TAG, RESUME_TAG, Decision, read_checks, read_op, read_resumed
from .state import TransactionTable, is_decided, predecessors, successor, was_put_back

#: The queues that tell the whole story, in the order in which a snapshot marks them.
TOPICS = (HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC, CHECKS_TOPIC)
_READ_AHEAD = 256


class Recovering:
    """Takes records in order of position into the table."""

    def __init__(self, table: TransactionTable) -> None:
        self._table = table
        self._believes_ops = False
        #: open halves (by offset) with a copy in the log
        self._copied: set[int] = set()
        #: open halves whose op record says "commit", without a copy so far
        self._awaited: dict[int, tuple[Decision, int]] = {}

    def replay(self, marks: list[int]) -> None:
        """Hear of everything the queues hold from these offsets on; all of it is durable."""
        self._believes_ops = True
        store = self._table.store
        for position in merge(*(_positions(store, topic, mark) for topic, mark in zip(TOPICS, marks, strict=True))):
            try:
                self.walked(decode(store.log.record_at(position), verify=False))
            except (RecordNotFound, CorruptRecord):
                continue
        self._believes_ops = False

    def walked(self, message: Message) -> None:
        """Hear of a record of one of the four topics."""
        if message.topic == HALF_TOPIC:
            self._half(message)
        elif message.topic == OP_TOPIC:
            for decision in read_op(message.body, message.properties):
                self._decision(decision, message.store_ms)
        elif message.topic == PARKED_HALF_TOPIC:
            self._parked(message)
        else:
            self._note(message)

    def heard(self, half: Message) -> None:
        """Hear that a copy of a half is in the log: it is committed."""
        offset = half.queue_offset
        if (awaited := self._awaited.pop(offset, None)) is not None:
            self._table.settle(*awaited)
        elif self._table.undecided(offset) is not None:
            self._copied.add(offset)
        elif (newer := successor(self._table, half)) is not None:
            self._copied.add(newer.queue_offset)

    def _half(self, message: Message) -> None:
        table, checks = self._table, 0
        group = message.properties.get(PRODUCER_GROUP)
        if not group:
            return  # nobody could be asked, nobody may decide: RocketMQ drops such a record too
        if was_put_back(message):
            older = predecessors(table, message)
            if older and table.undecided(older[-1].queue_offset) is None and is_decided(table, older):
                return
            for record in older:
                table.close(record.queue_offset)
            checks = _number(message.properties.get(CHECK_TIMES, ""))
        due_ms = table.first_due_ms(message.store_ms, message.properties)
        if checks:
            due_ms = max(due_ms, message.store_ms + table.interval_ms)
        table.open(message.queue_offset, message.position, message.store_ms, due_ms, group, checks)
        table.half_total += 1

    def _decision(self, decision: Decision, at_ms: int) -> None:
        table, offset = self._table, decision.offset
        if table.undecided(offset) is None:
            half = self._decided_half(offset)
            newer = successor(table, half) if half is not None else None
            if newer is None:
                return
            decision = decision._replace(offset=newer.queue_offset)
            offset = decision.offset
        if decision.commit and not self._believes_ops and offset not in self._copied:
            self._awaited[offset] = (decision, at_ms)
            return
        self._copied.discard(offset)
        table.settle(decision, at_ms)

    def _decided_half(self, offset: int) -> Message | None:
        """Return the half that an op record names although it is not open: it may have been put back since."""
        queue = self._table.store.queues.get(HALF_TOPIC, 0)
        entries = queue.entries(offset, 1) if queue is not None else []
        try:
            return self._table.half_in_log(entries[0].position) if entries else None
        except CorruptRecord:
            return None

    def _parked(self, message: Message) -> None:
        table = self._table
        source = message.properties.get(PARKED_HALF, "")
        if source.isdigit():
            row = table.halves.at_position(int(source))
        else:
            older = predecessors(table, message)
            row = table.halves.get(older[-1].queue_offset) if older else None
        if row is not None:
            table.close(row.offset)
            table.parked.add(parked_row(row, message))

    def _note(self, message: Message) -> None:
        table = self._table
        if message.properties.get(TAGS) == CHECK_TAG:
            offsets, counts = read_checks(message.body)
            for part, count in equal(counts, slice(0, len(counts))):
                table.count(offsets[part], min(count, 0xFFFF), message.store_ms + table.interval_ms)
        elif message.properties.get(TAGS) == RESUME_TAG:
            for offset in read_resumed(message.body):
                reopen(table, offset, message.store_ms)

    def finish(self, now_ms: int) -> tuple[list[Decision], list[Decision]]:
        """Return commits whose op record is to be written, and commits whose copy is to be made again."""
        table = self._table
        bare = [Decision(offset, True, "recovery") for offset in sorted(self._copied)]
        lost = [decision for decision, _ in self._awaited.values()]
        self._copied, self._awaited = set(), {}
        # a clock that was set back since makes nothing wait longer than it would from now
        late_ms = now_ms + table.interval_ms
        late = [chunk for chunk in table.halves.chunks() if max(chunk.next_ms) > late_ms]
        for row in [table.halves.get(offset) for chunk in late for offset in chunk.offsets]:
            if row is None or row.next_ms <= late_ms:
                continue
            wait_ms = table.interval_ms if row.checks else max(row.next_ms - row.store_ms, 0)
            if row.next_ms > now_ms + wait_ms:
                table.plan(row.offset, now_ms + wait_ms)
        return bare, lost


def parked_row(row: Half, copy: Message) -> Parked:
    """Return the row of a half that was parked by this record."""
    return Parked(row.offset, row.position, row.store_ms, copy.queue_offset, copy.position, copy.store_ms)


def reopen(table: TransactionTable, offset: int, now_ms: int) -> None:
    """Open a parked half again, as if it was never asked about; it is due at once."""
    parked = table.parked.get(offset)
    if parked is None:
        return
    try:
        half = table.half_in_log(parked.position)
    except CorruptRecord:
        half = None
    group = half.properties.get(PRODUCER_GROUP, "") if half is not None else ""
    if group:
        table.close(offset)
        table.open(offset, parked.position, parked.store_ms, now_ms, group)
        table.reopened_total += 1


def _positions(store: Store, topic: str, mark: int) -> Iterator[int]:
    queue = store.queues.get(topic, 0)
    if queue is None:
        return
    at = max(mark, queue.min_offset)
    while entries := queue.entries(at, _READ_AHEAD):
        yield from (entry.position for entry in entries)
        at += len(entries)


def _number(text: str) -> int:
    return min(int(text), 0xFFFF) if text.isascii() and text.isdigit() and len(text) < 9 else 0


# The snapshot.

_MAGIC = b"ESCHALF1"
_LENGTH = struct.Struct(">I")
#: Columns of an open row, and of a parked one.
_OPEN_TYPES = "qqqqHI"
_NEXT = 3
_PARKED_TYPES = "qqqqqq"
_OPEN_SIZE, _PARKED_SIZE = (struct.calcsize(">" + kinds) for kinds in (_OPEN_TYPES, _PARKED_TYPES))
#: What is written at a time: some 100 KiB.
_PIECE_CHUNKS, _PIECE_ROWS = 12, 16_384


class Dump(NamedTuple):
    """Both tables as they stood in one moment."""

    groups: list[str]
    #: columns of open rows, by chunk
    open: list[Columns]
    parked: Columns
    #: how far the calendar is ahead of the wall clock
    ahead_ms: int


def dump(halves: OpenHalves, parked: ParkedHalves, calendar: Calendar) -> Dump:
    """Return what a snapshot of now holds. Open rows are not copied, so that a million of them keep nobody waiting."""
    return Dump(
        halves.groups.names(), halves.freeze(), tuple(column[:] for column in parked.columns()), calendar.planned(0)
    )


def _pieces(head: bytes, dumped: Dump) -> Iterator[bytes]:
    """Yield the content of a snapshot; moments in it are the wall clock's. May take a while, in steps that are short
    enough for others to go on between them."""
    yield _LENGTH.pack(len(head)) + head
    for number in range(len(_OPEN_TYPES)):
        back_ms = dumped.ahead_ms if number == _NEXT else 0
        for at in range(0, len(dumped.open), _PIECE_CHUNKS):
            yield b"".join([_big(chunk[number], back_ms) for chunk in dumped.open[at : at + _PIECE_CHUNKS]])
    for column in dumped.parked:
        for at in range(0, len(column), _PIECE_ROWS):
            yield _big(column[at : at + _PIECE_ROWS])


def _big(column: array[int], back_ms: int = 0) -> bytes:
    column = array(column.typecode, [each - back_ms for each in column]) if back_ms else column[:]
    return _swapped(column).tobytes()


def parse(content: bytes, halves: OpenHalves, parked: ParkedHalves) -> None:
    """Fill both tables. Raises ValueError if the content does not hold together."""
    try:
        length = _LENGTH.unpack_from(content)[0]
        at = _LENGTH.size + length
        head = json.loads(content[_LENGTH.size : at])
        groups = [str(name) for name in head["groups"]]
        rows, at = _columns(content, at, _OPEN_TYPES, int(head["open"]))
        halves.load(rows, groups)
        rows, at = _columns(content, at, _PARKED_TYPES, int(head["parked"]))
        for row in zip(*rows, strict=True):
            parked.add(Parked(*row))
    except (struct.error, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"the snapshot does not hold together: {error}") from None


def _columns(content: bytes, at: int, kinds: str, count: int) -> tuple[list[array[int]], int]:
    columns: list[array[int]] = []
    for kind in kinds:
        column = array(kind)
        size = column.itemsize * count
        column.frombytes(content[at : at + size])
        if len(column) != count:
            raise ValueError("the snapshot is too short")
        columns.append(_swapped(column))
        at += size
    return columns, at


def _swapped(column: array[int]) -> array[int]:
    """Turn a column of our own into big-endian numbers, or back."""
    if sys.byteorder == "little":
        column.byteswap()
    return column


def save(files: Files, path: str, sequence: int, dumped: Dump) -> None:
    """Write a snapshot, durable on return. Safe in any thread; raises OSError."""
    open_rows = sum(len(chunk[0]) for chunk in dumped.open)
    head = json.dumps({"groups": dumped.groups, "open": open_rows, "parked": len(dumped.parked[0])}).encode()
    length = _LENGTH.size + len(head) + open_rows * _OPEN_SIZE + len(dumped.parked[0]) * _PARKED_SIZE
    save_snapshot(files, path, _MAGIC, sequence, length, _pieces(head, dumped))


def load(files: Files, path: str, sequence: int) -> bytes | None:
    """Return the content of the snapshot with this sequence, None if it is not there or damaged."""
    return load_snapshot(files, path, _MAGIC, sequence)
