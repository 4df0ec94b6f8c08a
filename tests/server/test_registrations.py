"""A name service by itself, brokers that register at it, and both over sockets."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.client.credentials import Signer
from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.rocketmq.acl import AccessConfig, User
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService, Protection
from broker.server.connection import Limits
from broker.server.namesrv import NamesrvConfig, NamesrvService
from broker.server.registrar import NameServers
from tests.server.peer import Peer
from tests.waiting import until_true

ROOT = User("root", "secret-1", is_super=True)


def header(name: str = "other", number: int = 0, port: int = 10_911, **more: str) -> dict[str, str]:
    return {
        "brokerName": name, "brokerId": str(number), "brokerAddr": f"10.0.0.1:{port}", "clusterName": "DefaultCluster",
        "haServerAddr": f"10.0.0.1:{port + 1}", "compressed": "false", **more,
    }  # fmt: skip


def body(*topics: str, counter: int = 1) -> bytes:
    table = {name: {"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for name in topics}
    version = {"counter": counter, "timestamp": 1, "stateVersion": 0}
    return json.dumps({"topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table}}).encode()


async def brokers_of(peer: Peer, topic: str) -> dict[str, dict[str, str]]:
    """By broker name, the addresses in the route of a topic; empty if there is none."""
    answer = await peer.ask(Request.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if answer.code == Answer.TOPIC_NOT_EXIST:
        return {}
    return {each["brokerName"]: each["brokerAddrs"] for each in json.loads(answer.body)["brokerDatas"]}


@pytest.fixture
async def names(tmp_path: Path) -> AsyncIterator[NamesrvService]:
    """A name service by itself."""
    running = NamesrvService(NamesrvConfig(str(tmp_path / "names"), port=0))
    await running.start()
    yield running
    await running.stop()


@pytest.fixture(params=["by itself", "beside a broker"])
async def peer(request: pytest.FixtureRequest, names: NamesrvService, service: BrokerService) -> AsyncIterator[Peer]:
    """A client of each of the two."""
    client = RemotingClient()
    yield Peer(client, names.address if request.param == "by itself" else service.namesrv_address)
    await client.close()


@pytest.fixture
async def asking(names: NamesrvService) -> AsyncIterator[Peer]:
    """A client of the name service by itself."""
    client = RemotingClient()
    yield Peer(client, names.address)
    await client.close()


async def test_a_broker_registers_lives_and_leaves(peer: Peer) -> None:
    assert (await peer.ask(Request.REGISTER_BROKER, header(), body("T", "U"))).code == Answer.SUCCESS
    assert await brokers_of(peer, "T") == {"other": {"0": "10.0.0.1:10911"}}
    cluster = json.loads((await peer.ask(Request.GET_BROKER_CLUSTER_INFO)).body)
    assert "other" in cluster["clusterAddrTable"]["DefaultCluster"]
    listed = json.loads((await peer.ask(Request.GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"})).body)
    assert {"T", "U"} <= set(listed["topicList"])
    assert (await peer.ask(Request.BROKER_HEARTBEAT, header())).code == Answer.SUCCESS
    assert (await peer.ask(Request.UNREGISTER_BROKER, header())).code == Answer.SUCCESS
    assert await brokers_of(peer, "T") == {}


async def test_a_slave_is_told_its_master_and_the_order_configuration(peer: Peer) -> None:
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "other:2"}
    await peer.ask(Request.PUT_KV_CONFIG, order)
    master = await peer.ask(Request.REGISTER_BROKER, header(), body("T", "U"))
    assert (master.ext or {}, json.loads(master.body)) == ({}, {"table": {"T": "other:2"}})
    slave = await peer.ask(Request.REGISTER_BROKER, header(number=1, port=20_000), body("T", "U"))
    assert slave.ext == {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
    members = json.loads((await peer.ask(Request.GET_BROKER_MEMBER_GROUP, header())).body)["brokerMemberGroup"]
    assert members == {
        "brokerName": "other", "cluster": "DefaultCluster",
        "brokerAddrs": {"0": "10.0.0.1:10911", "1": "10.0.0.1:20000"},
    }  # fmt: skip


async def test_the_version_of_the_topics_is_told(peer: Peer) -> None:
    version = {"counter": 1, "timestamp": 1, "stateVersion": 0}

    async def asked(**change: int) -> Command:
        return await peer.ask(Request.QUERY_DATA_VERSION, header(), json.dumps(version | change).encode())

    assert ((await asked()).ext, (await asked()).body) == ({"changed": "true"}, b"")
    await peer.ask(Request.REGISTER_BROKER, header(), body("T", "U"))
    assert ((await asked()).ext, json.loads((await asked()).body)) == ({"changed": "false"}, version)
    for change in ({"counter": 2}, {"timestamp": 2}, {"stateVersion": 1}):
        assert (await asked(**change)).ext == {"changed": "true"}


async def test_one_topic_is_registered_by_itself(peer: Peer) -> None:
    def route(name: str) -> bytes:
        queues = {"brokerName": name, "readQueueNums": 3, "writeQueueNums": 3, "perm": 6, "topicSysFlag": 0}
        return json.dumps({"queueDatas": [queues], "brokerDatas": []}).encode()

    await peer.ask(Request.REGISTER_BROKER, header(), body("T", "U"))
    assert (await peer.ask(Request.REGISTER_TOPIC_IN_NAMESRV, {"topic": "N"}, route("other"))).code == Answer.SUCCESS
    assert set(await brokers_of(peer, "N")) == {"other"}
    answer = await peer.ask(Request.REGISTER_TOPIC_IN_NAMESRV, {"topic": "M"}, route("nobody"))
    assert answer.code == Answer.INVALID_PARAMETER
    await peer.ask(Request.DELETE_TOPIC_IN_NAMESRV, {"topic": "N"})
    assert await brokers_of(peer, "N") == {}


async def test_what_cannot_be_read_changes_nothing(peer: Peer) -> None:
    bad_crc = await peer.ask(Request.REGISTER_BROKER, header(bodyCrc32="1"), body("T", "U"))
    assert (bad_crc.code, bad_crc.remark) == (Answer.SYSTEM_ERROR, "crc32 not match")
    bad_name = await peer.ask(Request.REGISTER_BROKER, header("a b"), body("T", "U"))
    bad_topic = await peer.ask(Request.REGISTER_BROKER, header(), body("T", "U", "a b"))
    assert bad_name.code == bad_topic.code == Answer.INVALID_PARAMETER
    assert "Nothing was changed." in str(bad_topic.remark)
    assert await brokers_of(peer, "T") == {}


async def test_a_broker_whose_connection_ends_is_gone_at_once(peer: Peer) -> None:
    client = RemotingClient()
    broker = Peer(client, peer.address)
    await broker.ask(Request.REGISTER_BROKER, header(), body("T", "U"))
    assert set(await brokers_of(peer, "T")) == {"other"}
    await client.close()
    await until_true(lambda: _is_gone(peer, "T"))


async def _is_gone(peer: Peer, topic: str) -> bool:
    return not await brokers_of(peer, topic)


async def test_a_silent_broker_is_gone_and_its_connection_is_closed(tmp_path: Path) -> None:
    now_ms = [1_000_000]
    limits = Limits(sweep_interval_ms=10, idle_timeout_ms=1 << 40)
    names = NamesrvService(NamesrvConfig(str(tmp_path), port=0), limits=limits, clock=lambda: now_ms[0])
    await names.start()
    silent, other = RemotingClient(), RemotingClient()
    lost: list[str] = []
    silent.on_lost(lost.append)
    peer = Peer(other, names.address)
    await Peer(silent, names.address).ask(Request.REGISTER_BROKER, header(), body("T", "U"))
    assert not await _is_gone(peer, "T")
    now_ms[0] += 120_001
    await until_true(lambda: _is_gone(peer, "T"))
    await until_true(lambda: lost == [names.address])
    await silent.close()
    await other.close()
    await names.stop()


async def test_nobody_takes_the_place_of_the_broker_beside(service: BrokerService) -> None:
    client = RemotingClient()
    peer = Peer(client, service.namesrv_address)
    answer = await peer.ask(Request.REGISTER_BROKER, header("broker-a"), body("T", "U"))
    assert answer.code == Answer.INVALID_PARAMETER
    assert "give the other one another name or id" in str(answer.remark)
    assert await brokers_of(peer, "broker-a") == {"broker-a": {"0": service.address}}
    await client.close()


async def test_values_are_kept_over_a_start(tmp_path: Path) -> None:
    value = {"namespace": "NS", "key": "k"}
    for is_first in (True, False):
        names = NamesrvService(NamesrvConfig(str(tmp_path), port=0))
        await names.start()
        client = RemotingClient()
        peer = Peer(client, names.address)
        if is_first:
            await peer.ask(Request.PUT_KV_CONFIG, value | {"value": "v"})
        assert (await peer.ask(Request.GET_KV_CONFIG, value)).ext == {"value": "v"}
        await client.close()
        await names.stop()
    assert os.listdir(tmp_path) == ["kvConfig.json"]


async def test_a_name_service_by_itself_says_what_it_is(names: NamesrvService, asking: Peer) -> None:
    said = (await asking.ask(Request.GET_NAMESRV_CONFIG)).body.decode()
    assert f"listenPort={names.address.rpartition(':')[2]}\n" in said
    assert json.loads((await asking.ask(Request.GET_SYSTEM_TOPIC_LIST_FROM_NS)).body) == {"topicList": []}
    assert (await asking.send("T")).code == Answer.REQUEST_CODE_NOT_SUPPORTED


# Brokers of ours that register.


def registering(config: EngineConfig, *addresses: str, **more: Any) -> BrokerService:
    return BrokerService(config, broker_port=0, namesrv_port=0, register_at=NameServers(addresses), **more)


async def test_our_broker_registers_and_leaves(config: EngineConfig, names: NamesrvService, asking: Peer) -> None:
    broker = registering(config, names.address)
    await broker.start()
    await until_true(lambda: broker.registered == {names.address: True})
    client = RemotingClient()
    for topic in ("TBW102", "DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC", "SCHEDULE_TOPIC_XXXX"):
        here = await Peer(client, broker.namesrv_address).ask(Request.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        there = await asking.ask(Request.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        assert json.loads(there.body) == json.loads(here.body)
    await client.close()
    await broker.stop()
    assert await _is_gone(asking, "broker-a")
    assert broker.registered == {names.address: False}


async def test_topics_that_come_and_go_are_told_at_once(
    config: EngineConfig, names: NamesrvService, asking: Peer
) -> None:
    broker = registering(config, names.address)
    await broker.start()
    await until_true(lambda: broker.registered[names.address])
    client = RemotingClient()
    peer = Peer(client, broker.address)
    for number in range(3):
        await peer.create_topic(f"T{number}")
    await until_true(lambda: brokers_of(asking, "T2"), 2)
    assert await brokers_of(asking, "T0") == {"broker-a": {"0": broker.address}}
    await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "T1"})
    await until_true(lambda: _is_gone(asking, "T1"), 2)
    assert await brokers_of(asking, "T2")
    await client.close()
    await broker.stop()


async def test_a_name_server_that_is_away_holds_up_no_other(
    config: EngineConfig, names: NamesrvService, caplog: pytest.LogCaptureFixture
) -> None:
    away = "127.0.0.1:1"
    broker = registering(config, away, names.address)
    await broker.start()
    await until_true(lambda: broker.registered == {away: False, names.address: True})
    client = RemotingClient()
    runtime = json.loads((await Peer(client, broker.address).ask(Request.GET_BROKER_RUNTIME_INFO)).body)["table"]
    assert runtime["nameServers"] == f"{away}=false;{names.address}=true"
    await client.close()
    await broker.stop()
    told = [record.getMessage() for record in caplog.records if away in record.getMessage()]
    assert len(told) == 1


async def test_a_name_server_that_comes_back_is_told_all(config: EngineConfig, tmp_path: Path) -> None:
    place = NamesrvConfig(str(tmp_path / "names"), port=0)
    names = NamesrvService(place)
    await names.start()
    address = names.address
    broker = registering(config, address)
    await broker.start()
    await until_true(lambda: broker.registered[address])
    await names.stop()
    await until_true(lambda: not broker.registered[address])
    again = NamesrvService(replace(place, port=int(address.rpartition(":")[2])))
    await again.start()
    await until_true(lambda: broker.registered[address])
    client = RemotingClient()
    assert await brokers_of(Peer(client, address), "broker-a") == {"broker-a": {"0": broker.address}}
    await client.close()
    await broker.stop()
    await again.stop()


@pytest.mark.parametrize("address", ["nowhere", "host:", "host:0", ":9876", "host:70000"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="no name server"):
        NameServers((address,))


def test_name_servers_are_written_with_semicolons() -> None:
    assert NameServers.parsed("a:1; b:2;;a:1") == ("a:1", "b:2")
    assert NameServers.parsed("") == ()


# Access control.


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[NamesrvService]:
    running = NamesrvService(NamesrvConfig(str(tmp_path / "guarded"), port=0, access=AccessConfig(ROOT)))
    await running.start()
    yield running
    await running.stop()


REGISTRATIONS = (
    Request.REGISTER_BROKER, Request.UNREGISTER_BROKER, Request.REGISTER_TOPIC_IN_NAMESRV, Request.BROKER_HEARTBEAT,
)  # fmt: skip


@pytest.mark.parametrize("code", REGISTRATIONS)
async def test_only_who_may_change_the_cluster_registers(guarded: NamesrvService, code: Request) -> None:
    admin, alice, stranger = (
        RemotingClient(sign=Signer(ROOT.name, ROOT.secret).sign), RemotingClient(sign=Signer("alice", "secret-2").sign),
        RemotingClient(),
    )  # fmt: skip
    made = {"userType": "Normal", "username": "alice", "password": "secret-2", "userStatus": "enable"}
    created = await Peer(admin, guarded.address).ask(
        Request.AUTH_CREATE_USER, {"username": "alice"}, json.dumps(made).encode()
    )
    assert created.code == Answer.SUCCESS
    for who in (stranger, alice):
        answer = await Peer(who, guarded.address).ask(code, header(topic="T"), body("T", "U"))
        assert answer.code == Answer.NO_PERMISSION
    answer = await Peer(admin, guarded.address).ask(code, header(topic="T"), body("T", "U"))
    assert answer.code == Answer.SUCCESS
    for client in (admin, alice, stranger):
        await client.close()


async def test_our_broker_signs_its_registration(config: EngineConfig, guarded: NamesrvService) -> None:
    servers = NameServers((guarded.address,), Signer(ROOT.name, ROOT.secret).sign)
    broker = BrokerService(
        config, broker_port=0, namesrv_port=0, register_at=servers, protection=Protection(AccessConfig(ROOT))
    )
    await broker.start()
    await until_true(lambda: broker.registered[guarded.address])
    await broker.stop()
