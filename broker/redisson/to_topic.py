"""From a queue of Redisson to a topic of Escapement: taken, sent, noted.

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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from redis.exceptions import RedisError

from ..client import Message, Outgoing, SendResult, prepare
from ..client.errors import Answer, BrokerRefused, ClientError, InvalidArgument
from . import scripts
from .codecs import unpack
from .errors import RedissonError
from .modes import Mode
from .move_due import Moved, read_moved
from .queue import INDEX_STEP, DelayedQueue
from .server import whole

logger = logging.getLogger(__name__)

#: A value must fit into a message, and its properties beside it.
LARGEST_BYTES = 4 * 1024 * 1024 - 64 * 1024
#: For so long nobody else sends for a queue after a service was killed. It is longer than a send may take (5 s) and
#: what may pass before it since the ownership was last renewed.
OWNED_MS = 10_000
RENEW_S = 2.0


class Sender(Protocol):
    """What is needed of broker.client.Producer."""

    def send_each(
        self, topic: str, messages: Sequence[Outgoing], *, timeout_ms: int = 5000
    ) -> list[SendResult | ClientError]:
        """Send many messages; each is answered on its own."""


class Finder(Protocol):
    """What is needed of broker.client.Admin."""

    def messages_by_key(self, topic: str, key: str, max_count: int = 64) -> list[Message]:
        """Messages of the topic with this key."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A member on its way, and when it is due."""

    member: bytes
    due_ms: int

    @property
    def key(self) -> str:
        """The same for the same member, whoever sends it."""
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
        """Nothing is sent any more: another service may send at once. What does not answer is left to time."""
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
        """Those that the broker does not have; asking for many takes a while, and nobody else may send meanwhile."""
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
