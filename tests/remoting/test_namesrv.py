"""The name service: routes that clients can use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from broker.remoting.client import RemotingClient
from broker.remoting.codes import Answer, Request
from broker.remoting.service import BrokerService
from tests.remoting.frames import Recorded, recorded_exchanges
from tests.remoting.peer import Peer


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
