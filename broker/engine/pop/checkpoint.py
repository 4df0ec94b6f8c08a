"""What one pop took out of one queue (RocketMQ's PopCheckPoint): its offsets, and until when nobody else gets them.

Bit n of a mask stands for offset ``start + n``. A consumer names a check point by ``start`` and ``pop_ms``, which are
part of the handle of every message it got.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: What nobody can be given now stays out for so long: until somebody pops its topic, or pulls it.
FOR_EVER_MS = 10 * 365 * 86_400_000
_NOT_ZERO = re.compile(rb"[^\0]").finditer
#: Places of the bits of each byte.
_BITS = [tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]


class CheckPoint:
    """``held``: offsets that this handle still speaks for; ``reviving``: those whose copy is on its way to the disk.

    A message whose time was changed gets a check point of its own with the first one as ``parent``. The parent's
    ``pinned`` keeps every offset that is not over yet, whoever speaks for it.
    """

    __slots__ = ("due_ms", "held", "parent", "pinned", "pop_ms", "reviving", "start")

    def __init__(self, start: int, pop_ms: int, due_ms: int, mask: int, parent: CheckPoint | None = None) -> None:
        self.start = start
        self.pop_ms = pop_ms
        self.due_ms = due_ms
        self.held = mask
        self.reviving = 0
        self.pinned = mask if parent is None else 0
        self.parent = parent

    @property
    def root(self) -> CheckPoint:
        """The check point that pins these offsets."""
        return self.parent or self

    def offsets(self) -> Iterator[int]:
        """Yield the offsets it speaks for, lowest first."""
        return offsets_in(self.start, self.held)

    def lowest_pinned(self) -> int:
        """Return the lowest offset that is not over; there must be one."""
        return self.start + lowest_bit(self.pinned)


def lowest_bit(mask: int) -> int:
    """Return the place of the lowest bit of a mask that is not 0."""
    return (mask & -mask).bit_length() - 1


def offsets_in(start: int, mask: int) -> Iterator[int]:
    """Yield the offsets of a mask, lowest first: byte by byte, as a long number is copied whole with each bit taken
    out of it."""
    raw = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    for found in _NOT_ZERO(raw):
        at = start + 8 * found.start()
        for bit in _BITS[raw[found.start()]]:
            yield at + bit


def mask_of(start: int, offsets: list[int]) -> int:
    """Return the mask of ascending offsets from ``start`` on."""
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        return ((1 << len(offsets)) - 1) << (offsets[0] - start)
    mask = 0
    for offset in offsets:
        mask |= 1 << (offset - start)
    return mask
