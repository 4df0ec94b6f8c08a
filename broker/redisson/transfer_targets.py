"""Where a transfer moves a queue's due values: to the plain list, or to a topic when its mode says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from .errors import NotAllowed
from .modes import Mode, read_mode
from .move_due import Moved, move_due
from .queue import DelayedQueue
from .to_topic import Outbound
from .transfer_status import QueueStatus

#: How soon a service notices that a plain queue got another mode.
MODE_READ_S = 1.0


class Mover(Protocol):
    """Moves a batch of a queue."""

    def move(self, queue: DelayedQueue, status: QueueStatus, limit: int, skip_poison: int, scan: bool) -> Moved:
        """Move at most `limit` values and note in the status what only this mover knows."""

    def close(self) -> None:
        """Nothing is moved any more."""


class ModeMover:
    """Reads the mode of each queue now and then and does what it says."""

    def __init__(self, outbound: Outbound | None = None, *, closing: Sequence[Callable[[], None]] = ()) -> None:
        """`closing`: what ends with the service."""
        self._outbound = outbound
        self._closing = closing
        self._plain_until_s: dict[str, float] = {}

    def close(self) -> None:
        """Let others send, and end what ends with the service."""
        if self._outbound is not None:
            self._outbound.release()
        for close in self._closing:
            close()

    def move(self, queue: DelayedQueue, status: QueueStatus, limit: int, skip_poison: int, scan: bool) -> Moved:
        """Raises NotAllowed for a mode that needs a broker where there is none, and what Outbound raises."""
        if time.monotonic() >= self._plain_until_s.get(queue.name, 0.0):
            mode = read_mode(queue)
            _note(status, mode)
            if mode.is_on or mode.sending:
                if self._outbound is None:
                    raise NotAllowed(queue.name, "it goes to a topic, and this service knows no broker.")
                return self._outbound.move(queue, mode, limit, skip_poison, scan)
            self._plain_until_s[queue.name] = time.monotonic() + MODE_READ_S
        return move_due(queue, limit, skip_poison=skip_poison, scan=scan)


def _note(status: QueueStatus, mode: Mode) -> None:
    status.mode = mode.kind if mode.is_on else "plain"
    status.topic = mode.topic if mode.is_on else ""
    status.sending = mode.sending
    if mode.taken_over > status.taken_over and mode.is_on:
        status.notice = "A live RDelayedQueue of Java moves values into the plain list; they are taken over from there."
    elif not mode.is_on:
        status.notice = ""
    status.taken_over = mode.taken_over
