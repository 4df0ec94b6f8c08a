"""Calling the handlers of a push consumer, coroutines in the event loop and functions in threads."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from typing import cast

from ..rocketmq.message import Message
from .activity import Handling
from .errors import InvalidArgument
from .reader import as_delivered
from .subscription import Subscription
from .trace_events import HandlingTelling
from .tracing import tracing

logger = logging.getLogger(__name__)

Handler = Callable[[Message], object]
"""Returns (or, if it is a coroutine function, completes) when the message is done; raises to get it again later."""


class Handlers:
    """The handlers of one consumer, by topic."""

    def __init__(self, group: str, client_id: str, count: int, telling: HandlingTelling | None = None) -> None:
        self.count = count
        self._telling = telling
        self._group = group
        self._client_id = client_id
        #: what they did of late, by topic
        self.activity: dict[str, Handling] = {}
        self._wanted: dict[str, tuple[Subscription, Handler]] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._at_work = 0
        self._counting = threading.Lock()

    @property
    def at_work(self) -> int:
        """How many threads are in a handler now, also when nobody waits for them any more."""
        return self._at_work

    def add(self, wanted: Subscription, handler: Handler) -> None:
        """Have `handler` called for the messages of a topic."""
        self._wanted[wanted.topic] = (wanted, handler)
        self.activity[wanted.topic] = Handling()

    @property
    def subscriptions(self) -> list[Subscription]:
        """What handlers want, one a topic."""
        return [wanted for wanted, _ in self._wanted.values()]

    def start(self) -> None:
        """Make the threads."""
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
            with self._telling.handling(message) if self._telling is not None else nullcontext():
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
