"""The answers that clients do not read: what waits for all of them together is bounded.

A connection may keep some megabytes waiting. Thousands that do would be more than a process can hold, so that in sum
there is a limit as well: when it is reached, the one whose answers have waited longest is ended, strangers first.
"""

from __future__ import annotations

from typing import Protocol

#: Shorter writes are not looked after: many of them are one long write, or end in a pause.
LEAST_BYTES = 4_096


class Waiting(Protocol):
    """A connection, as far as answers wait in it."""

    is_unauthenticated: bool

    def unread_bytes(self) -> int:
        """Return how much waits to be written now."""

    def give_up_unread(self, reason: str) -> None:
        """End the connection and drop what waits."""


class Unread:
    """What waits to be written to all connections of a broker, as of their last long write."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.ended_total = 0
        self._held_bytes = 0
        self._holding: dict[Waiting, int] = {}

    def note(self, connection: Waiting) -> None:
        """Take in what waits for a connection now; others, or it itself, may have to be ended."""
        self._hold(connection, connection.unread_bytes())
        if self._held_bytes <= self.most_bytes:
            return
        for each in list(self._holding):  # most have been read since
            self._hold(each, each.unread_bytes())
        while self._held_bytes > self.most_bytes and self._holding:
            oldest = next((each for each in self._holding if each.is_unauthenticated), next(iter(self._holding)))
            self.forget(oldest)
            self.ended_total += 1
            oldest.give_up_unread(
                f"more than {self.most_bytes:,} bytes of answers wait to be read, its own waited longest"
            )

    def forget(self, connection: Waiting) -> None:
        """Note that nothing waits for a connection any more."""
        self._held_bytes -= self._holding.pop(connection, 0)

    def _hold(self, connection: Waiting, size_bytes: int) -> None:
        if not size_bytes:
            self.forget(connection)
            return
        self._held_bytes += size_bytes - self._holding.get(connection, 0)
        self._holding[connection] = size_bytes
