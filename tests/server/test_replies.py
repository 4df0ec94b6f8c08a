"""Replies (324, 325): handed to the client that asked (326), refused where it is not there or does not take them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from broker.server.processors import send
from tests.server.peer import BORN_MS, Peer, records, send_ext

TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = "CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01c1\x02MSG_TYPE\x01reply\x02TTL\x013000\x02"
V1 = {
    "producerGroup": "producers", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "0", "sysFlag": "0", "bornTimestamp": str(BORN_MS), "flag": "0", "properties": PROPERTIES,
    "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
}  # fmt: skip


@pytest.fixture
async def answerer(service: BrokerService) -> AsyncIterator[Peer]:
    """The client who answers."""
    client = RemotingClient()
    yield Peer(client, service.address)
    await client.close()


async def asker(peer: Peer, answer: Callable[[Command], Command | None]) -> list[Command]:
    """Registers as producer c1; what it is handed."""
    handed: list[Command] = []

    def hear(_: str, request: Command) -> Command | None:
        handed.append(request)
        return answer(request)

    peer.client.register(Request.PUSH_REPLY_MESSAGE_TO_CLIENT, hear)
    await peer.heartbeat("c1", "G")
    return handed


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (Request.SEND_REPLY_MESSAGE, V1),
        (Request.SEND_REPLY_MESSAGE_V2, send_ext(TOPIC, PROPERTIES)),
    ],
)
async def test_a_reply_is_handed_over_and_kept(peer: Peer, answerer: Peer, code: int, ext: dict[str, str]) -> None:
    handed = await asker(peer, lambda request: request.answer())
    answer = await answerer.ask(code, ext, b"the reply")
    assert (answer.code, answer.ext["queueId"], answer.ext["queueOffset"]) == (Answer.SUCCESS, "0", "0")
    (push,) = handed
    assert push.body == b"the reply"
    told = {name: push.ext[name] for name in ("producerGroup", "topic", "queueId", "sysFlag", "bornTimestamp", "flag")}
    assert told == {
        "producerGroup": "producers", "topic": TOPIC, "queueId": "0", "sysFlag": "0", "bornTimestamp": str(BORN_MS),
        "flag": "0",
    }  # fmt: skip
    properties = dict(pair.split("\x01") for pair in push.ext["properties"].split("\x02") if pair)
    assert (properties["CORRELATION_ID"], properties["CLUSTER"]) == ("c-1", "DefaultCluster")
    assert int(properties["PUSH_REPLY_TIME"]) > BORN_MS
    (kept,) = records((await answerer.pull(TOPIC)).body)
    assert (kept.body, kept.properties["CORRELATION_ID"]) == (b"the reply", "c-1")


async def refused(answerer: Peer, service: BrokerService, properties: str = PROPERTIES) -> str:
    answer = await answerer.ask(Request.SEND_REPLY_MESSAGE_V2, send_ext(TOPIC, properties), b"the reply")
    assert answer.code == Answer.SYSTEM_ERROR
    assert service.engine.health().log_end_position == 0
    return answer.remark or ""


async def test_a_reply_to_nobody_is_refused_and_not_kept(
    service: BrokerService, peer: Peer, answerer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "REPLY_TO_CLIENT is missing" in await refused(answerer, service, "CORRELATION_ID\x01c\x02")
    assert "channel of c1 not found" in await refused(answerer, service)
    await asker(peer, lambda request: request.answer(code=1))
    assert "push reply message to c1 fail" in await refused(answerer, service)
    await asker(peer, lambda request: None)
    monkeypatch.setattr(send, "CLIENT_TIMEOUT_MS", 30)
    assert "push reply message to c1 fail" in await refused(answerer, service)
    unregister = {"clientID": "c1", "producerGroup": "producers"}
    assert (await peer.ask(Request.UNREGISTER_CLIENT, unregister)).code == Answer.SUCCESS
    assert "channel of c1 not found" in await refused(answerer, service)


async def test_a_reply_that_cannot_be_kept_has_arrived_all_the_same(peer: Peer, answerer: Peer) -> None:
    handed = await asker(peer, lambda request: request.answer())
    ext = send_ext(TOPIC, PROPERTIES, e="7")
    answer = await answerer.ask(Request.SEND_REPLY_MESSAGE_V2, ext, b"the reply")
    assert (answer.code, answer.ext["msgId"], len(handed)) == (Answer.SUCCESS, "", 1)


async def test_the_reply_topic_has_a_route_before_there_is_one(peer: Peer, service: BrokerService) -> None:
    route = await peer.client.invoke(service.namesrv_address, Request.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
    assert route.code == Answer.SUCCESS
    assert b'"writeQueueNums":1' in route.body


async def test_many_replies_are_under_way_at_once(peer: Peer, answerer: Peer) -> None:
    handed = await asker(peer, lambda request: request.answer())
    ext = send_ext(TOPIC, PROPERTIES)
    answers = await asyncio.gather(
        *(answerer.ask(Request.SEND_REPLY_MESSAGE_V2, ext, b"%d" % number) for number in range(50))
    )
    assert {answer.code for answer in answers} == {Answer.SUCCESS}
    assert sorted(int(push.body) for push in handed) == list(range(50))
