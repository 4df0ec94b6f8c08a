"""What all connections of a broker together may hold: of frames that are not whole yet, and of answers not read; and
how many of them may be refused something in a second.

A connection may keep some megabytes of either. Thousands that do would be more than a process can hold, so that in sum
there is a limit as well: when it is reached, the one that has held what it holds longest is ended, strangers first.
"""

from __future__ import annotations

import logging
from typing import Protocol

logger = logging.getLogger(__name__)

# Frames that are not whole yet.


class Holder(Protocol):
    """A connection, as the budget sees it."""

    is_unauthenticated: bool

    def give_up_partial(self, reason: str) -> None:
        """End the connection: what it holds is needed for others."""


class Budget:
    """The budget of all connections of a broker together for frames that are not whole yet.

    When it is spent, those give up who began first: strangers before others. A frame that arrives in its time is never
    the oldest for long.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self.freed_bytes = 0
        """Given back so far; what this grows by may have left holes in the process' memory."""
        self._holding: dict[Holder, int] = {}

    def hold(self, holder: Holder, size_bytes: int) -> None:
        """Note what a connection holds now; others, or it itself, may have to give up."""
        self.held_bytes += size_bytes - self._holding.get(holder, 0)
        self._holding[holder] = size_bytes
        while self.held_bytes > self.most_bytes and self._holding:
            oldest = next((each for each in self._holding if each.is_unauthenticated), next(iter(self._holding)))
            self.release(oldest)
            oldest.give_up_partial(
                f"unfinished frames of all connections hold more than {self.most_bytes:,} bytes, its own was the oldest"
            )

    def release(self, holder: Holder) -> None:
        """Note that a connection holds nothing any more."""
        size_bytes = self._holding.pop(holder, 0)
        self.held_bytes -= size_bytes
        self.freed_bytes += size_bytes


# Answers that are not read.

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


# Connections that are to be refused something, by the second.

#: So many of each kind a second are logged, and those with no frame closed immediately.
MOST_A_SECOND = 16
#: The others with no frame stay so long, unread: who came again as soon as he is closed would take the time of all.
HELD_S = 1.0


class Refused:
    """The count, by the second, of connections that were refused the same; of those beyond `MOST_A_SECOND` the log says
    once what becomes of them."""

    def __init__(self, what: str, others: str) -> None:
        self._what, self._others = what, others
        self._second = self._count = 0

    def is_one_too_many(self, now_ms: int) -> bool:
        """Count one, and return whether it is beyond what a second may have."""
        second = now_ms // 1000
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count == MOST_A_SECOND + 1:
            logger.warning(
                "more than %d connections in a second %s; the others are %s", MOST_A_SECOND, self._what, self._others
            )
        return self._count > MOST_A_SECOND


def without_frames() -> Refused:
    """Begin to count those who send what is no frame."""
    return Refused("sent what is no frame", f"closed {HELD_S:g} s later and named at level DEBUG")


def without_answers() -> Refused:
    """Begin to count those who ask for what they may not or nobody knows."""
    return Refused("asked for what they may not or nobody knows", "named at level DEBUG")
