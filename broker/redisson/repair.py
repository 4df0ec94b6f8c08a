"""Damage: members that are in the list only, or in the set only.

In the list only, a member is counted and shown and never comes due. In the set only, it comes due and is shown nowhere;
Redisson's own retainAll leaves such. A plan is found by walking both, in bounded steps; each repair is one script that
looks again before it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal, cast

from . import scripts
from .queue import INDEX_STEP, PATIENCE_CALLS, DelayedQueue
from .server import whole
from .values import Damaged, RepairPlan

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
