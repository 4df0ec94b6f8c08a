"""Queues of one process alone: reading topics from their end, as everybody who listens does.

Nothing is kept at the broker for such a queue, no group and no offset: where it stands is known here. A queue begins at
the end, as it is when it is declared; what is sent later it gets even if nobody reads it until then. Several queues of
a process may listen to one topic, each by its tags.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from ..client import ALL, Message, MessageQueue, RouteNotFound, subscription
from ..client._offsets import QueueOffsets
from ..client._reader import read_delivery, split_records
from ..client._session import Session
from ..client.errors import BadAnswer
from ..rocketmq.codes import Answer, Request

logger = logging.getLogger(__name__)

_SUSPEND_MS = 15_000
_TIMEOUT_MS = 30_000
_PULL_BYTES = 1 << 20
_MOST_MESSAGES = 256
#: PullSysFlag: the broker holds the question while there is nothing, and is told what is wanted.
_SUSPEND_WITH_SUBSCRIPTION = 2 | 4
_ANSWERS = (Answer.SUCCESS, Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY, Answer.PULL_OFFSET_MOVED)


@dataclass(slots=True)
class Tail:
    """One topic that a queue listens to, and where it stands. No tags: it listens to all."""

    topic: str
    tags: set[str] = field(default_factory=set)
    offsets: dict[MessageQueue, int] = field(default_factory=dict)

    @property
    def expression(self) -> str:
        """The tags, as the broker is asked for them."""
        return " || ".join(sorted(self.tags)) or ALL


class Tails:
    """What the queues of this process listen to."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group
        self._tails: dict[str, dict[str, Tail]] = {}

    def of(self, queue: str) -> list[Tail]:
        """Return what a queue listens to."""
        return list(self._tails.get(queue, {}).values())

    def forget(self, queue: str) -> None:
        """Let a queue listen no more."""
        self._tails.pop(queue, None)

    async def listen(self, queue: str, topic: str, tag: str | None) -> None:
        """Have a queue listen from now on; what it listens to already goes on from where it stands."""
        tail = self._tails.setdefault(queue, {}).get(topic)
        if tail is None:
            offsets = {}
            try:
                for each in (await self._session.route(topic)).readable():
                    offsets[each] = await QueueOffsets(self._session, self._group, each).end()
            except RouteNotFound:  # it is made by what is sent there first
                logger.debug("topic %s is not there yet", topic)
            tail = self._tails.setdefault(queue, {}).setdefault(topic, Tail(topic, offsets=offsets))
        if tag is not None:
            tail.tags.add(tag)

    async def queues_of(self, tail: Tail) -> list[MessageQueue]:
        """Return the queues of a topic now; one that came later is read from its first message."""
        try:
            found = list((await self._session.route(tail.topic)).readable())
        except RouteNotFound:
            return []
        for each in found:
            if each not in tail.offsets:
                tail.offsets[each] = await QueueOffsets(self._session, self._group, each).begin()
        return found

    async def pull(self, tail: Tail, queue: MessageQueue, wait_ms: int = _SUSPEND_MS) -> list[tuple[int, Message]]:
        """Return what is new and wanted in one queue, each with the offset that follows it; wait for the first.

        Raises ClientError. What was not wanted is passed; what is returned is not, until the caller moves the tail.
        """
        offsets = QueueOffsets(self._session, self._group, queue)
        wanted = subscription(tail.topic, tail.expression)
        ext = offsets.about() | {
            "queueOffset": str(tail.offsets[queue]), "maxMsgNums": str(_MOST_MESSAGES), "maxMsgBytes": str(_PULL_BYTES),
            "sysFlag": str(_SUSPEND_WITH_SUBSCRIPTION), "commitOffset": "0", "suspendTimeoutMillis": str(wait_ms),
            "subscription": wanted.expression, "subVersion": str(wanted.version), "expressionType": wanted.kind,
        }  # fmt: skip
        answer = await self._session.ask(
            await offsets.address(), Request.PULL_MESSAGE, ext, timeout_ms=wait_ms + _TIMEOUT_MS, accept=_ANSWERS
        )
        following = int(answer.ext["nextBeginOffset"])
        found = []
        for record in split_records(answer.body) if answer.code == Answer.SUCCESS else ():
            try:
                message = read_delivery(record)
            except BadAnswer as error:
                logger.error("a record of %s is damaged and skipped: %s", tail.topic, error)
                continue
            if wanted.wants(message.tags):
                found.append((message.queue_offset + 1, message))
        if found:
            found[-1] = (following, found[-1][1])
        else:
            tail.offsets[queue] = following
        return found
