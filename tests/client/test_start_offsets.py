"""``from_where="last"``: a group begins at the end of a topic as it is at its first start, and misses nothing after."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

import pytest

from broker.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncLitePullConsumer,
    AsyncProducer,
    AsyncSimpleConsumer,
    MessageQueue,
)
from broker.client._offsets import QueueOffsets, StartOffsets
from broker.client._session import Session
from broker.client.errors import BrokerUnreachable, RouteNotFound
from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Request
from broker.rocketmq.fields import json_body
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from broker.server.connection import Limits, Server
from tests.waiting import until_true

QUEUES = 4
GROUP = "g"
Where = Literal["first", "last"]


class Reader:
    """A consumer of the group, of whichever class; `read` waits for a number of bodies."""

    def __init__(self, consumer: Any, read: Callable[[int], Awaitable[list[bytes]]]) -> None:
        self.consumer = consumer
        self.read = read


async def pushed(namesrv: str, where: Where, *, orderly: bool = False) -> Reader:
    consumer = AsyncConsumer(GROUP, namesrv, from_where=where, orderly=orderly)
    bodies: list[bytes] = []
    arrived = asyncio.Condition()

    async def take(message: Any) -> None:
        bodies.append(message.body)
        async with arrived:
            arrived.notify_all()

    async def read(count: int) -> list[bytes]:
        async with asyncio.timeout(20), arrived:
            await arrived.wait_for(lambda: len(bodies) >= count)
        return bodies

    consumer.subscribe("t", "*", take)
    await consumer.start()
    return Reader(consumer, read)


async def in_order(namesrv: str, where: Where) -> Reader:
    return await pushed(namesrv, where, orderly=True)


def polling(consumer: AsyncLitePullConsumer) -> Reader:
    bodies: list[bytes] = []

    async def read(count: int) -> list[bytes]:
        async with asyncio.timeout(20):
            while len(bodies) < count:
                bodies.extend(message.body for message in await consumer.poll(1_000))
        return bodies

    return Reader(consumer, read)


async def polled(namesrv: str, where: Where) -> Reader:
    consumer = AsyncLitePullConsumer(GROUP, namesrv, from_where=where)
    await consumer.subscribe("t")
    return polling(consumer)


async def assigned(namesrv: str, where: Where) -> Reader:
    consumer = AsyncLitePullConsumer(GROUP, namesrv, from_where=where)
    await consumer.assign(await consumer.queues("t"))
    return polling(consumer)


async def received(namesrv: str, where: Where) -> Reader:
    consumer = AsyncSimpleConsumer(GROUP, namesrv, from_where=where)
    bodies = [each.body for each in await consumer.receive("t", wait_ms=0)]

    async def read(count: int) -> list[bytes]:
        async with asyncio.timeout(20):
            while len(bodies) < count:
                bodies.extend(each.body for each in await consumer.receive("t", wait_ms=1_000))
        return bodies

    return Reader(consumer, read)


WAYS = [pushed, in_order, polled, assigned, received]


async def close(reader: Reader) -> None:
    consumer = reader.consumer
    await (consumer.stop() if isinstance(consumer, AsyncConsumer) else consumer.close())


async def crash(reader: Reader) -> None:
    """The program ends without committing anything."""
    consumer = reader.consumer
    await consumer._session.close()
    await close(reader)


async def fill(producer: AsyncProducer, word: str, queues: int = QUEUES) -> list[bytes]:
    """A message in each queue."""
    bodies = [f"{word}{number}".encode() for number in range(queues)]
    for number, body in enumerate(bodies):
        await producer.send("t", body, queue_id=number)
    return bodies


@pytest.fixture
async def old(service: BrokerService, admin: AsyncAdmin, producer: AsyncProducer) -> list[bytes]:
    """What is in the topic, all of it since its beginning, before the group starts."""
    await admin.create_topic("t", queues=QUEUES)
    return await fill(producer, "old")


@pytest.mark.parametrize("way", WAYS)
async def test_last_is_the_end_though_the_first_message_is_there(
    way: Any, service: BrokerService, producer: AsyncProducer, old: list[bytes]
) -> None:
    reader = await way(service.namesrv_address, "last")
    new = await fill(producer, "new")
    assert sorted(await reader.read(QUEUES)) == new
    await close(reader)


@pytest.mark.parametrize("way", WAYS)
async def test_first_is_the_first_message(
    way: Any, service: BrokerService, producer: AsyncProducer, old: list[bytes]
) -> None:
    reader = await way(service.namesrv_address, "first")
    assert sorted(await reader.read(QUEUES)) == old
    await close(reader)


@pytest.mark.parametrize("way", [pushed, polled, assigned, received])
async def test_what_comes_between_two_starts_is_not_missed(
    way: Any, service: BrokerService, producer: AsyncProducer, old: list[bytes]
) -> None:
    await crash(await way(service.namesrv_address, "last"))
    new = await fill(producer, "new")
    reader = await way(service.namesrv_address, "last")
    assert sorted(await reader.read(QUEUES)) == new
    await close(reader)


@pytest.mark.parametrize("way", WAYS)
async def test_a_queue_that_the_topic_gets_later_is_read_from_its_first_message(
    way: Any, service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin, old: list[bytes]
) -> None:
    await close(await way(service.namesrv_address, "last"))
    await admin.create_topic("t", queues=QUEUES + 2)
    async with AsyncProducer("other", service.namesrv_address) as other:
        new = await fill(other, "new", QUEUES + 2)
    reader = await way(service.namesrv_address, "last")
    assert sorted(await reader.read(QUEUES + 2)) == new
    await close(reader)


@pytest.mark.parametrize("way", [pushed, in_order, polled])
async def test_so_it_is_while_a_member_is_there(
    way: Any, service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin, old: list[bytes]
) -> None:
    reader = await way(service.namesrv_address, "last")
    await admin.create_topic("t", queues=QUEUES + 2)
    async with AsyncProducer("other", service.namesrv_address) as other:
        new = await fill(other, "new", QUEUES + 2)
    reader.consumer._session.forget_route("t")
    reader.consumer._membership.nudge()
    assert sorted(await reader.read(QUEUES + 2)) == new
    await close(reader)


@pytest.mark.parametrize("way", [pushed, in_order, polled])
async def test_a_topic_that_is_not_there_yet_loses_nothing(
    way: Any, service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    reader = await way(service.namesrv_address, "last")
    await admin.create_topic("t", queues=QUEUES)
    new = await fill(producer, "new")
    assert sorted(await reader.read(QUEUES)) == new
    await close(reader)


async def test_a_receive_before_the_topic_is_there_counts_as_the_start(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    async with AsyncSimpleConsumer(GROUP, service.namesrv_address, from_where="last") as consumer:
        with pytest.raises(RouteNotFound):
            await consumer.receive("t", wait_ms=0)
        await admin.create_topic("t", queues=1)
        await producer.send("t", b"new")
        assert [each.body for each in await consumer.receive("t")] == [b"new"]


async def test_members_that_start_at_once_agree(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin, old: list[bytes]
) -> None:
    readers = await asyncio.gather(*(pushed(service.namesrv_address, "last") for _ in range(3)))
    new = await fill(producer, "new")

    def seen() -> list[bytes]:
        return sorted(body for bodies in outcomes for body in bodies)

    outcomes: list[list[bytes]] = [await reader.read(0) for reader in readers]
    await until_true(lambda: len(set(seen())) >= QUEUES)
    assert sorted(set(seen())) == new
    for reader in readers:
        await close(reader)
    assert (await admin.consume_stats(GROUP)).lag == 0


async def test_what_has_an_offset_is_left_alone(service: BrokerService, old: list[bytes]) -> None:
    """A group of another client has been in one queue only, and that is not the first one."""
    service.engine.groups.ensure(GROUP)
    service.engine.offsets.commit(GROUP, "t", 2, 0)
    reader = await polled(service.namesrv_address, "last")
    assert sorted(await reader.read(QUEUES)) == old
    await close(reader)


class Another:
    """A second broker, whose queue of `t` comes before those of the first; it may be away for a while."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = replace(config, broker_name="a-broker", root=f"{config.root}-2", port=0)
        self.service = BrokerService(self._config, broker_port=0, namesrv_port=0)

    async def start(self) -> None:
        """Serve, where it served before."""
        await self.service.start()
        self.address = self.service.address
        self.service.engine.topics.ensure("t", 1)
        self.service.engine.groups.ensure(GROUP)

    async def leave(self) -> None:
        """Be away; `start` comes back to the same port."""
        await self.service.stop()
        port = int(self.address.rpartition(":")[2])
        self.service = BrokerService(replace(self._config, port=port), namesrv_port=0)

    async def send(self) -> None:
        async with AsyncProducer("tests", self.service.namesrv_address) as producer:
            await producer.send("t", b"")


@pytest.fixture
async def another(config: EngineConfig) -> AsyncIterator[Another]:
    broker = Another(config)
    await broker.start()
    yield broker
    await broker.service.stop()


@asynccontextmanager
async def knowing_both(service: BrokerService, another: Another) -> AsyncIterator[Session]:
    """A client of a name service that knows both brokers, whether they are there or not."""
    places = {"a-broker": (another.address, 1), "broker-a": (service.address, QUEUES)}

    def route(_: object, request: Command) -> Command:
        brokers = [
            {"cluster": "c", "brokerName": name, "brokerAddrs": {"0": address}} for name, (address, _) in places.items()
        ]
        queues = [
            {"brokerName": name, "perm": 6, "readQueueNums": count, "writeQueueNums": count, "topicSysFlag": 0}
            for name, (_, count) in places.items()
        ]
        return request.answer(body=json_body({"brokerDatas": brokers, "queueDatas": queues}))

    names = Server("names", {Request.GET_ROUTEINFO_BY_TOPIC: route}, lambda: 0, Limits())
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    await names.start(listening)
    session = Session(f"127.0.0.1:{listening.getsockname()[1]}")
    try:
        yield session
    finally:
        await session.close()
        names.stop_accepting()
        names.abort_connections()


async def test_a_broker_that_is_away_holds_up_no_queue_with_an_offset(
    service: BrokerService, old: list[bytes], another: Another
) -> None:
    service.engine.groups.ensure(GROUP)
    service.engine.offsets.commit(GROUP, "t", 2, 1)
    await another.leave()
    async with knowing_both(service, another) as session:
        await StartOffsets(session, GROUP, from_first=False).settle("t")
    assert service.engine.offsets.all()[GROUP, "t"] == {2: 1}
    await another.start()
    assert (GROUP, "t") not in another.service.engine.offsets.all()


async def test_a_first_start_counts_though_a_broker_is_away(
    service: BrokerService, producer: AsyncProducer, old: list[bytes], another: Another
) -> None:
    service.engine.groups.ensure(GROUP)
    await another.send()
    await another.leave()
    async with knowing_both(service, another) as session:
        start_offsets = StartOffsets(session, GROUP, from_first=False)
        with pytest.raises(BrokerUnreachable):
            await start_offsets.settle("t")
        await fill(producer, "new")
        await another.start()
        await another.send()
        await start_offsets.settle("t")
    assert another.service.engine.offsets.all()[GROUP, "t"] == {0: 2}
    assert service.engine.offsets.all()[GROUP, "t"] == dict.fromkeys(range(QUEUES), 1)


async def test_what_comes_again_is_never_skipped(service: BrokerService) -> None:
    retries = f"%RETRY%{GROUP}"
    service.engine.groups.ensure(GROUP)
    service.engine.topics.ensure(retries, 1)
    session = Session(service.namesrv_address)
    await StartOffsets(session, GROUP, from_first=False).settle(retries)
    assert await QueueOffsets(session, GROUP, MessageQueue(retries, "broker-a", 0)).committed() is None
    await session.close()
