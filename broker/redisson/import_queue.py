"""Moving a whole queue of Redisson into Escapement timers, while Java keeps offering.

The transfer service does the work, so it goes on after any restart: each value becomes a timer that is due at the same
moment, with a schedule key made from the packed member, so that no second one can wait beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .modes import Mode, read_mode, start_import, stop
from .queue import DelayedQueue
from .server import whole
from .survey import survey


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """What an import would move."""

    waiting: int
    overdue: int
    never_due: int
    #: Due later than the broker takes timers for; it refuses these, and they are set aside.
    too_far: int
    last_due_ms: int | None
    sampled_poison: int
    is_damaged: bool


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far an import is. It is done when nothing is left; Java may then offer more."""

    is_on: bool
    topic: str
    since_ms: int
    sent: int
    refused: int
    left: int
    sending: int

    @property
    def is_done(self) -> bool:
        """Whether nothing waits in Redis just now."""
        return self.left == 0 and self.sending == 0


def preview_import(queue: DelayedQueue, *, max_delay_ms: int | None = None) -> ImportPreview:
    """What would be moved; `max_delay_ms` is how far ahead the broker takes timers. Writes nothing."""
    found = survey(queue)
    too_far = 0
    if max_delay_ms is not None:
        too_far = whole(queue.server.run("ZCOUNT", queue.keys.timeout, f"({found.now_ms + max_delay_ms}", "+inf"))
    return ImportPreview(
        waiting=found.set_size,
        overdue=found.overdue,
        never_due=found.never_due,
        too_far=too_far,
        last_due_ms=_last_due(queue),
        sampled_poison=found.sampled_poison,
        is_damaged=found.is_damaged,
    )


def begin_import(queue: DelayedQueue, topic: str) -> None:
    """Start or resume it; raises InvalidArgument for a topic that cannot be."""
    mode = read_mode(queue)
    if mode.kind == "import" and mode.topic == topic and not mode.is_on:
        queue.may_write()
        queue.server.run("HSET", queue.keys.mode, "state", "on")
        return
    start_import(queue, topic)


def pause_import(queue: DelayedQueue) -> None:
    """Stop; what was taken already is still sent, the rest stays with Redisson. `begin_import` goes on."""
    stop(queue)


def import_progress(queue: DelayedQueue) -> ImportProgress | None:
    """How far it is; None when there is no import of this queue."""
    mode: Mode = read_mode(queue)
    if mode.kind != "import":
        return None
    left = whole(queue.server.run("ZCARD", queue.keys.timeout))
    return ImportProgress(mode.is_on, mode.topic, mode.since_ms, mode.sent, mode.refused, left, mode.sending)


def _last_due(queue: DelayedQueue) -> int | None:
    scores = queue.server.run("ZRANGE", queue.keys.timeout, -1, -1, "WITHSCORES")
    assert isinstance(scores, list)
    if not scores:
        return None
    last = scores[-1]
    return math.ceil(float(last[1] if isinstance(last, (list, tuple)) else last))
