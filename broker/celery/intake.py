"""What one channel receives: pops of its queues while there is room, and what is told to everybody.

`Intake` belongs to the client's event loop, but for what says otherwise; the channel takes from `ready` in its own
thread, and is told by `arrived` that there is something. There is room for as many messages as the channel may hold
(`limit`): what arrives beyond that, because several queues were asked at once, is given back.

Of a queue with priorities each one is a topic. All are looked at before any is waited at, the highest first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from ..client import AsyncSimpleConsumer, ClientClosed, ClientError, Message, MessageQueue, Received, RouteNotFound
from .holding import Holding
from .link import Link
from .tailing import Tail

logger = logging.getLogger(__name__)

#: Most messages of one pop.
_MOST_AT_ONCE = 32
#: Ahead of a channel without a limit, so many are taken that it has not looked at.
_AHEAD = 256
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 3.0
#: How often is looked whether a channel that refuses more (worker_disable_prefetch) takes it again.
_LOOK_S = 0.05
#: How often is looked whether a topic that is told to everybody has another queue.
_ROUTES_S = 30.0
CLOSE_S = 3.0


class Delivery(NamedTuple):
    """A message for the channel. `place`: where it stands, if nobody has to acknowledge it."""

    tag: str
    queue: str
    message: Message
    attempt: int
    place: tuple[Tail, MessageQueue, int] | None = None

    def move(self) -> None:
        """Note that the program has it: of what is told to everybody nothing more is known."""
        if self.place is not None:
            tail, queue, following = self.place
            tail.offsets[queue] = max(tail.offsets.get(queue, 0), following)


class Source:
    """A queue from which is received."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self._wanted = True
        self.is_away = False
        self.tasks: list[asyncio.Task[None]] = []
        self.asked: dict[str, asyncio.Task[list[Received]]] = {}

    def is_wanted(self) -> bool:
        """Whether somebody still wants what comes."""
        return self._wanted

    def end(self) -> None:
        """Want nothing more of it."""
        self._wanted = False


class Intake:
    """Receives for one channel."""

    def __init__(self, link: Link, arrived: Callable[[], None], can_consume: Callable[[], bool]) -> None:
        self._link = link
        self._arrived = arrived
        self._can_consume = can_consume
        #: most messages held at a time, 0 for no limit
        self.limit = 0
        self.ready: deque[Delivery] = deque()
        self._tags = count(1)
        self._sources: dict[str, Source] = {}
        self._room = asyncio.Event()
        self.holding = Holding(link.holder, link.settings.invisible_ms, self._room.set)
        self._poller: AsyncSimpleConsumer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    # for the channel, in any thread

    def soon(self, change: Callable[..., object], *args: object) -> None:
        """Call a function in the event loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(change, *args)

    def done(self, tag: str) -> None:
        """Acknowledge a message soon."""
        self.soon(self.holding.done, tag)

    def set_limit(self, limit: int) -> None:
        """Hold at most so many from now on."""
        self.limit = limit
        self.soon(self._room.set)

    def abandon(self) -> None:
        """Close, and let nobody wait for it."""
        self.soon(lambda: self._link.begin(self.close()))

    # in the event loop

    async def consume(self, queue: str) -> None:
        """Begin to receive from a queue."""
        self._loop = asyncio.get_running_loop()
        self.holding.start()
        if queue in self._sources:
            return
        source = self._sources[queue] = Source(queue)
        for tail in self._link.tails.of(queue):
            self._begin(source, self._tails(source, tail))
        declared = self._link.declared.get(queue)
        if declared is None or not declared.is_own:
            priorities = range(declared.highest_priority if declared is not None else 0, -1, -1)
            topics = [self._link.names.queue(queue, each) for each in priorities]
            self._begin(source, self._pops(source, topics))

    def _begin(self, source: Source, work: Coroutine[Any, Any, None]) -> None:
        source.tasks.append(asyncio.get_running_loop().create_task(work))

    async def cancel(self, queue: str) -> None:
        """Receive no more from a queue; what its last question still brings is given back."""
        source = self._sources.pop(queue, None)
        if source is None:
            return
        source.end()
        self._room.set()
        if not self._sources:
            await self._stop([source])

    async def _stop(self, sources: list[Source]) -> None:
        """End all questions; with its connection the broker forgets them."""
        tasks = [task for source in sources for task in (*source.tasks, *source.asked.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._poller is not None:
            poller, self._poller = self._poller, None
            await poller.close()

    async def close(self) -> None:
        """End: what is held goes to others at once."""
        self._is_closed = True
        sources = list(self._sources.values())
        self._sources.clear()
        for source in sources:
            source.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._stop(sources)
        self.ready.clear()
        await self.holding.close(CLOSE_S)

    async def get(self, queue: str) -> Delivery | None:
        """Receive one message now, or nothing."""
        self._loop = asyncio.get_running_loop()
        self.holding.start()
        for tail in self._link.tails.of(queue):
            for each in await self._link.tails.queues_of(tail):
                for following, message in (await self._link.tails.pull(tail, each, 0))[:1]:
                    return Delivery(self._tag(), queue, message, 1, (tail, each, following))
        declared = self._link.declared.get(queue)
        if declared is not None and declared.is_own:
            return None
        for priority in range(declared.highest_priority if declared is not None else 0, -1, -1):
            topic = self._link.names.queue(queue, priority)
            with suppress(RouteNotFound):
                for received in await self._pop(self._link.holder, topic, 1, 0):
                    return self._hold(queue, received)
        return None

    # tasks

    async def _pops(self, source: Source, topics: list[str]) -> None:
        failures = 0
        while source.is_wanted():
            try:
                room = await self._wait_for_room(source)
                if not source.is_wanted():
                    break
                await self._take(source, await self._look(source, topics, room))
                failures = 0
                self._note_back(source)
            except ClientClosed:
                return
            except ClientError as error:
                failures += 1
                await self._rest(source, error, failures)
        for asked in source.asked.values():  # what they still bring is for others
            with suppress(ClientError):
                await self.holding.give_back_received(await asked)

    async def _rest(self, source: Source, error: ClientError, failures: int) -> None:
        """Note that the broker is away, and wait the longer the more often it was."""
        self._note_away(source, error)
        await asyncio.sleep(min(_PAUSE_S * failures, _LONGEST_PAUSE_S))

    def _left(self) -> int:
        """Return how many more messages the channel may have."""
        if self.limit:
            return self.limit - len(self.holding)
        return _AHEAD - len(self.ready)

    async def _wait_for_room(self, source: Source) -> int:
        """Return this queue's share of the room, once there is some."""
        while source.is_wanted():
            left = self._left()
            if left > 0 and self._can_consume():
                return max(1, left // max(1, len(self._sources)))
            self._room.clear()
            if left > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._room.wait()
            else:
                await self._room.wait()
        return 0

    async def _look(self, source: Source, topics: list[str], room: int) -> list[Received]:
        """Pop once, and wait if there is nothing; of several topics the highest first."""
        poller = self._poller = self._poller or self._link.receiver()
        if len(topics) == 1:
            return await self._pop(poller, topics[0], room, self._link.settings.poll_ms)
        found: list[Received] = []
        for topic in topics:
            if len(found) < room:
                found += await self._pop(poller, topic, room - len(found), 0)
        if found:
            return found
        loop = asyncio.get_running_loop()
        for topic in topics:
            if topic not in source.asked:
                work = self._pop(poller, topic, 1, self._link.settings.poll_ms)
                source.asked[topic] = loop.create_task(work)
        done, _ = await asyncio.wait(source.asked.values(), return_when=asyncio.FIRST_COMPLETED)
        for topic in topics:
            if source.asked[topic] in done:
                found += await source.asked.pop(topic)
        return found

    async def _pop(self, consumer: AsyncSimpleConsumer, topic: str, room: int, wait_ms: int) -> list[Received]:
        return await consumer.receive(
            topic, max_messages=min(room, _MOST_AT_ONCE), invisible_ms=self._link.settings.invisible_ms,
            wait_ms=wait_ms,
        )  # fmt: skip

    async def _take(self, source: Source, received: list[Received]) -> None:
        """Hand over what there is room for, and give back the rest."""
        room = self._left() if source.is_wanted() and not self._is_closed else 0
        taken, rest = received[: max(room, 0)], received[max(room, 0) :]
        for each in taken:
            self.ready.append(self._hold(source.queue, each))
        if taken:
            self._arrived()
        if rest:
            await self.holding.give_back_received(rest)

    def _hold(self, queue: str, received: Received) -> Delivery:
        tag = self._tag()
        self.holding.add(tag, received)
        return Delivery(tag, queue, received.message, received.attempt)

    def _tag(self) -> str:
        return str(next(self._tags))

    async def _tails(self, source: Source, tail: Tail) -> None:
        """Read all queues of a topic, also those that it gets later."""
        reading: dict[MessageQueue, asyncio.Task[None]] = {}
        while source.is_wanted():
            try:
                for queue in await self._link.tails.queues_of(tail):
                    if queue not in reading:
                        reading[queue] = asyncio.get_running_loop().create_task(self._tail(source, tail, queue))
                        source.tasks.append(reading[queue])
            except ClientError as error:
                self._note_away(source, error)
            await asyncio.sleep(_ROUTES_S if reading else _PAUSE_S)

    async def _tail(self, source: Source, tail: Tail, queue: MessageQueue) -> None:
        position = tail.offsets[queue]
        failures = 0
        while source.is_wanted():
            try:
                tail_now = Tail(tail.topic, tail.tags, {queue: position})
                found = await self._link.tails.pull(tail_now, queue)
                failures = 0
                self._note_back(source)
            except ClientClosed:
                return
            except ClientError as error:
                failures += 1
                await self._rest(source, error, failures)
                continue
            if not source.is_wanted():
                return
            position = found[-1][0] if found else tail_now.offsets[queue]
            for following, message in found:
                self.ready.append(Delivery(self._tag(), source.queue, message, 1, (tail, queue, following)))
            if found:
                self._arrived()
            elif not any(each.place is not None and each.place[1] == queue for each in self.ready):
                tail.offsets[queue] = position
            if len(self.ready) > _AHEAD:  # the program does not keep up
                await asyncio.sleep(_PAUSE_S)

    def _note_away(self, source: Source, error: ClientError) -> None:
        level = logging.DEBUG if source.is_away else logging.WARNING
        logger.log(level, "queue %s cannot be read now, retrying: %s", source.queue, error)
        source.is_away = True

    def _note_back(self, source: Source) -> None:
        if source.is_away:
            logger.warning("queue %s is read again", source.queue)
        source.is_away = False
