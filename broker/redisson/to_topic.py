"""The destination of a queue's due values: the plain list as in Redisson, or a topic of Escapement.

The mode of a queue is kept in a hash beside it, so that it outlives every process and each transfer service reads it:

    kind            reliable (due values), import (all values, as timers)
    state           on, off
    topic, since_ms, sent, refused, taken_over
    owner, owned_until_ms      the one transfer service that sends; another one takes over when it is gone

On the way to a topic a value is taken, sent, noted:

    queue ──claim──► escapement_delay_sending ──send──► topic
                            └──────finish──────────────────┘

Claiming and finishing are one script each. A crash between them leaves members in our set; whoever comes next asks the
broker for each, by the key made from the packed member, and sends only what is not there yet. So everything arrives at
least once, and twice only when the broker could not be asked, or had not indexed the first one yet.
"""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, cast

from redis.exceptions import RedisError

from ..client import Message, Outgoing, SendResult, prepare
from ..client.errors import Answer, BrokerRefused, ClientError, InvalidArgument
from ..client.names import check_writable_topic
from . import scripts
from .codecs import unpack
from .errors import NotAllowed, RedissonError, WrongType
from .queue import INDEX_STEP, DelayedQueue, Moved, move_due, read_moved
from .server import whole
from .transfer_status import QueueStatus

# Modes.

Kind = Literal["plain", "reliable", "import"]


@dataclass(frozen=True, slots=True)
class Mode:
    """The way a queue is moved, and its progress. `is_on` is False while values taken already are still being sent."""

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
    """Return the mode of a queue; raise WrongType when its key is somebody else's."""
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


# Taken, sent, noted.

logger = logging.getLogger(__name__)

#: A value must fit into a message, and its properties beside it.
LARGEST_BYTES = 4 * 1024 * 1024 - 64 * 1024
#: For so long nobody else sends for a queue after a service was killed. It is longer than a send may take (5 s) and
#: what may pass before it since the ownership was last renewed.
OWNED_MS = 10_000
RENEW_S = 2.0


class Sender(Protocol):
    """The part of broker.client.Producer that is used here."""

    def send_each(
        self, topic: str, messages: Sequence[Outgoing], *, timeout_ms: int = 5000
    ) -> list[SendResult | ClientError]:
        """Send many messages; each is answered on its own."""


class Finder(Protocol):
    """The part of broker.client.Admin that is used here."""

    def messages_by_key(self, topic: str, key: str, max_count: int = 64) -> list[Message]:
        """Return the messages of the topic with this key."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A member on its way, and when it is due."""

    member: bytes
    due_ms: int

    @property
    def key(self) -> str:
        """The message key made from the member alone, so that it is the same whoever sends it."""
        return "redisson-" + hashlib.sha1(self.member, usedforsecurity=False).hexdigest()


class SomebodyElseSends(RedissonError):
    """Another transfer service sends for this queue; it is taken over when that one is gone."""


class NotSent(RedissonError):
    """The broker did not take all messages; what is left stays and is sent again."""


class Outbound:
    """Sends what leaves queues; one for a process. Not safe for two threads on the same queue."""

    def __init__(self, sender: Sender, finder: Finder, *, owner: str | None = None) -> None:
        self._sender = sender
        self._finder = finder
        self._owner = owner or secrets.token_hex(8)
        self._owned: dict[str, DelayedQueue] = {}

    def move(self, queue: DelayedQueue, mode: Mode, limit: int, skip_poison: int, scan: bool) -> Moved:
        """Take a batch and send it. Raises ClientError, NotSent and SomebodyElseSends; nothing is lost by any."""
        claimed = self._claim(queue, mode, 0, skip_poison, scan)
        left = self._leaving(queue)
        if left:
            # Whoever claimed these may have sent them.
            self._send(queue, mode, self._unsent(queue, mode, left), left)
        if not mode.is_on:
            return replace(claimed, count=len(left), again=True)
        claimed = self._claim(queue, mode, limit, skip_poison, scan)
        fresh = self._leaving(queue)
        if fresh:
            self._send(queue, mode, fresh, fresh)
        return claimed

    def release(self) -> None:
        """Send nothing any more: another service may send at once. What does not answer is left to time."""
        for queue in self._owned.values():
            try:
                queue.server.script(scripts.RELEASE, (queue.keys.mode,), (self._owner,))
            except (RedisError, RedissonError, OSError) as error:
                logger.info("queue %s is owned for some seconds more: %s", queue.name, error)
        self._owned.clear()

    def _claim(self, queue: DelayedQueue, mode: Mode, limit: int, skip_poison: int, scan: bool) -> Moved:
        bound = "all" if mode.kind == "import" else "due"
        arguments = (
            limit, INDEX_STEP, int(scan), skip_poison, bound, LARGEST_BYTES, int(limit > 0), self._owner, OWNED_MS,
        )  # fmt: skip
        keys = (*queue.script_keys(), queue.keys.sending, queue.keys.aside, queue.keys.mode)
        answer = cast("list[int | bytes]", queue.script(scripts.CLAIM, keys, arguments))
        if not answer:
            raise SomebodyElseSends
        self._owned[queue.name] = queue
        return read_moved([whole(part) for part in answer[:9]])

    def _leaving(self, queue: DelayedQueue) -> list[Leaving]:
        found = cast("list[object]", queue.server.run("ZRANGE", queue.keys.sending, 0, -1))
        members = cast("list[bytes]", found)
        if not members:
            return []
        scores = cast("list[float | bytes]", queue.server.run("ZMSCORE", queue.keys.sending, *members))
        return [
            Leaving(member, math.ceil(float(score)))
            for member, score in zip(members, scores, strict=True)
            if score is not None
        ]

    def _unsent(self, queue: DelayedQueue, mode: Mode, left: Sequence[Leaving]) -> list[Leaving]:
        """Return those that the broker lacks; asking for many takes a while, and nobody else may send meanwhile."""
        unsent: list[Leaving] = []
        renewed_s = time.monotonic()
        for each in left:
            if time.monotonic() - renewed_s > RENEW_S:
                self._claim(queue, mode, 0, 0, scan=False)
                renewed_s = time.monotonic()
            if not self._finder.messages_by_key(mode.topic, each.key, 1):
                unsent.append(each)
        return unsent

    def _send(self, queue: DelayedQueue, mode: Mode, wanted: Sequence[Leaving], all_left: Sequence[Leaving]) -> None:
        now_ms, _ = queue.server.now_ms()
        messages = [self._message(queue, each, now_ms) for each in wanted]
        results = self._sender.send_each(mode.topic, messages) if messages else []
        refused = [each for each, result in zip(wanted, results, strict=True) if _is_refused(result)]
        failed = [
            (each, result)
            for each, result in zip(wanted, results, strict=True)
            if isinstance(result, ClientError) and not _is_refused(result)
        ]
        staying = {each.member for each, _ in failed} | {each.member for each in refused}
        arrived = [each.member for each in all_left if each.member not in staying]
        aside = [each.member for each in refused]
        keys = (queue.keys.sending, queue.keys.mode, queue.keys.aside)
        queue.server.script(scripts.FINISH, keys, (len(arrived), *arrived, *aside))
        if failed:
            raise NotSent(f"{len(failed)} of {len(wanted)} messages were not taken: {failed[0][1]}")

    def _message(self, queue: DelayedQueue, leaving: Leaving, now_ms: int) -> Outgoing:
        properties = {"REDISSON_QUEUE": queue.name, "REDISSON_DUE_MS": str(leaving.due_ms)}
        value = unpack(leaving.member).value
        if leaving.due_ms <= now_ms:
            return prepare(value, keys=[leaving.key], properties=properties)
        return prepare(
            value,
            keys=[leaving.key],
            properties=properties,
            deliver_at_ms=leaving.due_ms,
            schedule_key=leaving.key,
            on_conflict="keep",
        )


def _is_refused(result: SendResult | ClientError) -> bool:
    if isinstance(result, InvalidArgument):
        return True
    # Everything else may be otherwise tomorrow: it stays and is tried again.
    return isinstance(result, BrokerRefused) and result.code == Answer.MESSAGE_ILLEGAL


# Where the due values of a queue go.

#: How soon a service notices that a plain queue got another mode.
MODE_READ_S = 1.0


class Mover(Protocol):
    """Moves a batch of a queue."""

    def move(self, queue: DelayedQueue, status: QueueStatus, limit: int, skip_poison: int, scan: bool) -> Moved:
        """Move at most `limit` values and note in the status what only this mover knows."""

    def close(self) -> None:
        """Move nothing any more, and let go of what the mover holds."""


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
        """Move a batch as the queue's mode says; raises NotAllowed for one that needs a broker where there is none."""
        if time.monotonic() >= self._plain_until_s.get(queue.name, 0.0):
            mode = read_mode(queue)
            _note_target(status, mode)
            if mode.is_on or mode.sending:
                if self._outbound is None:
                    raise NotAllowed(queue.name, "it goes to a topic, and this service knows no broker.")
                return self._outbound.move(queue, mode, limit, skip_poison, scan)
            self._plain_until_s[queue.name] = time.monotonic() + MODE_READ_S
        return move_due(queue, limit, skip_poison=skip_poison, scan=scan)


def _note_target(status: QueueStatus, mode: Mode) -> None:
    status.mode = mode.kind if mode.is_on else "plain"
    status.topic = mode.topic if mode.is_on else ""
    status.sending = mode.sending
    if mode.taken_over > status.taken_over and mode.is_on:
        status.notice = (
            "A live RDelayedQueue of Java moves values into the destination queue; they are taken from there."
        )
    elif not mode.is_on:
        status.notice = ""
    status.taken_over = mode.taken_over
