"""Who is there: heartbeats, lists, notices, locks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from broker.server.state import LOCK_LIFE_MS, QueueLocks
from tests.server.frames import Recorded, recorded_exchanges, recorded_frames
from tests.server.peer import Peer


@pytest.fixture
async def second(service: BrokerService) -> AsyncIterator[Peer]:
    client = RemotingClient()
    yield Peer(client, service.address)
    await client.close()


def notices(peer: Peer) -> asyncio.Queue[str]:
    """The groups whose change the broker announces to this client."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    def note(_: str, request: Command) -> None:
        assert request.is_oneway
        heard.put_nowait(request.ext["consumerGroup"])

    peer.client.register(Request.NOTIFY_CONSUMER_IDS_CHANGED, note)
    return heard


async def body_of(peer: Peer, code: int, **ext: str) -> Any:
    answer = await peer.ask(code, ext)
    assert answer.code == Answer.SUCCESS, answer.remark
    return json.loads(answer.body)


async def test_a_heartbeat_makes_the_group_and_its_retry_topic(service: BrokerService, peer: Peer) -> None:
    answer = await peer.heartbeat("c1", "G")
    assert answer.ext == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert service.engine.groups.get("G") is not None
    retry = service.engine.topics.get("%RETRY%G")
    assert retry is not None
    assert (retry.read_queues, retry.permission) == (1, 6)


def _heartbeats() -> list[Recorded]:
    return [recorded for recorded in recorded_frames() if recorded.code == 34 and recorded.kind == "request"]


@pytest.mark.parametrize("recorded", _heartbeats(), ids=lambda recorded: recorded.serialize)
async def test_recorded_heartbeats_are_accepted(peer: Peer, recorded: Recorded) -> None:
    body = recorded.frame[8 + int.from_bytes(recorded.frame[5:8], "big") :]
    assert (await peer.ask(Request.HEART_BEAT, body=body)).code == Answer.SUCCESS
    for consumer in json.loads(body)["consumerDataSet"]:
        body = await body_of(peer, Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=consumer["groupName"])
        assert len(body["consumerIdList"]) == 1


async def test_the_members_of_a_group_are_listed_once_each(peer: Peer, second: Peer) -> None:
    await peer.heartbeat("c1", "G")
    await peer.heartbeat("c1", "G")
    await second.heartbeat("c2", "G")
    assert await body_of(peer, Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G") == {
        "consumerIdList": ["c1", "c2"]
    }


async def test_connections_are_described_as_java_tools_read_them(peer: Peer) -> None:
    await peer.heartbeat("c1", "G", expression="a || b", version=7)
    seen = await body_of(peer, Request.GET_CONSUMER_CONNECTION_LIST, consumerGroup="G")
    (_, answer) = recorded_exchanges(Request.GET_CONSUMER_CONNECTION_LIST)[0]
    real = json.loads(answer.frame[8 + int.from_bytes(answer.frame[5:8], "big") :])
    assert set(seen) == set(real)
    assert set(seen["connectionSet"][0]) == set(real["connectionSet"][0])
    assert set(seen["subscriptionTable"]["T"]) == set(real["subscriptionTable"]["WireJSONTopic"])
    assert seen["subscriptionTable"]["T"]["tagsSet"] == ["a", "b"]
    assert sorted(seen["subscriptionTable"]["T"]["codeSet"]) == [97, 98]
    producers = await body_of(peer, Request.GET_PRODUCER_CONNECTION_LIST, producerGroup="producers")
    assert [connection["clientId"] for connection in producers["connectionSet"]] == ["c1"]


async def test_who_asks_for_details_hears_since_when_and_who_holds_what(peer: Peer) -> None:
    await peer.create_topic("T", 4)
    asked = {"consumerGroup": "G", "escDetails": "true"}
    await peer.heartbeat("c1", "G")
    first = (await body_of(peer, Request.GET_CONSUMER_CONNECTION_LIST, **asked))["escSeen"]["c1"]
    assert first[0] == first[1]
    await peer.heartbeat("c1", "G")
    await peer.ask(Request.LOCK_BATCH_MQ, body=lock_body("c1", 3))
    seen = await body_of(peer, Request.GET_CONSUMER_CONNECTION_LIST, **asked)
    since_ms, last_ms = seen["escSeen"]["c1"]
    assert since_ms == first[0] <= last_ms
    assert seen["escLocks"] == [["T", 3, "c1"]]
    producers = await body_of(peer, Request.GET_ALL_PRODUCER_INFO, escDetails="true")
    assert producers["data"]["producers"][0]["escSinceMs"] == since_ms
    await peer.ask(Request.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "G", "producerGroup": "producers"})
    await peer.heartbeat("c1", "G")
    assert (await body_of(peer, Request.GET_CONSUMER_CONNECTION_LIST, **asked))["escSeen"]["c1"][0] >= last_ms


async def test_groups_that_nobody_is_in_have_their_own_codes(peer: Peer) -> None:
    nobody = {"consumerGroup": "nobody", "producerGroup": "nobody"}
    assert (await peer.ask(Request.GET_CONSUMER_CONNECTION_LIST, nobody)).code == Answer.CONSUMER_NOT_ONLINE
    assert (await peer.ask(Request.GET_CONSUMER_LIST_BY_GROUP, nobody)).code == Answer.SYSTEM_ERROR
    assert (await peer.ask(Request.GET_PRODUCER_CONNECTION_LIST, nobody)).code == Answer.SYSTEM_ERROR


async def test_a_group_hears_when_a_member_comes_and_goes(peer: Peer, second: Peer) -> None:
    heard, newcomer = notices(peer), notices(second)
    await peer.heartbeat("c1", "G")
    assert await asyncio.wait_for(heard.get(), 5) == "G"
    await second.heartbeat("c2", "G")
    assert [await asyncio.wait_for(queue.get(), 5) for queue in (heard, newcomer)] == ["G", "G"]
    await second.heartbeat("c2", "G")
    await second.ask(Request.UNREGISTER_CLIENT, {"clientID": "c2", "consumerGroup": "G"})
    assert await asyncio.wait_for(heard.get(), 5) == "G"
    assert await body_of(peer, Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G") == {"consumerIdList": ["c1"]}
    assert heard.empty()
    assert newcomer.empty()


async def test_a_connection_that_ends_takes_its_client_along(peer: Peer, second: Peer) -> None:
    heard = notices(peer)
    await peer.heartbeat("c1", "G")
    await second.heartbeat("c2", "G")
    await second.client.close()
    assert [await asyncio.wait_for(heard.get(), 5) for _ in range(3)] == ["G"] * 3
    assert await body_of(peer, Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G") == {"consumerIdList": ["c1"]}


async def test_a_heartbeat_without_subscriptions_keeps_them(peer: Peer) -> None:
    await peer.heartbeat("c1", "G", expression="a", version=3)
    short = {"clientID": "c1", "consumerDataSet": [{"groupName": "G"}], "producerDataSet": [], "withoutSub": True}
    await peer.ask(Request.HEART_BEAT, body=json.dumps(short).encode())
    seen = await body_of(peer, Request.GET_CONSUMER_CONNECTION_LIST, consumerGroup="G")
    assert seen["subscriptionTable"]["T"]["subString"] == "a"


async def test_a_subscription_is_replaced_by_a_newer_one_only(peer: Peer) -> None:
    for expression, version in (("a", 3), ("old", 2), ("b", 4)):
        await peer.heartbeat("c1", "G", expression=expression, version=version)
        seen = await body_of(peer, Request.GET_CONSUMER_CONNECTION_LIST, consumerGroup="G")
        assert seen["subscriptionTable"]["T"]["subString"] == ("b" if version == 4 else "a")


@pytest.mark.parametrize(
    ("kind", "expression", "code"),
    [
        ("TAG", "a || b", Answer.SUCCESS),
        ("SQL92", "a > 5", Answer.SUCCESS),
        ("SQL92", "a >", Answer.SUBSCRIPTION_PARSE_FAILED),
        ("CLASS", "org.example.Filter", Answer.SYSTEM_ERROR),
    ],
)
async def test_a_client_learns_at_its_start_what_it_may_subscribe_to(
    peer: Peer, kind: str, expression: str, code: Answer
) -> None:
    subscription = {"topic": "T", "subString": expression, "expressionType": kind}
    body = json.dumps({"clientId": "c1", "group": "G", "subscriptionData": subscription}).encode()
    assert (await peer.ask(Request.CHECK_CLIENT_CONFIG, body=body)).code == code


def lock_body(client_id: str, *queue_ids: int) -> bytes:
    queues = [{"brokerName": "broker-a", "topic": "T", "queueId": queue_id} for queue_id in queue_ids]
    return json.dumps({"clientId": client_id, "consumerGroup": "G", "mqSet": queues}).encode()


async def test_a_queue_is_locked_by_one_client_until_it_gives_it_back(peer: Peer) -> None:
    await peer.create_topic("T", 2)

    async def locked(client_id: str, *queue_ids: int) -> list[int]:
        answer = await peer.ask(Request.LOCK_BATCH_MQ, body=lock_body(client_id, *queue_ids))
        return [queue["queueId"] for queue in json.loads(answer.body)["lockOKMQSet"]]

    assert await locked("c1", 0, 5) == [0]
    assert await locked("c2", 0, 1) == [1]
    assert await locked("c1", 0, 1) == [0]
    await peer.ask(Request.UNLOCK_BATCH_MQ, body=lock_body("c2", 0))
    assert await locked("c2", 0) == []
    await peer.ask(Request.UNLOCK_BATCH_MQ, body=lock_body("c1", 0))
    assert await locked("c2", 0) == [0]


def test_a_lock_expires_sixty_seconds_after_it_was_last_asked_for() -> None:
    locks = QueueLocks()
    queue = ("T", 0)
    assert locks.lock("G", "c1", [queue], 1000) == [queue]
    assert locks.lock("G", "c1", [queue], 20_000) == [queue]
    assert locks.lock("G", "c2", [queue], 20_000 + LOCK_LIFE_MS) == []
    assert locks.has_live_locks("G", 20_000 + LOCK_LIFE_MS)
    assert not locks.has_live_locks("G", 20_001 + LOCK_LIFE_MS)
    assert locks.lock("G", "c2", [queue], 20_001 + LOCK_LIFE_MS) == [queue]
