"""Messages of a queue one after the other, as the official client's orderly consumer handles them.

A queue is read while its lock is held, and handled by one handler at a time. When that fails, the queue is suspended
and the same message is handled again, with `reconsume_times` one higher; after the most times it is given to the
group's retry topic, which brokers turn into a dead letter while the group holds locks, and the queue goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace

from ..rocketmq.message import Message
from .errors import ClientError
from .flow import Flow
from .handler_calls import Handlers
from .queue_locks import RENEW_S, RENEW_SOON_S, HeldLocks
from .reader import QueueReader
from .retry import send_to_retry
from .session import Session
from .types import MessageQueue

logger = logging.getLogger(__name__)

SUSPEND_MS = 1_000
"""How long a queue rests after a failure (suspendCurrentQueueTimeMillis)."""
LET_GO_WAIT_S = 1.0


class Lane:
    """The messages of one queue on their way to the handlers."""

    def __init__(self, reader: QueueReader, flow: OrderlyFlow) -> None:
        self.reader = reader
        self._flow = flow
        self._waiting: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self._is_handling = False
        self._is_ending = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, message: Message) -> None:
        """Next, when all before is done."""
        self._waiting.append(message)
        self._arrived.set()

    async def _run(self) -> None:
        while not self.reader.dropped:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            await self._finish(self._waiting.popleft())

    async def _finish(self, message: Message) -> None:
        """Have one message handled until it is done; give up, with nothing done, when the queue is let go."""
        again = message
        while True:
            async with self._flow.turn(self.reader.queue):
                if self.reader.dropped:
                    return
                self._is_handling = True
                try:
                    done = await self._flow.handle(self.reader.queue, again)
                finally:
                    self._is_handling = False
            if done:
                self.reader.done(message)
                return
            if self._is_ending:
                return
            again = replace(again, reconsume_times=again.reconsume_times + 1)
            await asyncio.sleep(self._flow.suspend_s)

    async def end(self, timeout_s: float | None) -> bool:
        """Wait for the handler that has begun, if one has; True if none runs any more."""
        self._is_ending = True
        if not self._is_handling:
            self._task.cancel()
        await asyncio.wait([self._task], timeout=timeout_s)
        return self._task.done()

    async def cancel(self) -> None:
        """End at once; a handler in a thread goes on."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class OrderlyFlow(Flow):
    """A lane for each queue; at most as many handlers at once as the consumer has."""

    def __init__(
        self, session: Session, group: str, client_id: str, handlers: Handlers, *, most_reconsume_times: int | None,
        suspend_ms: int, lose: Callable[[MessageQueue], QueueReader | None],
    ) -> None:  # fmt: skip
        """`lose` takes a queue's reader, if there is one, away from the consumer, and has shares computed anew."""
        self.suspend_s = suspend_ms / 1000
        self._session = session
        self._group = group
        self._handlers = handlers
        self._most_times = most_reconsume_times
        self._lose = lose
        self._locks = HeldLocks(session, group, client_id)
        self._lanes: dict[MessageQueue, Lane] = {}
        self._turns = asyncio.Semaphore(handlers.count)
        self._nudge = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self._ending: dict[MessageQueue, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Begin to hold locks."""
        self._session.on_lost(lambda address: self.check_locks())
        self._renewing = asyncio.get_running_loop().create_task(self._renew_all())

    async def acquire(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Those whose locks are free."""
        # a lane that is still ending keeps its queue: its handler may be at work
        return await self._locks.take([queue for queue in queues if queue not in self._ending])

    def check_locks(self) -> None:
        """Renew all locks now."""
        self._nudge.set()

    async def _renew_all(self) -> None:
        pause_s = RENEW_S
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await self._nudge.wait()
            except TimeoutError:
                pass
            self._nudge.clear()
            lost, is_complete = await self._locks.renew()
            pause_s = RENEW_S if is_complete else RENEW_SOON_S
            for queue in lost:
                logger.warning("group %s lost the lock of %s", self._group, queue)
                reader = self._lose(queue)
                if reader is not None:
                    self._begin_end(reader)

    def deliver(self, reader: QueueReader, message: Message) -> None:
        """Next in its queue's lane."""
        lane = self._lanes.get(reader.queue)
        if lane is None:
            lane = self._lanes[reader.queue] = Lane(reader, self)
        if lane.reader is reader:
            lane.put(message)

    def turn(self, queue: MessageQueue) -> _Turn:
        """A block in which a message of the queue may be handled: its lock is held, and a handler is free."""
        return _Turn(self._turns, self._locks, queue)

    async def handle(self, queue: MessageQueue, message: Message) -> bool:
        """Have a message handled; True if it is done, also when it was given up."""
        is_last = self._most_times is not None and message.reconsume_times >= self._most_times
        if await self._handlers.handle(message, is_last=is_last):
            return True
        if self._most_times is None or not is_last:
            return False
        try:
            await send_to_retry(self._session, self._group, queue, message, self._most_times)
        except ClientError as error:
            logger.warning("%s cannot be given up, trying again: %s", message.unique_key, error)
            return False
        return True

    def may_commit(self, queue: MessageQueue) -> bool:
        """Only who holds the lock may."""
        return self._locks.is_held(queue)

    def locked_ms(self, queue: MessageQueue) -> int | None:
        """When the lock was renewed (epoch)."""
        return self._locks.renewed_ms(queue)

    async def let_go(self, reader: QueueReader) -> None:
        """Others have the queue as soon as its handler is done."""
        # others wait for a handler that takes longer; this member's other queues do not
        await asyncio.wait([self._begin_end(reader)], timeout=LET_GO_WAIT_S)

    def _begin_end(self, reader: QueueReader) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._end(reader))
        self._ending[reader.queue] = task
        return task

    async def _end(self, reader: QueueReader) -> None:
        """Wait for the handler that is at work, commit if the queue is still ours, and let others have it."""
        queue = reader.queue
        await reader.stop()
        try:
            if queue in self._lanes:
                await self._lanes[queue].end(None)
                del self._lanes[queue]
            if self._locks.is_held(queue):
                await reader.commit(confirmed=True)
        except ClientError as error:
            logger.warning("offset of %s not committed: %s", queue, error)
        await self._locks.give_back([queue])
        del self._ending[queue]
        self._lose(queue)

    async def drain(self, timeout_s: float) -> None:
        """Let handlers that have begun finish."""
        await asyncio.gather(*(lane.end(timeout_s) for lane in self._lanes.values()))
        if self._ending:
            await asyncio.wait(list(self._ending.values()), timeout=LET_GO_WAIT_S)

    async def close(self) -> None:
        """Give back the locks."""
        tasks = [task for task in (self._renewing, *self._ending.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        late = {queue for queue, lane in self._lanes.items() if not await lane.end(0)}
        # a handler that is still at work keeps its queue to itself until the lock ends
        await self._locks.give_back([queue for queue in self._locks.all if queue not in late])
        await asyncio.gather(*(lane.cancel() for lane in self._lanes.values()))


class _Turn:
    """See OrderlyFlow.turn."""

    def __init__(self, turns: asyncio.Semaphore, locks: HeldLocks, queue: MessageQueue) -> None:
        self._turns = turns
        self._locks = locks
        self._queue = queue

    async def __aenter__(self) -> None:
        while True:
            await self._locks.wait_for(self._queue)
            await self._turns.acquire()
            if self._locks.is_held(self._queue):
                return
            self._turns.release()

    async def __aexit__(self, *failure: object) -> None:
        self._turns.release()
