"""What all connections of this process to one cluster share: its clients, and what was declared.

Everything asynchronous runs in the client's one event-loop thread. A child of a fork has links of its own, which
connect anew; those of its parent are left alone there.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kombu.transport.virtual.base import BrokerState

from ..client import AsyncAdmin, AsyncProducer, AsyncSimpleConsumer, BrokerRefused, ClientError, NoBroker, RouteNotFound
from ..client._event_loop import event_loop_thread
from ..client._membership import introduce_once
from ..client._session import Session
from ..client.remoting import forks
from ..rocketmq.topics import retry_topic
from .envelope import Parcel
from .naming import Names, tag_of
from .settings import Settings
from .tailing import Tails

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

#: A task comes again as often as this before it is a dead letter; brokers take no higher number.
MOST_RETRIES = 10_000
#: Queues of topics that are read from their end by everybody.
_TOLD_QUEUES = 1
#: Events on their way that nobody waits for; more are dropped.
_MOST_UNDERWAY = 5_000
_CLOSE_S = 3.0


@dataclass(slots=True)
class Declared:
    """What is known of a queue that was declared in this process."""

    #: of this process alone: not kept, and nobody else reads it
    is_own: bool = False
    highest_priority: int = 0
    ttl_ms: int | None = None
    #: patterns of routing keys by exchange, for what is told to everybody
    told: dict[str, re.Pattern[str] | None] = field(default_factory=dict)


class Link:
    """The clients of this process for one cluster. Coroutines belong to the client's event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.names = Names(settings.prefix, settings.group)
        #: exchanges and bindings, as kombu's virtual channels keep them
        self.state = BrokerState()
        self.declared: dict[str, Declared] = {}
        self.producer = AsyncProducer(namesrv=settings.namesrv, **settings.access)
        self.admin = AsyncAdmin(settings.namesrv, **settings.access)
        self.holder = AsyncSimpleConsumer(settings.group, settings.namesrv, **settings.access)
        self.session = Session(settings.namesrv, **settings.access)
        self.tails = Tails(self.session, settings.group)
        self._there: set[str] = set()
        self._group_is_there = False
        self._underway: set[asyncio.Task[None]] = set()
        self._is_silent = False

    def run(self, work: Coroutine[Any, Any, Result], timeout_ms: int | None = None) -> Result:
        """Run a coroutine in the event loop, and wait for its result."""
        return event_loop_thread.run(work, timeout_ms=timeout_ms)

    def receiver(self) -> AsyncSimpleConsumer:
        """Return a consumer with connections of its own: closing it ends its questions at the broker, too."""
        return AsyncSimpleConsumer(self.settings.group, self.settings.namesrv, **self.settings.access)

    async def check(self) -> None:
        """Have the name server answer and the group be there. Raises ClientError."""
        masters = await self.session.masters()
        if not masters:
            raise NoBroker(self.names.replies)
        if not self._group_is_there:
            await self._make_group([master.address for master in masters])
            self._group_is_there = True

    async def _make_group(self, addresses: Iterable[str]) -> None:
        group = self.settings.group
        try:
            if await self.admin.group_settings(group) is None:
                await self.admin.create_group(group, retry_max_times=MOST_RETRIES)
        except BrokerRefused as refused:
            logger.info("group %s was not created here, the broker creates it on first use: %s", group, refused)
            await introduce_once(self.session, group, addresses)

    async def make_topic(self, topic: str, queues: int) -> None:
        """Have a topic be there. Raises ClientError; where this user may not make it, whoever may has to."""
        if topic in self._there:
            return
        try:
            await self.session.route(topic)
        except RouteNotFound:
            try:
                await self.admin.create_topic(topic, queues=queues)
            except BrokerRefused as refused:
                logger.warning("topic %s cannot be created: %s", topic, refused)
                return
            self.session.forget_route(topic)
        self._there.add(topic)

    async def make_queue(self, queue: str, highest_priority: int = 0) -> None:
        """Have the topics of a queue be there, one for each priority."""
        for priority in range(highest_priority + 1):
            await self.make_topic(self.names.queue(queue, priority), self.settings.queues)

    async def send(self, topic: str, parcel: Parcel) -> None:
        """Send, and return when the broker has it. Raises ClientError."""
        timing: dict[str, Any] = {}
        if parcel.due_ms is not None:
            timing = {"deliver_at_ms": parcel.due_ms}
            if parcel.key is not None:
                # the same task once more is that task: after a lost answer, or run twice it asks for one more try
                timing |= {"schedule_key": parcel.key, "on_conflict": "replace"}
        await self.producer.send(
            topic, parcel.body, tag=tag_of(parcel.tag or ""), keys=parcel.keys, wait_for_disk=parcel.is_durable,
            timeout_ms=self.settings.send_ms, **timing,
        )  # fmt: skip

    async def tell(self, exchange: str, routing_key: str, parcel: Parcel) -> None:
        """Tell everybody who listens to an exchange."""
        topic = self.names.fanout(exchange)
        await self.make_topic(topic, _TOLD_QUEUES)
        await self.send(topic, parcel._replace(tag=routing_key))

    async def answer(self, tag: str, parcel: Parcel) -> None:
        """Send to a queue of one process, whichever that is."""
        await self.make_topic(self.names.replies, _TOLD_QUEUES)
        await self.send(self.names.replies, parcel._replace(tag=tag))

    async def listen(self, queue: str, topic: str, tag: str | None) -> None:
        """Have a queue get what is sent to a topic from now on."""
        await self.make_topic(topic, _TOLD_QUEUES)
        await self.tails.listen(queue, topic, tag)

    async def begin_telling(self, exchange: str, routing_key: str, parcel: Parcel) -> None:
        """Tell without anybody waiting for it; what cannot be told is dropped, and that is said once."""
        if len(self._underway) >= _MOST_UNDERWAY:
            return
        self.begin(self._told(exchange, routing_key, parcel))

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin something in the event loop that nobody waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)

    async def _told(self, exchange: str, routing_key: str, parcel: Parcel) -> None:
        try:
            await self.tell(exchange, routing_key, parcel)
        except ClientError as error:
            if not self._is_silent:
                logger.warning("events of %s are lost while the broker cannot be reached: %s", exchange, error)
            self._is_silent = True
        else:
            self._is_silent = False

    async def flush(self) -> None:
        """Wait for what is being told."""
        if self._underway:
            await asyncio.wait(set(self._underway), timeout=_CLOSE_S)

    async def close(self) -> None:
        """End all connections of it."""
        await self.flush()
        for client in (self.producer, self.admin, self.holder, self.session):
            await client.close()

    async def waiting(self, queue: str) -> int:
        """Return how many messages of a queue were not given to any worker yet."""
        topics = {self.names.queue(queue, each) for each in range(self._highest(queue) + 1)}
        retries = {retry_topic(self.settings.group, topic) for topic in topics}
        stats = await self.admin.consume_stats(self.settings.group)
        lags = {each.queue: each.lag for each in stats.queues if each.queue.topic in topics | retries}
        for topic in topics - {each.topic for each in lags}:  # nobody of the group was there yet
            try:
                found = await self.admin.topic_stats(topic)
            except RouteNotFound:
                continue
            lags |= {each.queue: each.max_offset - each.min_offset for each in found.queues}
        return sum(lags.values())

    async def purge(self, queue: str) -> int:
        """Remove all messages of a queue; return how many there were. Timers are not there yet."""
        count = 0
        for priority in range(self._highest(queue) + 1):
            topic = self.names.queue(queue, priority)
            try:
                while received := await self.holder.receive(topic, max_messages=32, wait_ms=0):
                    await self.holder.ack(*received)
                    count += len(received)
            except RouteNotFound:
                continue
        return count

    def _highest(self, queue: str) -> int:
        declared = self.declared.get(queue)
        return declared.highest_priority if declared is not None else 0


class Links:
    """The links of this process; a child of a fork begins without any."""

    def __init__(self) -> None:
        self._begin()
        forks.begin_anew(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[Settings, Link] = {}

    def to(self, settings: Settings) -> Link:
        """Return the link of this process."""
        with self._lock:
            link = self._links.get(settings)
            if link is None:
                link = self._links[settings] = Link(settings)
            return link

    def close(self) -> None:
        """End all connections of this process; whoever connects again has new ones."""
        with self._lock:
            known, self._links = list(self._links.values()), {}
        for link in known:
            link.run(link.close())


links = Links()
