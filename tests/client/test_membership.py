"""Who shares the queues of a group with whom, when members come and brokers go while shares are computed."""

from __future__ import annotations

from broker.client import AsyncAdmin, AsyncConsumer, Message, MessageQueue
from broker.client._membership import Membership
from broker.client._offsets import StartOffsets
from broker.client._session import Session
from broker.client._types import Subscription, subscription
from broker.server.broker import BrokerService
from tests.waiting import until_true


async def ignore(message: Message) -> None:
    """Handle nothing."""


async def test_who_comes_while_a_first_share_is_computed_gets_his(service: BrokerService, admin: AsyncAdmin) -> None:
    """The broker tells it once; who does not hear it reads the other's queues, too, for twenty seconds."""
    await admin.create_topic("orders", queues=4)
    other = AsyncConsumer("billing", service.namesrv_address)
    other.subscribe("orders", "*", ignore)
    shares: list[set[MessageQueue]] = []

    async def take(wanted: Subscription, share: set[MessageQueue]) -> bool:
        shares.append(share)
        if len(shares) == 1:
            await other.start()
        return True

    session = Session(service.namesrv_address)
    membership = Membership(session, "billing", take, StartOffsets(session, "billing", from_first=True))
    membership.subscribe([subscription("orders", "*")])
    await membership.join()
    try:
        assert len(shares[0]) == 4
        await until_true(lambda: len(shares[-1]) == 2, timeout_s=10)
        await until_true(lambda: not shares[-1] & set(other.queues), timeout_s=10)
    finally:
        await other.close()
        await membership.leave()
        await session.close()
