"""Checks: producers that said nothing about a half are asked, and halves nobody could tell about are parked.

    time-out or immunity over ──► due ──► a producer of the group is there: asked, counted, again after the interval
                                  └──────► none is there: waits, counts nothing
    asked as often as allowed, and the interval is over ──► parked in TRANS_CHECK_MAX_TIME_TOPIC

The engine says whom to ask about what (``take``); whoever can reach producers asks, and says about which it did
(``checked``). Only those count. Counts are written down together, with the next batch. Questions that are alike stand
in one piece (``Checks``), so that a million of them need not be handled one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, compress, starmap
from struct import Struct, error
from typing import Any, NamedTuple
from zlib import crc32

from ...rocketmq.layout import (
    BODY_LENGTH_AT,
    CRC_NAME,
    CRC_SIZE,
    HEAD_V4,
    MAGIC_V1,
    MIN_RECORD_SIZE,
    NOT_IPV6,
    U32,
    crc_properties,
)
from ...rocketmq.message import Message, decode, has_its_checksum, pack_host
from ...rocketmq.properties import CHECK_TIMES, KEYS, PARKED_HALF, TAGS, UNIQUE_KEY, format_properties
from ...rocketmq.topics import CHECKS_TOPIC, HALF_TOPIC, PARKED_HALF_TOPIC
from ..errors import BrokerError, CorruptRecord, RecordNotFound, StoreRefused
from ..message_header import Facts
from ..store import Store
from .halves import DUE, ENDING, PARKING, OffsetQueue, Parked, equal
from .records import CHECK_TAG, NoteRecord, check_records
from .state import Note, TransactionTable

#: Calendar entries looked at in one tick, so that a million of them do not keep the broker from answering.
LOOKED_AT_PER_TICK = 250
#: Halves parked in one tick; each is an append.
_PARKED_PER_TICK = 100
#: Halves of a group without a producer that were decided meanwhile stay in its line, so many beside those that wait.
_DECIDED_IN_QUEUE = 1_000
#: Retry after the store refused.
_REFUSED_PAUSE_MS = 1_000


# The questions.

#: Where a record with IPv4 addresses says how long its body is.
_LENGTH_BEGIN, _LENGTH_END = BODY_LENGTH_AT, HEAD_V4.size


class Check(NamedTuple):
    """A question about a half: its whole record, the group whose producers to ask, and how often they were asked."""

    offset: int
    position: int
    record: bytes
    group: str
    checks: int

    @property
    def half(self) -> Message:
        """The half message that is asked about, decoded."""
        return decode(self.record, verify=False)


@dataclass(frozen=True, slots=True)
class Checks:
    """Questions to the producers of one group, asked equally often before, about halves whose records are equally long,
    and so are their bodies. The records stand one behind the other in ``records``."""

    group: str
    checks: int
    offsets: Sequence[int]
    positions: Sequence[int]
    records: bytes

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size(self) -> int:
        """The length of each record in bytes."""
        return len(self.records) // len(self.offsets)

    def __iter__(self) -> Iterator[Check]:
        size = self.size
        for number, (offset, position) in enumerate(zip(self.offsets, self.positions, strict=True)):
            record = self.records[number * size : (number + 1) * size]
            yield Check(offset, position, record, self.group, self.checks)

    def part(self, begin: int, end: int) -> Checks:
        """Return those from one number to another."""
        size, part = self.size, slice(begin, end)
        records = self.records[begin * size : end * size]
        return Checks(self.group, self.checks, self.offsets[part], self.positions[part], records)

    def pick(self, selectors: Sequence[object]) -> Checks:
        """Return those whose selector is true."""
        size = self.size
        records = [self.records[at : at + size] for at in range(0, len(self.records), size)]
        offsets = list(compress(self.offsets, selectors))
        positions = list(compress(self.positions, selectors))
        return Checks(self.group, self.checks, offsets, positions, b"".join(compress(records, selectors)))


#: What is equal in questions of a group that may stand in one piece: how often was asked, lengths of record and body.
Kind = tuple[int, int, bytes]


def kind_of(checks: int, size: int, records: bytes) -> Kind:
    """Return the kind of a question, from the first record of some that are alike."""
    return checks, size, records[_LENGTH_BEGIN:_LENGTH_END]


# Finding what is due, and counting.


class Checker:
    """Finds the halves that are due, hands out questions about them, and counts what was asked."""

    def __init__(self, table: TransactionTable, note: Callable[[Note], None]) -> None:
        self._table = table
        self._note = note
        #: (half offsets, count of each) that are not written down yet
        self._counts: list[tuple[Sequence[int], int]] = []

    def tick(self, now_ms: int) -> int | None:
        """Look at what the calendar has for now; return when it has more."""
        table = self._table
        taken = table.calendar.take(now_ms, LOOKED_AT_PER_TICK)
        planned_ms = table.calendar.planned(now_ms)
        over: list[int] = []
        due: dict[int, array[int]] = {}
        for chunk, begin, end in table.halves.runs(taken):
            for part, number in equal(chunk.groups, slice(begin, end)):
                offsets = due.setdefault(number, array("q"))
                if (
                    not any(chunk.flags[part])
                    and max(chunk.next_ms[part]) <= planned_ms
                    and max(chunk.checks[part]) < table.most_checks
                ):
                    chunk.flags[part] = bytes((DUE,)) * (part.stop - part.start)
                    offsets += chunk.offsets[part]
                    continue
                for at in range(part.start, part.stop):
                    if chunk.flags[at] or chunk.next_ms[at] > planned_ms:
                        continue  # it is seen to already, or stands in the calendar once more
                    if chunk.checks[at] < table.most_checks:
                        chunk.flags[at] = DUE
                        offsets.append(chunk.offsets[at])
                    else:
                        over.append(chunk.offsets[at])
        for number, offsets in due.items():
            if offsets:
                self._wait(table.halves.groups.name(number), offsets)
        if over:
            self._park_all(over, now_ms)
        return table.calendar.next_ms()

    def _wait(self, group: str, offsets: Iterable[int]) -> None:
        """Have due halves wait for a producer of their group."""
        asking, halves = self._table.asking, self._table.halves
        queue = asking.get(group)
        if queue is None:
            queue = asking[group] = OffsetQueue()
        queue.extend(offsets)
        if len(queue) > 2 * halves.groups.count(group) + _DECIDED_IN_QUEUE:
            waiting = OffsetQueue()
            for chunk, begin, end in halves.runs(queue.take(len(queue))):
                for part in chunk.stretches(begin, end, DUE):
                    waiting.extend(chunk.offsets[part])
            asking[group] = waiting

    # asking

    def take(self, now_ms: int, is_alive: Callable[[str], bool], count: int) -> list[Checks]:
        """Return up to ``count`` questions for producers that are there; each must be given to ``checked``."""
        table = self._table
        taken: list[Checks] = []
        past_ms = table.calendar.planned(now_ms) - table.interval_ms
        for group in [group for group, (_, since_ms) in table.unasked.items() if since_ms <= past_ms]:
            self.come(group)
        for group in [group for group in table.asking if is_alive(group)]:
            waiting = table.asking[group]
            offsets = waiting.take(count)
            if not len(waiting):
                del table.asking[group]
            for checks in self._questions(offsets, group, now_ms):
                taken.append(checks)
                count -= len(checks)
            if count <= 0:
                break
        return taken

    def _questions(self, offsets: array[int], group: str, now_ms: int) -> Iterator[Checks]:
        table = self._table
        number = table.halves.groups.number(group)
        due, positions, counts = array("q"), array("q"), array("H")
        for chunk, begin, end in table.halves.runs(offsets):
            for stretch in chunk.stretches(begin, end, DUE):
                for part, owner in equal(chunk.groups, stretch):
                    if owner == number:
                        due += chunk.offsets[part]
                        positions += chunk.positions[part]
                        counts += chunk.checks[part]
        kinds: dict[Kind, list[tuple[array[int], array[int], bytes]]] = {}
        for part, records in read_halves(table.store, due, positions):
            if records is None:
                # it cannot be asked about; those behind it can
                table.store.note_damage(positions[part.start], positions[part.start] + 1)
                table.plan(due[part.start], now_ms + table.interval_ms)
                continue
            size = len(records) // (part.stop - part.start)
            for same, checks in equal(counts, part):
                cut = records[(same.start - part.start) * size : (same.stop - part.start) * size]
                kinds.setdefault(kind_of(checks, size, cut), []).append((due[same], positions[same], cut))
        for (checks, _, _), alike in kinds.items():
            if len(alike) == 1:
                yield Checks(group, checks, *alike[0])
            else:
                offsets_of, positions_of, parts = zip(*alike, strict=True)
                at = array("q", chain.from_iterable(offsets_of)), array("q", chain.from_iterable(positions_of))
                yield Checks(group, checks, *at, b"".join(parts))

    def come(self, group: str) -> None:
        """Hear that other producers of a group are there: what the last ones might not see is due at once."""
        queue, _ = self._table.unasked.pop(group, (None, 0))
        if queue is not None:
            self._wait(group, queue.take(len(queue)))

    def checked(self, asked: Sequence[int], not_asked: Sequence[int], now_ms: int) -> None:
        """Hear of which halves (by offset) a producer was really asked now. Those about which nobody was, because those
        who are there may not see them, wait for others (``come``) or the interval; that counts nothing."""
        table = self._table
        planned_ms = table.calendar.planned(now_ms + table.interval_ms)
        planned = array("q")
        for chunk, begin, end in table.halves.runs(array("q", asked)):
            for stretch in chunk.stretches(begin, end, DUE):
                for part, count in equal(chunk.checks, stretch):
                    chunk.count(part, count + 1, planned_ms)
                    self._counts.append((chunk.offsets[part], count + 1))
                    planned += chunk.offsets[part]
        table.calendar.put_many(planned, planned_ms)
        table.check_total += len(planned)
        table.note_checks(len(planned))
        for chunk, begin, end in table.halves.runs(array("q", not_asked)):
            for stretch in chunk.stretches(begin, end, DUE):
                for part, number in equal(chunk.groups, stretch):
                    group = table.halves.groups.name(number)
                    if group not in table.unasked:
                        table.unasked[group] = OffsetQueue(), table.calendar.planned(now_ms)
                    table.unasked[group][0].extend(chunk.offsets[part])

    def restart(self, offset: int, now_ms: int) -> None:
        """Begin to count the checks of an open half anew."""
        if (found := self._table.halves.place(offset)) is not None:
            found[0].own()
            found[0].checks[found[1]] = 0
            self._counts.append(((offset,), 0))
            self._table.plan(offset, now_ms)

    def write(self, now_ms: int) -> None:
        """Append what was counted since the last call. Raises StoreRefused; then it waits."""
        if self._counts:
            for record in check_records(self._counts):
                self.append(record, CHECK_TAG, now_ms)
            self._counts = []

    def append(self, record: NoteRecord, tag: str, now_ms: int, owner: object = None) -> None:
        """Append one note record. Raises StoreRefused."""
        store = self._table.store
        facts = Facts(format_properties(record.properties), None, tag, None)
        code, host = store.tags_code(tag), store.store_host
        store.append(CHECKS_TOPIC, 0, record.body, facts, code, 0, 0, now_ms, host, now_ms, owner=owner)

    # parking

    def _park_all(self, offsets: Sequence[int], now_ms: int) -> None:
        """Park what nobody could tell about; what the store does not take now is looked at again."""
        calendar = self._table.calendar
        for number, offset in enumerate(offsets):
            if number == _PARKED_PER_TICK:
                calendar.put_many(offsets[number:], calendar.planned(now_ms))
                return
            if not self._park(offset, now_ms):
                calendar.put_many(offsets[number:], calendar.planned(now_ms) + _REFUSED_PAUSE_MS)
                return

    def _park(self, offset: int, now_ms: int) -> bool:
        """Append the copy for the parked ones, unless it stood in the calendar twice and one is on its way; False if
        the store takes nothing now."""
        table, row = self._table, self._table.halves.get(offset)
        if row is None or row.flags & ENDING:
            return True
        try:
            half = table.half_at(row.position)
            if half is None:
                raise CorruptRecord(row.position, "it is no half message any more")
            ticket = self._append_parked(half, row.checks, now_ms)
        except StoreRefused:
            return False
        except BrokerError:
            table.plan(offset, now_ms + table.interval_ms)
            return True
        table.halves.mark(offset, PARKING)
        self._note(Parked(offset, row.position, row.store_ms, ticket[0], ticket[1], now_ms))
        return True

    def _append_parked(self, half: Message, checks: int, now_ms: int) -> tuple[int, int]:
        store = self._table.store
        properties = {**half.properties, CHECK_TIMES: str(checks), PARKED_HALF: str(half.position)}
        facts = Facts(
            format_properties(properties), properties.get(UNIQUE_KEY), properties.get(TAGS), properties.get(KEYS)
        )
        sent = (half.flag, half.sys_flag, half.born_ms, pack_host(*half.born_host))
        code, times = store.tags_code(facts.tags), half.reconsume_times
        ticket = store.append(PARKED_HALF_TOPIC, 0, half.body, facts, code, *sent, now_ms, times)
        return ticket.queue_offset, ticket.position


# Halves read again from the log, many at a time: they stand close together, so a few calls bring all, and those of
# one size that stand back to back are looked at in one piece.

#: Read at once, and as far ahead as another half is wanted.
_READ_BYTES = 128 << 10
#: Read for one half that stands alone.
_ALONE_BYTES = 4 << 10
#: Of a record with IPv4 addresses: size, magic, queue id, queue offset, position, sysFlag, body length.
_LOOK = Struct(">II4xI4xqqI44xI").unpack_from
_NAME = bytes([len(HALF_TOPIC)]) + HALF_TOPIC.encode()
#: Fewer than these are looked at one by one.
_FEW = 4


def read_halves(store: Store, offsets: Sequence[int], positions: Sequence[int]) -> Iterator[tuple[slice, bytes | None]]:
    """Yield which of these halves, in order of position, and their records: of several at once if those and their
    bodies are equally long; None where none stands that is sound."""
    number = 0
    while number < len(positions):
        begin = number
        buffer = _read(store, positions[begin], positions[-1])
        for part, records in _alike(buffer, positions, begin):
            number = part.stop
            if part.stop - part.start >= _FEW and _are_sound(records, offsets[part], positions[part]):
                yield part, records
                continue
            size = len(records) // (part.stop - part.start)
            for at in range(part.start, part.stop):
                record = records[(at - part.start) * size : (at - part.start + 1) * size]
                is_usual = _is_sound(record, offsets[at], positions[at])
                yield slice(at, at + 1), record if is_usual else _read_slowly(store, offsets[at], positions[at])
        if number == begin:
            yield slice(begin, begin + 1), _read_slowly(store, offsets[begin], positions[begin])
            number += 1


def _alike(buffer: bytes, positions: Sequence[int], begin: int) -> Iterator[tuple[slice, bytes]]:
    """Yield which halves, from one on, have records and bodies that are equally long, and their records one behind the
    other, as far as those stand in the buffer, which starts with the first."""
    base, end = positions[begin], positions[begin] + len(buffer)
    kind: tuple[int, bytes] = 0, b""
    parts: list[bytes] = []
    number = first = begin
    while number < len(positions) and base <= positions[number] <= end - HEAD_V4.size:
        at = positions[number] - base
        size = U32.unpack_from(buffer, at)[0]
        stop = _stop(positions, number, size, end)
        if stop == number:
            break
        own = size, buffer[at + BODY_LENGTH_AT : at + HEAD_V4.size]
        if own != kind:
            if parts:
                yield slice(first, number), b"".join(parts)
            kind, parts, first = own, [], number
        parts.append(buffer[at : at + (stop - number) * size])
        number = stop
    if parts:
        yield slice(first, number), b"".join(parts)


def _stop(positions: Sequence[int], begin: int, size: int, end: int) -> int:
    """Return the number behind the last half of those that stand back to back from ``begin`` on, as far as they are of
    this size and before the byte ``end``."""
    if size < MIN_RECORD_SIZE:
        return begin
    position = positions[begin]
    stop = min(len(positions), begin + (end - position) // size)
    while stop - begin >= _FEW and positions[stop - 1] - position != (stop - 1 - begin) * size:
        stop = begin + (stop - begin) // 2
    return stop


def _is_sound(record: bytes, offset: int, position: int) -> bool:
    """Tell what ``_are_sound`` does, of a single record."""
    size, *place, flags, body_length = _LOOK(record)
    return (
        place == [MAGIC_V1, 0, offset, position]
        and not flags & ~NOT_IPV6
        and record.startswith(_NAME, HEAD_V4.size + body_length)
        and record.startswith(CRC_NAME, size - CRC_SIZE)
        and has_its_checksum(record)
    )


def _are_sound(records: bytes, offsets: Sequence[int], positions: Sequence[int]) -> bool:
    """Tell whether records of one size are those of halves at these offsets and positions, all sound, as usual, and
    with bodies of one length."""
    size, _, _, _, _, flags, body_length = _LOOK(records)
    try:
        look, content = _unpacks_of(size, body_length)
    except error:
        return False
    count = len(offsets)
    heads, queues, places, sys_flags, lengths, names, ends = zip(*look(records), strict=True)
    return (
        not flags & ~NOT_IPV6
        and heads.count(U32.pack(size) + U32.pack(MAGIC_V1)) == count
        and queues.count(bytes(4)) == sys_flags.count(sys_flags[0]) == lengths.count(lengths[0]) == count
        and names.count(_NAME) == count
        and b"".join(places)
        == Struct(f">{2 * count}q").pack(*chain.from_iterable(zip(offsets, positions, strict=True)))
        and b"".join(ends) == crc_properties(list(starmap(crc32, content(records))))
    )


@lru_cache(maxsize=256)
def _unpacks_of(
    size: int, body_length: int
) -> tuple[Callable[[bytes], Iterator[tuple[Any, ...]]], Callable[[bytes], Iterator[tuple[bytes]]]]:
    """Return what cuts size and magic, queue id, place, sysFlag, body length, topic and checksum out of back-to-back
    records of one size and body length, and what cuts out all that the checksum is of. Raises error if no record
    is so."""
    content = size - CRC_SIZE
    rest = content - HEAD_V4.size - body_length - len(_NAME)
    look = Struct(f">8s4x4s4x16s4s44x4s{body_length}x{len(_NAME)}s{rest}x{CRC_SIZE}s")
    return look.iter_unpack, Struct(f"{content}s{CRC_SIZE}x").iter_unpack


def _read(store: Store, position: int, last: int) -> bytes:
    """Return what stands from a position on, as far as the other halves are close."""
    wanted = min(max(last - position, 0) + _ALONE_BYTES, store.visible_position - position)
    try:
        return store.log.chain.read(position, min(wanted, _READ_BYTES))
    except RecordNotFound:
        return b""


def _read_slowly(store: Store, offset: int, position: int) -> bytes | None:
    """Read one that is long, has IPv6 addresses, comes from Apache RocketMQ, or is no half at all."""
    if position >= store.visible_position:
        return None
    try:
        record = store.log.record_at(position)
        half = decode(record, verify=False)
    except (RecordNotFound, CorruptRecord):
        return None
    return record if (half.topic, half.queue_offset) == (HALF_TOPIC, offset) else None
