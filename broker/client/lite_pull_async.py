"""The asynchronous lite pull consumer: the one implementation of fetching by hand. It belongs to one event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Coroutine, Mapping
from types import TracebackType
from typing import Any, Literal, Unpack

from . import names
from .client_info import SelfTelling
from .closing import AsyncClosing
from .credentials import Access
from .errors import ClientClosed, ClientError, InvalidArgument
from .feed import Feed
from .membership import Membership
from .producer_async import trace_writer
from .queue_places import QueuePlaces, queue_order
from .reader import IN_FLIGHT_BYTES, IN_FLIGHT_COUNT, ReadAhead
from .running_info import Consuming, Properties
from .session import Session
from .start_offsets import Beginnings
from .subscription import ALL, Subscription, subscription
from .trace_events import HandlingTelling
from .tracing import tracing
from .types import Message, MessageQueue

logger = logging.getLogger(__name__)

COMMIT_MS = 5_000
"""How often what is settled is committed (autoCommitIntervalMillis of the official client)."""
SHORTEST_COMMIT_MS = 100
LONGEST_POLL_MS = 3_600_000


class AsyncLitePullConsumer(QueuePlaces, AsyncClosing):
    """Fetches messages in the program's own time, queue by queue in order; see LitePullConsumer."""

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "last",
        auto_commit: bool = True, commit_every_ms: int = COMMIT_MS, read_ahead: int = IN_FLIGHT_COUNT,
        read_ahead_bytes: int = IN_FLIGHT_BYTES, trace: bool | str = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        """`read_ahead` messages and `read_ahead_bytes` of each queue are in memory at most (bytes: and one pull)."""
        names.check_group(group)
        if from_where not in ("first", "last"):
            raise InvalidArgument(f"from_where {from_where!r} is not valid: 'first' or 'last'.", field="from_where")
        _check_at_least("read_ahead", read_ahead, 1)
        _check_at_least("read_ahead_bytes", read_ahead_bytes, 1)
        _check_at_least("commit_every_ms", commit_every_ms, SHORTEST_COMMIT_MS)
        super().__init__()
        self.group = group
        self._auto_commit = auto_commit
        self._commit_every_s = commit_every_ms / 1000
        self._ahead = ReadAhead(read_ahead, read_ahead_bytes)
        self._session = Session(namesrv, **access)
        self._beginnings = Beginnings(self._session, group, from_first=from_where == "first")
        self._membership = Membership(
            self._session, group, self._take_share, self._beginnings, consume_type="CONSUME_ACTIVELY"
        )
        self._traces = trace_writer(trace, group, namesrv, access)
        self._telling = HandlingTelling(self._traces, group) if self._traces is not None else None
        self._properties = Properties(group, self.client_id, self._session.namesrv, from_where, is_active=True)
        SelfTelling(self._session, group, self._now)
        self._way: Literal["subscribe", "assign"] | None = None
        self._wanted: dict[str, Subscription] = {}
        self._brokers: dict[tuple[str, int], str] = {}
        self._arrived = asyncio.Event()
        self._committing: asyncio.Task[None] | None = None

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._membership.client_id

    def _now(self) -> Consuming:
        held = tuple(feed.held() for feed in self._feeds.values())
        return Consuming(self._properties, tuple(self._wanted.values()), held, {})

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """All queues of a topic that can be read, to choose from for `assign`. Raises RouteNotFound."""
        return (await self._session.route(topic)).readable()

    async def subscribe(self, topic: str, expression: str = ALL) -> None:
        """Poll this member's share of a topic's queues, which it has when this returns; shares follow the members.

        `expression`: tags or a Sql; another one for the same topic counts from the next message on.
        """
        wanted = subscription(topic, expression)
        self._begin("subscribe")
        self._wanted[topic] = wanted
        self._membership.subscribe(self._wanted.values())
        await self._membership.join()
        self._commit_from_now_on()

    async def unsubscribe(self, topic: str) -> None:
        """Poll a topic no more. Its queues go to others only when this member closes: a group wants the same topics."""
        self._begin("subscribe")
        if self._wanted.pop(topic, None) is not None:
            self._membership.subscribe(self._wanted.values())
            await self._release([queue for queue in self._feeds if queue.topic == topic])
            await self._membership.join()

    async def assign(self, queues: Collection[MessageQueue], expression: str = ALL) -> None:
        """Poll exactly these queues, whatever others of the group do; those that stay keep their positions."""
        wanted = {queue.topic: subscription(queue.topic, expression) for queue in queues}
        self._begin("assign")
        self._wanted = wanted
        self._membership.subscribe(self._wanted.values())
        await self._membership.introduce()
        await self._release([queue for queue in self._feeds if queue not in queues])
        for queue in sorted(queues, key=queue_order):
            self._take(queue, self._wanted[queue.topic])
        self._commit_from_now_on()

    def _begin(self, way: Literal["subscribe", "assign"]) -> None:
        if self._closed:
            raise ClientClosed
        self._session.check_open()
        if self._way not in (None, way):
            raise InvalidArgument("A consumer either subscribes topics or is assigned queues, not both.", field=way)
        self._way = way

    async def _take_share(self, wanted: Subscription, share: set[MessageQueue]) -> bool:
        await self._release([queue for queue in self._feeds if queue.topic == wanted.topic and queue not in share])
        for queue in sorted(share, key=queue_order):
            self._take(queue, wanted)
        return True

    def _take(self, queue: MessageQueue, wanted: Subscription) -> None:
        feed = self._feeds.get(queue)
        if feed is not None:
            feed.want(wanted)
            return
        feed = self._feeds[queue] = Feed(
            self._session, self.group, queue, wanted, self._beginnings, self._ahead, self._arrived.set
        )
        feed.start()

    async def _release(self, queues: list[MessageQueue]) -> None:
        """Give queues away. What the latest poll gave may be half done: whoever has the queue next gets it again."""
        feeds = [self._feeds.pop(queue) for queue in queues]
        await asyncio.gather(*(feed.stop() for feed in feeds))
        if self._auto_commit:
            await self._commit_feeds(feeds, settled_only=True, confirmed=True)

    async def poll(self, timeout_ms: int = 5_000, max_messages: int = 32) -> list[Message]:
        """Up to `max_messages`, those of one queue in order; waits up to `timeout_ms` for the first.

        It also says that the program is done with all that earlier polls gave.
        """
        if not 0 <= timeout_ms <= LONGEST_POLL_MS:
            raise InvalidArgument(
                f"timeout_ms is {timeout_ms}; allowed are 0 to {LONGEST_POLL_MS}.", field="timeout_ms"
            )
        _check_at_least("max_messages", max_messages, 1)
        self._session.check_open()
        if self._way is None:
            raise InvalidArgument(
                "Nothing is subscribed or assigned in this process; do that before the first poll.", field="topic"
            )
        for feed in self._feeds.values():
            feed.settle()
        deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        began_ns = time.time_ns()
        while not self._closed:
            self._arrived.clear()
            if messages := self._take_ready(max_messages):
                if (spans := tracing.spans()) is not None:
                    spans.received("poll", messages, self.group, self.client_id, began_ns)
                if self._telling is not None:
                    self._telling.polled(messages)
                return messages
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        raise ClientClosed

    def _take_ready(self, most: int) -> list[Message]:
        """What is there, from one queue after the other; the one that gave goes behind those that had to wait."""
        messages: list[Message] = []
        for queue, feed in list(self._feeds.items()):
            if len(messages) == most:
                break
            if taken := feed.take(most - len(messages)):
                self._brokers[taken[0].store_host] = queue.broker
                self._feeds[queue] = self._feeds.pop(queue)
                messages += taken
        return messages

    def queue_of(self, message: Message) -> MessageQueue:
        """The queue that a polled message came from, for instance to `seek` to it again."""
        broker = self._brokers.get(message.store_host)
        if broker is None:
            raise InvalidArgument("The message was not polled by this consumer.", field="message")
        return MessageQueue(message.topic, broker, message.queue_id)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit the positions of all queues, or these offsets. Raises ClientError for the first that failed."""
        if self._closed:
            raise ClientClosed
        if offsets is None:
            feeds = list(self._feeds.values())
            failures = await _all([feed.commit(settled_only=False, confirmed=True) for feed in feeds])
        else:
            for offset in offsets.values():
                _check_at_least("offsets", offset, 0)
            chosen = [(self._feed(queue), offset) for queue, offset in offsets.items()]
            failures = await _all([feed.commit_at(offset) for feed, offset in chosen])
        if failures:
            raise failures[0]

    def _commit_from_now_on(self) -> None:
        if self._auto_commit and self._committing is None:
            self._committing = asyncio.get_running_loop().create_task(self._commit_all())

    async def _commit_all(self) -> None:
        while True:
            await asyncio.sleep(self._commit_every_s)
            await self._commit_feeds(list(self._feeds.values()), settled_only=True, confirmed=False)

    async def _commit_feeds(self, feeds: list[Feed], *, settled_only: bool, confirmed: bool) -> None:
        for failure in await _all([feed.commit(settled_only=settled_only, confirmed=confirmed) for feed in feeds]):
            logger.warning("an offset of group %s is not committed: %s", self.group, failure)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(is_done=error is None)

    async def close(self, *, is_done: bool = True) -> None:
        """Leave the group, after committing if that is automatic; idempotent.

        `is_done`: whether the program is done with what the latest poll gave. A block that ends by an exception is not.
        """
        if self._closed:
            return
        self._closed = True
        self._arrived.set()
        await self._membership.rest()
        if self._committing is not None:
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        feeds = list(self._feeds.values())
        await asyncio.gather(*(feed.stop() for feed in feeds))
        if self._auto_commit:
            await self._commit_feeds(feeds, settled_only=not is_done, confirmed=True)
        await self._membership.leave()
        if self._traces is not None:
            await self._traces.close()
        await self._session.close()


async def _all(work: list[Coroutine[Any, Any, None]]) -> list[ClientError]:
    """Do all at once; the failures."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, ClientError):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, ClientError)]


def _check_at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise InvalidArgument(f"{field} is {value}; it is at least {least}.", field=field)
