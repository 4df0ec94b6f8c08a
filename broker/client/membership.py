"""Being a member of a consumer group: heartbeats, and the member's share of the queues whenever it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from ..rocketmq.codes import Request
from ..rocketmq.frame import Command
from .allocation import allocate
from .answers import words
from .errors import ClientError, RouteNotFound
from .heartbeat import ConsumeType, Heartbeat
from .leniency import read_object
from .session import Session
from .start_offsets import Beginnings
from .subscription import Subscription
from .types import MessageQueue, Route

logger = logging.getLogger(__name__)

REBALANCE_S = 20.0
#: While a topic, a broker or a queue's lock is not there yet.
REBALANCE_SOON_S = 1.0

TakeShare = Callable[[Subscription, set[MessageQueue]], Awaitable[bool]]
"""Take exactly these queues of a topic; False if not all can be had now, then it is called again soon."""


class Membership:
    """One member of a group. Shares are computed at once when members change, else every 20 s."""

    def __init__(
        self, session: Session, group: str, take_share: TakeShare, beginnings: Beginnings, *,
        consume_type: ConsumeType = "CONSUME_PASSIVELY",
    ) -> None:  # fmt: skip
        where = "CONSUME_FROM_FIRST_OFFSET" if beginnings.from_first else "CONSUME_FROM_LAST_OFFSET"
        self._heartbeat = Heartbeat(session, consumer_group=group, from_where=where, consume_type=consume_type)
        self._session = session
        self._group = group
        self._take_share = take_share
        self._beginnings = beginnings
        self._subscriptions: tuple[Subscription, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()
        self._incomplete = False
        self._rests = False

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._heartbeat.client_id

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """What this member wants."""
        return self._subscriptions

    def subscribe(self, subscriptions: Iterable[Subscription]) -> None:
        """What this member wants, from the next heartbeat and rebalance on."""
        self._subscriptions = tuple(subscriptions)
        self._heartbeat.subscribe(self._subscriptions)

    async def join(self) -> None:
        """Take a share of the queues, and keep it up to date from now on; again after the subscriptions changed."""
        await self._rebalance()
        if self._task is None and not self._rests:
            self._session.register(Request.NOTIFY_CONSUMER_IDS_CHANGED, self._members_changed)
            self._session.on_lost(lambda address: self.nudge())
            self._task = asyncio.get_running_loop().create_task(self._follow())

    async def introduce(self) -> None:
        """Be known to the brokers of what is subscribed, and begin there, without taking a share."""
        routes = await self._find_routes()
        await self._beat(routes)
        await self._beginnings.settle_all(routes)

    def nudge(self) -> None:
        """Something changed: compute the share anew."""
        self._changed.set()

    def _members_changed(self, address: str, request: Command) -> None:
        if request.ext.get("consumerGroup") == self._group:
            self.nudge()

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(REBALANCE_SOON_S if self._incomplete else REBALANCE_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            await self._rebalance()

    async def _rebalance(self) -> None:
        async with self._one_at_a_time:
            self._incomplete = False
            routes = await self._find_routes()
            await self._beat(routes)
            await self._beginnings.settle_all(routes)  # a first start begins now, whoever gets the queues
            for wanted in self._subscriptions:
                route = routes.get(wanted.topic)
                if route is None:
                    continue
                try:
                    share = set(allocate(self.client_id, await self._members(route), route.readable()))
                except ClientError as error:
                    self._incomplete = True
                    logger.warning("group %s keeps its queues of %s: %s", self._group, wanted.topic, error)
                    continue
                if not await self._take_share(wanted, share):
                    self._incomplete = True

    async def _beat(self, routes: dict[str, Route]) -> None:
        self._heartbeat.reach(address for route in routes.values() for address in route.addresses.values())
        await self._heartbeat.send_once()

    async def _find_routes(self) -> dict[str, Route]:
        """Routes of what is subscribed; a topic that is not there yet is looked for again soon."""
        routes = {}
        for wanted in self._subscriptions:
            try:
                routes[wanted.topic] = await self._session.route(wanted.topic)
            except ClientError as error:
                self._incomplete = True
                if isinstance(error, RouteNotFound):
                    self._beginnings.missed(wanted.topic)
                logger.info("group %s waits for topic %s: %s", self._group, wanted.topic, error)
        return routes

    async def _members(self, route: Route) -> tuple[str, ...]:
        """The members of the group, as one of the topic's brokers knows them."""
        failure: ClientError | None = None
        ext = {"consumerGroup": self._group}
        for address in sorted(route.addresses.values()):
            try:
                answer = await self._session.ask(address, Request.GET_CONSUMER_LIST_BY_GROUP, ext)
                return words(read_object(answer.body).get("consumerIdList"))
            except ClientError as error:
                failure = error
        raise failure or RouteNotFound(route.topic)

    async def rest(self) -> None:
        """Follow no more changes; idempotent."""
        self._rests = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def leave(self) -> None:
        """Sign off, so that others of the group take over at once."""
        await self.rest()
        await self._heartbeat.stop()
