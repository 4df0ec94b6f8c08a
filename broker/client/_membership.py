"""Being a member of a consumer group: heartbeats, the member's share of the queues, and what brokers ask a member.

`Heartbeat` tells brokers who is there (request 34), as the official client does: every 30 s and when something changed.

`allocate` is RocketMQ's AllocateMessageQueueAveragely: which queues a member consumes. Every member computes it for
itself from the same two sorted lists, so they need not talk to each other.

`ClientInfo` answers what brokers ask a consumer for an administrator: 307 what it does, 221 how far it is, 309 to
handle a message at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Literal

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.frame import Command
from ..rocketmq.topics import RETRY_PREFIX
from ._answers import read_object, words
from ._offsets import StartOffsets
from ._reader import read_delivery
from ._running_info import Consuming, running_body, status_body
from ._session import Session
from ._types import Message, MessageQueue, Route, Subscription
from .errors import BadAnswer, ClientError, RouteNotFound

logger = logging.getLogger(__name__)

REBALANCE_S = 20.0
#: While a topic, a broker or a queue's lock is not there yet.
REBALANCE_SOON_S = 1.0
#: So long after a broker is back it is left to members who were there before to come back, too: they all try each
#: second, and whoever takes their queues meanwhile reads what they are at work on.
RETURN_S = 2.0

TakeShare = Callable[[Subscription, set[MessageQueue]], Awaitable[bool]]
"""Take exactly these queues of a topic; False if not all can be had now, then it is called again soon."""


class Membership:
    """A member of a group. Its share is computed at once when members change, else every 20 s."""

    def __init__(
        self, session: Session, group: str, take_share: TakeShare, start_offsets: StartOffsets, *,
        consume_type: ConsumeType = "CONSUME_PASSIVELY",
    ) -> None:  # fmt: skip
        where = "CONSUME_FROM_FIRST_OFFSET" if start_offsets.from_first else "CONSUME_FROM_LAST_OFFSET"
        self._heartbeat = Heartbeat(session, consumer_group=group, from_where=where, consume_type=consume_type)
        self._session = session
        self._group = group
        self._take_share = take_share
        self._start_offsets = start_offsets
        self._subscriptions: tuple[Subscription, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()
        self._incomplete = False
        self._hears = self._rests = False
        #: by topic, as of the last share
        self._members_before: dict[str, tuple[str, ...]] = {}
        self._is_away = False
        self._back_s = float("-inf")

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._heartbeat.client_id

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The subscriptions of this member, one a topic."""
        return self._subscriptions

    def subscribe(self, subscriptions: Iterable[Subscription]) -> None:
        """Want these topics, from the next heartbeat and rebalance on."""
        self._subscriptions = tuple(subscriptions)
        self._heartbeat.subscribe(self._subscriptions)

    async def join(self) -> None:
        """Take a share of the queues, and keep it up to date from now on; again after the subscriptions changed."""
        if not self._hears:
            # before the first round: what changes while it lasts is told once
            self._hears = True
            self._session.register(Request.NOTIFY_CONSUMER_IDS_CHANGED, self._members_changed)
            self._session.on_lost(self._lost)
        await self._rebalance()
        if self._task is None and not self._rests:
            self._task = asyncio.get_running_loop().create_task(self._follow())

    async def introduce(self) -> None:
        """Be known to the brokers of what is subscribed, and begin there, without taking a share."""
        routes = await self._find_routes()
        await self._beat(routes)
        await self._start_offsets.settle_all(routes)

    def nudge(self) -> None:
        """Compute the share anew soon: something has changed."""
        self._changed.set()

    def _lost(self, address: str) -> None:
        self._is_away = True
        self.nudge()

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
            await self._start_offsets.settle_all(routes)  # a first start begins now, whoever gets the queues
            for wanted in self._subscriptions:
                route = routes.get(wanted.topic)
                if route is None:
                    continue
                try:
                    members = self._expected(wanted.topic, await self._members(route))
                    share = set(allocate(self.client_id, members, route.readable()))
                except ClientError as error:
                    self._incomplete = True
                    self._session.failed(wanted.topic, error, f"taking a share of topic {wanted.topic}")
                    continue
                if not await self._take_share(wanted, share):
                    self._incomplete = True

    async def _beat(self, routes: dict[str, Route]) -> None:
        self._heartbeat.reach(address for route in routes.values() for address in route.everywhere())
        if await self._heartbeat.send_once():
            if self._is_away:
                self._is_away, self._back_s = False, time.monotonic()
        elif not self._rests:
            self._heartbeat.nudge()  # who is not known there is left out of the others' shares, and not told of changes

    def _expected(self, topic: str, members: tuple[str, ...]) -> Collection[str]:
        """Return the members to share with: those that a broker knows which has just come back, and those who were
        there before it went, until they have had the time to come back."""
        before = self._members_before.get(topic, ())
        if time.monotonic() < self._back_s + RETURN_S and not set(before) <= set(members):
            self._incomplete = True
            return {*before, *members}
        self._members_before[topic] = members
        return members

    async def _find_routes(self) -> dict[str, Route]:
        """Find the routes of what is subscribed; a topic that is not there yet is looked for again soon."""
        routes = {}
        for wanted in self._subscriptions:
            try:
                routes[wanted.topic] = await self._session.route(wanted.topic)
            except ClientError as error:
                self._incomplete = True
                if isinstance(error, RouteNotFound):
                    self._start_offsets.missed(wanted.topic)
                if not wanted.topic.startswith(RETRY_PREFIX):  # that one is made when the group is known
                    self._session.failed(wanted.topic, error, f"finding topic {wanted.topic}")
            else:
                self._session.found(wanted.topic)
        return routes

    async def _members(self, route: Route) -> tuple[str, ...]:
        """Return the members of the group, as one of the topic's brokers knows them."""
        failure: ClientError | None = None
        ext = {"consumerGroup": self._group}
        for address in route.everywhere():
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


# Heartbeats.

INTERVAL_S = 30.0
#: After a beat that did not reach every broker.
RETRY_S = 3.0
GOODBYE_TIMEOUT_MS = 1000
#: How the tasks that beat are named; the group and the client follow.
TASK_NAME = "heartbeat of "
#: PASSIVELY is called with messages, ACTIVELY fetches them.
ConsumeType = Literal["CONSUME_PASSIVELY", "CONSUME_ACTIVELY"]


def new_client_id() -> str:
    """Make a name of host, process and a random part, which no two clients share; groups order members by it."""
    return f"{socket.gethostname()[:60]}@{os.getpid()}#{secrets.token_hex(4)}"


async def introduce_once(session: Session, group: str, addresses: Iterable[str]) -> None:
    """Have these brokers know a consumer group, and leave it again. Raises ClientError."""
    member = Heartbeat(session, consumer_group=group)
    for address in addresses:
        await member.beat(address)
        await member.sign_off(address)


class Heartbeat:
    """The heartbeats of one client, to every broker it uses."""

    def __init__(
        self, session: Session, *, producer_group: str | None = None, consumer_group: str | None = None,
        from_where: str = "CONSUME_FROM_LAST_OFFSET", consume_type: ConsumeType = "CONSUME_PASSIVELY",
    ) -> None:  # fmt: skip
        self.client_id = new_client_id()
        self._session = session
        self._producer_group = producer_group
        self._consumer_group = consumer_group
        self._from_where = from_where
        self._consume_type = consume_type
        self._subscriptions: tuple[Subscription, ...] = ()
        self._addresses: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._nudge = asyncio.Event()

    def subscribe(self, subscriptions: Iterable[Subscription]) -> None:
        """Have heartbeats tell these subscriptions from now on."""
        self._subscriptions = tuple(subscriptions)

    def reach(self, addresses: Iterable[str]) -> None:
        """Beat to these brokers too, from now on."""
        new = set(addresses) - self._addresses
        if new:
            self._addresses |= new
            self.nudge()

    def nudge(self) -> None:
        """Beat now: a subscription changed, or a broker came back."""
        self._nudge.set()
        if self._task is None:
            name = f"{TASK_NAME}{self._producer_group or self._consumer_group} {self.client_id}"
            self._task = asyncio.get_running_loop().create_task(self._beat(), name=name)

    async def _beat(self) -> None:
        while self._task is not None:
            self._nudge.clear()
            reached = await self.send_once()
            try:
                async with asyncio.timeout(INTERVAL_S if reached else RETRY_S):
                    await self._nudge.wait()
            except TimeoutError:
                continue

    async def send_once(self) -> bool:
        """Send a heartbeat to each broker, beside each other: one that does not answer delays none.

        True if it reached all. The others are tried at the next beat.
        """
        body = msgspec.json.encode(self._about())

        async def reached(address: str) -> bool:
            try:
                await self._session.ask(address, Request.HEART_BEAT, body=body)
            except ClientError as error:
                self._session.failed(f"heartbeats to {address}", error, f"saying to {address} that it is there")
                return False
            self._session.works(f"heartbeats to {address}")
            return True

        return all(await asyncio.gather(*(reached(address) for address in sorted(self._addresses))))

    async def beat(self, address: str) -> None:
        """Beat to one broker now. Raises BrokerUnreachable, Timeout, BrokerRefused."""
        await self._session.ask(address, Request.HEART_BEAT, body=msgspec.json.encode(self._about()))

    def _about(self) -> dict[str, object]:
        consumers = []
        if self._consumer_group is not None:
            consumers.append(
                {
                    "groupName": self._consumer_group,
                    "consumeType": self._consume_type,
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": self._from_where,
                    "subscriptionDataSet": [each.about() for each in self._subscriptions],
                    "unitMode": False,
                }
            )
        producers = [{"groupName": self._producer_group}] if self._producer_group is not None else []
        return {
            "clientID": self.client_id,
            "consumerDataSet": consumers,
            "producerDataSet": producers,
            "heartbeatFingerprint": 0,
            "withoutSub": False,
        }

    async def stop(self) -> None:
        """End the beat and sign off (request 35), so that others of the group take over at once."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        async def sign_off(address: str) -> None:
            try:
                await self.sign_off(address)
            except ClientError as error:
                logger.info("sign-off from %s failed: %s", address, error)

        await asyncio.gather(*(sign_off(address) for address in sorted(self._addresses)))

    async def sign_off(self, address: str) -> None:
        """Tell one broker that this client is gone. Raises BrokerUnreachable, Timeout, BrokerRefused."""
        ext = {"clientID": self.client_id}
        if self._producer_group is not None:
            ext["producerGroup"] = self._producer_group
        if self._consumer_group is not None:
            ext["consumerGroup"] = self._consumer_group
        await self._session.ask(address, Request.UNREGISTER_CLIENT, ext, timeout_ms=GOODBYE_TIMEOUT_MS)


def allocate(client_id: str, clients: Collection[str], queues: Collection[MessageQueue]) -> tuple[MessageQueue, ...]:
    """Return the share of `client_id`: a run of neighbouring queues; the first members get one more if need be."""
    members = sorted(clients)
    if client_id not in members or not queues:
        return ()
    ordered = sorted(queues, key=lambda queue: (queue.topic, queue.broker, queue.queue_id))
    index = members.index(client_id)
    share, left_over = divmod(len(ordered), len(members))
    start = index * share + min(index, left_over)
    return tuple(ordered[start : start + share + (1 if index < left_over else 0)])


# What brokers ask a member.

#: CMResult: the message was handled, or its handler raised.
_HANDLED, _RAISED = "CR_SUCCESS", "CR_THROW_EXCEPTION"
#: Why a handler failed is told this far.
_REMARK_CHARACTERS = 1_000

Try = Callable[[Message], Awaitable[tuple[float, Exception | None]]]
"""Have a message handled: ms that it took, and what the handler raised."""


class ClientInfo:
    """The answers of one consumer; `now` is asked for each. `attempt`: None where there are no handlers."""

    def __init__(
        self, session: Session, group: str, now: Callable[[], Consuming], *, attempt: Try | None = None,
        is_orderly: bool = False,
    ) -> None:  # fmt: skip
        self._group = group
        self._now = now
        self._attempt = attempt
        self._is_orderly = is_orderly
        session.register(Request.GET_CONSUMER_RUNNING_INFO, self._running_info)
        session.register(Request.GET_CONSUMER_STATUS_FROM_CLIENT, self._status)
        if attempt is not None:
            session.register(Request.CONSUME_MESSAGE_DIRECTLY, self._consume)

    def _running_info(self, _: str, request: Command) -> Command:
        if (refusal := self._refusal(request, "consumerGroup")) is not None:
            return refusal
        return request.answer(
            body=running_body(self._now(), with_stack=request.ext.get("jstackEnable", "").lower() == "true")
        )

    def _status(self, _: str, request: Command) -> Command:
        if (refusal := self._refusal(request, "group")) is not None:
            return refusal
        return request.answer(body=status_body(self._now(), request.ext.get("topic", "")))

    def _refusal(self, request: Command, field: str) -> Command | None:
        group = request.ext.get(field)
        if group == self._group:
            return None
        return request.answer(
            code=Answer.SYSTEM_ERROR, remark=f"The Consumer Group <{group}> not exist in this consumer"
        )

    def _consume(self, _: str, request: Command) -> Command | asyncio.Future[Command]:
        if (refusal := self._refusal(request, "consumerGroup")) is not None:
            return refusal
        try:
            message = read_delivery(request.body)
        except BadAnswer as error:
            return request.answer(code=Answer.SYSTEM_ERROR, remark=str(error))
        return asyncio.get_running_loop().create_task(self._handled(request, message))

    async def _handled(self, request: Command, message: Message) -> Command:
        assert self._attempt is not None, "registered only with one"
        took_ms, failure = await self._attempt(message)
        remark = None if failure is None else f"{type(failure).__name__}: {failure}"[:_REMARK_CHARACTERS]
        result = {
            "order": self._is_orderly,
            "autoCommit": True,
            "consumeResult": _HANDLED if failure is None else _RAISED,
            "remark": remark,
            "spentTimeMills": int(took_ms),
        }
        return request.answer(body=msgspec.json.encode(result))
