"""Questions that the broker hands on to a connected consumer, and its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import RESPONSE_FLAG, Answer, Request
from broker.rocketmq.frame import Command, encode
from broker.server import state
from broker.server.broker import BrokerService
from broker.server.processors import clients as client_requests
from broker.server.processors.clients import queue_table
from tests.server.peer import Peer, records
from tests.server.stranger import stranger_at
from tests.server.test_administration import lenient_json

INFO = {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "true"}


@pytest.fixture
async def tool(service: BrokerService) -> AsyncIterator[Peer]:
    """The administrator who asks."""
    client = RemotingClient()
    yield Peer(client, service.address)
    await client.close()


async def consumer(peer: Peer, code: int, answer: Callable[[Command], Command | None]) -> list[Command]:
    """Registers as consumer c1 of group G; what it is asked."""
    asked: list[Command] = []

    def hear(_: str, request: Command) -> Command | None:
        asked.append(request)
        return answer(request)

    peer.client.register(code, hear)
    await peer.heartbeat("c1", "G")
    return asked


async def test_what_a_consumer_says_of_itself_comes_back(peer: Peer, tool: Peer) -> None:
    asked = await consumer(
        peer, Request.GET_CONSUMER_RUNNING_INFO, lambda request: request.answer({"a": "b"}, b"info", remark="said")
    )
    answer = await tool.ask(Request.GET_CONSUMER_RUNNING_INFO, INFO)
    assert (answer.code, answer.ext, answer.body, answer.remark) == (Answer.SUCCESS, {"a": "b"}, b"info", "said")
    assert asked[0].ext == INFO


async def test_a_refusal_of_the_consumer_comes_back_too(peer: Peer, tool: Peer) -> None:
    await consumer(peer, Request.GET_CONSUMER_RUNNING_INFO, lambda request: request.answer(code=1, remark="no"))
    answer = await tool.ask(Request.GET_CONSUMER_RUNNING_INFO, INFO)
    assert (answer.code, answer.remark) == (1, "no")


async def test_a_message_is_consumed_directly_by_the_client_named(peer: Peer, tool: Peer) -> None:
    await peer.send("T", b"payload")
    sent = records((await peer.pull("T")).body)[0]
    asked = await consumer(peer, Request.CONSUME_MESSAGE_DIRECTLY, lambda request: request.answer(body=b"consumed"))
    wanted = {"consumerGroup": "G", "clientId": "c1", "topic": "T", "msgId": sent.offset_message_id}
    answer = await tool.ask(Request.CONSUME_MESSAGE_DIRECTLY, wanted)
    assert answer.body == b"consumed"
    assert [message.body for message in records(asked[0].body)] == [b"payload"]
    assert asked[0].ext == wanted | {"brokerName": "broker-a", "topicSysFlag": "0", "groupSysFlag": "0"}


@pytest.mark.parametrize(
    ("identity", "code"),
    [("nonsense", Answer.INVALID_PARAMETER), ("7F000001000076C10000000000000400", Answer.QUERY_NOT_FOUND)],
)
async def test_a_message_that_is_not_there_is_not_consumed(peer: Peer, tool: Peer, identity: str, code: Answer) -> None:
    await consumer(peer, Request.CONSUME_MESSAGE_DIRECTLY, lambda request: request.answer())
    wanted = {"consumerGroup": "G", "clientId": "c1", "topic": "T", "msgId": identity}
    assert (await tool.ask(Request.CONSUME_MESSAGE_DIRECTLY, wanted)).code == code


async def test_one_cannot_have_a_group_consume_what_is_of_another_topic(peer: Peer, tool: Peer) -> None:
    await peer.send("secret", b"payload")
    sent = records((await peer.pull("secret")).body)[0]
    asked = await consumer(peer, Request.CONSUME_MESSAGE_DIRECTLY, lambda request: request.answer())
    wanted = {"consumerGroup": "G", "clientId": "c1", "topic": "T", "msgId": sent.offset_message_id}
    answer = await tool.ask(Request.CONSUME_MESSAGE_DIRECTLY, wanted)
    assert answer.code == Answer.INVALID_PARAMETER
    assert asked == []


async def test_a_consumer_that_is_not_there_is_not_asked(peer: Peer, tool: Peer) -> None:
    answer = await tool.ask(Request.GET_CONSUMER_RUNNING_INFO, INFO)
    assert (answer.code, answer.remark) == (Answer.SYSTEM_ERROR, "The Consumer <G> <c1> not online")
    await peer.heartbeat("c1", "G")
    assert (await tool.ask(Request.GET_CONSUMER_RUNNING_INFO, INFO | {"clientId": "c2"})).code == Answer.SYSTEM_ERROR


async def test_who_says_nothing_in_time_is_reported_so(peer: Peer, tool: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_requests, "CLIENT_TIMEOUT_MS", 20)
    await consumer(peer, Request.GET_CONSUMER_RUNNING_INFO, lambda _: None)
    answer = await tool.ask(Request.GET_CONSUMER_RUNNING_INFO, INFO)
    assert answer.code == Answer.CONSUME_MSG_TIMEOUT


async def test_who_leaves_meanwhile_is_not_waited_for(service: BrokerService, peer: Peer, tool: Peer) -> None:
    asked = await consumer(peer, Request.GET_CONSUMER_RUNNING_INFO, lambda _: None)
    waiting = asyncio.ensure_future(tool.ask(Request.GET_CONSUMER_RUNNING_INFO, INFO))
    async with asyncio.timeout(5):
        while not asked:
            await asyncio.to_thread(lambda: None)
    await peer.client.close()
    assert (await waiting).code == Answer.CONSUME_MSG_TIMEOUT


async def test_so_many_questions_wait_and_no_more(peer: Peer, tool: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_WAITING", 0)
    asked = await consumer(peer, Request.GET_CONSUMER_RUNNING_INFO, lambda request: request.answer())
    assert (await tool.ask(Request.GET_CONSUMER_RUNNING_INFO, INFO)).code == Answer.CONSUME_MSG_TIMEOUT
    assert asked == []


async def test_an_answer_that_nobody_waits_for_is_dropped(service: BrokerService) -> None:
    async with stranger_at(service.address) as stranger:
        await stranger.say(encode(Command(0, flag=RESPONSE_FLAG, opaque=1)))
        await stranger.say(encode(Command(Request.GET_BROKER_RUNTIME_INFO, opaque=2)))
        answer = await stranger.hear()
    assert answer is not None
    assert (answer.code, answer.opaque) == (Answer.SUCCESS, 2)


STATUS = b'{"consumerTable":{},"messageQueueTable":{{"brokerName":"b","queueId":%d,"topic":"T{\\"}"}:%d}}'


async def test_how_far_each_client_of_a_group_is_comes_together(service: BrokerService, peer: Peer, tool: Peer) -> None:
    await consumer(peer, Request.GET_CONSUMER_STATUS_FROM_CLIENT, lambda request: request.answer(body=STATUS % (0, 17)))
    other = RemotingClient()
    other.register(Request.GET_CONSUMER_STATUS_FROM_CLIENT, lambda _, request: request.answer(body=STATUS % (1, 18)))
    await Peer(other, service.address).heartbeat("c2", "G")
    asked = {"topic": "T", "group": "G"}
    everybody = await tool.ask(Request.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked)
    assert tables(everybody) == {"c1": [17], "c2": [18]}
    one = await tool.ask(Request.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked | {"clientAddr": "c2"})
    assert tables(one) == {"c2": [18]}
    nobody = await tool.ask(Request.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked | {"clientAddr": "c3"})
    assert tables(nobody) == {}
    assert (await tool.ask(Request.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "T", "group": "X"})).code == 1
    await other.close()


def tables(answer: Command) -> dict[str, Any]:
    assert answer.code == Answer.SUCCESS
    body = lenient_json(answer.body.replace(b'T{\\"}', b"T"))
    return {client: list(table.values()) for client, table in body["consumerTable"].items()}


@pytest.mark.parametrize(
    ("body", "table"),
    [
        (b'{"messageQueueTable":{{"topic":"}"}:1,{"topic":"{"}:2},"x":{}}', b'{{"topic":"}"}:1,{"topic":"{"}:2}'),
        (b'{"messageQueueTable":{}}', b"{}"),
        (b'{"messageQueueTable":{"a":{', b"{}"),
        (b'{"messageQueueTable":null}', b"{}"),
        (b"{}", b"{}"),
        (b"\xff\xff", b"{}"),
    ],
)
def test_the_table_is_cut_out_of_what_a_client_says(body: bytes, table: bytes) -> None:
    assert queue_table(body) == table
