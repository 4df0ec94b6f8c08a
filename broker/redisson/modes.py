"""Where the due values of a queue go: to the plain list as in Redisson, or to a topic of Escapement.

Kept in a hash beside the queue, so that it outlives every process and each transfer service reads it:

    kind            reliable (due values), import (all values, as timers)
    state           on, off
    topic, since_ms, sent, refused, taken_over
    owner, owned_until_ms      the one transfer service that sends; another one takes over when it is gone
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from ..client.names import check_writable_topic
from .errors import WrongType
from .queue import DelayedQueue
from .server import whole

Kind = Literal["plain", "reliable", "import"]


@dataclass(frozen=True, slots=True)
class Mode:
    """How a queue is moved, and how far that is. `is_on` is False while what was taken already is still sent."""

    kind: Kind
    is_on: bool
    topic: str
    since_ms: int
    #: Members that are in the topic; that the broker refused and that were set aside; that came through the plain list.
    sent: int
    refused: int
    taken_over: int
    #: Members on their way.
    sending: int


def read_mode(queue: DelayedQueue) -> Mode:
    """The mode of a queue; raises WrongType when its key is somebody else's."""
    key, server = queue.keys.mode, queue.server
    found = cast("bytes", server.run("TYPE", key))
    kind_of_key = found.decode() if isinstance(found, bytes) else str(found)
    if kind_of_key not in ("none", "hash"):
        raise WrongType(key.decode("utf-8", "replace"), "hash", kind_of_key)
    names = ("kind", "state", "topic", "since_ms", "sent", "refused", "taken_over")
    values = cast("list[bytes | None]", server.run("HMGET", key, *names))
    kind, state, topic = ((value or b"").decode() for value in values[:3])
    since_ms, sent, refused, taken_over = (int(value or 0) for value in values[3:])
    sending = whole(server.run("ZCARD", queue.keys.sending))
    known: Kind = "import" if kind == "import" else "reliable" if kind == "reliable" else "plain"
    return Mode(known, state == "on", topic, since_ms, sent, refused, taken_over, sending)


def make_reliable(queue: DelayedQueue, topic: str) -> None:
    """Send due values to this topic from now on. Raises InvalidArgument for a topic that cannot be.

    At least once: a message may come twice when a transfer service dies between sending and noting it, and the second
    one is recognised by its key wherever the broker can be asked. A live RDelayedQueue of Java on the same name still
    moves values into the plain list; they are taken over from there.
    """
    _start(queue, "reliable", topic)


def start_import(queue: DelayedQueue, topic: str) -> None:
    """Move every waiting value into a timer of this topic, and what Java offers meanwhile too, until `stop`."""
    _start(queue, "import", topic)


def stop(queue: DelayedQueue) -> None:
    """Go back to the plain list; what was taken already is still sent to its topic."""
    queue.may_write()
    if whole(queue.server.run("EXISTS", queue.keys.mode)):
        queue.server.run("HSET", queue.keys.mode, "state", "off")


def _start(queue: DelayedQueue, kind: Kind, topic: str) -> None:
    queue.may_write()
    check_writable_topic(topic)
    now_ms, _ = queue.server.now_ms()
    fields = ("kind", kind, "state", "on", "topic", topic, "since_ms", now_ms)
    queue.server.run("HSET", queue.keys.mode, *fields, "sent", 0, "refused", 0, "taken_over", 0)
