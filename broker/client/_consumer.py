"""The asynchronous consumer: the one implementation of consuming in a group. It belongs to one event loop."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Literal, Self, Unpack

from ..rocketmq.topics import RETRY_PREFIX
from . import names
from ._event_loop import AsyncClosing
from ._giving_back import give_back
from ._handler_calls import Flow, Handlers, UnorderedFlow
from ._handler_calls import Handler as Handler
from ._membership import ClientInfo, Membership
from ._offsets import QueueOffsets, StartOffsets
from ._orderly import SUSPEND_MS, OrderlyFlow
from ._producer import trace_writer
from ._reader import QueueReader
from ._running_info import Consuming, HandlerStats, Properties
from ._session import Session
from ._trace_events import HandlerTrace
from ._types import ALL, MessageQueue, Subscription, subscription
from ._verdicts import Plan
from .credentials import Access
from .errors import ClientClosed, ClientError, InvalidArgument, RouteNotFound

logger = logging.getLogger(__name__)

#: RocketMQ's own clients save offsets every 5 s, and one that is killed has all of these handled again.
COMMIT_S = 0.5
DEFAULT_HANDLERS = 8
#: Less than the 30 s after which Kubernetes kills what it has asked to end.
DRAIN_S = 25.0
LONGEST_DRAIN_S = 86_400
MAX_RECONSUME_TIMES = 16
SUSPEND_BOUNDS_MS = 10, 30_000
"""As the official client has them."""


class AsyncConsumer(AsyncClosing):
    """A member of a consumer group: its share of the queues, each message acknowledged by returning.

    >>> consumer = AsyncConsumer("billing", "127.0.0.1:9876", from_where="first")
    >>> consumer.subscribe("order", "created || paid", lambda message: print(message.body))
    >>> async with consumer:
    ...     await done.wait()

    Returning acknowledges the message; an exception has it delivered again later, after `max_reconsume_times` (16, if
    none are given) it is a dead letter. A handler runs in a thread, `threads` at the same time (`handlers`, the older
    name of that, warns); a coroutine function runs in the event loop.

    `orderly`: messages of a queue are handled one after the other, and nobody else handles that queue. After an
    exception the queue rests for `suspend_ms` and the same message comes again, until it was handled again
    `max_reconsume_times` (none: without end); then it is a dead letter, and the queue goes on.

    `from_where` counts for a topic that is new to the group: "first" begins with the first message that is there,
    "last" with the first one that comes after the group's first start; _offsets.py says what that means in detail.

    `trace`: tell of every message in RocketMQ's trace topic (True), or in another one. `drain_timeout_s`: how long
    `stop` waits for handlers that have begun; what they have done by then does not come again.

    A consumer starts once. It belongs to one process; the synchronous one is a member of its own in a forked child,
    not started, with the same handlers.
    """

    group: str
    """The consumer group that this is a member of."""

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "last",
        threads: int = DEFAULT_HANDLERS, handlers: int | None = None, orderly: bool = False,
        max_reconsume_times: int | None = None, suspend_ms: int = SUSPEND_MS, trace: bool | str = False,
        drain_timeout_s: float = DRAIN_S, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        if handlers is not None:
            warnings.warn("A consumer's `handlers` is called `threads` now.", DeprecationWarning, stacklevel=2)
            threads = handlers
        names.check_group(group)
        names.check_number("threads", threads, 1)
        names.check_from_where(from_where)
        names.check_number("max_reconsume_times", max_reconsume_times or 0, 0, 2**31 - 1)
        names.check_number("suspend_ms", suspend_ms, *SUSPEND_BOUNDS_MS)
        check_drain_timeout(drain_timeout_s)
        self.group = group
        self._session = Session(namesrv, **access)
        self._session.tell_outages(f"group {group}")
        self._start_offsets = StartOffsets(self._session, group, from_first=from_where == "first")
        self._membership = Membership(self._session, group, self._take_share, self._start_offsets)
        self._traces = trace_writer(trace, group, namesrv, access)
        handler_trace = HandlerTrace(self._traces, group) if self._traces is not None else None
        self._handlers = Handlers(group, self.client_id, threads, handler_trace)
        self._flow: Flow
        if orderly:
            self._flow = OrderlyFlow(
                self._session, group, self.client_id, self._handlers, most_reconsume_times=max_reconsume_times,
                suspend_ms=suspend_ms, lose=self._lose,
            )  # fmt: skip
        else:
            most = MAX_RECONSUME_TIMES if max_reconsume_times is None else max_reconsume_times
            self._flow = UnorderedFlow(self._handlers, most, partial(give_back, self._session, group))
        self._properties = Properties(
            group, self.client_id, self._session.namesrv, from_where, threads=threads, is_orderly=orderly
        )
        ClientInfo(self._session, group, self._now, attempt=self._handlers.attempt, is_orderly=orderly)
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._committing: asyncio.Task[None] | None = None
        self._drain_timeout_s = drain_timeout_s
        self._has_started = False
        self._stopping: asyncio.Task[None] | None = None

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._membership.client_id

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that this member reads now, in no order."""
        return tuple(self._readers)

    @property
    def activity(self) -> Mapping[str, HandlerStats]:
        """The work of the handlers, by topic."""
        return self._handlers.activity

    @property
    def troubles(self) -> tuple[str, ...]:
        """The things that keep it from its work now: brokers that are away, topics that are not there, refusals."""
        return self._session.troubles

    async def backlog(self) -> int:
        """Return how many messages are stored for the group and not handled, by whichever member.

        Timers and retries are not counted until they are due. Raises ClientError where
        a broker does not report it.
        """
        if self._stopping is not None:
            raise ClientClosed
        waiting = 0
        for wanted in self._membership.subscriptions:
            try:
                route = await self._session.route(wanted.topic, max_age_s=0)
            except RouteNotFound:
                continue
            waiting += sum([await self._not_handled(queue) for queue in route.readable()])
        return waiting

    async def _not_handled(self, queue: MessageQueue) -> int:
        offsets = QueueOffsets(self._session, self.group, queue)
        end, reader = await offsets.end(), self._readers.get(queue)
        finished = reader.finished_offset if reader is not None else -1
        if finished < 0:
            committed = await offsets.committed()
            finished = committed if committed is not None else 0 if self._start_offsets.from_first else end
        return max(0, end - finished)

    @property
    def at_work(self) -> int:
        """The number of threads in a handler; after `stop` those that did not end in time."""
        return self._handlers.at_work

    def _now(self) -> Consuming:
        held = tuple(reader.held(self._flow.locked_ms(queue)) for queue, reader in self._readers.items())
        return Consuming(self._properties, self._membership.subscriptions, held, self._handlers.activity)

    def subscribe(
        self, topic: str, expression: str, handler: Handler, *, backoff: timedelta | Sequence[timedelta] = (),
        timeout: timedelta | None = None, batch: int = 1, batch_wait: timedelta | None = None,
    ) -> None:  # fmt: skip
        """Have `handler` called for the messages of `topic` with one of the tags; before start, and once a topic.

        `backoff`: the time until each further attempt of a message that failed, the last one for all after it (none:
        the broker's steps). `timeout`: what takes longer has failed. `batch`: the handler is called with a list of up
        to so many messages, after `batch_wait` (0.5 s) with fewer; they succeed and fail together.
        """
        plan = Plan.of(backoff, timeout, batch, batch_wait, orderly=isinstance(self._flow, OrderlyFlow))
        if self._stopping is not None:
            raise ClientClosed
        if self._has_started:
            raise InvalidArgument(
                f"This consumer has started; subscribe {topic} before that, or with another consumer.", field="topic"
            )
        if any(each.topic == topic for each in self._handlers.subscriptions):
            raise InvalidArgument(
                f"Topic {topic} is subscribed already: a message of a group goes to one handler.", field="topic"
            )
        self._handlers.add(subscription(topic, expression), handler, plan)

    async def start(self) -> None:
        """Join the group and begin; returns after the first share of queues is known, if brokers can be reached.

        Nothing if it has started. Raises ClientClosed after `stop`, UsedAfterFork, InvalidArgument without handlers.
        """
        if self._stopping is not None:
            raise ClientClosed
        self._session.check_open()
        if self._has_started:
            return
        wanted = self._handlers.subscriptions
        if not wanted:
            raise InvalidArgument("Nothing is subscribed; call subscribe before start.", field="topic")
        self._has_started = True
        self._handlers.start()
        self._membership.subscribe([*wanted, subscription(f"{RETRY_PREFIX}{self.group}", ALL)])
        self._flow.start()
        await self._membership.join()
        if self._stopping is not None:
            raise ClientClosed
        self._committing = asyncio.get_running_loop().create_task(self._commit_all())

    async def _take_share(self, wanted: Subscription, share: set[MessageQueue]) -> bool:
        held = {queue for queue in self._readers if queue.topic == wanted.topic}
        for queue in held - share:
            await self._flow.let_go(self._readers.pop(queue))
        new = share - held
        granted = await self._flow.acquire(new) if new else new
        for queue in sorted(granted, key=lambda queue: (queue.broker, queue.queue_id)):
            reader = QueueReader(self._session, self.group, queue, wanted, self._flow.deliver, self._start_offsets)
            self._readers[queue] = reader
            reader.start()
        return granted == new

    def check_locks(self) -> None:
        """Renew the locks of an orderly consumer now instead of within 20 s."""
        if isinstance(self._flow, OrderlyFlow):
            self._flow.check_locks()

    def _lose(self, queue: MessageQueue) -> QueueReader | None:
        self._membership.nudge()
        return self._readers.pop(queue, None)

    async def _commit_all(self) -> None:
        while self._stopping is None:
            await asyncio.sleep(COMMIT_S)
            await self._commit(confirmed=False)

    async def _commit(self, *, confirmed: bool) -> None:
        for reader in [each for each in self._readers.values() if self._flow.may_commit(each.queue)]:
            try:
                await reader.commit(confirmed=confirmed)
            except ClientError as error:
                logger.info("offset of %s for %s not committed: %s", reader.queue, self.group, error)

    async def stop(self, drain_timeout_s: float | None = None) -> None:
        """Pull no more, let handlers that have begun finish, commit, leave the group; who calls again waits as well.

        `drain_timeout_s`: how long handlers are waited for, if not as long as the consumer says.
        """
        if self._stopping is None:
            drain_s = self._drain_timeout_s if drain_timeout_s is None else check_drain_timeout(drain_timeout_s)
            self._stopping = asyncio.get_running_loop().create_task(self._stop(drain_s))
        await asyncio.shield(self._stopping)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def close(self) -> None:
        """Stop, as `stop` without a time does."""
        await self.stop()

    async def _stop(self, drain_timeout_s: float) -> None:
        await self._membership.rest()
        if self._committing is not None:
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        await asyncio.gather(*(reader.stop() for reader in self._readers.values()))
        await self._flow.drain(drain_timeout_s)
        await self._commit(confirmed=True)
        if self._traces is not None:
            await self._traces.close()
        await self._flow.close()
        await self._membership.leave()
        await self._session.close()
        self._handlers.close()


def check_drain_timeout(seconds: float) -> float:
    """Return how long handlers are waited for, if it is a time; raises InvalidArgument."""
    names.check_number("drain_timeout_s", seconds, 0, LONGEST_DRAIN_S)
    return seconds
