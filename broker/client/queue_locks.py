"""Locks of queues at their brokers (requests 41 and 42): only who holds one handles the queue's messages in order.

A broker forgets a lock that is not renewed for 60 s; this client stops trusting one after 30 s, and renews it every
20 s (the official client's figures). So there is never a second holder, also while a broker cannot be reached.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable

import msgspec

from ..rocketmq.codes import Request
from .errors import BadAnswer, ClientError
from .leniency import read_object
from .offsets import QueueOffsets
from .remoting import Response
from .session import Session
from .types import MessageQueue

logger = logging.getLogger(__name__)

RENEW_S = 20.0
RENEW_SOON_S = 3.0
"""After a renewal that did not reach every broker."""
TRUSTED_S = 30.0


class HeldLocks:
    """The locks of one member of a group."""

    def __init__(self, session: Session, group: str, client_id: str) -> None:
        self._session = session
        self._group = group
        self._client_id = client_id
        self._renewed_s: dict[MessageQueue, float] = {}
        self._renewed = asyncio.Event()
        # a renewal that is under way must not take again what is given back meanwhile
        self._one_at_a_time = asyncio.Lock()

    @property
    def all(self) -> tuple[MessageQueue, ...]:
        """What was taken and not given back, whether it can be trusted now or not."""
        return tuple(self._renewed_s)

    async def take(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Those of the queues that no other member holds: they are held from now on."""
        async with self._one_at_a_time:
            return (await self._lock(queues))[0]

    async def renew(self) -> tuple[set[MessageQueue], bool]:
        """Renew all; the queues that others hold by now, and whether every broker was reached."""
        async with self._one_at_a_time:
            before = set(self._renewed_s)
            granted, unsure = await self._lock(before)
            lost = before - granted - unsure
            for queue in lost:
                del self._renewed_s[queue]
            return lost, not unsure

    async def _lock(self, queues: Collection[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """What is granted, and what could not be asked for."""
        granted: set[MessageQueue] = set()
        unsure: set[MessageQueue] = set()
        for part in _by_broker(queues):
            began_s = time.monotonic()
            try:
                answer = await self._ask(Request.LOCK_BATCH_MQ, part)
                mine = _granted(answer) & set(part)
            except ClientError as error:
                logger.warning("queues of group %s cannot be locked: %s", self._group, error)
                unsure.update(part)
                continue
            granted |= mine
            self._renewed_s.update(dict.fromkeys(mine, began_s))
        if granted:
            self._renewed.set()
            self._renewed = asyncio.Event()
        return granted, unsure

    def is_held(self, queue: MessageQueue) -> bool:
        """Whether this member may handle messages of the queue at this moment."""
        return time.monotonic() - self._renewed_s.get(queue, float("-inf")) < TRUSTED_S

    def renewed_ms(self, queue: MessageQueue) -> int | None:
        """When the lock was renewed (epoch); None while it is not held."""
        if not self.is_held(queue):
            return None
        return int((time.time() - time.monotonic() + self._renewed_s[queue]) * 1000)

    async def wait_for(self, queue: MessageQueue) -> None:
        """Return when the queue is held."""
        while not self.is_held(queue):
            await self._renewed.wait()

    async def give_back(self, queues: Collection[MessageQueue]) -> None:
        """Let others have the queues."""
        async with self._one_at_a_time:
            for queue in queues:
                self._renewed_s.pop(queue, None)
            for part in _by_broker(queues):
                try:
                    await self._ask(Request.UNLOCK_BATCH_MQ, part)
                except ClientError as error:
                    logger.info("locks of group %s are left to end by themselves: %s", self._group, error)

    async def _ask(self, code: int, queues: list[MessageQueue]) -> Response:
        about = {
            "consumerGroup": self._group,
            "clientId": self._client_id,
            "onlyThisBroker": False,
            "mqSet": [
                {"topic": queue.topic, "brokerName": queue.broker, "queueId": queue.queue_id} for queue in queues
            ],
        }
        address = await QueueOffsets(self._session, self._group, queues[0]).address()
        return await self._session.ask(address, code, {"bname": queues[0].broker}, msgspec.json.encode(about))


def _by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    parts: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        parts.setdefault(queue.broker, []).append(queue)
    return list(parts.values())


def _granted(answer: Response) -> set[MessageQueue]:
    try:
        held = msgspec.convert(read_object(answer.body).get("lockOKMQSet") or [], list[_Queue])
    except msgspec.ValidationError as error:
        raise BadAnswer(f"The answer to a lock cannot be read: {error}") from None
    return {MessageQueue(each.topic, each.broker_name, each.queue_id) for each in held}


class _Queue(msgspec.Struct, rename="camel"):
    """MessageQueue of RocketMQ."""

    topic: str
    broker_name: str
    queue_id: int
