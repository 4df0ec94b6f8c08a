"""A clock that moves only when a test says so."""

from __future__ import annotations

from dataclasses import dataclass

#: 2026-01-01T00:00:00Z in ms; any fixed moment will do, a plausible one makes failures readable.
START_MS = 1_767_225_600_000


@dataclass(slots=True)
class ManualClock:
    """The wall clock of a test, in ms since 1970."""

    now_ms: int = START_MS

    def advance(self, delta_ms: int) -> int:
        """Move by ``delta_ms`` (negative: the clock is set back) and return the new time."""
        self.now_ms += delta_ms
        return self.now_ms
