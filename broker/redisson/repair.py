"""The work of an operator on a waiting queue: to repair it, move all of it to timers, or act on one member.

Damage is members that are in the list only, or in the set only. In the list only, a member is counted and shown and
never comes due. In the set only, it comes due and is shown nowhere; Redisson's own retainAll leaves such. A plan is
found by walking both, in bounded steps; each repair is one script that looks again before it writes.

An import moves a whole queue of Redisson into Escapement timers, while Java keeps offering. The transfer service does
the work, so it goes on after any restart: each value becomes a timer that is due at the same moment, with a schedule
key made from the packed member, so that no second one can wait beside it.

One waiting member can be taken out, delivered now, rescheduled, moved to another queue, or set aside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, cast

from . import scripts
from .queue import INDEX_STEP, PATIENCE_CALLS, DelayedQueue, Moment, QueueKeys, due_ms
from .server import whole
from .survey import inspected_keys, survey
from .to_topic import Mode, read_mode, start_import, stop
from .values import Damaged, Handle, RepairPlan

SHOWN_BYTES = 256
#: What a repair does with a member that is in the list only / in the set only.
ListRepair = Literal["fire", "drop"]
SetRepair = Literal["list", "drop"]


def plan_repair(queue: DelayedQueue, *, limit: int = 1000) -> RepairPlan:
    """Compare list and set; at most `limit` members of each kind, `is_complete` says whether these are all.

    A longer list needs the index of places, which is built on the way: in read-only mode NotAllowed is raised.
    """
    queue.may_write()
    compared = [0]
    list_only = list(islice(_damaged(queue, "list", compared), limit + 1))
    set_only = list(islice(_damaged(queue, "set", compared), limit + 1))
    complete = len(list_only) <= limit and len(set_only) <= limit
    return RepairPlan(list_only[:limit], set_only[:limit], compared[0], complete)


def repair(
    queue: DelayedQueue,
    damaged: Iterable[Damaged],
    *,
    list_only: ListRepair = "fire",
    set_only: SetRepair = "list",
) -> int:
    """Put these right: in the list only: `fire` (due now) or `drop`; in the set only: `list` it again, or `drop`.

    How many were still damaged and are whole now. Nothing is lost with the defaults.
    """
    queue.may_write()
    keys = (*queue.script_keys(), queue.keys.channel)
    count = 0
    for each in damaged:
        action = list_only if each.kind == "list" else set_only
        arguments = (each.kind, action, each.identity, each.size_bytes, each.score, each.place)
        count += whole(queue.script(scripts.REPAIR, keys, arguments))
    return count


def _damaged(queue: DelayedQueue, kind: str, compared: list[int]) -> Iterator[Damaged]:
    place = calls = 0
    while True:
        arguments = (kind, place, INDEX_STEP, SHOWN_BYTES)
        answer = cast("list[bytes | int]", queue.script(scripts.DAMAGE, queue.script_keys(), arguments))
        seen, fields = whole(answer[0]), answer[1:]
        calls += 1
        if seen < 0 and calls < PATIENCE_CALLS:
            continue
        for first in range(0, len(fields), 5):
            score, size, identity, start, at = fields[first : first + 5]
            yield Damaged(
                kind,
                whole(at),
                cast("bytes", score).decode(),
                cast("bytes", identity),
                whole(size),
                cast("bytes", start),
            )
        compared[0] += max(0, seen)
        place += seen
        if seen <= 0:
            return


# Moving a whole queue into Escapement timers.


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """The members that an import of a queue would move."""

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
    """The progress of an import. It is done when nothing is left; Java may then offer more."""

    is_on: bool
    topic: str
    since_ms: int
    sent: int
    refused: int
    left: int
    sending: int

    @property
    def is_done(self) -> bool:
        """Tell whether nothing waits in Redis just now."""
        return self.left == 0 and self.sending == 0


def preview_import(queue: DelayedQueue, *, max_delay_ms: int | None = None) -> ImportPreview:
    """Return what an import would move; `max_delay_ms` is how far ahead the broker takes timers. Writes nothing."""
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
    """Return how far the import of this queue is; None when there is none."""
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


# Acting on one waiting member.

#: A member as a receipt gives it, or the handle of a page.
Reference = bytes | Handle


def remove_member(queue: DelayedQueue, which: Reference) -> bool:
    """Take exactly this one out; False when it is not waiting any more."""
    return _steer(queue, "remove", which)


def deliver_now(queue: DelayedQueue, which: Reference) -> bool:
    """Put it at the end of the target immediately; False when it is not waiting. Raises MemberUnreadable for poison."""
    return _steer(queue, "deliver", which)


def reschedule(queue: DelayedQueue, which: Reference, at: Moment) -> bool:
    """Let it be due at another time; False when it is not waiting."""
    return _steer(queue, "reschedule", which, number=due_ms(at))


def move_to(queue: DelayedQueue, which: Reference, other: DelayedQueue) -> bool:
    """Let it wait in another queue, due as before, in that queue's packing; False when it is not waiting.

    In a Redis Cluster both need the same hash tag, else DifferentSlots is raised. The other queue has the same codec.
    """
    other.may_write()
    keys: QueueKeys = other.keys
    others = (keys.timeout, keys.waiting, keys.channel)
    return _steer(queue, "move", which, others=others, packing=other.packing)


def set_aside(queue: DelayedQueue, which: Reference) -> bool:
    """Move poison out of Java's way, into a set of ours; False when it is not waiting."""
    return _steer(queue, "aside", which)


def put_back(queue: DelayedQueue, which: Reference) -> bool:
    """Put what was set aside back as it was; False when it is not there."""
    return _steer(queue, "back", which)


def _steer(
    queue: DelayedQueue,
    action: str,
    which: Reference,
    *,
    number: int = 0,
    others: tuple[bytes, ...] = (),
    packing: str = "auto",
) -> bool:
    queue.may_write()
    if isinstance(which, Handle):
        named: tuple[bytes | str | int, ...] = (b"", which.score, which.identity, which.size_bytes)
    else:
        named = (which, "0", b"", len(which))
    keys = (*inspected_keys(queue), *others)
    done, _ = cast("list[int]", queue.script(scripts.STEER, keys, (action, *named, number, packing)))
    return whole(done) == 1
