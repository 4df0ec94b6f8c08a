"""Doing something with one waiting member: out, now, later, elsewhere, aside."""

from __future__ import annotations

from typing import cast

from . import scripts
from .keys import QueueKeys
from .queue import DelayedQueue, Moment, due_ms
from .server import whole
from .survey import inspected_keys
from .values import Handle

#: A member as a receipt gives it, or the handle of a page.
Reference = bytes | Handle


def remove_member(queue: DelayedQueue, which: Reference) -> bool:
    """Take exactly this one out; False when it is not waiting any more."""
    return _steer(queue, "remove", which)


def deliver_now(queue: DelayedQueue, which: Reference) -> bool:
    """Put it at the end of the target at once; False when it is not waiting. Raises MemberUnreadable for poison."""
    return _steer(queue, "deliver", which)


def reschedule(queue: DelayedQueue, which: Reference, at: Moment) -> bool:
    """Let it be due at another moment; False when it is not waiting."""
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
