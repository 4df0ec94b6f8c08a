"""Who shares the queues of a group with whom, when members come and brokers go while shares are computed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.client import AsyncAdmin, AsyncConsumer, Message, MessageQueue
from broker.client._membership import Membership
from broker.client._offsets import StartOffsets
from broker.client._session import Session
from broker.client._types import Subscription, subscription
from broker.server.broker import BrokerService
from broker.testing import BrokerThread, small_store
from tests.waiting import until_true


async def ignore(message: Message) -> None:
    """Handle nothing."""


@dataclass
class Joined:
    """A member of group billing, and the shares of orders that it took."""

    session: Session
    membership: Membership
    shares: list[set[MessageQueue]]

    async def leave(self) -> None:
        await self.membership.leave()
        await self.session.close()


async def joined(namesrv: str, meanwhile: Callable[[], Awaitable[None]] | None = None) -> Joined:
    """One more member, with its first share; `meanwhile`: what comes while it is taken."""
    shares: list[set[MessageQueue]] = []

    async def take(wanted: Subscription, share: set[MessageQueue]) -> bool:
        shares.append(share)
        if len(shares) == 1 and meanwhile is not None:
            await meanwhile()
        return True

    session = Session(namesrv)
    membership = Membership(session, "billing", take, StartOffsets(session, "billing", from_first=True))
    membership.subscribe([subscription("orders", "*")])
    await membership.join()
    return Joined(session, membership, shares)


@asynccontextmanager
async def two_members(directory: Path) -> AsyncIterator[tuple[BrokerThread, Joined, Joined]]:
    """A broker, and two members that have half of the queues each."""
    with BrokerThread(small_store(directory)) as broker:
        async with AsyncAdmin(broker.namesrv) as admin:
            await admin.create_topic("orders", queues=4)
        first, second = await joined(broker.namesrv), await joined(broker.namesrv)
        await until_true(lambda: len(first.shares[-1]) == len(second.shares[-1]) == 2)
        yield broker, first, second


async def test_a_broker_that_starts_anew_moves_no_queue(tmp_path: Path) -> None:
    """Who is back first would take the queues of those who are about to be, and read what they are at work on."""
    async with two_members(tmp_path) as (broker, first, second):
        for each in (first, second):
            each.shares.clear()
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(broker.start)
        await until_true(lambda: first.shares and second.shares)
        async with AsyncAdmin(broker.namesrv) as admin:
            await until_true(lambda: members(admin, 2))
        assert {len(share) for each in (first, second) for share in each.shares} == {2}
        # and who is really gone leaves its queues to the others
        await first.leave()
        await until_true(lambda: len(second.shares[-1]) == 4)
        await second.leave()


async def test_who_does_not_come_back_leaves_its_queues(tmp_path: Path) -> None:
    async with two_members(tmp_path) as (broker, first, second):
        await asyncio.to_thread(broker.stop)
        await first.leave()
        await asyncio.to_thread(broker.start)
        await until_true(lambda: len(second.shares[-1]) == 4)
        await second.leave()


async def members(admin: AsyncAdmin, count: int) -> bool:
    """Whether the broker knows so many members of the group."""
    return len((await admin.connections("billing")).connections) == count


async def test_who_comes_while_a_first_share_is_computed_gets_his(service: BrokerService, admin: AsyncAdmin) -> None:
    """The broker tells it once; who does not hear it reads the other's queues, too, for twenty seconds."""
    await admin.create_topic("orders", queues=4)
    other = AsyncConsumer("billing", service.namesrv_address)
    other.subscribe("orders", "*", ignore)
    first = await joined(service.namesrv_address, other.start)
    try:
        assert len(first.shares[0]) == 4
        await until_true(lambda: len(first.shares[-1]) == 2, timeout_s=10)
        await until_true(lambda: not first.shares[-1] & set(other.queues), timeout_s=10)
    finally:
        await other.close()
        await first.leave()
