"""The VIP channel, two below the broker's port, answers as the port itself: the same server on a second socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.rocketmq.acl import AccessConfig, User
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.errors import ConnectFailed, ConnectionLost
from broker.server.broker import BrokerService, Protection
from broker.server.connection import Limits
from broker.server.listener import VIP_BELOW, bound, bound_pair
from tests.server.peer import Peer, records


def port_of(service: BrokerService) -> int:
    return int(service.address.rpartition(":")[2])


@asynccontextmanager
async def serving(config: EngineConfig, **options: Any) -> AsyncIterator[BrokerService]:
    service = BrokerService(config, **{"broker_port": 0, "namesrv_port": 0} | options)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@asynccontextmanager
async def by_vip(service: BrokerService, serialization: int = 0) -> AsyncIterator[Peer]:
    client = RemotingClient(serialization=serialization)
    yield Peer(client, f"127.0.0.1:{port_of(service) - VIP_BELOW}")
    await client.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 5)


@pytest.mark.parametrize("serialization", [0, 1])
async def test_it_answers_as_the_port_itself(service: BrokerService, peer: Peer, serialization: int) -> None:
    async with by_vip(service, serialization) as vip:
        sent = [await each.send("T", b"%d" % number) for number, each in enumerate((peer, vip))]
        assert [answer.ext["queueOffset"] for answer in sent] == ["0", "1"]
        assert sent[1].ext["msgId"][8:16] == f"{port_of(service):08X}"
        await vip.heartbeat("c1", "G")
        pulls = [records((await each.pull("T")).body) for each in (peer, vip)]
        assert [[message.body for message in pulled] for pulled in pulls] == [[b"0", b"1"]] * 2
        listed = await peer.ask(Request.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"})
        assert listed.body == b'{"consumerIdList":["c1"]}'


async def test_it_has_the_same_gate(config: EngineConfig) -> None:
    access = AccessConfig(User("root", "secret-1", is_super=True))
    async with serving(config, protection=Protection(access=access)) as service, by_vip(service) as vip:
        assert (await vip.send("T")).code == Answer.NO_PERMISSION


async def test_its_connections_count_with_the_others(config: EngineConfig) -> None:
    async with serving(config, limits=Limits(max_connections=1)) as service, by_vip(service) as vip:
        assert (await vip.send("T")).code == Answer.SUCCESS
        refused = connect(port_of(service))
        assert await asyncio.to_thread(refused.recv, 1) == b""
        refused.close()
        assert len(service.servers[0].connections) == 1


async def test_it_is_closed_with_the_broker(config: EngineConfig) -> None:
    async with serving(config) as service:
        port = port_of(service) - VIP_BELOW
        assert service.vip_port == port
        async with by_vip(service) as vip:
            assert (await vip.send("T")).code == Answer.SUCCESS
            await service.stop()
            with pytest.raises((ConnectFailed, ConnectionLost)):
                await vip.send("T")
    with pytest.raises(ConnectionError):
        connect(port)


async def test_where_its_port_is_taken_the_broker_serves_without_it(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(config) as service:
        port, vip_port = port_of(service), service.vip_port
    assert vip_port is not None
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", vip_port))
        other.listen()
        async with serving(replace(config, port=port), broker_port=port) as service:
            assert service.vip_port is None
            client = RemotingClient()
            assert (await Peer(client, service.address).send("T")).code == Answer.SUCCESS
            await client.close()
    assert f"the VIP channel, port {vip_port}, is not served" in caplog.text


async def test_the_name_service_goes_before_it(config: EngineConfig) -> None:
    async with serving(config) as service:
        port = port_of(service)
    async with serving(config, broker_port=port, namesrv_port=port - VIP_BELOW) as service:
        assert service.vip_port is None
        assert service.namesrv_address.endswith(f":{port - VIP_BELOW}")


def test_nobody_takes_the_port_of_a_free_pair_before_it_listens() -> None:
    broker, vip = bound_pair("127.0.0.1", 0, 0)
    assert vip is not None
    for each in (broker, vip):
        port = each.getsockname()[1]
        with each, pytest.raises(OSError, match="in use"):
            bound("127.0.0.1", port)
        bound("127.0.0.1", port).close()


async def test_it_can_be_left_out(config: EngineConfig) -> None:
    async with serving(config, vip_channel=False) as service:
        assert service.vip_port is None
        assert (await asyncio.to_thread(answers, port_of(service) - VIP_BELOW)) is False


def answers(port: int) -> bool:
    try:
        connect(port).close()
    except OSError:
        return False
    return True
