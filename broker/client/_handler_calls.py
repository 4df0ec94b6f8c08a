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
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast
from weakref import WeakSet

from ._events import EventInput, event_input, read_event
from ._reader import PAUSE_AFTER_ERROR_S, QueueReader, as_delivered
from ._running_info import HandlerStats
from ._trace_events import HandlerTrace
from ._tracing import tracing
from ._types import Message, MessageQueue, Subscription
from ._verdicts import DONE, USUAL, DeadLetter, HandlerTimeout, Plan, RetryIn, Verdict
from .errors import ClientError, InvalidArgument, NotThisEvent

if TYPE_CHECKING:
    from ._spans import Spans

logger = logging.getLogger(__name__)

Handler = Callable[..., object]
"""Called with a message, an event, an event and its message, or a list of messages. Returns (or, if it is a coroutine
function, completes) when they are done; raises to get them again later. _verdicts.py says what else it may say."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic's subscription and its handler: how that is called, and with which events."""

    subscription: Subscription
    handler: Handler
    plan: Plan
    events: EventInput | None
    is_coroutine: bool


class Handlers:
    """The handlers of one consumer by topic, and the threads in which they are called."""

    def __init__(self, group: str, client_id: str, count: int, trace: HandlerTrace | None = None) -> None:
        self.count = count
        self._trace = trace
        self._group = group
        self._client_id = client_id
        #: what they did of late, by topic
        self.activity: dict[str, HandlerStats] = {}
        self._wanted: dict[str, Wanted] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._at_work = 0
        self._counting = threading.Lock()

    @property
    def at_work(self) -> int:
        """The number of threads in a handler now, also when nobody waits for them any more."""
        return self._at_work

    def add(self, wanted: Subscription, handler: Handler, plan: Plan = USUAL) -> None:
        """Have `handler` called for the messages of a topic."""
        events = None if plan.batch > 1 else event_input(handler)
        self._wanted[wanted.topic] = Wanted(wanted, handler, plan, events, inspect.iscoroutinefunction(handler))
        self.activity[wanted.topic] = HandlerStats()

    @property
    def subscriptions(self) -> list[Subscription]:
        """The subscriptions of all handlers, one a topic."""
        return [wanted.subscription for wanted in self._wanted.values()]

    def start(self) -> None:
        """Make the threads that handlers are called in."""
        self._threads = ThreadPoolExecutor(self.count, thread_name_prefix=f"handler-{self._group}")

    def plan_of(self, message: Message) -> Plan:
        """Return how the handler of a message is called."""
        wanted = self._wanted.get(as_delivered(message).topic)
        return USUAL if wanted is None else wanted.plan

    async def handle(self, message: Message, *, is_last: bool) -> Verdict:
        """Have a message handled; what becomes of it. `is_last`: if it fails, it is a dead letter."""
        return await self._handle((message,), (as_delivered(message),), (is_last,))

    async def handle_all(self, messages: Sequence[Message], *, are_last: Sequence[bool]) -> Verdict:
        """Have messages of one topic handled by one call of their handler."""
        return await self._handle(messages, [as_delivered(message) for message in messages], are_last)

    async def _handle(self, messages: Sequence[Message], seen: Sequence[Message], are_last: Sequence[bool]) -> Verdict:
        topic = seen[0].topic
        wanted = self._wanted.get(topic)
        if wanted is None:
            logger.warning("a message of %s was redelivered to %s, which no longer subscribes it", topic, self._group)
            return DONE
        _, failure = await self._attempt(wanted, seen)
        if failure is None:
            return DONE
        verdict = Verdict.of(failure, wanted.plan, min(message.reconsume_times for message in messages))
        for message, is_last in zip(messages, are_last, strict=True):
            self._tell(topic, message, failure, is_dead=is_last or verdict.dead is not None)
        return verdict

    def _tell(self, topic: str, message: Message, failure: Exception, *, is_dead: bool) -> None:
        then = "it becomes a dead letter" if is_dead else "it is redelivered"
        if isinstance(failure, RetryIn) and not is_dead:
            logger.info("handler of %s: %s is %s", topic, message.unique_key, failure)
        elif isinstance(failure, DeadLetter):
            logger.error("handler of %s rejects %s, %s: %s", topic, message.unique_key, then, failure)
        else:
            logger.error("handler of %s failed for %s; %s", topic, message.unique_key, then, exc_info=failure)

    async def attempt(self, message: Message) -> tuple[float, Exception | None]:
        """Have a message handled whatever becomes of it: ms that it took, and what the handler raised."""
        seen = as_delivered(message)
        wanted = self._wanted.get(seen.topic)
        if wanted is None:
            return 0.0, InvalidArgument(f"Topic {seen.topic} is not subscribed here.", field="topic")
        return await self._attempt(wanted, [seen])

    async def _attempt(self, wanted: Wanted, messages: Sequence[Message]) -> tuple[float, Exception | None]:
        began_s = time.monotonic()
        failure: Exception | None = None
        try:
            if self._trace is None and wanted.plan.timeout is None:
                said = await self._call(wanted, messages)
            else:
                said = await self._watched(wanted, messages)
            if isinstance(said, (RetryIn, DeadLetter)):
                failure = said
        except Exception as error:  # a handler may raise anything; that is its way to ask for another attempt
            failure = error
        took_ms = (time.monotonic() - began_s) * 1000
        self.activity[wanted.subscription.topic].ended(took_ms, has_worked=failure is None)
        return took_ms, failure

    async def _watched(self, wanted: Wanted, messages: Sequence[Message]) -> object:
        with ExitStack() as traced:
            if self._trace is not None:
                for message in messages:
                    traced.enter_context(self._trace.handling(message))
            said = await self._in_time(wanted, messages)
            if isinstance(said, (RetryIn, DeadLetter)):
                raise said  # the trace is to have it as a failure, too
            return said

    async def _in_time(self, wanted: Wanted, messages: Sequence[Message]) -> object:
        if (timeout := wanted.plan.timeout) is None:
            return await self._call(wanted, messages)
        try:
            async with asyncio.timeout(timeout.total_seconds()) as limit:
                return await self._call(wanted, messages)
        except TimeoutError:
            if limit.expired():
                raise HandlerTimeout(timeout) from None
            raise

    def _call(self, wanted: Wanted, messages: Sequence[Message]) -> Awaitable[object]:
        """Call the handler; what it says is had by awaiting this."""
        if wanted.plan.batch > 1:
            return self._run(wanted, (list(messages),), wanted.handler)
        (message,) = messages
        given: tuple[object, ...] = (message,)
        if (events := wanted.events) is not None:
            if not events.wants(message.properties):
                return _nothing()
            read = _event_of(message, events)
            given = (read, message) if events.with_message else (read,)
        if (spans := tracing.spans()) is None:
            return self._run(wanted, given, wanted.handler)
        return self._in_span(spans, wanted, message, given)

    async def _in_span(self, spans: Spans, wanted: Wanted, message: Message, given: tuple[object, ...]) -> object:
        with spans.processing(message, self._group, self._client_id):
            context = copy_context()  # a thread is to see the span as the current one, too
            return await self._run(wanted, given, lambda *each: context.run(wanted.handler, *each))

    def _run(self, wanted: Wanted, given: tuple[object, ...], in_thread: Handler) -> Awaitable[object]:
        if wanted.is_coroutine:
            return cast(Awaitable[object], wanted.handler(*given))
        return asyncio.get_running_loop().run_in_executor(self._threads, self._counted, in_thread, given)

    def _counted(self, handler: Handler, given: tuple[object, ...]) -> object:
        with self._counting:
            self._at_work += 1
        try:
            return handler(*given)
        finally:
            with self._counting:
                self._at_work -= 1

    def close(self) -> None:
        """Begin no more; a function that runs is not interrupted."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def for_messages(handler: Handler) -> Callable[[Message], object]:
    """Return a function that calls a handler with a message, whatever the handler takes (a batch excepted)."""
    events = event_input(handler)
    if events is None:
        return handler

    def given(message: Message) -> tuple[object, ...] | None:
        if not events.wants(message.properties):
            return None
        read = _event_of(message, events)
        return (read, message) if events.with_message else (read,)

    def handle(message: Message) -> object:
        return None if (taken := given(message)) is None else handler(*taken)

    async def handle_in_loop(message: Message) -> object:
        return None if (taken := given(message)) is None else await cast(Awaitable[object], handler(*taken))

    return handle_in_loop if inspect.iscoroutinefunction(handler) else handle


def _event_of(message: Message, events: EventInput) -> object:
    """Return the event; one that cannot be read now can never be, so the message is a dead letter."""
    try:
        return read_event(message.body, message.properties, events.kinds)
    except NotThisEvent as error:
        raise DeadLetter(str(error)) from error


async def _nothing() -> None: ...


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


Batch: TypeAlias = list[tuple[QueueReader, Message]]
"""Messages that are handled by one call, with the readers that they came from."""


GiveBack = Callable[[QueueReader, Message, int, Verdict], Awaitable[None]]


class UnorderedFlow(Flow):
    """The way without order: as many messages at once as there are handlers; one that failed is sent back."""

    def __init__(self, handlers: Handlers, most_reconsume_times: int, give_back: GiveBack) -> None:
        self._handlers = handlers
        self._give_back = give_back
        self._most_times = most_reconsume_times
        self._work: asyncio.Queue[Batch | None] = asyncio.Queue()
        #: by topic: what waits for more to come, and when it is handled with less
        self._gathering: dict[str, tuple[Batch, asyncio.TimerHandle]] = {}
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
        """Give the message to whichever handler is free first; in a batch, if its handler wants one."""
        plan = self._handlers.plan_of(message)
        if plan.batch == 1:
            self._work.put_nowait([(reader, message)])
        else:
            self._gather(as_delivered(message).topic, plan, reader, message)

    def _gather(self, topic: str, plan: Plan, reader: QueueReader, message: Message) -> None:
        if topic not in self._gathering:
            loop = asyncio.get_running_loop()
            self._gathering[topic] = [], loop.call_later(plan.batch_wait.total_seconds(), self._hand_over, topic)
        gathered = self._gathering[topic][0]
        gathered.append((reader, message))
        if len(gathered) >= plan.batch:
            self._hand_over(topic)

    def _hand_over(self, topic: str) -> None:
        gathered, timer = self._gathering.pop(topic)
        timer.cancel()
        self._work.put_nowait(gathered)

    async def _handle_all(self) -> None:
        queued = self._work
        # what is there already is had without a coroutine of its own
        while (work := await queued.get() if queued.empty() else queued.get_nowait()) is not None:
            if len(work) == 1:
                await self._handle_one(*work[0])
            else:
                await self._handle_batch([each for each in work if not each[0].dropped])

    async def _handle_one(self, reader: QueueReader, message: Message) -> None:
        # what nearly all go through: as a batch of one each would take 0.4 us longer
        if not reader.dropped:
            is_last = message.reconsume_times >= self._most_times
            verdict = await self._handlers.handle(message, is_last=is_last)
            if verdict.is_done or await self._send_back(reader, message, verdict):
                reader.done(message)

    async def _handle_batch(self, batch: Batch) -> None:
        if batch:
            messages = [message for _, message in batch]
            are_last = [message.reconsume_times >= self._most_times for message in messages]
            verdict = await self._handlers.handle_all(messages, are_last=are_last)
            for reader, message in batch:
                if verdict.is_done or await self._send_back(reader, message, verdict):
                    reader.done(message)

    async def _send_back(self, reader: QueueReader, message: Message, verdict: Verdict) -> bool:
        """Return True if the broker took it back, False if it does not before we stop or another member has the queue:
        then the offset stays, and it comes again with all behind it."""
        while reader not in self._given_away:
            is_last_try = self._stopping
            try:
                await self._give_back(reader, message, self._most_times, verdict)
                return True
            except ClientError as error:
                if is_last_try:
                    logger.warning("%s could not be sent back, it is redelivered later: %s", message.unique_key, error)
                    return False
                logger.warning("send-back of %s failed, retrying: %s", message.unique_key, error)
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
        for _, timer in self._gathering.values():  # nobody has begun with these: they are left to be read again
            timer.cancel()
        self._gathering.clear()
        for _ in self._workers:
            self._work.put_nowait(None)
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def close(self) -> None:
        """Do nothing: without order nothing is held."""
