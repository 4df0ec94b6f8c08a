"""The states of timers, and the one table that says whether a timer waits, is claimed, or is over.

A timer is a record of ``rmq_sys_wheel_timer`` queue 0, and is named here by its offset in that queue. ``TimerStates``
alone decides whether a timer may still be released. Wheel, timer log and what was read ahead only say where to look:
whoever finds a timer there asks ``waits``, so it does no harm that one is found twice, or after it is over.

                 appended                     accept
       (none) ─────────────► waiting, unseen ───────► waiting        unseen: its record is not durable yet
                                   │                   │   │
                                   │ claim             │   │ end: its topic was deleted, or its record is damaged
                                   ▼                   ▼   │
                              claimed(end) ◄───────────┘   │         claimed: the record that ends it is appended,
                                   │                       │         and says how: delivered, cancelled, rescheduled
                                   │ end                   │
                                   ▼                       │
                                  over ◄───────────────────┘         over: for good

A claim has one winner, as appends have one order: ``claim`` refuses a timer that does not wait. Nothing leads back. A
claim is not kept across a stop: if the record that ends a timer was lost with the power, the timer waits again.

Which timers are over is one bit for each offset of the queue. Bits are kept in chunks of 65,536 offsets. A chunk
without a timer that still waits costs nothing, so memory follows the offsets between the oldest waiting timer and the
newest: 1.25 MB for ten million.

    chunk n: bit (offset % 8) of byte (offset % 65,536 // 8) is 1 when the timer at n * 65,536 + ... is over

Kept in the state file (checkpoint.py) as ``lowest chunk``, then the chunks in order; an absent chunk in between is all
over.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple

from ...rocketmq.message import Message
from ...rocketmq.properties import (
    DUE_MS,
    REAL_TOPIC,
    REPLACES,
    SCHEDULE_KEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)

# The timer, and what is noted on the records that begin or end it.


class Timer(NamedTuple):
    """A timer: its record's place and what it says. ``replaced``: position of the timer that is over with it."""

    offset: int
    position: int
    size: int
    due_ms: int
    topic: str
    unique_key: str | None = None
    key: str | None = None
    replaced: int = -1


class Sent(NamedTuple):
    """The rest of a message as the client sent it."""

    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int


#: How a timer ends: released, early or in time; taken back; or another timer takes its place for the same message.
End = Literal["delivered", "cancelled", "rescheduled"]


class Replacement(NamedTuple):
    """A waiting timer whose place a new one takes, and how that ends it."""

    timer: Timer
    end: End


class Replaced(NamedTuple):
    """Noted on a parked record: a timer came, and ``old`` is over with it."""

    timer: Timer
    old: Timer


class Deleted(NamedTuple):
    """Noted on a delete record: ``victim`` is over if it ``cancels``, and was before if not; None: there is none."""

    offset: int
    position: int
    size: int
    victim: Timer | None
    cancels: bool


#: What becomes of timers when a record is visible.
Note = Timer | Replaced | Deleted


def timer_of(message: Message) -> Timer:
    """Return a parked record as a timer; ``due_ms`` is exact also where RocketMQ wrote the record."""
    properties = message.properties
    replaced = number_of(properties.get(REPLACES))
    return Timer(
        message.queue_offset,
        message.position,
        message.size,
        due_ms_of(message),
        properties.get(REAL_TOPIC, ""),
        message.unique_key,
        properties.get(SCHEDULE_KEY),
        -1 if replaced is None else replaced,
    )


def due_ms_of(message: Message) -> int:
    """Return when a parked record is due: what we wrote, else what the sender asked for, else RocketMQ's second."""
    properties = message.properties
    if (exact := number_of(properties.get(DUE_MS))) is not None:
        return exact
    out_ms = number_of(properties.get(TIMER_OUT_MS))
    asked: int | None = None
    if (seconds := number_of(properties.get(TIMER_DELAY_SEC))) is not None:
        asked = message.store_ms + seconds * 1000
    elif (delay_ms := number_of(properties.get(TIMER_DELAY_MS))) is not None:
        asked = message.store_ms + delay_ms
    else:
        asked = number_of(properties.get(TIMER_DELIVER_MS))
    if out_ms is None:
        return message.store_ms if asked is None else asked
    # a relative time was counted from a moment shortly before the record was stored: it must fit RocketMQ's second
    return asked if asked is not None and out_ms < asked <= out_ms + 1000 else out_ms + 1000


def number_of(text: str | None) -> int | None:
    """Return a whole number of at most 64 bits, None for anything else."""
    if text is None or not text.isascii() or len(text) > 19 or not text.removeprefix("-").isdigit():
        return None
    return int(text)


# The table.

_position_of = attrgetter("position")


@dataclass(slots=True)
class Totals:
    """Counts of what happened to timers since the store was made."""

    released: int = 0
    cancelled: int = 0
    rescheduled: int = 0
    rolled: int = 0
    early: int = 0


class TimerStates:
    """Says of every timer whether it waits, is claimed, or is over, and counts those that are not over.

    ``pending`` and ``by_topic`` count visible timers that are not over, claimed ones included. ``recalled``: messages
    that are over from the start if they come. While ``paused`` nothing is released, and what is due waits.
    """

    def __init__(self) -> None:
        self._over = OverMap()
        self._claims: dict[int, End] = {}
        #: timers that are appended and not visible yet, in the order of their records; to be read only
        self.unseen: list[Timer] = []
        #: portions released and not visible yet: offset and due moment of the first timer of each. The offset names the
        #: portion, as a timer is claimed once
        self._portions: dict[int, int] = {}
        self.pending = 0
        self.by_topic: dict[str, int] = {}
        self.totals = Totals()
        self.recalled = Recalled()
        self.paused = False

    # asking

    @property
    def end_offset(self) -> int:
        """The offset that the next visible timer will have."""
        return self._over.end

    def waits(self, offset: int) -> bool:
        """Tell whether a timer is neither over nor claimed."""
        return offset not in self._claims and not self._over.has(offset)

    def all_wait(self, offsets: Iterable[int]) -> bool:
        """Tell whether all of these visible timers wait."""
        return (not self._claims or self._claims.keys().isdisjoint(offsets)) and self._over.has_none_of(offsets)

    def claimed_as(self, offset: int) -> End | None:
        """Return how a claimed timer is about to end, None for one that is not claimed."""
        return self._claims.get(offset)

    def unseen_at(self, position: int) -> Timer | None:
        """Return the timer whose record stands at a position, if it is not visible yet."""
        unseen = self.unseen
        at = bisect_left(unseen, position, key=_position_of)
        return unseen[at] if at < len(unseen) and unseen[at].position == position else None

    def releasing_ms(self) -> list[int]:
        """Return the due moment of the first timer of each portion that was released and is not visible yet."""
        return list(self._portions.values())

    def lowest(self) -> int | None:
        """Return the lowest visible offset that is not over, None without any."""
        return self._over.lowest()

    def not_over(self, begin: int, end: int) -> Iterator[int]:
        """Yield the visible offsets in ``begin``..``end`` (not included) that are not over, ascending."""
        return self._over.open_offsets(begin, end)

    # from one state to the next

    def appended(self, *timers: Timer) -> None:
        """Take in timers whose records were appended just now: they wait, unseen."""
        self.unseen.extend(timers)

    def accept(self, timers: Sequence[Timer]) -> None:
        """Make timers visible that come next in the queue."""
        self._over.extend(timers[-1].offset + 1)
        unseen, last = self.unseen, timers[-1].position
        if unseen and unseen[-1].position <= last:  # mostly so
            unseen.clear()
        else:
            del unseen[: bisect_right(unseen, last, key=_position_of)]
        by_topic = self.by_topic
        for timer in timers:
            by_topic[timer.topic] = by_topic.get(timer.topic, 0) + 1
        self.pending += len(timers)

    def claim(self, offset: int, end: End) -> None:
        """Say that the record which ends a waiting timer was appended: from now on nothing else may end it."""
        assert self.waits(offset), f"the timer at offset {offset} is not pending, so nothing can claim it"
        self._claims[offset] = end

    def claim_portion(self, offsets: array[int], due_ms: int) -> None:
        """Say that waiting timers were released together; ``due_ms`` is the moment of the first."""
        self._claims.update(dict.fromkeys(offsets, "delivered"))
        self._portions[offsets[0]] = due_ms

    def end(self, offset: int, topic: str) -> bool:
        """Mark a timer as over; False if it was. ``topic``: that it counts for, empty if nobody knows."""
        self._claims.pop(offset, None)
        if not self._over.add(offset):
            return False
        self._count(topic, -1)
        return True

    def end_portion(self, offsets: array[int], by_topic: Mapping[str, int]) -> None:
        """Mark the timers of a portion as over that was released together; ``by_topic``: how many of each topic."""
        claims = self._claims
        for offset in offsets:
            claims.pop(offset, None)
        self._portions.pop(offsets[0], None)
        self._over.add_many(offsets)
        for topic, count in by_topic.items():
            self._count(topic, -count)
        self.totals.released += len(offsets)

    def _count(self, topic: str, change: int) -> None:
        self.pending += change
        left = self.by_topic.get(topic, 0) + change
        if left > 0:
            self.by_topic[topic] = left
        else:
            self.by_topic.pop(topic, None)

    # as the log is walked, and with a checkpoint

    def begin_at(self, offset: int) -> None:
        """Forget all timers; the first one there is will have this offset."""
        self._over.start_at(offset)
        self.by_topic.clear()
        self.pending = 0

    def restore(self, end_offset: int, chunks: list[tuple[int, bytes]], by_topic: Mapping[str, int]) -> None:
        """Take over what a checkpoint kept."""
        self._over.load(end_offset, chunks)
        self.by_topic.update(by_topic)
        self.pending = sum(by_topic.values())

    def found(self, offset: int, topic: str) -> None:
        """Take in a visible timer that waits; it is the next of the queue."""
        self._over.extend(offset + 1)
        self._count(topic, 1)

    def pass_over(self, end: int) -> None:
        """Let offsets up to ``end`` (not included) exist without a timer that waits: deletes, and what was lost."""
        begin = self._over.end
        self._over.extend(end)
        self._over.add_many(range(begin, end))

    def expire_below(self, offset: int) -> None:
        """Mark everything below an offset as over: its records are gone with their segment."""
        for gone in list(self._over.open_offsets(0, offset)):
            self.pending -= 1
            self._over.add(gone)

    def chunks(self) -> list[tuple[int, bytes]]:
        """Return a copy of the bits that say which timers are over, by chunk."""
        return self._over.copy()


# Which are over.

CHUNK_OFFSETS = 65_536
_CHUNK_BYTES = CHUNK_OFFSETS // 8
_SHIFT = 16
_MASK = CHUNK_OFFSETS - 1
_HEAD = struct.Struct(">qI")
#: for each byte the places of its zero bits
_ZEROS = tuple(tuple(bit for bit in range(8) if not byte >> bit & 1) for byte in range(256))


class OverMap:
    """The offsets that are over, a bit for each. Offsets at or above ``end`` do not exist yet, and are not over."""

    def __init__(self) -> None:
        self.end = 0
        self._chunks: dict[int, bytearray] = {}
        #: timers of each chunk that still wait
        self._left: dict[int, int] = {}

    def extend(self, end: int) -> None:
        """Say that offsets up to ``end`` (not included) exist now; the new ones wait."""
        begin = self.end
        while begin < end:
            number = begin >> _SHIFT
            stop = min(end, (number + 1) << _SHIFT)
            if number not in self._chunks:
                # what lies before the first offset of a chunk that starts in its middle is over
                self._chunks[number] = bytearray(_CHUNK_BYTES) if not begin & _MASK else _over_below(begin & _MASK)
                self._left[number] = 0
            self._left[number] += stop - begin
            begin = stop
        self.end = max(self.end, end)

    def has(self, offset: int) -> bool:
        """Tell whether a timer is over."""
        chunk = self._chunks.get(offset >> _SHIFT)
        if chunk is None:
            return offset < self.end
        return bool(chunk[(offset & _MASK) >> 3] >> (offset & 7) & 1)

    def has_none_of(self, offsets: Iterable[int]) -> bool:
        """Tell whether none of these is over; they exist."""
        number, chunk = -1, None
        for offset in offsets:
            if offset >> _SHIFT != number:
                number = offset >> _SHIFT
                chunk = self._chunks.get(number)
            if chunk is None or chunk[(offset & _MASK) >> 3] >> (offset & 7) & 1:
                return False
        return True

    def add(self, offset: int) -> bool:
        """Mark a timer as over; False if it was, or does not exist."""
        number = offset >> _SHIFT
        chunk = self._chunks.get(number)
        if chunk is None or offset >= self.end:
            return False
        place, bit = (offset & _MASK) >> 3, 1 << (offset & 7)
        if chunk[place] & bit:
            return False
        chunk[place] |= bit
        left = self._left[number] - 1
        self._left[number] = left
        if not left:
            self._settle(number)
        return True

    def add_many(self, offsets: Iterable[int]) -> int:
        """Mark timers as over; return how many were not."""
        count = 0
        chunks, end = self._chunks, self.end
        number, chunk, fresh = -1, None, 0
        for offset in offsets:
            if offset >> _SHIFT != number:
                self._count_down(number, fresh)
                number, fresh = offset >> _SHIFT, 0
                chunk = chunks.get(number)
            if chunk is None or offset >= end:
                continue
            place, bit = (offset & _MASK) >> 3, 1 << (offset & 7)
            if not chunk[place] & bit:
                chunk[place] |= bit
                fresh += 1
                count += 1
        self._count_down(number, fresh)
        return count

    def _count_down(self, number: int, count: int) -> None:
        if count:
            self._left[number] -= count
            if not self._left[number]:
                self._settle(number)

    def _settle(self, number: int) -> None:
        """Let go of a chunk that is all over and will not grow."""
        if (number + 1) << _SHIFT <= self.end:
            del self._chunks[number], self._left[number]

    def lowest(self) -> int | None:
        """Return the lowest offset that is not over, None without any."""
        for number in sorted(self._chunks):
            for offset in self.open_offsets(number << _SHIFT, (number + 1) << _SHIFT):
                return offset
        return None

    def open_offsets(self, begin: int, end: int) -> Iterator[int]:
        """Yield the offsets in ``begin``..``end`` that are not over, ascending."""
        end = min(end, self.end)
        for number in sorted(number for number in self._chunks if number <= (end - 1) >> _SHIFT):
            base = number << _SHIFT
            if base + CHUNK_OFFSETS <= begin or not self._left.get(number):
                continue
            chunk = bytes(self._chunks[number])
            for place, byte in enumerate(chunk[: (min(end - base, CHUNK_OFFSETS) + 7) >> 3]):
                if byte != 0xFF:
                    for bit in _ZEROS[byte]:
                        offset = base + (place << 3) + bit
                        if begin <= offset < end:
                            yield offset

    def start_at(self, offset: int) -> None:
        """Forget everything; the first offset there is will be this one."""
        self._chunks.clear()
        self._left.clear()
        self.end = offset

    # keeping

    def copy(self) -> list[tuple[int, bytes]]:
        """Return a copy of the chunks, in order."""
        return [(number, bytes(chunk)) for number, chunk in sorted(self._chunks.items())]

    def load(self, end: int, chunks: list[tuple[int, bytes]]) -> None:
        """Take over chunks that were read from disk."""
        self._chunks = {number: bytearray(chunk) for number, chunk in chunks}
        self.end = end
        self._left = {}
        for number, chunk in self._chunks.items():
            limit = min(max(end - (number << _SHIFT), 0), CHUNK_OFFSETS)
            over = int.from_bytes(chunk, "little") & ((1 << limit) - 1)
            self._left[number] = limit - over.bit_count()


def pack_chunks(chunks: list[tuple[int, bytes]]) -> bytes:
    """Return chunks in the form of the state file, compressed."""
    return zlib.compress(b"".join(_HEAD.pack(number, len(chunk)) + chunk for number, chunk in chunks), 1)


def unpack_chunks(raw: bytes) -> list[tuple[int, bytes]]:
    """Return the chunks of a state file; raises ValueError."""
    try:
        plain = zlib.decompress(raw)
    except zlib.error as error:
        raise ValueError(f"The map of timers that are over cannot be read: {error}.") from None
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(plain):
        if len(plain) - at < _HEAD.size:
            raise ValueError("The map of timers that are over ends in the middle of a part.")
        number, size = _HEAD.unpack_from(plain, at)
        at += _HEAD.size
        if size != _CHUNK_BYTES or at + size > len(plain):
            raise ValueError("The map of timers that are over has a part of another size.")
        found.append((number, plain[at : at + size]))
        at += size
    return found


def _over_below(count: int) -> bytearray:
    """Return a chunk whose first ``count`` offsets are over."""
    value = (1 << count) - 1
    return bytearray(value.to_bytes(_CHUNK_BYTES, "little"))


# What was recalled.

#: Recalls remembered; beyond it those are forgotten first that were made first.
MOST_REMEMBERED = 100_000


class Recalled:
    """Topic and unique key of recalled messages, and until when (ms) each counts. False while there are none.

    A copy of a recalled message that arrives later does not come out either: a sender's retry, or the message itself.
    Apache RocketMQ leaves a delete in the second of the message, which ends whatever comes into that second. Here the
    delete is in the log, and what it says is remembered until its moment is over; it is kept with each checkpoint.
    """

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def __len__(self) -> int:
        return len(self._until)

    def add(self, topic: str, unique_key: str, until_ms: int) -> None:
        """Remember that a message was recalled, until a moment (ms)."""
        key = (topic, unique_key)
        until_ms = max(until_ms, self._until.pop(key, 0))
        if len(self._until) >= MOST_REMEMBERED:
            del self._until[next(iter(self._until))]
        self._until[key] = until_ms

    def holds(self, topic: str, unique_key: str | None, now_ms: int) -> bool:
        """Tell whether a message with this key was recalled and its moment is not over."""
        return unique_key is not None and now_ms <= self._until.get((topic, unique_key), -1)

    def load(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Take over the recalls that a checkpoint kept."""
        self._until = {(str(topic), str(key)): int(until_ms) for topic, key, until_ms in rows}

    def kept(self, now_ms: int) -> list[tuple[str, str, int]]:
        """Return the recalls that still count, to be kept; the rest is forgotten."""
        if any(until_ms < now_ms for until_ms in self._until.values()):
            self._until = {key: until_ms for key, until_ms in self._until.items() if until_ms >= now_ms}
        return [(topic, key, until_ms) for (topic, key), until_ms in self._until.items()]
