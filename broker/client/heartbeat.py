"""Telling brokers who is there (request 34), as the official client does: every 30 s and when something changed."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Iterable
from typing import Literal

import msgspec

from ..rocketmq.codes import Request
from .errors import ClientError
from .session import Session
from .subscription import Subscription

logger = logging.getLogger(__name__)

INTERVAL_S = 30.0
#: After a beat that did not reach every broker.
RETRY_S = 3.0
GOODBYE_TIMEOUT_MS = 1000
#: How the tasks that beat are named; the group and the client follow.
TASK_NAME = "heartbeat of "
#: PASSIVELY is called with messages, ACTIVELY fetches them.
ConsumeType = Literal["CONSUME_PASSIVELY", "CONSUME_ACTIVELY"]


def new_client_id() -> str:
    """Host, process and a random part: no two clients share it. Groups order their members by it."""
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
        """What to say the consumer wants."""
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
        """One heartbeat to each broker; True if it reached all, one that it did not is tried again at the next beat."""
        body = msgspec.json.encode(self._about())
        reached = True
        for address in sorted(self._addresses):
            try:
                await self._session.ask(address, Request.HEART_BEAT, body=body)
            except ClientError as error:
                logger.info("heartbeat to %s failed: %s", address, error)
                reached = False
        return reached

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
        for address in sorted(self._addresses):
            try:
                await self.sign_off(address)
            except ClientError as error:
                logger.info("sign-off from %s failed: %s", address, error)

    async def sign_off(self, address: str) -> None:
        """Tell one broker that this client is gone. Raises BrokerUnreachable, Timeout, BrokerRefused."""
        ext = {"clientID": self.client_id}
        if self._producer_group is not None:
            ext["producerGroup"] = self._producer_group
        if self._consumer_group is not None:
            ext["consumerGroup"] = self._consumer_group
        await self._session.ask(address, Request.UNREGISTER_CLIENT, ext, timeout_ms=GOODBYE_TIMEOUT_MS)
