"""The asynchronous lite pull consumer: the one implementation of fetching by hand. It belongs to one event loop.

A `Feed` is one of its queues: what was read ahead of the polls, and how far these have got. `QueuePlaces` is where the
consumer goes on in each of them: asked, moved, stopped for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from types import TracebackType
from typing import Any, Literal, Unpack

from . import names
from ._event_loop import AsyncClosing
from ._membership import ClientInfo, Membership
from ._offsets import QueueOffsets, StartOffsets
from ._producer import trace_writer
from ._reader import IN_FLIGHT_BYTES, IN_FLIGHT_COUNT, QueueReader, ReadAhead
from ._running_info import Consuming, Properties, QueueWork
from ._session import Session
from ._trace_events import HandlerTrace
from ._tracing import tracing
from ._types import ALL, Message, MessageQueue, Subscription, subscription
from .credentials import Access
from .errors import ClientClosed, ClientError, InvalidArgument

logger = logging.getLogger(__name__)

COMMIT_MS = 5_000
"""How often what is settled is committed (autoCommitIntervalMillis of the official client)."""
SHORTEST_COMMIT_MS = 100
LONGEST_POLL_MS = 3_600_000


class QueuePlaces:
    """The queues that are polled now, in the order in which polls look at them.

    Every method raises InvalidArgument for a queue that is not polled here (any more), asynchronous ones ClientError.
    """

    def __init__(self) -> None:
        self._feeds: dict[MessageQueue, Feed] = {}
        self._closed = False

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that are polled now, sorted by topic, broker and number."""
        return tuple(sorted(self._feeds, key=queue_order))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Poll this queue from `offset` on; raises InvalidArgument if it is not polled here or has no such offset."""
        feed = self._feed(queue)
        begin, end = await feed.offsets.begin(), await feed.offsets.end()
        if not begin <= offset <= end:
            raise InvalidArgument(f"Offset {offset} is not in {queue}: it has {begin} to {end}.", field="offset")
        feed.seek(offset)

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go back to the first message there is, in these queues or (none given) in all."""
        for feed in self._chosen(queues):
            feed.seek(await feed.offsets.begin())

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Skip all that is there now in these queues, or (none given) in all."""
        for feed in self._chosen(queues):
            feed.seek(await feed.offsets.end())

    async def seek_to_time(self, at_ms: int, *queues: MessageQueue) -> None:
        """Go to the first message stored at `at_ms` (epoch) or later, or to the end if there is none."""
        for feed in self._chosen(queues):
            feed.seek(await feed.offsets.at_time(at_ms))

    def pause(self, *queues: MessageQueue) -> None:
        """Have polls pass these queues by (none given: all), and read no further ahead, until `resume`."""
        for feed in self._chosen(queues):
            feed.pause()

    def resume(self, *queues: MessageQueue) -> None:
        """Continue with these queues (none given: with all) where they stood."""
        for feed in self._chosen(queues):
            feed.resume()

    def is_paused(self, queue: MessageQueue) -> bool:
        """Tell whether polls pass the queue by; raise InvalidArgument for one that is not polled here."""
        return self._feed(queue).is_paused

    async def position(self, queue: MessageQueue) -> int:
        """Return the offset of the queue's next message for a poll."""
        return await self._feed(queue).position()

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group has committed in a queue, as the broker knows it; None if there is none."""
        return await self._feed(queue).offsets.committed()

    def _feed(self, queue: MessageQueue) -> Feed:
        if self._closed:
            raise ClientClosed
        feed = self._feeds.get(queue)
        if feed is None:
            raise InvalidArgument(f"{queue} is not assigned to this consumer now.", field="queue")
        return feed

    def _chosen(self, queues: Collection[MessageQueue]) -> list[Feed]:
        if self._closed:
            raise ClientClosed
        return [self._feed(queue) for queue in queues or tuple(self._feeds)]


class AsyncLitePullConsumer(QueuePlaces, AsyncClosing):
    """Fetches messages in the program's own time, queue by queue in order.

    >>> async with AsyncLitePullConsumer("reports") as consumer:
    ...     await consumer.subscribe("order", "created || paid")
    ...     while messages := await consumer.poll():
    ...         print([message.body for message in messages])

    Topics are subscribed, then the group's members share the queues, or queues are assigned by hand. A poll gives what
    was read ahead and moves the position; the next one says that all before is done, and done offsets are committed
    every `commit_every_ms` and by `close`. With `auto_commit` off only `commit` does that. Nothing is delivered again
    by the broker: who fails seeks back. To be used by one task or thread at a time.
    """

    group: str
    """The consumer group that this is a member of."""

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "last",
        auto_commit: bool = True, commit_every_ms: int = COMMIT_MS, read_ahead: int = IN_FLIGHT_COUNT,
        read_ahead_bytes: int = IN_FLIGHT_BYTES, trace: bool | str = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        """`read_ahead` messages and `read_ahead_bytes` of each queue are in memory at most (bytes: and one pull).

        `trace`: tell of every message that a poll gives in RocketMQ's trace topic (True), or in another one.
        """
        names.check_group(group)
        names.check_from_where(from_where)
        names.check_number("read_ahead", read_ahead, 1)
        names.check_number("read_ahead_bytes", read_ahead_bytes, 1)
        names.check_number("commit_every_ms", commit_every_ms, SHORTEST_COMMIT_MS)
        super().__init__()
        self.group = group
        self._auto_commit = auto_commit
        self._commit_every_s = commit_every_ms / 1000
        self._ahead = ReadAhead(read_ahead, read_ahead_bytes)
        self._session = Session(namesrv, **access)
        self._session.tell_outages(f"group {group}")
        self._start_offsets = StartOffsets(self._session, group, from_first=from_where == "first")
        self._membership = Membership(
            self._session, group, self._take_share, self._start_offsets, consume_type="CONSUME_ACTIVELY"
        )
        self._traces = trace_writer(trace, group, namesrv, access)
        self._handler_trace = HandlerTrace(self._traces, group) if self._traces is not None else None
        self._properties = Properties(group, self.client_id, self._session.namesrv, from_where, is_active=True)
        ClientInfo(self._session, group, self._now)
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
        """Return all queues of a topic that can be read, to choose from for `assign`. Raises RouteNotFound."""
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
            # a share that was being computed meanwhile, for what was wanted before, may have taken them once more
            await self._release([queue for queue in self._feeds if queue.topic == topic])

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
            self._session, self.group, queue, wanted, self._start_offsets, self._ahead, self._arrived.set
        )
        feed.start()

    async def _release(self, queues: list[MessageQueue]) -> None:
        """Give queues away. What the latest poll gave may be half done: whoever has the queue next gets it again."""
        feeds = [self._feeds.pop(queue) for queue in queues]
        await asyncio.gather(*(feed.stop() for feed in feeds))
        if self._auto_commit:
            await self._commit_feeds(feeds, settled_only=True, confirmed=True)

    async def poll(self, timeout_ms: int = 5_000, max_messages: int = 32) -> list[Message]:
        """Return up to `max_messages`, those of one queue in order; waits up to `timeout_ms` for the first.

        It also says that the program is done with all that earlier polls gave.
        """
        names.check_number("timeout_ms", timeout_ms, 0, LONGEST_POLL_MS)
        names.check_number("max_messages", max_messages, 1)
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
                if self._handler_trace is not None:
                    self._handler_trace.polled(messages)
                return messages
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        raise ClientClosed

    def _take_ready(self, most: int) -> list[Message]:
        """Take what is there, from one queue after the other; the one that gave goes behind those that had to wait."""
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
        """Return the queue that a polled message came from, for instance to `seek` to it. Raises InvalidArgument."""
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
                names.check_number("offsets", offset, 0)
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


class Feed:
    """The messages read ahead from one queue. `position` is the offset of the next message a poll gives, `settled` that
    at which the latest poll began. To poll again is to be done with the poll before, so all below `settled` may be
    committed.
    """

    def __init__(
        self, session: Session, group: str, queue: MessageQueue, wanted: Subscription, start_offsets: StartOffsets,
        ahead: ReadAhead, arrived: Callable[[], None],
    ) -> None:  # fmt: skip
        self.queue = queue
        self._reader = QueueReader(session, group, queue, wanted, self._deliver, start_offsets, ahead)
        self._arrived = arrived
        self._ready: deque[Message] = deque()
        self._settled = -1
        self._paused = False

    @property
    def offsets(self) -> QueueOffsets:
        """Asks the broker about this queue."""
        return self._reader.offsets

    @property
    def is_paused(self) -> bool:
        """Tell whether polls pass this queue by."""
        return self._paused

    def start(self) -> None:
        """Begin to read ahead, from where the group stands."""
        self._reader.start()

    def _deliver(self, _: QueueReader, message: Message) -> None:
        self._ready.append(message)
        self._arrived()

    def want(self, wanted: Subscription) -> None:
        """Want other messages, from the next one on that is polled."""
        now = self._reader.wanted
        if (now.kind, now.expression) != (wanted.kind, wanted.expression):
            self._reader.wanted = wanted
            self._ready.clear()
            self._reader.seek(self._reader.finished_offset)

    def take(self, most: int) -> list[Message]:
        """Take up to `most` messages out of what was read ahead, in order."""
        if self._paused:
            return []
        taken = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        for message in taken:
            self._reader.done(message)
        return taken

    def settle(self) -> None:
        """Note that the program is done with all that was taken."""
        self._settled = self._reader.finished_offset

    async def position(self) -> int:
        """Return the offset of the next message; ask the broker where the group stands while nothing was read."""
        await self._reader.find_start()
        return self._reader.finished_offset

    def seek(self, offset: int) -> None:
        """Continue at `offset`. What is settled goes there too: the program chose it."""
        self._ready.clear()
        self._reader.seek(offset)
        self._settled = offset

    def held(self) -> QueueWork:
        """Return the state of the queue now."""
        return self._reader.held()

    def pause(self) -> None:
        """Give nothing, and read no further ahead."""
        self._paused = True
        self._reader.pause()

    def resume(self) -> None:
        """Give what was read ahead, and read on."""
        self._paused = False
        self._reader.resume()
        if self._ready:
            self._arrived()

    async def commit(self, *, settled_only: bool, confirmed: bool) -> None:
        """Commit the position, or what is settled; raises ClientError."""
        offset = self._settled if settled_only else self._reader.finished_offset
        await self._reader.commit_at(offset, confirmed=confirmed)

    async def commit_at(self, offset: int) -> None:
        """Commit an offset that the program keeps; raises ClientError."""
        await self._reader.commit_at(offset, confirmed=True)

    async def stop(self) -> None:
        """Read no more, give no more."""
        self._ready.clear()
        await self._reader.stop()


def queue_order(queue: MessageQueue) -> tuple[str, str, int]:
    """Return the key of RocketMQ's order of queues."""
    return queue.topic, queue.broker, queue.queue_id
