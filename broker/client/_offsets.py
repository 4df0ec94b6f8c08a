"""Offsets of queues as their brokers know them, and where a group begins in a topic that is new to it.

`QueueOffsets` asks where one queue begins and ends, and where a group stands in it.

`StartOffsets` is for a group that wants only what comes from now on (``from_where="last"``). Brokers let a new group
begin at a queue's first message while they have it, whatever it wants. So the first member of the group asks where all
queues of the topic end, when it starts, and commits that at once: from then on the group has offsets like any other,
and whoever starts next misses nothing of what came between.

| the group has in the topic | it begins                                                         |
|----------------------------|-------------------------------------------------------------------|
| an offset of a queue       | there                                                             |
| an offset of another queue | at the queue's first message: the topic got it after the group    |
| none                       | at the end of every queue, as it is at the group's first start    |
| none, and was there before | at what was stored when it first looked for the topic, or later   |
| the topic                  |                                                                   |
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

from ..rocketmq.codes import Answer, Request
from ..rocketmq.topics import RETRY_PREFIX
from ._session import Session
from ._types import MessageQueue
from .errors import BadAnswer, BrokerRefused, ClientError, RouteNotFound
from .remoting import Response

logger = logging.getLogger(__name__)


class QueueOffsets:
    """Asks about one queue for one group. Every method raises ClientError."""

    def __init__(self, session: Session, group: str, queue: MessageQueue) -> None:
        self.queue = queue
        self._session = session
        self._group = group

    def about(self) -> dict[str, str]:
        """Return the fields that name group and queue in most requests."""
        return {
            "consumerGroup": self._group,
            "topic": self.queue.topic,
            "queueId": str(self.queue.queue_id),
            "bname": self.queue.broker,
        }

    async def address(self) -> str:
        """Return the address of the queue's master, of a slave where the route lists no master; raises BrokerRefused if
        the broker does not hold the topic any more."""
        processes = (await self._session.route(self.queue.topic)).processes(self.queue.broker)
        if not processes:
            raise BrokerRefused(Answer.TOPIC_NOT_EXIST, f"Broker {self.queue.broker} does not hold the topic now.")
        return processes[0][1]

    async def readable_at(self, broker_id: int) -> tuple[int, str]:
        """Return broker id and address of the process to read the queue from: the one with this id if there is such a
        one and it can be reached, else another. Raises BrokerRefused as `address`."""
        route = await self._session.route(self.queue.topic)
        best = self._session.readable_at(route.processes(self.queue.broker), broker_id)
        if best is None:
            raise BrokerRefused(Answer.TOPIC_NOT_EXIST, f"Broker {self.queue.broker} does not hold the topic now.")
        return best

    async def begin(self) -> int:
        """Return the offset of the first message that is still there."""
        return await self._number(Request.GET_MIN_OFFSET, {})

    async def end(self) -> int:
        """Return the offset that the queue's next message will have."""
        return await self._number(Request.GET_MAX_OFFSET, {"committed": "true"})

    async def at_time(self, at_ms: int) -> int:
        """Return the offset of the first message stored at `at_ms` or later; the end if there is none."""
        return await self._number(
            Request.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(at_ms), "boundaryType": "LOWER"}
        )

    async def _number(self, code: int, more: dict[str, str]) -> int:
        answer = await self._session.ask(await self.address(), code, self.about() | more)
        return offset_in(answer)

    async def committed(self) -> int | None:
        """Return the offset that the group has committed, None if there is none."""
        ext = self.about() | {"setZeroIfNotFound": "false"}
        _, address = await self.readable_at(0)
        answer = await self._session.ask(
            address, Request.QUERY_CONSUMER_OFFSET, ext, accept=(Answer.SUCCESS, Answer.QUERY_NOT_FOUND)
        )
        return offset_in(answer) if answer.code == Answer.SUCCESS else None

    async def commit(self, offset: int, *, confirmed: bool) -> None:
        """Note that the group is done with all below `offset`; `confirmed` waits for the broker's answer."""
        ext = self.about() | {"commitOffset": str(offset)}
        address = await self.address()
        if confirmed:
            await self._session.ask(address, Request.UPDATE_CONSUMER_OFFSET, ext)
        else:
            await self._session.tell(address, Request.UPDATE_CONSUMER_OFFSET, ext)


def offset_in(answer: Response) -> int:
    """Read the offset that a broker answered; raises BadAnswer."""
    try:
        return int(answer.ext["offset"])
    except (KeyError, ValueError):
        raise BadAnswer("The broker did not say an offset.") from None


# Where a group begins in a topic that is new to it.

#: How often is looked whether another member is done with its part of a first start, and the pause between two looks.
LOOKS, LOOK_S = 40, 0.05
#: How far the clocks of client and broker may be apart.
CLOCKS_MS = 60_000


class StartOffsets:
    """Has one group begin in its topics; asks brokers once a topic."""

    def __init__(self, session: Session, group: str, *, from_first: bool) -> None:
        self._session = session
        self._group = group
        self.from_first = from_first
        self._missed_ms: dict[str, int] = {}
        self._ends: dict[MessageQueue, int] = {}
        self._settled: set[str] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def missed(self, topic: str) -> None:
        """Note that the topic is not there: what it will bring is wanted."""
        self._missed_ms.setdefault(topic, time.time_ns() // 1_000_000)

    async def settle_all(self, topics: Iterable[str]) -> None:
        """Settle many topics at once; what cannot be settled now is settled before one of its queues is read."""
        wanted = list(topics)
        outcomes = await asyncio.gather(*map(self.settle, wanted), return_exceptions=True)
        for topic, outcome in zip(wanted, outcomes, strict=True):
            if isinstance(outcome, ClientError):
                self._session.failed(topic, outcome, f"finding where the group begins in topic {topic}")
            elif isinstance(outcome, BaseException):
                raise outcome

    async def settle(self, topic: str) -> None:
        """Have a queue of the topic without an offset be read from its first message from now on.

        Raises ClientError as long as that cannot be said.
        """
        if self.from_first or topic.startswith(RETRY_PREFIX) or topic in self._settled:
            return
        async with self._locks[topic]:
            if topic in self._settled:
                return
            try:
                route = await self._session.route(topic)
            except RouteNotFound:
                self.missed(topic)
                raise
            queues = [QueueOffsets(self._session, self._group, queue) for queue in route.readable()]
            if queues and await self._is_settled(queues):
                self._settled.add(topic)

    async def _is_settled(self, queues: list[QueueOffsets]) -> bool:
        """Settle one topic. The first queue's offset is committed last: where it is, the group has begun in all."""
        first = queues[0]
        with suppress(ClientError):  # it is asked again below, and may be the only one whose broker is away
            if await first.committed() is not None:
                return True
        await asyncio.gather(*map(self._look_for_end, queues), return_exceptions=True)
        if await self._committed(queues):
            await self._wait_for(first)
            return True
        for each in queues:
            await self._look_for_end(each)
        await asyncio.gather(*map(self._commit, queues[1:]))
        await self._commit(first)
        return True

    async def _committed(self, queues: list[QueueOffsets]) -> bool:
        """Tell whether the group has an offset in any of the queues; raise ClientError if that cannot be said."""
        outcomes = await asyncio.gather(*(each.committed() for each in queues), return_exceptions=True)
        if any(isinstance(outcome, int) for outcome in outcomes):
            return True
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return False

    async def _look_for_end(self, queue: QueueOffsets) -> None:
        """Remember where a queue ended when it was first looked at, whenever that can be committed."""
        if queue.queue not in self._ends:
            missed_ms = self._missed_ms.get(queue.queue.topic)
            end = await (queue.end() if missed_ms is None else queue.at_time(missed_ms - CLOCKS_MS))
            self._ends.setdefault(queue.queue, end)

    async def _commit(self, queue: QueueOffsets) -> None:
        if await queue.committed() is None:  # or another member has been quicker
            await queue.commit(self._ends[queue.queue], confirmed=True)

    async def _wait_for(self, first: QueueOffsets) -> None:
        """Wait a little for another member to commit the first queue's offset; give up if none comes."""
        with suppress(ClientError):
            for _ in range(LOOKS):
                if await first.committed() is not None:
                    return
                await asyncio.sleep(LOOK_S)
