"""How far before its moment a second is read: two seconds, and earlier the more timers it holds."""

from __future__ import annotations

from .wheel import Wheel

#: How far ahead of its moment a second is read; one that holds many earlier, as reading and encoding takes its time.
_AHEAD_SECONDS, _AHEAD_MOST_SECONDS, _READ_PER_SECOND = 2, 30, 15_000


class Ahead:
    """Looks at the numbers in the wheel, once a second of the clock."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self.reset()

    def reset(self) -> None:
        """Look again: what was read is to be read anew."""
        self._looked_at = self._until = -1

    def until(self, now_second: int, read_second: int) -> int:
        """Return the second up to which is to be read now; all below ``read_second`` are read."""
        if now_second != self._looked_at:
            self._looked_at = now_second
            least, most = now_second + _AHEAD_SECONDS, now_second + _AHEAD_MOST_SECONDS
            self._until = least
            for second in range(max(least + 1, read_second), most + 1):
                if second <= now_second + self.of(second):
                    self._until = second
        return self._until

    def of(self, second: int) -> int:
        """Return how many seconds before its moment a second is to be read."""
        return min(_AHEAD_SECONDS + self._wheel.number_of(second) // _READ_PER_SECOND, _AHEAD_MOST_SECONDS)
