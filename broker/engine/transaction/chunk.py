"""Some rows of the open halves, by column.

A snapshot takes the columns of all chunks as they are (``freeze``), without copying one; whoever changes a row
afterwards makes the columns of that chunk its own first (``own``), and the snapshot keeps the old ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import TypeAlias

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
        """Return all columns, offsets first."""
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
        """Take some rows out."""
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
