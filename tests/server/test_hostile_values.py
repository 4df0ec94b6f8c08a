"""Values that cannot be kept: refused with their name before anything changes, and everybody else's lists go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command, encode
from broker.rocketmq.sql92 import LONGEST_EXPRESSION
from broker.server.broker import BrokerService
from broker.server.connection import Connection, Server
from broker.server.processors.clients import MOST_LETTERS, HeartbeatProcessor
from tests.server.peer import Peer, heartbeat_body
from tests.server.stranger import stranger_at

HOSTILE = ["\0", "a\nb", "\x1b[31m", "x" * 100_000]


async def listed(peer: Peer) -> set[str]:
    """The topics that request 21 tells of."""
    answer = await peer.ask(Request.GET_ALL_TOPIC_CONFIG)
    assert answer.code == Answer.SUCCESS, answer.remark
    return set(json.loads(answer.body)["topicConfigTable"])


async def assert_all_works(peer: Peer) -> None:
    """Topics are listed, made and deleted, messages sent and read."""
    assert (await peer.create_topic("still-works")).code == Answer.SUCCESS
    assert "still-works" in await listed(peer)
    assert (await peer.send("still-works")).code == Answer.SUCCESS
    assert (await peer.pull("still-works", group="still")).code in {Answer.SUCCESS, Answer.SUBSCRIPTION_GROUP_NOT_EXIST}
    assert (await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "still-works"})).code == Answer.SUCCESS
    assert (await peer.ask(Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).code == Answer.SUCCESS


@pytest.mark.parametrize(
    "changes",
    [
        *({"topicFilterType": value} for value in ["X" * 33, "single_tag", *HOSTILE]),
        *({"attributes": f"+x{value}=1"} for value in HOSTILE),
        *({"attributes": f"+x={value}"} for value in HOSTILE),
        *({"topicSysFlag": value} for value in ("-1", str(1 << 31), str(1 << 62))),
        {"attributes": ",".join(f"+x{number}=1" for number in range(100))},
    ],
    ids=lambda changes: repr(changes)[:60],
)
async def test_a_topic_with_such_a_value_is_not_made(peer: Peer, changes: dict[str, str]) -> None:
    answer = await peer.create_topic("a-poison", **changes)
    assert answer.code == Answer.INVALID_PARAMETER
    assert answer.remark
    assert "a-poison" not in await listed(peer)
    await assert_all_works(peer)


async def test_an_attribute_that_is_no_text_breaks_no_table(service: BrokerService, peer: Peer) -> None:
    """As a binary header brings it: a byte that is no UTF-8 becomes half a surrogate pair."""
    client = RemotingClient(serialization=1)
    answer = await Peer(client, service.address).create_topic("a-poison", attributes="+x\udcff=1")
    await client.close()
    assert answer.code == Answer.INVALID_PARAMETER
    assert "a-poison" not in await listed(peer)
    await assert_all_works(peer)


@pytest.mark.parametrize("attributes", ["+message.type=DELAY", "+queue.type=BatchCQ,+cleanup.policy=DELETE"])
async def test_attributes_that_clients_send_are_kept(peer: Peer, attributes: str) -> None:
    assert (await peer.create_topic("orders", attributes=attributes)).code == Answer.SUCCESS
    answer = await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "orders"})
    wanted = dict(change[1:].split("=") for change in attributes.split(","))
    assert json.loads(answer.body)["attributes"] == wanted


@pytest.mark.parametrize(
    "change",
    [
        *({"retryMaxTimes": value} for value in (-2, 1 << 31, 1 << 70, 3.5, "x", [], True)),
        *({"retryQueueNums": value} for value in (-1, 1 << 20, 1 << 31)),
        *({"consumeEnable": value} for value in ("perhaps", 7, [])),
        *({"groupName": value} for value in ("", "a b", 7, [], {}, "x" * 256)),
        *({"attributes": {"+x": value}} for value in ("\0", "x" * 100_000)),
        {"brokerId": -1},
        {"consumeTimeoutMinute": 1 << 40},
        {"more": 1 << 70},
        {"more": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
    ],
    ids=lambda change: repr(change)[:60],
)
async def test_a_group_with_such_a_value_is_not_made(peer: Peer, change: dict[str, Any]) -> None:
    body = json.dumps({"groupName": "a-poison"} | change).encode()
    answer = await peer.ask(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert answer.code == Answer.INVALID_PARAMETER
    answer = await peer.ask(Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert "a-poison" not in json.loads(answer.body)["subscriptionGroupTable"]
    await assert_all_works(peer)


async def test_numbers_that_stand_there_as_text_are_read(peer: Peer) -> None:
    body = json.dumps({"groupName": "readers", "retryMaxTimes": "3", "consumeEnable": "true"}).encode()
    assert (await peer.ask(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)).code == Answer.SUCCESS
    answer = await peer.ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "readers"})
    assert json.loads(answer.body)["retryMaxTimes"] == 3


def beat(**changes: Any) -> bytes:
    """A heartbeat whose first consumer group is a good one."""
    good = {"groupName": "good", "subscriptionDataSet": [{"topic": "T", "subString": "*"}]}
    body = {"clientID": "c1", "producerDataSet": [{"groupName": "good"}], "consumerDataSet": [good]}
    for name, value in changes.items():
        body[name] = body[name] + value if isinstance(value, list) else value
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "body",
    [
        *(beat(clientID=value) for value in HOSTILE),
        *(beat(consumerDataSet=[{"groupName": value}]) for value in ["", "x" * 249, *HOSTILE]),
        *(beat(producerDataSet=[{"groupName": value}]) for value in HOSTILE),
        *(beat(consumerDataSet=[{"groupName": "B", "subscriptionDataSet": [{"topic": value}]}]) for value in HOSTILE),
        beat(consumerDataSet=[{"groupName": "B", "subscriptionDataSet": [{"topic": "T", "subVersion": 1 << 70}]}]),
    ],
    ids=lambda body: repr(body[:20]),
)
async def test_a_heartbeat_with_such_a_value_makes_nothing(service: BrokerService, peer: Peer, body: bytes) -> None:
    answer = await peer.ask(Request.HEART_BEAT, body=body)
    assert answer.code in {Answer.INVALID_PARAMETER, Answer.MESSAGE_ILLEGAL}
    assert service.engine.groups.get("good") is None
    assert service.engine.topics.get("%RETRY%good") is None
    answer = await peer.ask(Request.GET_ALL_PRODUCER_INFO)
    assert json.loads(answer.body) == {"data": {}}


@pytest.mark.parametrize("kind", ["TAG", "SQL92", "COBOL"])
async def test_the_expressions_of_a_heartbeat_are_bounded_together(
    service: BrokerService, peer: Peer, kind: str
) -> None:
    def said(more: int) -> bytes:
        longest = ["x" * LONGEST_EXPRESSION] * (MOST_LETTERS // LONGEST_EXPRESSION) + ["x" * more]
        found = [{"topic": f"T{n}", "subString": each, "expressionType": kind} for n, each in enumerate(longest)]
        half = len(found) // 2
        groups = [("first", found[:half]), ("second", found[half:])]
        consumers = [{"groupName": name, "subscriptionDataSet": wanted} for name, wanted in groups]
        return json.dumps({"clientID": "c1", "consumerDataSet": consumers}).encode()

    refused = await peer.ask(Request.HEART_BEAT, body=said(1))
    assert refused.code == Answer.INVALID_PARAMETER
    assert f"{MOST_LETTERS:,}" in (refused.remark or "")
    assert service.engine.groups.get("first") is None
    assert (await peer.ask(Request.HEART_BEAT, body=said(0))).code == Answer.SUCCESS
    assert service.engine.groups.get("second") is not None


async def test_a_group_may_say_it_wants_any_number_of_retry_queues(service: BrokerService, peer: Peer) -> None:
    """One that an older version kept: the retry topic gets as many as a topic may have."""
    group = service.engine.groups.ensure("old")
    service.engine.groups._groups["old"] = type(group)("old", retry_queues=1 << 30)
    assert (await peer.heartbeat("c1", "old")).code == Answer.SUCCESS
    topic = service.engine.topics.get("%RETRY%old")
    assert topic is not None
    assert topic.read_queues == 16_384


@pytest.mark.parametrize("expression", ["\0 || a", "x" * 70_000])
async def test_a_filter_that_is_no_text_is_kept_as_a_flaw(peer: Peer, expression: str) -> None:
    assert (await peer.heartbeat("c1", "G", expression=expression)).code == Answer.SUCCESS
    answer = await peer.ask(Request.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "G"})
    kept = json.loads(answer.body)["subscriptionTable"]["T"]["subString"]
    assert "\0" not in kept
    assert len(kept) <= 65_536
    answer = await peer.pull("T", group="G", sysFlag="0")
    assert answer.code != Answer.SUCCESS


@pytest.mark.parametrize("language", ["JAVA", "GO", "NODE_JS", "COBOL", "x" * 1_000_000, "\0", "\ud800", ""])
async def test_no_language_hides_clients_from_the_lists(service: BrokerService, peer: Peer, language: str) -> None:
    known = {"JAVA", "GO", "NODE_JS"}
    answer = register(service, language)
    assert answer.code == Answer.SUCCESS
    for code, ext in (
        (Request.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "G"}),
        (Request.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "producers"}),
    ):
        answer = await peer.ask(code, ext)
        assert answer.code == Answer.SUCCESS, answer.remark
        shown = json.loads(answer.body)["connectionSet"][0]["language"]
        assert shown == (language if language in known else "OTHER")
    answer = await peer.ask(Request.GET_ALL_PRODUCER_INFO)
    assert json.loads(answer.body)["data"]["producers"][0]["clientId"] == "c1"


def register(service: BrokerService, language: str) -> Command:
    """A heartbeat past the wire: whatever the codec lets through, its handler bears."""
    state = service._running
    server = Server("test", HeartbeatProcessor(state).handlers(), state.clock, service.servers[0].limits)
    request = Command(Request.HEART_BEAT, body=heartbeat_body("c1", "G"), language=language)
    answer = server.respond(Connection(server), request)
    assert answer is not None
    return answer


async def test_a_language_that_is_no_text_on_the_wire_leaves_the_lists_whole(
    service: BrokerService, peer: Peer
) -> None:
    await peer.heartbeat("c2", "G")
    frame = encode(Command(Request.HEART_BEAT, body=heartbeat_body("c1", "G"), opaque=1))
    head = frame[8 : 8 + int.from_bytes(frame[5:8], "big")].replace(b'"PYTHON"', b'"\\ud800"')
    rest = frame[8 + int.from_bytes(frame[5:8], "big") :]
    async with stranger_at(service.address) as stranger:
        await stranger.say((4 + len(head) + len(rest)).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head + rest)
        await stranger.hear()
        for code, ext in (
            (Request.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "G"}),
            (Request.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "producers"}),
            (Request.GET_ALL_PRODUCER_INFO, {}),
        ):
            answer = await peer.ask(code, ext)
            assert answer.code == Answer.SUCCESS, answer.remark


async def test_locks_of_nobody_are_not_remembered(service: BrokerService, peer: Peer) -> None:
    for group in ("a", "b", "\0", "x" * 1_000):
        body = json.dumps({"consumerGroup": group, "clientId": "c1", "mqSet": []}).encode()
        await peer.ask(Request.LOCK_BATCH_MQ, body=body)
    assert service._running.locks._held == {}
