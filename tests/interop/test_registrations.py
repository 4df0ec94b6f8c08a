"""The same brokers come and go at Apache RocketMQ's name server and at ours: both must say the same of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.tables.json_file import parse
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command
from tests.interop.names import ApacheNamesrv, OurNamesrv
from tests.waiting import until_true

TOPICS = ("T", "U", "V", "N")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of Apache's name server and of ours."""
    base = tmp_path_factory.mktemp("both")
    parts = (ApacheNamesrv(base / "apache"), OurNamesrv(base / "ours"))
    try:
        for part in parts:
            part.start()
        yield parts[0].namesrv, parts[1].namesrv
    finally:
        for part in parts:
            part.kill()


@dataclass
class Broker:
    """Somebody who says to be a broker, over a connection of its own."""

    name: str
    number: int
    port: int
    client: RemotingClient
    namesrv: str

    @property
    def header(self) -> dict[str, str]:
        return {
            "brokerName": self.name, "brokerId": str(self.number), "brokerAddr": f"10.0.0.1:{self.port}",
            "clusterName": "C", "haServerAddr": f"10.0.0.1:{self.port + 1}", "compressed": "false",
        }  # fmt: skip

    async def ask(self, code: int, body: bytes = b"", **more: str) -> Command:
        return await self.client.invoke(self.namesrv, code, self.header | more, body)

    async def register(
        self, *topics: str, counter: int = 1, state: int = 0, perm: int = 6, **more: str
    ) -> tuple[int, dict[str, str]]:
        table = {
            topic: {
                "topicName": topic, "readQueueNums": 2, "writeQueueNums": 2, "perm": perm, "topicSysFlag": 0,
                "topicFilterType": "SINGLE_TAG", "order": False, "attributes": {},
            }
            for topic in topics
        }  # fmt: skip
        version = {"counter": counter, "timestamp": 1, "stateVersion": state}
        wrapper = {"dataVersion": version, "topicConfigTable": table}
        body = json.dumps({"topicConfigSerializeWrapper": wrapper, "filterServerList": []}).encode()
        answer = await self.ask(Request.REGISTER_BROKER, body, **more)
        return answer.code, dict(answer.ext or {})


class Place:
    """One name server, as a course of events sees it."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self.said: list[Any] = []
        self._asking = RemotingClient()
        self._clients = [self._asking]

    def broker(self, name: str = "a", number: int = 0, port: int = 10_911) -> Broker:
        client = RemotingClient()
        self._clients.append(client)
        return Broker(name, number, port, client, self.namesrv)

    async def look(self) -> dict[str, Any]:
        """All that the name server tells of brokers and topics."""
        cluster = parse((await self._asking.invoke(self.namesrv, Request.GET_BROKER_CLUSTER_INFO)).body)
        seen: dict[str, Any] = {
            "brokers": {name: each["brokerAddrs"] for name, each in cluster["brokerAddrTable"].items()},
            "clusters": {name: sorted(each) for name, each in cluster["clusterAddrTable"].items()},
        }
        for topic in TOPICS:
            answer = await self._asking.invoke(self.namesrv, Request.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            route = parse(answer.body) if answer.body else {"brokerDatas": [], "queueDatas": []}
            seen[topic] = (
                answer.code,
                {each["brokerName"]: each["brokerAddrs"] for each in route["brokerDatas"]},
                {each["brokerName"]: (each["perm"], each["readQueueNums"]) for each in route["queueDatas"]},
            )
        return seen

    async def settle(self, **brokers: set[str]) -> None:
        """Wait until these broker names have these ids: what leaves is taken out by a thread at Apache RocketMQ."""

        async def is_settled() -> bool:
            return {name: set(ids) for name, ids in (await self.look())["brokers"].items()} == brokers

        await until_true(is_settled)

    async def admin(self, code: int, **ext: str) -> dict[str, str]:
        return dict((await self._asking.invoke(self.namesrv, code, ext)).ext or {})

    async def end(self) -> None:
        for client in self._clients:
            await client.close()
        self._clients = [RemotingClient()]
        self._asking = self._clients[0]
        await self.settle()
        await self._asking.close()


async def a_slave_beside_its_master(place: Place) -> None:
    master, slave = place.broker(), place.broker("a", 1, 20_000)
    place.said += [await slave.register("T", "U"), await place.look()]
    place.said += [await master.register("U", "V"), await place.look()]
    place.said += [await slave.register("N", "T", counter=2), await place.look()]
    await slave.ask(Request.UNREGISTER_BROKER)
    await place.settle(a={"0"})
    place.said.append(await place.look())


async def a_first_slave_without_a_master(place: Place) -> None:
    first, second = place.broker("a", 1, 20_000), place.broker("a", 2, 30_000)
    place.said += [await second.register("T", "U", enableActingMaster="false"), await place.look()]
    place.said += [await first.register("U", "V", enableActingMaster="false"), await place.look()]
    place.said += [await second.register("N", "T", counter=2, enableActingMaster="false"), await place.look()]


async def a_slave_that_stands_in(place: Place) -> None:
    master, slave = place.broker(), place.broker("a", 1, 20_000)
    await master.register("T", "U", enableActingMaster="true")
    await slave.register("T", "U", enableActingMaster="true")
    place.said.append(await place.look())
    await master.ask(Request.UNREGISTER_BROKER)
    await place.settle(a={"1"})
    place.said.append(await place.look())
    place.said += [await slave.register("T", "N", counter=2, enableActingMaster="true"), await place.look()]
    place.said += [await master.register("T", "U", enableActingMaster="true"), await place.look()]


async def a_slave_that_becomes_master(place: Place) -> None:
    master, slave, promoted = place.broker(), place.broker("a", 1, 20_000), place.broker("a", 0, 20_000)
    await master.register("T", "U")
    await slave.register("T", "U")
    await master.ask(Request.UNREGISTER_BROKER)
    await place.settle(a={"1"})
    place.said += [await promoted.register("T", "V", counter=2), await place.look()]


async def two_masters_with_one_id(place: Place) -> None:
    old, new = place.broker(), place.broker("a", 0, 20_000)
    place.said += [await old.register("T", "U", state=1), await place.look()]
    place.said += [await new.register("U", "V", state=1, counter=2), await place.look()]


async def single_topics(place: Place) -> None:
    broker = place.broker()
    # refused by both; Apache RocketMQ keeps the name of a broker without any address from it
    place.said.append(await broker.register("T"))
    place.said += [await broker.register("T", "U"), await place.look()]
    place.said += [await broker.register("N", counter=2), await place.look()]
    queues = {"brokerName": "a", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6, "topicSysFlag": 0}
    route = {"queueDatas": [queues], "brokerDatas": [], "filterServerTable": {}}
    answer = await broker.ask(Request.REGISTER_TOPIC_IN_NAMESRV, json.dumps(route).encode(), topic="V")
    place.said += [answer.code, await place.look()]
    await place.admin(Request.DELETE_TOPIC_IN_NAMESRV, topic="V")
    await place.admin(Request.DELETE_TOPIC_IN_NAMESRV, topic="T", clusterName="C")
    await place.admin(Request.DELETE_TOPIC_IN_NAMESRV, topic="U", clusterName="another")
    place.said.append(await place.look())
    place.said += [await broker.register("T", "U", counter=2), await place.look()]


async def versions(place: Place) -> None:
    broker = place.broker()
    version = {"counter": 1, "timestamp": 1, "stateVersion": 0}
    for change in ({}, {"counter": 2}, {"timestamp": 2}, {"stateVersion": 1}):
        answer = await broker.ask(Request.QUERY_DATA_VERSION, json.dumps(version | change).encode())
        place.said.append((answer.code, dict(answer.ext or {}), bool(answer.body)))
        await broker.register("T", "U")
    place.said.append((await broker.ask(Request.BROKER_HEARTBEAT)).code)
    members = await broker.ask(Request.GET_BROKER_MEMBER_GROUP)
    place.said.append(parse(members.body)["brokerMemberGroup"])
    bad = await broker.register("T", "U", counter=2, bodyCrc32="1")
    place.said += [bad, await place.look()]


async def permissions(place: Place) -> None:
    broker, other = place.broker(), place.broker("b", 0, 30_000)
    await broker.register("T", "U")
    await other.register("T", "V")
    place.said += [await place.admin(Request.WIPE_WRITE_PERM_OF_BROKER, brokerName="a"), await place.look()]
    await broker.register("T", "U")
    place.said += [await place.look(), await place.admin(Request.ADD_WRITE_PERM_OF_BROKER, brokerName="a")]
    place.said.append(await place.look())


async def a_connection_that_ends(place: Place) -> None:
    broker, other = place.broker(), place.broker("b", 0, 30_000)
    await broker.register("T", "U")
    await other.register("T", "V")
    await broker.client.close()
    await place.settle(b={"0"})
    place.said.append(await place.look())


@pytest.mark.parametrize(
    "course",
    [
        a_slave_beside_its_master, a_first_slave_without_a_master, a_slave_that_stands_in, a_slave_that_becomes_master,
        two_masters_with_one_id, single_topics, versions, permissions, a_connection_that_ends,
    ],
    ids=lambda course: course.__name__,
)  # fmt: skip
def test_both_name_servers_say_the_same(both: tuple[str, str], course: Any) -> None:
    async def told_by(namesrv: str) -> list[Any]:
        place = Place(namesrv)
        try:
            await course(place)
        finally:
            await place.end()
        return place.said

    theirs, ours = (asyncio.run(told_by(namesrv)) for namesrv in both)
    assert ours == theirs
