"""Halves that were asked about as often as allowed: parked in TRANS_CHECK_MAX_TIME_TOPIC until somebody decides."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple


class Parked(NamedTuple):
    """One parked half: where the half is, where its copy is, and since when."""

    offset: int
    position: int
    store_ms: int
    copy_offset: int
    copy_position: int
    parked_ms: int


class ParkedHalves:
    """All parked halves, by half offset."""

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
