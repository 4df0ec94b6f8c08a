"""Far timers that come by: their slot is read like any other, and each goes on to its next place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .log import Unit
from .wheel import Slot

if TYPE_CHECKING:
    from .core import Core


class Passing:
    """Units of far timers that were read, and are to be put further; false if there are none."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._units: list[tuple[Unit, int]] = []
        self._left: Slot | None = None
        #: whether one had no place
        self.is_broken = False

    def __len__(self) -> int:
        return len(self._units)

    def add(self, unit: Unit, second: int) -> None:
        """Keep one that stood in the slot of this second."""
        self._units.append((unit, second))

    def leave(self, slot: Slot) -> None:
        """Nobody need come back to a slot, read to its end, once all that were kept stand elsewhere: until then it is
        what a start would read again. Nor may it go if a timer came to it meanwhile."""
        self._left = slot
        self._forget()

    def put(self, budget: int, now_ms: int) -> int:
        """Put timers to their next place, at most ``budget``; return how many were looked at."""
        core = self._core
        used = min(budget, len(self._units))
        for _ in range(used):
            unit, second = self._units.pop()
            offset, due_ms = core.roll_of(second, unit)
            if offset < 0:
                self.is_broken = True
            elif core.waits(offset):
                core.put(offset, unit.position, unit.record_size, due_ms, unit.topic_hash, now_ms)
                core.totals.rolled += 1
        self._forget()
        return used

    def _forget(self) -> None:
        slot = self._left
        if slot is not None and not self._units:
            self._left = None
            if self._core.wheel.get(slot.second) == slot:
                self._core.wheel.clear(slot.second)
