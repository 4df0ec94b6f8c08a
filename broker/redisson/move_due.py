"""Moving what is due, one bounded script at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from . import scripts
from .queue import INDEX_STEP, DelayedQueue
from .server import whole

#: Values that one script moves; with this, the slowest call takes about 5 ms with 100,000 waiting.
BATCH = 96
#: In a longer list than this one pass over it is most of a call, which moves so many then.
LONG, LONG_BATCH = 200_000, 128


@dataclass(frozen=True, slots=True)
class Moved:
    """What one transfer script did. All `_ms` are the server's clock."""

    count: int
    still_due: int
    next_due_ms: int | None
    now_ms: int
    again: bool
    list_size: int
    poison: int
    size_bytes: int
    first_due_ms: int | None


def batch_for(waiting: int) -> int:
    """Return how many values one script moves out of a list of this length."""
    return LONG_BATCH if waiting > LONG else BATCH


def move_due(queue: DelayedQueue, limit: int, *, skip_poison: int = 0, scan: bool = False) -> Moved:
    """Move at most `limit` due values to the target; `again` says that more can be done at once.

    `skip_poison` of the first due members are known to be poison and stay; `scan` moves the first one even while the
    index is being built, by a scan of the whole list.
    """
    arguments = (limit, INDEX_STEP, int(scan), skip_poison)
    answer = cast("list[int | bytes]", queue.script(scripts.TRANSFER, queue.script_keys(), arguments))
    return read_moved([whole(part) for part in answer])


def read_moved(numbers: Sequence[int]) -> Moved:
    """Read the answer of a moving script, whose numbers stand in this order."""
    count, due, following, now, again, size, poison, size_bytes, first = numbers
    return Moved(count, due, _moment(following), now, again == 1, size, poison, size_bytes, _moment(first))


def tend_index(queue: DelayedQueue) -> bool:
    """Bring the index of places one step nearer to the list; True when there is nothing more to do.

    It is left alone while members come due in the order of offers: then a transfer finds them without it.
    """
    return queue.script(scripts.TEND, queue.script_keys(), (INDEX_STEP,)) == 1


def move_all_due(queue: DelayedQueue, limit: int = 200) -> int:
    """Move everything that is due now; how many. For scripts and tests: a service has its own loop."""
    total = poison = 0
    while True:
        moved = move_due(queue, limit, skip_poison=poison)
        total += moved.count
        poison += moved.poison
        if not moved.again:
            return total


def _moment(score: int) -> int | None:
    return score if score >= 0 else None
