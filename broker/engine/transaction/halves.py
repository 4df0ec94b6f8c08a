"""The open half messages, in little memory: some 40 bytes each, ordered by offset and so by position too.

Rows stand in chunks of columns, so that one that is decided is taken out of a short column and nothing else moves.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .chunk import Chunk, Columns
from .groupnames import GroupNames

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
    """One open half message. ``next_ms``: when (in the calendar) to look at it; ``checks``: how often it was asked."""

    offset: int
    position: int
    store_ms: int
    next_ms: int
    checks: int
    group: str
    flags: int


class OpenHalves:
    """All open half messages, by half offset."""

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
        """Return the oldest one."""
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
