"""Offsets that wait in a line: eight bytes each, taken from the front without moving the others each time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

#: What was taken is given back once it is so many, and half of the line.
_WORTH_MOVING = 4_096


class Line:
    """First in, first out."""

    __slots__ = ("_offsets", "_taken")

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._offsets = array("q", offsets)
        self._taken = 0

    def __len__(self) -> int:
        return len(self._offsets) - self._taken

    def append(self, offset: int) -> None:
        """Add one at the end."""
        self._offsets.append(offset)

    def extend(self, offsets: Iterable[int]) -> None:
        """Add several at the end."""
        self._offsets.extend(offsets)

    def take(self, count: int) -> array[int]:
        """Take up to ``count`` out, the longest waiting first."""
        part = self._offsets[self._taken : self._taken + count]
        self._taken += len(part)
        if self._taken >= _WORTH_MOVING and 2 * self._taken >= len(self._offsets):
            del self._offsets[: self._taken]
            self._taken = 0
        return part
