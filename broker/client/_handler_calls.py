"""The way of a push consumer's messages from its readers to its handlers, which are coroutines or functions.

`Handlers` calls coroutines in the event loop and functions in threads. A `Flow` brings messages there: in any order
here (`UnorderedFlow`), one after the other in orderly.py.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from typing import cast
from weakref import WeakSet

from ..rocketmq.message import Message
from ._reader import PAUSE_AFTER_ERROR_S, QueueReader, as_delivered
from ._running_info import HandlerStats
from ._trace_events import HandlerTrace
from ._tracing import tracing
from ._types import MessageQueue, Subscription
from .errors import ClientError, InvalidArgument

logger = logging.getLogger(__name__)

Handler = Callable[[Message], object]
"""Returns (or, if it is a coroutine function, completes) when the message is done; raises to get it again later."""


class Handlers:
    """The handlers of one consumer by topic, and the threads in which they are called."""

    def __init__(self, group: str, client_id: str, count: int, trace: HandlerTrace | None = None) -> None:
        self.count = count
        self._trace = trace
        self._group = group
        self._client_id = client_id
        #: what they did of late, by topic
        self.activity: dict[str, HandlerStats] = {}
        self._wanted: dict[str, tuple[Subscription, Handler]] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._at_work = 0
        self._counting = threading.Lock()

    @property
    def at_work(self) -> int:
        """The number of threads in a handler now, also when nobody waits for them any more."""
        return self._at_work

    def add(self, wanted: Subscription, handler: Handler) -> None:
        """Have `handler` called for the messages of a topic."""
        self._wanted[wanted.topic] = (wanted, handler)
        self.activity[wanted.topic] = HandlerStats()

    @property
    def subscriptions(self) -> list[Subscription]:
        """The subscriptions of all handlers, one a topic."""
        return [wanted for wanted, _ in self._wanted.values()]

    def start(self) -> None:
        """Make the threads that handlers are called in."""
        self._threads = ThreadPoolExecutor(self.count, thread_name_prefix=f"handler-{self._group}")

    async def handle(self, message: Message, *, is_last: bool) -> bool:
        """Have a message handled; False if its handler raised. `is_last`: then it is a dead letter."""
        seen = as_delivered(message)
        wanted = self._wanted.get(seen.topic)
        if wanted is None:
            logger.warning("a message of %s came again for %s, which no longer subscribes it", seen.topic, self._group)
            return True
        _, failure = await self._attempt(wanted[1], seen)
        if failure is not None:
            then = "it becomes a dead letter" if is_last else "it comes again"
            logger.error("handler of %s failed for %s; %s", seen.topic, message.unique_key, then, exc_info=failure)
        return failure is None

    async def attempt(self, message: Message) -> tuple[float, Exception | None]:
        """Have a message handled whatever becomes of it: ms that it took, and what the handler raised."""
        seen = as_delivered(message)
        wanted = self._wanted.get(seen.topic)
        if wanted is None:
            return 0.0, InvalidArgument(f"Topic {seen.topic} is not subscribed here.", field="topic")
        return await self._attempt(wanted[1], seen)

    async def _attempt(self, handler: Handler, message: Message) -> tuple[float, Exception | None]:
        began_s, failure = time.monotonic(), None
        try:
            with self._trace.handling(message) if self._trace is not None else nullcontext():
                await self._call(handler, message)
        except Exception as error:  # a handler may raise anything; that is its way to ask for another attempt
            failure = error
        took_ms = (time.monotonic() - began_s) * 1000
        self.activity[message.topic].ended(took_ms, has_worked=failure is None)
        return took_ms, failure

    async def _call(self, handler: Handler, message: Message) -> None:
        if (spans := tracing.spans()) is None:
            await self._run(handler, message, handler)
            return
        with spans.processing(message, self._group, self._client_id):
            context = copy_context()  # a thread is to see the span as the current one, too
            await self._run(handler, message, lambda each: context.run(handler, each))

    async def _run(self, handler: Handler, message: Message, in_thread: Handler) -> None:
        if inspect.iscoroutinefunction(handler):
            await cast(Awaitable[object], handler(message))
        else:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._counted, in_thread, message)

    def _counted(self, handler: Handler, message: Message) -> None:
        with self._counting:
            self._at_work += 1
        try:
            handler(message)
        finally:
            with self._counting:
                self._at_work -= 1

    def close(self) -> None:
        """Begin no more; a function that runs is not interrupted."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class Flow(ABC):
    """A way of handling messages, with or without order, as a consumer needs it."""

    @abstractmethod
    def start(self) -> None:
        """Begin to call handlers."""

    @abstractmethod
    async def acquire(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Return those of the queues that may be read from now on."""

    @abstractmethod
    def deliver(self, reader: QueueReader, message: Message) -> None:
        """Take a message that was read."""

    @abstractmethod
    async def let_go(self, reader: QueueReader) -> None:
        """Stop the reader of a queue that another member has now, and commit how far it is."""

    def may_commit(self, queue: MessageQueue) -> bool:
        """Tell whether this member may commit its offset of the queue; in a flow without order it always may."""
        return True

    def locked_ms(self, queue: MessageQueue) -> int | None:
        """Return when the queue's lock was renewed (epoch ms); None where it has none."""
        return None

    @abstractmethod
    async def drain(self, timeout_s: float) -> None:
        """Let handlers that have begun finish, and begin no more; all readers have stopped."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what is still held; all is committed by then."""


class UnorderedFlow(Flow):
    """The way without order: as many messages at once as there are handlers; one that failed is sent back."""

    def __init__(self, handlers: Handlers, most_reconsume_times: int) -> None:
        self._handlers = handlers
        self._most_times = most_reconsume_times
        self._work: asyncio.Queue[tuple[QueueReader, Message] | None] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False
        self._given_away: WeakSet[QueueReader] = WeakSet()

    def start(self) -> None:
        """Begin to call handlers."""
        loop = asyncio.get_running_loop()
        self._workers = [loop.create_task(self._handle_all()) for _ in range(self._handlers.count)]

    async def acquire(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Return all of them: without order no lock is needed."""
        return set(queues)

    def deliver(self, reader: QueueReader, message: Message) -> None:
        """Give the message to whichever handler is free first."""
        self._work.put_nowait((reader, message))

    async def _handle_all(self) -> None:
        while (work := await self._work.get()) is not None:
            reader, message = work
            if reader.dropped:
                continue
            is_last = message.reconsume_times >= self._most_times
            if await self._handlers.handle(message, is_last=is_last) or await self._send_back(reader, message):
                reader.done(message)

    async def _send_back(self, reader: QueueReader, message: Message) -> bool:
        """Return True if the broker took it back, False if it does not before we stop or another member has the queue:
        then the offset stays, and it comes again with all behind it."""
        while reader not in self._given_away:
            is_last_try = self._stopping
            try:
                await reader.send_back(message, self._most_times)
                return True
            except ClientError as error:
                if is_last_try:
                    logger.warning(
                        "%s could not be sent back, it is left to be read again: %s", message.unique_key, error
                    )
                    return False
                logger.warning("send-back of %s failed, trying again: %s", message.unique_key, error)
                await asyncio.sleep(PAUSE_AFTER_ERROR_S)
        return False

    async def let_go(self, reader: QueueReader) -> None:
        """Handlers at work go on; what they do is not committed any more."""
        self._given_away.add(reader)
        await reader.stop()
        try:
            await reader.commit(confirmed=True)
        except ClientError as error:
            logger.warning("offset of %s not committed: %s", reader.queue, error)

    async def drain(self, timeout_s: float) -> None:
        """Let handlers that have begun finish."""
        self._stopping = True
        for _ in self._workers:
            self._work.put_nowait(None)
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def close(self) -> None:
        """Do nothing: without order nothing is held."""
