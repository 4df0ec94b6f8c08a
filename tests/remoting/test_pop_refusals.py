"""Popping over the wire: what cannot be, and what is kept over a start."""

from __future__ import annotations

import json

import pytest

from broker.engine.store.groups import Group
from broker.remoting.client import RemotingClient
from broker.remoting.codes import Answer, Request
from broker.remoting.service import BrokerService
from tests.remoting.peer import Peer
from tests.remoting.popper import GROUP, TOPIC, Popper, bodies, got_of

RETRY = f"%RETRY%{GROUP}_{TOPIC}"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"maxMsgNums": "33"}, Answer.INVALID_PARAMETER),
        ({"maxMsgNums": "0"}, Answer.INVALID_PARAMETER),
        ({"topic": "nowhere"}, Answer.TOPIC_NOT_EXIST),
        ({"queueId": "7"}, Answer.INVALID_PARAMETER),
        ({"invisibleTime": "-1"}, Answer.INVALID_PARAMETER),
        ({"invisibleTime": "x"}, Answer.INVALID_PARAMETER),
        ({"exp": "||"}, Answer.SUBSCRIPTION_PARSE_FAILED),
        ({"consumerGroup": "b d"}, Answer.INVALID_PARAMETER),
        ({"consumerGroup": "g" * 250}, Answer.MESSAGE_ILLEGAL),
    ],
)
async def test_a_pop_that_cannot_be(json_peer: Peer, popper: Popper, changes: dict[str, str], code: Answer) -> None:
    await json_peer.send(TOPIC)
    assert (await popper.pop(**changes)).code == code


async def test_a_group_that_may_not_consume_gets_nothing(service: BrokerService, popper: Popper) -> None:
    service.engine.groups.put(Group(GROUP, consume_enable=False))
    assert (await popper.pop()).code == Answer.NO_PERMISSION


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "nowhere"}, Answer.TOPIC_NOT_EXIST),
        ({"queueId": "1"}, Answer.MESSAGE_ILLEGAL),
        ({"queueId": "-1"}, Answer.MESSAGE_ILLEGAL),
        ({"offset": "5"}, Answer.NO_MESSAGE),
        ({"offset": "-1"}, Answer.NO_MESSAGE),
        ({"extraInfo": "0 1 2"}, Answer.INVALID_PARAMETER),
        ({"extraInfo": "0 x 2 0 0 b 0 0"}, Answer.INVALID_PARAMETER),
        ({"extraInfo": "0 1 2 0 0 b 0 0"}, Answer.NO_MESSAGE),
        ({"extraInfo": "99999999 1 2 0 0 b 0 0"}, Answer.NO_MESSAGE),
        ({"consumerGroup": "other"}, Answer.NO_MESSAGE),
    ],
)
async def test_what_is_said_of_no_message(
    json_peer: Peer, popper: Popper, changes: dict[str, str], code: Answer
) -> None:
    await json_peer.send(TOPIC)
    (got,) = got_of(await popper.pop())
    assert (await popper.ack(got, **changes)).code == code
    assert (await popper.change(got, 5, **changes)).code == code
    assert (await popper.ack(got)).code == Answer.SUCCESS, "nothing was changed"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"acks":[]}', b'{"acks":[{}]}', b'{"acks":null}', b"\xff"],
)
async def test_a_batch_that_names_nothing(json_peer: Peer, body: bytes) -> None:
    answer = await json_peer.ask(Request.BATCH_ACK_MESSAGE, body=body)
    assert answer.code in (Answer.NO_MESSAGE, Answer.INVALID_PARAMETER)


@pytest.mark.parametrize("changes", [{"b": "!"}, {"b": "/" * 12_000}, {"r": "2"}, {"so": "x"}, {"t": "nowhere"}])
async def test_a_batch_that_cannot_be(json_peer: Peer, popper: Popper, changes: dict[str, object]) -> None:
    await json_peer.send(TOPIC)
    (got,) = got_of(await popper.pop())
    assert (await popper.ack_together(got, **changes)).code in (Answer.NO_MESSAGE, Answer.INVALID_PARAMETER)
    assert (await popper.ack(got)).code == Answer.SUCCESS


async def test_answers_of_before_a_start_count_after_it(
    service: BrokerService, json_peer: Peer, popper: Popper
) -> None:
    for number in range(3):
        await json_peer.send(TOPIC, b"%d" % number)
    done, held, _ = got_of(await popper.pop(invisibleTime="1500"))
    await popper.ack(done)
    await service.stop()
    again = BrokerService(service.config, broker_port=0, namesrv_port=0)
    await again.start()
    client = RemotingClient()
    later = Popper(Peer(client, again.address))
    assert (await later.ack(held)).code == Answer.SUCCESS
    assert bodies(await later.pop(pollTime="9000")) == [b"2"]
    await client.close()
    await again.stop()


async def test_modes_are_set_and_kept(service: BrokerService, json_peer: Peer) -> None:
    async def set_mode(**changes: object) -> int:
        value = {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0} | changes
        return (await json_peer.ask(Request.SET_MESSAGE_REQUEST_MODE, body=json.dumps(value).encode())).code

    async def assigned(**changes: str) -> object:
        value = {
            "topic": TOPIC, "consumerGroup": GROUP, "clientId": "c1", "messageModel": "CLUSTERING",
            "strategyName": "AVG",
        } | changes  # fmt: skip
        answer = await json_peer.ask(Request.QUERY_ASSIGNMENT, body=json.dumps(value).encode())
        assert answer.code == Answer.SUCCESS
        rows = json.loads(answer.body).get("messageQueueAssignments")
        return rows and [(row["mode"], row["messageQueue"]["queueId"]) for row in rows]

    await json_peer.create_topic(TOPIC, 4)
    assert await assigned() is None, "it is not known there"
    await json_peer.heartbeat("c1", GROUP)
    assert await assigned() == [("PULL", 0), ("PULL", 1), ("PULL", 2), ("PULL", 3)]
    assert await assigned(strategyName="OWN") is None
    assert await assigned(messageModel="BROADCASTING", clientId="?") == [("PULL", queue) for queue in range(4)]
    assert await assigned(topic=f"%RETRY%{GROUP}") == [("PULL", 0)]
    assert await set_mode() == Answer.SUCCESS
    assert await assigned() == [("POP", -1)]
    assert await set_mode(topic="nowhere") == Answer.TOPIC_NOT_EXIST
    assert await set_mode(consumerGroup="new") == Answer.SUCCESS
    assert service.engine.groups.get("new") is not None, "it is made, as by Apache RocketMQ"
    assert await set_mode(consumerGroup="b d") == Answer.INVALID_PARAMETER
    assert await set_mode(topic=f"%RETRY%{GROUP}") == Answer.NO_PERMISSION
    assert await set_mode(mode="PUSH") == Answer.INVALID_PARAMETER
    await service.stop()
    again = BrokerService(service.config, broker_port=0, namesrv_port=0)
    await again.start()
    assert again.engine.pops.modes.get(GROUP, TOPIC) is not None
    await again.stop()


def test_queues_are_shared_out_as_by_rocketmq() -> None:
    from broker.remoting.processors.assignment import AVERAGELY, BY_CIRCLE, _shared, allocate

    queues, clients = list(range(8)), ["a", "b", "c"]
    assert [allocate(AVERAGELY, queues, clients, one) for one in clients] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [allocate(BY_CIRCLE, queues, clients, one) for one in clients] == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert [allocate(AVERAGELY, [0], clients, one) for one in clients] == [[0], [], []]
    assert _shared(AVERAGELY, queues, clients, "c", 1) == [6, 7, 0, 1, 2]
    assert _shared(AVERAGELY, queues, clients, "c", 2) == [-1]
    assert _shared(AVERAGELY, [0, 1], [*clients, "d"], "d", 1) == [1]
    assert _shared(AVERAGELY, [0, 1], [*clients, "d"], "?", 1) == []
