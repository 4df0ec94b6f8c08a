"""The timer wheel: for each second in reach, the first and the last unit of the timer log that is due in it.

RocketMQ's file ``timerwheel``: 2 x slots of 32 bytes, 38,707,200 bytes for its 604,800 slots (7 days of seconds).
The slot of a second stands at index second mod (2 x slots), so a slot and the one due one turn earlier never meet
while what is due lies less than a turn behind now.

     0  8 second     8  8 first unit    16  8 last unit    24  4 number    28  4 magic

Number counts messages less deletes. Magic is 0 in RocketMQ's files and copied along by it; here it counts those of
``number`` that only pass through on their way to a moment further off (roll units).

A timer further off than the wheel reaches stands on the way in a roll slot, six to seven days ahead. It is chosen such
that second and hour of due time are equal modulo the seconds of a day: all that are due in one hour pass through at
most eight slots, which are known from the hour, so the far future can be listed and counted without another index:

    roll second mod 86,400 == hour of the due time since 1970 mod 86,400

RocketMQ rounds a due time down to the second, and one second further if it was exact: a message due at 7,000 ms stands
in second 6 and leaves when that second is over. ``TIMER_OUT_MS`` says so; the exact ms stand beside it (ESC_DUE_MS).

The wheel is kept in anonymous memory; untouched pages cost nothing. A slot whose messages are all over is zeroed here
(RocketMQ leaves it and looks at the read time of ``timercheck`` instead; it reads both forms the same).

Two computations go over the whole wheel, which may hold hundreds of thousands of used slots, or nearly none. ``Tally``
counts at start how many timers stand in each minute: where a block is one stretch of seconds without roll units, which
nearly all are, its numbers are added up minute by minute; slot by slot only elsewhere. ``over_zeros`` gives the CRC32
over many zero bytes without looking at them: taking in a zero byte maps the checksum by a matrix over GF(2) and a
constant, and the map of 2n bytes is that of n bytes applied twice, so a run of any length is a few maps of powers of
two.
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, reduce
from mmap import mmap
from operator import xor
from typing import NamedTuple
from zlib import crc32

from ..disk import File, Files
from .log import MAGIC_DELETE, MAGIC_PLAIN, MAGIC_ROLL, UNIT, UNIT_SIZE

# The ring of slots.

SLOT = struct.Struct(">qqqii")
SLOT_SIZE = SLOT.size
#: What changes in a slot when a unit comes to it: last unit and number.
SLOT_END = struct.Struct(">qi")
SLOT_END_AT = 16
#: Bytes compared with zero at once when looking for the next used slot, 512 slots.
BLOCK_BYTES = 1 << 14
_ZERO_BLOCK = bytes(BLOCK_BYTES)
#: Slots added up at most: more are told as "at least so many".
_COUNTED_SLOTS = 5_000
#: So many seconds are looked through one used one after the other; for more, all of the wheel once.
_SHORT_SECONDS = 20_000
_NOT_ZERO = re.compile(b"[^\0]").search


class Slot(NamedTuple):
    """The units of one second. ``rolls`` of ``number`` are on their way to a later moment."""

    second: int
    first: int
    last: int
    number: int
    rolls: int


class Wheel:
    """The ring of slots. ``displaced``: slots still wanted whose place another turn's took."""

    def __init__(self, slots: int) -> None:
        """``slots``: seconds in reach; RocketMQ's file has twice as many."""
        self.slots = slots
        self.places = 2 * slots
        self.raw = mmap(-1, self.places * SLOT_SIZE)
        #: a byte for each block of `raw`, 0 where nothing was written: blocks that nobody used are never looked at
        self.written = bytearray(-(-len(self.raw) // BLOCK_BYTES))
        self.displaced: dict[int, Slot] = {}
        self._pack_into = SLOT.pack_into
        self._unpack_from = SLOT.unpack_from

    def get(self, second: int) -> Slot | None:
        """Return the slot of a second, None if nothing stands there."""
        found = self._unpack_from(self.raw, second % self.places * SLOT_SIZE)
        if found[0] == second and second:
            return Slot._make(found)
        return self.displaced.get(second)

    def add(self, second: int, unit: int, *, count: int = 1, rolls: int = 0) -> int:
        """Put the unit at ``unit`` of the timer log at the end of a second's chain; return the unit before, -1 if none.

        ``count`` and ``rolls`` change the numbers: -1 for a delete.
        """
        at = second % self.places * SLOT_SIZE
        own, first, last, number, rolling = self._unpack_from(self.raw, at)
        if own != second:
            if second in self.displaced:
                return self._add_displaced(second, unit, count, rolls)
            if own:
                self.displaced[own] = Slot(own, first, last, number, rolling)
            first, last, number, rolling = unit, -1, 0, 0
            self.written[at // BLOCK_BYTES] = 1
        self._pack_into(self.raw, at, second, first, unit, number + count, rolling + rolls)
        return int(last)

    def put_units(self, at: int, units: bytes) -> bool:
        """Put units that stand at ``at`` of the timer log where they belong; False at one that makes no sense."""
        raw, places, add = self.raw, self.places, self.add
        slot_of, end_into = self._unpack_from, SLOT_END.pack_into
        for size, _, magic, write_ms, delay_ms, _, _, _, _ in UNIT.iter_unpack(units):
            if size != UNIT_SIZE:
                return False
            second = (write_ms + delay_ms) // 1000
            if magic == MAGIC_PLAIN:
                place = second % places * SLOT_SIZE
                own, _, _, number, _ = slot_of(raw, place)
                if own == second:
                    end_into(raw, place + SLOT_END_AT, at, number + 1)
                else:
                    add(second, at)
            else:
                count = -1 if magic & MAGIC_DELETE else 1
                add(second, at, count=count, rolls=count if magic & MAGIC_ROLL else 0)
            at += UNIT_SIZE
        return True

    def _add_displaced(self, second: int, unit: int, count: int, rolls: int) -> int:
        was = self.displaced[second]
        self.displaced[second] = Slot(second, was.first, unit, was.number + count, was.rolls + rolls)
        return was.last

    def clear(self, second: int) -> None:
        """Forget a second whose messages are all over."""
        at = second % self.places * SLOT_SIZE
        if self._unpack_from(self.raw, at)[0] == second:
            self.raw[at : at + SLOT_SIZE] = _ZERO_BLOCK[:SLOT_SIZE]
        else:
            self.displaced.pop(second, None)

    # looking around

    def next_used(self, second: int, until: int) -> int | None:
        """Return the first used second in ``second``..``until`` (both included), None without any."""
        found = min((other for other in self.displaced if second <= other <= until), default=None)
        if until - second >= self.places:
            mine = min((slot.second for slot in self.used() if second <= slot.second <= until), default=None)
            return mine if found is None or (mine is not None and mine < found) else found
        while second <= until:
            at = second % self.places * SLOT_SIZE
            # to the end of the turn or of the range, whichever comes first
            end = min(len(self.raw), at + (until - second + 1) * SLOT_SIZE)
            place = self._next_nonzero(at, end)
            if place is None:
                second += (end - at) // SLOT_SIZE
                continue
            second += place // SLOT_SIZE - at // SLOT_SIZE
            own = self._unpack_from(self.raw, second % self.places * SLOT_SIZE)[0]
            if own == second:
                return second if found is None else min(second, found)
            second += 1
        return found

    def _next_nonzero(self, at: int, end: int) -> int | None:
        raw, written = self.raw, self.written
        while at < end:
            number = written.find(1, at // BLOCK_BYTES, -(-end // BLOCK_BYTES))
            if number < 0:
                return None
            at = max(at, number * BLOCK_BYTES)
            stop = min((number + 1) * BLOCK_BYTES, end)
            if raw[at:stop] != _ZERO_BLOCK[: stop - at]:
                match = _NOT_ZERO(raw, at, stop)
                if match is not None:
                    return match.start()
            at = stop
        return None

    def numbers(self, begin: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yield (second, number, rolls) of the used slots in ``begin``..``until`` (both included), in no order."""
        yield from [(s.second, s.number, s.rolls) for s in self.displaced.values() if begin <= s.second <= until]
        second, stop = begin, min(until, begin + self.places - 1)
        while second <= stop:
            at = second % self.places * SLOT_SIZE
            block = at // BLOCK_BYTES
            end = min((block + 1) * BLOCK_BYTES, len(self.raw), at + (stop - second + 1) * SLOT_SIZE)
            if self.written[block]:
                for found, _, _, number, rolls in SLOT.iter_unpack(self.raw[at:end]):
                    if begin <= found <= until and found:
                        yield found, number, rolls
            second += (end - at) // SLOT_SIZE

    def number_of(self, second: int) -> int:
        """Return the number a second's slot says, 0 without one."""
        slot = self.get(second)
        return slot.number if slot is not None else 0

    def count(self, second: int, until: int) -> int:
        """Return how many are due from a second to another, of at most some thousand slots."""
        count = 0
        for _ in range(_COUNTED_SLOTS):
            used = self.next_used(second, until) if second <= until else None
            if used is None:
                break
            count += self.due_in(used)
            second = used + 1
        return count

    def due_in(self, second: int) -> int:
        """Return how many are due in a second: without those that only pass through."""
        slot = self.get(second)
        return slot.number - slot.rolls if slot is not None else 0

    def used(self) -> Iterator[Slot]:
        """Yield every used slot of the wheel, in no order of time, and then the displaced ones."""
        for _, block in self.blocks():
            for found in SLOT.iter_unpack(block):
                if found[0]:
                    yield Slot._make(found)
        yield from list(self.displaced.values())

    def leads_below(self, position: int, after: int) -> bool:
        """Tell whether a second after ``after`` has units below a position in the timer log."""
        return any(slot.first < position and slot.second > after for slot in self.used())

    def used_between(self, begin: int, end: int) -> list[int]:
        """Return the used seconds in ``begin``..``end`` (not included), ascending."""
        if end - begin > _SHORT_SECONDS:
            return sorted(slot.second for slot in self.used() if begin <= slot.second < end)
        found: list[int] = []
        second = self.next_used(begin, end - 1) if begin < end else None
        while second is not None:
            found.append(second)
            second = self.next_used(second + 1, end - 1) if second + 1 < end else None
        return found

    # keeping

    def pages(self) -> list[tuple[int, bytes]]:
        """Return a copy of everything that is not zero, as (place in the file, bytes)."""
        return list(self.blocks())

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield a copy of every block that is not all zero, as (place in the file, bytes)."""
        raw, number = memoryview(self.raw), -1
        try:
            while (number := self.written.find(1, number + 1)) >= 0:
                at = number * BLOCK_BYTES
                block = bytes(raw[at : at + BLOCK_BYTES])
                if block != _ZERO_BLOCK[: len(block)]:
                    yield at, block
        finally:
            raw.release()

    def load(self, files: Files, path: str) -> int | None:
        """Take what the file says; return its CRC32, None if there is none of this wheel's size.

        Pages of zeros stay untouched: a wheel with few timers takes little memory. Raises OSError.
        """
        self.reset()
        try:
            file = files.open(path)
        except FileNotFoundError:
            return None
        try:
            return self._take(file) if file.size() == len(self.raw) else None
        finally:
            file.close()

    def _take(self, file: File) -> int:
        checksum = 0
        for at in range(0, len(self.raw), BLOCK_BYTES):
            block = file.read(min(BLOCK_BYTES, len(self.raw) - at), at)
            checksum = crc32(block, checksum)
            if block != _ZERO_BLOCK[: len(block)]:
                self.raw[at : at + len(block)] = block
                self.written[at // BLOCK_BYTES] = 1
        return checksum

    def close(self) -> None:
        """Give the memory back; closing twice is fine."""
        with suppress(BufferError):  # somebody still looks at it: it goes with the last look
            self.raw.close()

    def reset(self) -> None:
        """Forget everything that stands in the wheel."""
        self.close()
        self.raw = mmap(-1, self.places * SLOT_SIZE)
        self.written = bytearray(len(self.written))
        self.displaced.clear()


def checksum_of(pages: list[tuple[int, bytes]], size: int) -> int:
    """Return the CRC32 of a file of ``size`` bytes that is zero but for these pages."""
    value, at = 0, 0
    for start, page in pages:
        value = over_zeros(value, start - at)
        value = crc32(page, value)
        at = start + len(page)
    return over_zeros(value, size - at)


# What lies within reach, and where what does not waits.

HOUR_MS = 3_600_000
_HOUR_BITS = 22
_ROLL_CHECK_SHIFT = 24
_ROLL_CHECK = 15
_OFFSET_SHIFT = 28
_PLAIN_SHIFT = 16
CHECK_SHIFT = 10
PLAIN_CHECK = 63


def second_of(due_ms: int) -> int:
    """Return the second of the wheel for a due time: the one that is over when it has come."""
    return (due_ms - 1) // 1000


def out_ms_of(due_ms: int) -> int:
    """Return TIMER_OUT_MS as RocketMQ would write it."""
    return (due_ms - 1) // 1000 * 1000


class Reach:
    """Tells which seconds the wheel reaches, and in which roll slot a timer beyond them waits on the way."""

    def __init__(self, slots: int, max_delay_ms: int) -> None:
        """Take the number of seconds in reach, and how far ahead a timer may be due."""
        self.slots = slots
        #: number of roll slots: one day of the seven
        self.rolls = max(1, slots // 7)
        #: a roll slot comes at least so much before the moment itself
        self._slack = self.rolls // 12
        self._turns_of, self._turns = -1, [0] * 4
        #: whether a unit alone can tell which turn of hours is meant
        self.tells_due = max_delay_ms < 3 * self.rolls * HOUR_MS

    def is_far(self, second: int, now_second: int) -> bool:
        """Tell whether a second is beyond the wheel's reach."""
        return second - now_second >= self.slots

    def roll_second(self, due_ms: int, now_second: int) -> int:
        """Return the second in which a far timer is looked at again."""
        base = now_second + self.slots - self.rolls - self._slack
        return base + (due_ms // HOUR_MS - base) % self.rolls

    def passed(self, due_ms: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yield the moments up to ``end_ms`` at which a timer that was placed at ``begin_ms`` was placed anew.

        Where the broker was down at one of them it did so when it came back.
        """
        target, second = second_of(due_ms), begin_ms // 1000
        while self.is_far(target, second):
            second = self.roll_second(due_ms, second)
            if second * 1000 > end_ms:
                return
            yield second * 1000

    def roll_seconds(self, hour: int, begin: int, end: int) -> range:
        """Return the seconds in ``begin``..``end`` (not included) where timers due in an hour may wait."""
        return range(begin + (hour - begin) % self.rolls, end, self.rolls)

    # the reserved bytes of a unit; the check finds every single bit that flips in them or in the position

    def plain_bytes(self, offset: int, due_ms: int, position: int) -> int:
        """Return what a plain unit remembers."""
        rest_ms = due_ms - (due_ms - 1) // 1000 * 1000
        return offset << _PLAIN_SHIFT | (offset + position + rest_ms) % PLAIN_CHECK << CHECK_SHIFT | rest_ms

    def roll_bytes(self, offset: int, due_ms: int, position: int) -> int:
        """Return what a roll unit remembers, 0 if it would not be clear."""
        if not self.tells_due:
            return 0
        rest = (due_ms // HOUR_MS // self.rolls & 3) << _HOUR_BITS | due_ms % HOUR_MS
        return offset << _OFFSET_SHIFT | (offset + position + rest) % _ROLL_CHECK << _ROLL_CHECK_SHIFT | rest

    def plain_of(self, second: int, own: int, position: int) -> tuple[int, int]:
        """Return (offset, due ms) of a plain unit, (-1, 0) if it is damaged."""
        offset, rest_ms = own >> _PLAIN_SHIFT, own & (1 << CHECK_SHIFT) - 1
        check = own >> CHECK_SHIFT & 63
        if check != (offset + position + rest_ms) % PLAIN_CHECK or not 1 <= rest_ms <= 1000:
            return -1, 0
        return offset, second * 1000 + rest_ms

    def roll_of(self, second: int, own: int, position: int) -> tuple[int, int]:
        """Return (offset, due ms) of a roll unit in ``second``, (-1, 0) if it is damaged."""
        offset, rest = own >> _OFFSET_SHIFT, own & (1 << _ROLL_CHECK_SHIFT) - 1
        if own >> _ROLL_CHECK_SHIFT & 15 != (offset + position + rest) % _ROLL_CHECK:
            return -1, 0
        if second != self._turns_of:
            self._turns, self._turns_of = self._hours_of_turns(second), second
        return offset, self._turns[rest >> _HOUR_BITS] + (rest & (1 << _HOUR_BITS) - 1)

    def _hours_of_turns(self, second: int) -> list[int]:
        """Return the hour, in ms, that each of the four turns means in a roll second."""
        low = second * 1000 // HOUR_MS
        first = low + (second - low) % self.rolls
        hours = [0] * 4
        for hour in range(first, first + 4 * self.rolls, self.rolls):
            hours[hour // self.rolls & 3] = hour * HOUR_MS
        return hours


# Counting by minute.

_MINUTE = 60
#: Two seconds of one block that lie closer than a block belong to one turn, if a turn is at least so long.
_CLEAR_PLACES = 2 * BLOCK_BYTES // SLOT_SIZE


class Tally:
    """Counts of what stands in a wheel later than the second ``after``.

    ``minutes``: plain units by the minute in which their second ends; ``rolls``: roll units by second; ``furthest``:
    the last used second of all, 0 without any.
    """

    def __init__(self, wheel: Wheel, after: int) -> None:
        self.minutes: dict[int, int] = {}
        self.rolls: dict[int, int] = {}
        self.furthest = 0
        self._after = after
        clear = wheel.places >= _CLEAR_PLACES
        for _, block in wheel.blocks():
            if not clear or not self._count_stretch(block):
                for found in SLOT.iter_unpack(block):
                    if found[0]:
                        self._count(found[0], found[3], found[4])
        for slot in wheel.displaced.values():
            self._count(slot.second, slot.number, slot.rolls)

    def _count_stretch(self, block: bytes) -> bool:
        """Count a block that is one stretch of seconds without roll units; False if it is not."""
        halves = array("i", block)
        if any(halves[7::8]):
            return False
        numbers, seconds = halves[6::8], array("q", block)[0::4]
        if sys.byteorder == "little":
            numbers.byteswap()
            seconds.byteswap()
        last = max(seconds)
        first = min(filter(None, seconds))
        if first <= self._after or last - first >= len(seconds):
            return False
        base = last - seconds.index(last)
        self.furthest = max(self.furthest, last)
        minutes, minute, at = self.minutes, (base + 1) // _MINUTE, 0
        while at < len(numbers):
            # a second belongs to the minute in which it ends
            stop = (minute + 1) * _MINUTE - 1 - base
            if count := sum(numbers[at:stop]):
                minutes[minute] = minutes.get(minute, 0) + count
            minute, at = minute + 1, stop
        return True

    def _count(self, second: int, number: int, rolls: int) -> None:
        self.furthest = max(self.furthest, second)
        if second > self._after:
            minute = (second + 1) // _MINUTE
            self.minutes[minute] = self.minutes.get(minute, 0) + number - rolls
            if rolls > 0:
                self.rolls[second] = self.rolls.get(second, 0) + rolls


class RollCounts:
    """Counts of the roll units to come, by roll second modulo the number of roll slots, which tells their hour."""

    def __init__(self, rolls: int) -> None:
        """Take the number of roll slots."""
        self._rolls = rolls
        self.by_rest: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.by_rest)

    def add(self, second: int, change: int) -> None:
        """Count roll units of a second that came (positive) or went."""
        rest = second % self._rolls
        left = self.by_rest.get(rest, 0) + change
        if left > 0:
            self.by_rest[rest] = left
        else:
            self.by_rest.pop(rest, None)

    def clear(self) -> None:
        """Set all counts to nothing."""
        self.by_rest.clear()


# CRC32 over zeros.

#: Shorter runs are quicker to look at.
_SHORT_BYTES = 1 << 13
_ZEROS = bytes(_SHORT_BYTES)


class _Map(NamedTuple):
    """The change that a run of zeros makes to a checksum: the image of each bit, and what a checksum of 0 becomes."""

    images: tuple[int, ...]
    constant: int

    def linear(self, value: int) -> int:
        return reduce(xor, (image for bit, image in enumerate(self.images) if value >> bit & 1), 0)


@cache
def _map_of(power: int) -> _Map:
    """Return the map of ``2 ** power`` zero bytes."""
    if power == 0:
        constant = crc32(b"\0")
        return _Map(tuple(crc32(b"\0", 1 << bit) ^ constant for bit in range(32)), constant)
    half = _map_of(power - 1)
    return _Map(tuple(map(half.linear, half.images)), half.linear(half.constant) ^ half.constant)


def over_zeros(value: int, count: int) -> int:
    """Return the CRC32 of what ``value`` is the CRC32 of and ``count`` zero bytes behind it."""
    if count < _SHORT_BYTES:
        return crc32(_ZEROS[:count], value)
    for power in range(count.bit_length()):
        if count >> power & 1:
            run = _map_of(power)
            value = run.linear(value) ^ run.constant
    return value
