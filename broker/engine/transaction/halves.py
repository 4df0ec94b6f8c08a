"""The tables of halves in little memory: those that are open, when each is to be looked at, and those that are parked.

    OpenHalves      some 40 bytes each, ordered by offset and so by position too. Rows stand in chunks of columns, so
                    that one that is decided is taken out of a short column and nothing else moves
    Chunk           some of these rows. A snapshot takes the columns of all chunks as they are (``freeze``), without
                    copying one; whoever changes a row afterwards makes the columns of that chunk its own first
                    (``own``), and the snapshot keeps the old ones
    Calendar        when which half is to be looked at next: offsets by tenth of a second, eight bytes each
    ParkedHalves    halves that were asked about as often as allowed: parked in TRANS_CHECK_MAX_TIME_TOPIC until
                    somebody decides
    GroupNames      producer groups as small numbers: a table of a million halves holds each name once
    OffsetQueue     offsets that wait in a line: eight bytes each, taken from the front without moving the others
                    each time

The calendar goes by a clock of its own that never goes back, so a wall clock that is set back makes nothing wait
longer: ``planned`` turns a moment of the wall clock into one of the calendar's, ``wall`` turns it back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

# The open halves.

#: Rows of a chunk when it is split; taking one out of 1,024 costs less than finding it.
_CHUNK_ROWS = 1024

# what is going on with a row (bits)
#: The time for a check has come; nobody was asked yet.
DUE = 1
#: Its copy is appended and its op record is not visible yet.
COMMITTING = 2
#: Its op record is not visible yet.
ROLLING_BACK = 4
#: Its copy for the parked ones is not visible yet.
PARKING = 8
#: Decided, or about to be parked: not to be asked about any more.
ENDING = COMMITTING | ROLLING_BACK | PARKING


class Half(NamedTuple):
    """An open half message. ``next_ms``: when (in the calendar) to look at it; ``checks``: times it was asked about."""

    offset: int
    position: int
    store_ms: int
    next_ms: int
    checks: int
    group: str
    flags: int


class OpenHalves:
    """The open half messages, by half offset."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._firsts: list[int] = []
        self._count = 0
        self.groups = GroupNames()

    def __len__(self) -> int:
        return self._count

    def add(
        self, offset: int, position: int, store_ms: int, next_ms: int, group: str, checks: int = 0, flags: int = 0
    ) -> None:
        """Take one in; one that is there already stays as it is."""
        if not self._chunks:
            self._chunks.append(Chunk())
            self._firsts.append(offset)
        number = max(bisect_right(self._firsts, offset) - 1, 0)
        chunk = self._chunks[number]
        offsets = chunk.offsets
        at = len(offsets) if not offsets or offset > offsets[-1] else bisect_left(offsets, offset)
        if at < len(offsets) and offsets[at] == offset:
            return
        if at == len(offsets) >= _CHUNK_ROWS and number == len(self._chunks) - 1:
            chunk = Chunk()
            self._chunks.append(chunk)
            self._firsts.append(offset)
            number, at = number + 1, 0
        chunk.insert(at, (offset, position, store_ms, next_ms, checks, self.groups.take(group), flags))
        self._count += 1
        self._firsts[number] = chunk.offsets[0]
        if len(chunk.offsets) >= 2 * _CHUNK_ROWS:
            upper = chunk.split()
            self._chunks.insert(number + 1, upper)
            self._firsts.insert(number + 1, upper.offsets[0])

    def extend(
        self,
        offsets: Sequence[int],
        positions: Sequence[int],
        store_ms: Sequence[int],
        next_ms: Sequence[int],
        groups: Sequence[str],
    ) -> None:
        """Take in several that are newer than all others, in order of offset."""
        numbers = [self.groups.take(group) for group in groups]
        for at in range(0, len(offsets), _CHUNK_ROWS):
            if not self._chunks or len(self._chunks[-1].offsets) >= _CHUNK_ROWS:
                self._chunks.append(Chunk())
                self._firsts.append(offsets[at])
            chunk = self._chunks[-1]
            chunk.own()
            assert not chunk.offsets or chunk.offsets[-1] < offsets[at], "a new half is older than another"
            part = slice(at, at + _CHUNK_ROWS)
            chunk.offsets.extend(offsets[part])
            chunk.positions.extend(positions[part])
            chunk.store_ms.extend(store_ms[part])
            chunk.next_ms.extend(next_ms[part])
            chunk.groups.extend(numbers[part])
            count = len(chunk.offsets)
            chunk.checks.frombytes(bytes(chunk.checks.itemsize * (count - len(chunk.checks))))
            chunk.flags.extend(bytes(count - len(chunk.flags)))
        self._count += len(offsets)

    def load(self, columns: Sequence[array[int]], groups: Sequence[str]) -> None:
        """Fill an empty table: columns in the order of a chunk's but for the flags, rows by offset; the last column
        counts in ``groups``. Raises ValueError if rows are out of order."""
        offsets = columns[0]
        for at in range(0, len(offsets), _CHUNK_ROWS):
            chunk = Chunk()
            for column, part in zip(chunk.columns(), columns, strict=False):
                column.extend(part[at : at + _CHUNK_ROWS])
            if list(chunk.offsets) != sorted(set(chunk.offsets)) or (at and chunk.offsets[0] <= offsets[at - 1]):
                raise ValueError("the half messages are out of order")
            chunk.groups = array("I", [self.groups.take(groups[number]) for number in chunk.groups])
            chunk.flags = bytearray(len(chunk.offsets))
            self._chunks.append(chunk)
            self._firsts.append(chunk.offsets[0])
        self._count = len(offsets)

    def place(self, offset: int) -> tuple[Chunk, int] | None:
        """Return the chunk and index of a half, None if it is not open."""
        number = bisect_right(self._firsts, offset) - 1
        if number < 0:
            return None
        chunk = self._chunks[number]
        at = bisect_left(chunk.offsets, offset)
        return (chunk, at) if at < len(chunk.offsets) and chunk.offsets[at] == offset else None

    def runs(self, offsets: array[int]) -> Iterator[tuple[Chunk, int, int]]:
        """Yield (chunk, begin, end) of those that are open: rows that follow one another as these offsets do, in one.
        Nothing may be added or removed meanwhile."""
        at, count = 0, len(offsets)
        while at < count:
            found = self.place(offsets[at])
            if found is None:
                at += 1
                continue
            chunk, begin = found
            length = min(len(chunk.offsets) - begin, count - at)
            if chunk.offsets[begin : begin + length] != offsets[at : at + length]:
                length = 1
                while chunk.offsets[begin + length] == offsets[at + length]:
                    length += 1
            yield chunk, begin, begin + length
            at += length

    def get(self, offset: int) -> Half | None:
        """Return an open half, or None."""
        found = self.place(offset)
        return self._row(*found) if found else None

    def at_position(self, position: int) -> Half | None:
        """Return the open half whose record stands at a position, or None."""
        number = bisect_right(self._chunks, position, key=lambda chunk: chunk.positions[0]) - 1
        if number < 0:
            return None
        chunk = self._chunks[number]
        at = bisect_left(chunk.positions, position)
        return self._row(chunk, at) if at < len(chunk.positions) and chunk.positions[at] == position else None

    def mark(self, offset: int, flags: int) -> None:
        """Set what is going on with a half; one that is not open is left so."""
        if found := self.place(offset):
            found[0].flags[found[1]] = flags

    def remove(self, offset: int) -> bool:
        """Take one out; False if it is not there."""
        number = bisect_right(self._firsts, offset) - 1
        if number < 0:
            return False
        chunk = self._chunks[number]
        at = bisect_left(chunk.offsets, offset)
        if at == len(chunk.offsets) or chunk.offsets[at] != offset:
            return False
        self.groups.drop(chunk.groups[at])
        chunk.delete(at, at + 1)
        self._count -= 1
        if not chunk.offsets:
            del self._chunks[number], self._firsts[number]
        elif at == 0:
            self._firsts[number] = chunk.offsets[0]
        return True

    def remove_all(self, offsets: Sequence[int]) -> None:
        """Take out those of them that are there; most stand side by side, and go in one."""
        ordered = sorted(offsets, reverse=True)
        at, count = 0, len(ordered)
        while at < count:
            found = self.place(ordered[at])
            if found is None:
                at += 1
                continue
            chunk, last = found
            first = last
            at += 1
            while at < count and first and chunk.offsets[first - 1] == ordered[at]:
                first -= 1
                at += 1
            self._cut(chunk, first, last + 1)

    def _cut(self, chunk: Chunk, begin: int, end: int) -> None:
        number = bisect_right(self._firsts, chunk.offsets[begin]) - 1
        for group in chunk.groups[begin:end]:
            self.groups.drop(group)
        chunk.delete(begin, end)
        self._count -= end - begin
        if not chunk.offsets:
            del self._chunks[number], self._firsts[number]
        elif not begin:
            self._firsts[number] = chunk.offsets[0]

    def freeze(self) -> list[Columns]:
        """Return all columns as they are now, by chunk: they stay so. What changes from now on is copied first."""
        return [chunk.freeze() for chunk in self._chunks]

    def chunks(self) -> list[Chunk]:
        """Return all chunks in order; not to be changed."""
        return self._chunks

    def since(self, offset: int) -> Iterator[Half]:
        """Yield open halves from an offset on; nothing may be added or removed meanwhile."""
        number = max(bisect_right(self._firsts, offset) - 1, 0)
        for chunk in self._chunks[number:]:
            for at in range(bisect_left(chunk.offsets, offset), len(chunk.offsets)):
                yield self._row(chunk, at)

    def first(self) -> Half | None:
        """Return the oldest open half, None without any."""
        return self._row(self._chunks[0], 0) if self._chunks else None

    def _row(self, chunk: Chunk, at: int) -> Half:
        return Half(
            chunk.offsets[at],
            chunk.positions[at],
            chunk.store_ms[at],
            chunk.next_ms[at],
            chunk.checks[at],
            self.groups.name(chunk.groups[at]),
            chunk.flags[at],
        )


Columns: TypeAlias = "tuple[array[int], ...]"


class Chunk:
    """Some rows, by column. All but flags are in snapshots: call ``own`` before changing anything else."""

    __slots__ = ("_is_shared", "checks", "flags", "groups", "next_ms", "offsets", "positions", "store_ms")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.store_ms = array("q")
        self.next_ms = array("q")
        self.checks = array("H")
        self.groups = array("I")
        self.flags = bytearray()
        self._is_shared = False

    def freeze(self) -> Columns:
        """Return all columns but the flags; they are never changed again."""
        self._is_shared = True
        return self.columns()[:-1]

    def own(self) -> None:
        """Make it so that columns may be changed: those that a snapshot may still read are copied."""
        if self._is_shared:
            self._is_shared = False
            self.offsets, self.positions, self.store_ms = self.offsets[:], self.positions[:], self.store_ms[:]
            self.next_ms, self.checks, self.groups = self.next_ms[:], self.checks[:], self.groups[:]

    def count(self, part: slice, checks: int, next_ms: int) -> None:
        """Note of some rows how often they were asked about by now, and when to look at them again."""
        self.own()
        length = part.stop - part.start
        self.checks[part] = array("H", (checks,)) * length
        self.next_ms[part] = array("q", (next_ms,)) * length
        self.flags[part] = bytes(length)

    def columns(self) -> tuple[array[int], array[int], array[int], array[int], array[int], array[int], bytearray]:
        """Return all columns of the rows, offsets first."""
        return self.offsets, self.positions, self.store_ms, self.next_ms, self.checks, self.groups, self.flags

    def stretches(self, begin: int, end: int, flags: int) -> Iterator[slice]:
        """Yield which of some rows have these flags: all in one, or each by itself."""
        if self.flags.count(flags, begin, end) == end - begin:
            yield slice(begin, end)
        else:
            yield from (slice(at, at + 1) for at in range(begin, end) if self.flags[at] == flags)

    def insert(self, at: int, row: Iterable[int]) -> None:
        """Put a row in at an index."""
        self.own()
        for column, value in zip(self.columns(), row, strict=True):
            column.insert(at, value)

    def delete(self, begin: int, end: int) -> None:
        """Take the rows from one index to another out."""
        self.own()
        for column in self.columns():
            del column[begin:end]

    def split(self) -> Chunk:
        """Move the upper half of the rows to a new chunk."""
        self.own()
        upper = Chunk()
        middle = len(self.offsets) // 2
        for column, other in zip(self.columns(), upper.columns(), strict=True):
            other.extend(column[middle:])
            del column[middle:]
        return upper


def equal(column: array[int], part: slice) -> Iterator[tuple[slice, int]]:
    """Cut a part of a column where the value changes; yield each stretch and its value."""
    begin: int = part.start
    while begin < part.stop:
        end, value = part.stop, column[begin]
        if column[begin:end].count(value) != end - begin:
            end = begin + 1
            while column[end] == value:
                end += 1
        yield slice(begin, end), value
        begin = end


# The calendar.

#: Offsets of so long a time share a page; they are looked at when it is over, so never early and at most this late.
_PAGE_MS = 100


class Calendar:
    """Offsets and the moment each is due. An offset may stand here more than once, or its half be long decided: ask."""

    def __init__(self) -> None:
        self._pages: dict[int, OffsetQueue] = {}
        self._order: list[int] = []
        self._seen_ms = 0
        #: how far the wall clock was set back in all
        self._ahead_ms = 0

    def planned(self, wall_ms: int) -> int:
        """Return the calendar's moment for one of the wall clock."""
        return wall_ms + self._ahead_ms

    def wall(self, planned_ms: int) -> int:
        """Return the wall clock's moment for one of the calendar."""
        return planned_ms - self._ahead_ms

    def put(self, offset: int, planned_ms: int) -> None:
        """Have an offset looked at from a moment (of the calendar) on."""
        number = planned_ms // _PAGE_MS
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = OffsetQueue()
            heappush(self._order, number)
        page.append(offset)

    def put_all(self, offsets: Sequence[int], walls_ms: Sequence[int]) -> list[int]:
        """Put many halves as ``put`` does, each at a moment of the wall clock; return their moments of the calendar."""
        ahead_ms = self._ahead_ms
        planned = [wall_ms + ahead_ms for wall_ms in walls_ms]
        first = planned[0] // _PAGE_MS
        if first == min(planned) // _PAGE_MS == max(planned) // _PAGE_MS:
            self.put(offsets[0], planned[0])
            self._pages[first].extend(offsets[1:])
        else:
            for offset, planned_ms in zip(offsets, planned, strict=True):
                self.put(offset, planned_ms)
        return planned

    def see(self, now_ms: int) -> int:
        """Hear what the wall clock says; return the calendar's moment."""
        if now_ms < self._seen_ms:
            self._ahead_ms += self._seen_ms - now_ms
        self._seen_ms = now_ms
        return now_ms + self._ahead_ms

    def put_many(self, offsets: Sequence[int], planned_ms: int) -> None:
        """Have several offsets looked at from the same moment (of the calendar) on."""
        if offsets:
            self.put(offsets[0], planned_ms)
            self._pages[planned_ms // _PAGE_MS].extend(offsets[1:])

    def take(self, now_ms: int, count: int) -> array[int]:
        """Return up to ``count`` offsets whose moment has come, oldest first."""
        over = self.see(now_ms) // _PAGE_MS
        taken = array("q")
        while self._order and self._order[0] < over and len(taken) < count:
            page = self._pages[self._order[0]]
            taken += page.take(count - len(taken))
            if not len(page):
                del self._pages[heappop(self._order)]
        return taken

    def next_ms(self) -> int | None:
        """Return when (on the wall clock) ``take`` has something to give, None if it never has."""
        return self.wall((self._order[0] + 1) * _PAGE_MS) if self._order else None


# The parked halves.


class Parked(NamedTuple):
    """A parked half: where the half is, where its copy is, and since when."""

    offset: int
    position: int
    store_ms: int
    copy_offset: int
    copy_position: int
    parked_ms: int


class ParkedHalves:
    """The parked halves, by half offset."""

    def __init__(self) -> None:
        self._columns = tuple(array("q") for _ in Parked._fields)

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, parked: Parked) -> None:
        """Take one in; a newer copy of the same half replaces an older one."""
        self.remove(parked.offset)
        at = bisect_left(self._columns[0], parked.offset)
        for column, value in zip(self._columns, parked, strict=True):
            column.insert(at, value)

    def get(self, offset: int) -> Parked | None:
        """Return a parked half, or None."""
        at = bisect_left(self._columns[0], offset)
        return self._row(at) if at < len(self) and self._columns[0][at] == offset else None

    def remove(self, offset: int) -> bool:
        """Take one out; False if it is not there."""
        at = bisect_left(self._columns[0], offset)
        if at == len(self) or self._columns[0][at] != offset:
            return False
        for column in self._columns:
            del column[at]
        return True

    def since(self, offset: int) -> Iterator[Parked]:
        """Yield parked halves from a half offset on; nothing may be added or removed meanwhile."""
        for at in range(bisect_left(self._columns[0], offset), len(self)):
            yield self._row(at)

    def copied_since(self, copy_offset: int) -> list[Parked]:
        """Return those whose copy stands at an offset or behind it."""
        return [self._row(at) for at, offset in enumerate(self._columns[3]) if offset >= copy_offset]

    def by_copy(self, copy_position: int) -> Parked | None:
        """Return the parked half whose copy stands at a position, or None."""
        try:
            return self._row(self._columns[4].index(copy_position))
        except ValueError:
            return None

    def oldest_position(self) -> int | None:
        """Return the lowest position that a parked half needs: its own."""
        return self._columns[1][0] if len(self) else None

    def columns(self) -> tuple[array[int], ...]:
        """Return all columns in the order of ``Parked``; not to be changed."""
        return self._columns

    def _row(self, at: int) -> Parked:
        return Parked(*(column[at] for column in self._columns))


# Groups and lines.


class GroupNames:
    """Producer groups as small numbers, as long as one of their halves is open."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._counts: list[int] = []
        self._free: list[int] = []

    def take(self, name: str) -> int:
        """Return a group's number, one more half of it is open."""
        number = self._numbers.get(name)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._names[number], self._counts[number] = name, 0
            else:
                number = len(self._names)
                self._names.append(name)
                self._counts.append(0)
            self._numbers[name] = number
        self._counts[number] += 1
        return number

    def drop(self, number: int) -> None:
        """Count one open half of a group less."""
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._numbers[self._names[number]]
            self._free.append(number)

    def number(self, name: str) -> int:
        """Return a group's number, -1 if none of its halves is open."""
        return self._numbers.get(name, -1)

    def names(self) -> list[str]:
        """Return all names by number; of a number that is free some name that was."""
        return list(self._names)

    def count(self, name: str) -> int:
        """Return how many halves of a group are open."""
        number = self._numbers.get(name)
        return 0 if number is None else self._counts[number]

    def name(self, number: int) -> str:
        """Return the name of a group in use."""
        return self._names[number]

    def counts(self) -> dict[str, int]:
        """Return how many halves of each group are open."""
        return {name: self._counts[number] for name, number in self._numbers.items()}


#: What was taken is given back once it is so many, and half of the queue.
_WORTH_MOVING = 4_096


class OffsetQueue:
    """Offsets that wait, first in, first out."""

    __slots__ = ("_offsets", "_taken")

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._offsets = array("q", offsets)
        self._taken = 0

    def __len__(self) -> int:
        return len(self._offsets) - self._taken

    def append(self, offset: int) -> None:
        """Add an offset at the end of the queue."""
        self._offsets.append(offset)

    def extend(self, offsets: Iterable[int]) -> None:
        """Add several offsets at the end of the queue."""
        self._offsets.extend(offsets)

    def take(self, count: int) -> array[int]:
        """Take up to ``count`` out, the longest waiting first."""
        part = self._offsets[self._taken : self._taken + count]
        self._taken += len(part)
        if self._taken >= _WORTH_MOVING and 2 * self._taken >= len(self._offsets):
            del self._offsets[: self._taken]
            self._taken = 0
        return part
