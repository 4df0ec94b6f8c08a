"""Messages of a queue one after the other, as the official client's orderly consumer handles them.

A queue is read while its lock is held, and handled by one handler at a time. When that fails, the queue is suspended
and the same message is handled again, with `reconsume_times` one higher; after the most times it is given to the
group's retry topic, and the queue goes on.

Locks are held at the queues' brokers (requests 41 and 42): only who holds one handles the queue's messages in order. A
broker forgets a lock that is not renewed for 60 s; this client stops trusting one after 30 s, and renews it every 20 s
(the official client's figures). So there is never a second holder, also while a broker cannot be reached.

A message that is given up is sent to the retry topic (ConsumeMessageOrderlyService.sendMessageBack of 5.5.0), not
copied by the broker as request 36 does, so that it has the attempts that only this client counted. Brokers make a dead
letter of it while the group holds locks; after that it is delivered again with a delay.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import msgspec

from ..rocketmq.codes import Request
from ._answers import read_object
from ._giving_back import bury, send_to_retry
from ._handler_calls import Flow, Handlers
from ._offsets import QueueOffsets
from ._reader import QueueReader
from ._session import Session
from ._types import Message, MessageQueue
from ._verdicts import DONE, Verdict
from .errors import BadAnswer, ClientError
from .remoting import Response

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
        """Add a message, which is next when all before is done."""
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
                    verdict = await self._flow.handle(self.reader.queue, again)
                finally:
                    self._is_handling = False
            if verdict.is_done:
                self.reader.done(message)
                return
            if self._is_ending:
                return
            again = replace(again, reconsume_times=again.reconsume_times + 1)
            await asyncio.sleep(self._flow.suspend_s if verdict.retry_ms is None else verdict.retry_ms / 1000)

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
        """Lock these queues; return those whose locks were free."""
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
        """Add the message to its queue's lane."""
        lane = self._lanes.get(reader.queue)
        if lane is None:
            lane = self._lanes[reader.queue] = Lane(reader, self)
        if lane.reader is reader:
            lane.put(message)

    def turn(self, queue: MessageQueue) -> _Turn:
        """Return a block in which a message of the queue may be handled: its lock is held, and a handler is free."""
        return _Turn(self._turns, self._locks, queue)

    async def handle(self, queue: MessageQueue, message: Message) -> Verdict:
        """Have a message handled; it is done, also when it was given up, or it is handled again after a rest."""
        is_last = self._most_times is not None and message.reconsume_times >= self._most_times
        verdict = await self._handlers.handle(message, is_last=is_last)
        if verdict.is_done:
            return verdict
        try:
            if verdict.dead is not None:
                await bury(self._session, self._group, queue, message, verdict.dead)
            elif self._most_times is not None and is_last:
                await send_to_retry(self._session, self._group, queue, message, self._most_times)
            else:
                return verdict
        except ClientError as error:
            logger.warning("%s cannot be stored as a dead letter, retrying: %s", message.unique_key, error)
            return verdict
        return DONE

    def may_commit(self, queue: MessageQueue) -> bool:
        """Tell whether the offset may be committed: only the member that holds the lock may do that."""
        return self._locks.is_held(queue)

    def locked_ms(self, queue: MessageQueue) -> int | None:
        """Return when the lock was renewed (epoch ms)."""
        return self._locks.renewed_ms(queue)

    async def let_go(self, reader: QueueReader) -> None:
        """Give the queue to others as soon as its handler is done."""
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
    """The turn at one queue: one handler at a time, and its lock is held."""

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


# Locks of queues at their brokers.

RENEW_S = 20.0
RENEW_SOON_S = 3.0
"""After a renewal that did not reach every broker."""
TRUSTED_S = 30.0


class HeldLocks:
    """The queue locks that one member of a group holds at brokers."""

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
        """The queues that were taken and not given back, whether their locks can be trusted now or not."""
        return tuple(self._renewed_s)

    async def take(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Take those of the queues that no other member holds, and return them: they are held from now on."""
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
        """Return what is granted, and what could not be asked for."""
        granted: set[MessageQueue] = set()
        unsure: set[MessageQueue] = set()
        for part in _by_broker(queues):
            began_s = time.monotonic()
            try:
                answer = await self._ask(Request.LOCK_BATCH_MQ, part)
                mine = _granted(answer) & set(part)
            except ClientError as error:
                topic = part[0].topic
                self._session.failed(f"locks of {topic}", error, f"locking queues of topic {topic}")
                unsure.update(part)
                continue
            self._session.works(f"locks of {part[0].topic}")
            granted |= mine
            self._renewed_s.update(dict.fromkeys(mine, began_s))
        if granted:
            self._renewed.set()
            self._renewed = asyncio.Event()
        return granted, unsure

    def is_held(self, queue: MessageQueue) -> bool:
        """Tell whether this member may handle messages of the queue at this moment."""
        return time.monotonic() - self._renewed_s.get(queue, float("-inf")) < TRUSTED_S

    def renewed_ms(self, queue: MessageQueue) -> int | None:
        """Return when the lock was renewed (epoch ms); None while it is not held."""
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
                    logger.info("locks of group %s are not released, they expire by themselves: %s", self._group, error)

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
    """A queue as RocketMQ's MessageQueue is written in JSON."""

    topic: str
    broker_name: str
    queue_id: int
