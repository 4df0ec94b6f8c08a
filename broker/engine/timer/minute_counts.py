"""How many timers stand in each minute of the wheel, counted once at start.

A wheel may hold hundreds of thousands of used slots. Where a block of it is one stretch of seconds without roll units,
which nearly all are, its numbers are added up minute by minute; slot by slot only elsewhere.
"""

from __future__ import annotations

import sys
from array import array

from .wheel import BLOCK_BYTES, SLOT, SLOT_SIZE, Wheel

_MINUTE = 60
#: Two seconds of one block that lie closer than a block belong to one turn, if a turn is at least so long.
_CLEAR_PLACES = 2 * BLOCK_BYTES // SLOT_SIZE


class Tally:
    """What stands in a wheel later than the second ``after``.

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
