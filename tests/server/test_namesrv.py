"""The name service: routes that clients can use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from tests.server.frames import Recorded, recorded_exchanges
from tests.server.peer import Peer


@pytest.fixture
async def names(service: BrokerService) -> AsyncIterator[Peer]:
    client = RemotingClient()
    yield Peer(client, service.namesrv_address)
    await client.close()


async def test_a_route_is_what_the_real_name_server_says(names: Peer, peer: Peer) -> None:
    await peer.create_topic("WireJSONTopic", 2)
    answer = await names.ask(Request.GET_ROUTEINFO_BY_TOPIC, {"topic": "WireJSONTopic"})
    recorded = next(
        answer for request, answer in recorded_exchanges(Request.GET_ROUTEINFO_BY_TOPIC)
        if request.header["extFields"]["topic"] == "WireJSONTopic"
    )  # fmt: skip
    assert json.loads(answer.body) == json.loads(at_our_address(recorded, peer))


def at_our_address(recorded: Recorded, peer: Peer) -> bytes:
    body = recorded.frame[8 + int.from_bytes(recorded.frame[5:8], "big") :]
    return body.replace(b"127.0.0.1:30911", peer.address.encode()).replace(b'{0:"', b'{"0":"')


async def test_the_cluster_is_what_the_real_name_server_says(names: Peer, peer: Peer) -> None:
    answer = await names.ask(Request.GET_BROKER_CLUSTER_INFO)
    _, recorded = recorded_exchanges(Request.GET_BROKER_CLUSTER_INFO)[0]
    assert json.loads(answer.body) == json.loads(at_our_address(recorded, peer))


async def test_a_topic_that_is_not_there_has_no_route(names: Peer) -> None:
    answer = await names.ask(Request.GET_ROUTEINFO_BY_TOPIC, {"topic": "NoSuchTopicJSON"})
    recorded = next(
        answer for request, answer in recorded_exchanges(Request.GET_ROUTEINFO_BY_TOPIC)
        if request.header["extFields"]["topic"] == "NoSuchTopicJSON"
    )  # fmt: skip
    assert (answer.code, answer.remark) == (Answer.TOPIC_NOT_EXIST, recorded.header["remark"])


@pytest.mark.parametrize("topic", ["TBW102", "DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX"])
async def test_names_that_clients_and_tools_take_for_topics_have_a_route(names: Peer, topic: str) -> None:
    answer = await names.ask(Request.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    assert answer.code == Answer.SUCCESS
    assert json.loads(answer.body)["queueDatas"][0]["readQueueNums"] >= 1


async def test_all_topics_are_listed(names: Peer, peer: Peer) -> None:
    await peer.create_topic("X")
    listed = json.loads((await names.ask(Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body)["topicList"]
    assert {"X", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a"} <= set(listed)
    assert (await names.ask(Request.DELETE_TOPIC_IN_NAMESRV, {"topic": "X"})).code == Answer.SUCCESS


async def test_the_name_service_takes_no_messages(service: BrokerService, names: Peer) -> None:
    assert (await names.send("T")).code == Answer.REQUEST_CODE_NOT_SUPPORTED
    assert service.engine.health().log_end_position == 0


async def test_named_values_are_kept_and_forgotten(names: Peer) -> None:
    value = {"namespace": "NS", "key": "k"}
    assert (await names.ask(Request.GET_KV_CONFIG, value)).code == Answer.QUERY_NOT_FOUND
    assert (await names.ask(Request.PUT_KV_CONFIG, value | {"value": "v=1;w"})).code == Answer.SUCCESS
    assert (await names.ask(Request.GET_KV_CONFIG, value)).ext == {"value": "v=1;w"}
    answer = await names.ask(Request.GET_KVLIST_BY_NAMESPACE, value)
    assert json.loads(answer.body) == {"table": {"k": "v=1;w"}}
    for _ in range(2):
        assert (await names.ask(Request.DELETE_KV_CONFIG, value)).code == Answer.SUCCESS
    assert (await names.ask(Request.GET_KVLIST_BY_NAMESPACE, value)).code == Answer.QUERY_NOT_FOUND
    assert (await names.ask(Request.PUT_KV_CONFIG, {"namespace": "", "key": "k", "value": "v"})).code == 29


async def permission(names: Peer, topic: str) -> int:
    answer = await names.ask(Request.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return int(json.loads(answer.body)["queueDatas"][0]["perm"])


async def test_write_permission_is_wiped_and_given_back(names: Peer, peer: Peer) -> None:
    await peer.create_topic("T")
    wiped = await names.ask(Request.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert int(wiped.ext["wipeTopicCount"]) > 1
    assert await permission(names, "T") == 4
    assert await permission(names, "TBW102") & 2 == 0
    other = await names.ask(Request.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-b"})
    assert other.ext == {"addTopicCount": "0"}
    assert await permission(names, "T") == 4
    given = await names.ask(Request.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert given.ext == {"addTopicCount": wiped.ext["wipeTopicCount"]}
    assert await permission(names, "T") == 6


async def topics(names: Peer, code: int, **ext: str) -> list[str]:
    found: list[str] = json.loads((await names.ask(code, ext)).body)["topicList"]
    return found


async def test_topics_are_listed_by_what_they_are(names: Peer, peer: Peer) -> None:
    for name, flag in (("unit", "1"), ("sub", "2"), ("both", "3"), ("plain", "0")):
        await peer.create_topic(name, topicSysFlag=flag)
    assert await topics(names, Request.GET_UNIT_TOPIC_LIST) == ["both", "unit"]
    assert await topics(names, Request.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["both", "sub"]
    assert await topics(names, Request.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]
    everything = await topics(names, Request.GET_TOPICS_BY_CLUSTER, cluster="DefaultCluster")
    assert {"plain", "DefaultCluster", "broker-a"} <= set(everything)
    assert await topics(names, Request.GET_TOPICS_BY_CLUSTER, cluster="Other") == []
    assert await topics(names, Request.GET_SYSTEM_TOPIC_LIST_FROM_NS) == ["DefaultCluster", "broker-a"]
    assert "SCHEDULE_TOPIC_XXXX" in await topics(peer, Request.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)


async def test_the_name_service_shows_its_settings_and_changes_none(names: Peer) -> None:
    shown = (await names.ask(Request.GET_NAMESRV_CONFIG)).body.decode().splitlines()
    assert f"listenPort={names.address.rpartition(':')[2]}" in shown
    answer = await names.ask(Request.UPDATE_NAMESRV_CONFIG, body=b"listenPort=1")
    assert answer.code == Answer.INVALID_PARAMETER
