"""Popping over the wire: what cannot be, and what is kept over a start."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.pop.popqueue import offsets_in
from broker.engine.tables.groups import Group
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from broker.server.processors.acks import MOST_ACKED, MOST_BITS
from tests.server.peer import Peer
from tests.server.popper import GROUP, TOPIC, Popper, bodies, got_of

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


def ack_row(mask: int, **changes: object) -> dict[str, object]:
    """What a batch says of one pop."""
    bits = b64encode(mask.to_bytes((mask.bit_length() + 7) // 8, "little")).decode()
    return {"c": GROUP, "t": TOPIC, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1, "b": bits} | changes


async def say(peer: Peer, *rows: dict[str, object]) -> Command:
    """One batch of acknowledgements."""
    return await peer.ask(Request.BATCH_ACK_MESSAGE, body=json.dumps({"acks": rows}).encode())


@pytest.mark.parametrize(
    "rows",
    [
        [ack_row((1 << MOST_BITS) - 1)],
        [ack_row(1 << number % 64) for number in range(MOST_ACKED + 1)],
        [ack_row(0)] * (MOST_ACKED + 1),
        [ack_row((1 << MOST_ACKED // 2) - 1), ack_row((1 << MOST_ACKED // 2 + 1) - 1, so=99)],
    ],
    ids=["one mask", "many of one", "many of none", "together"],
)
async def test_a_batch_names_so_many_messages(json_peer: Peer, popper: Popper, rows: list[dict[str, object]]) -> None:
    await json_peer.send(TOPIC)
    (got,) = got_of(await popper.pop())
    mine = ack_row(1, pt=int(got.handle.split(" ")[1]), it=30_000)
    answer = await say(json_peer, mine, *rows)
    assert answer.code == Answer.INVALID_PARAMETER
    assert f"{MOST_ACKED:,}" in (answer.remark or "")
    assert (await popper.change(got, 30_000)).code == Answer.SUCCESS, "it is held: nothing of the batch was taken"


@pytest.mark.parametrize(
    "row",
    [
        ack_row(1, b="!"), ack_row(1, r="2"), ack_row(1, t="t" * 128), ack_row(1, t="a b"), ack_row(1, c="a b"),
        ack_row(1, c="g" * 200, t="t" * 127, r="1"), ack_row(1, so=1 << 63), ack_row(1, q=-(1 << 70)),
    ],
    ids=repr,
)  # fmt: skip
async def test_nothing_of_a_batch_is_taken_where_a_part_cannot_be(
    json_peer: Peer, popper: Popper, row: dict[str, object]
) -> None:
    await json_peer.send(TOPIC)
    (got,) = got_of(await popper.pop())
    answer = await popper.ack_together(got, got, **row)
    assert answer.code in (Answer.INVALID_PARAMETER, Answer.MESSAGE_ILLEGAL)
    mine = ack_row(1, pt=int(got.handle.split(" ")[1]), it=30_000)
    assert (await say(json_peer, mine, row)).code in (Answer.INVALID_PARAMETER, Answer.MESSAGE_ILLEGAL)
    assert (await popper.change(got, 30_000)).code == Answer.SUCCESS


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"t": "nowhere"}, "Topic 'nowhere' does not exist"),
        ({"c": "nobody"}, "Consumer group 'nobody' does not exist"),
        ({"q": 1}, "Topic 'T' has no queue 1"),
        ({"q": -1}, "Topic 'T' has no queue -1"),
        ({"r": "1"}, f"Topic '{RETRY}' does not exist"),
    ],
)
async def test_what_is_not_there_is_named_and_the_rest_is_taken(
    json_peer: Peer, popper: Popper, changes: dict[str, object], remark: str
) -> None:
    for _ in range(2):
        await json_peer.send(TOPIC)
    one, other = got_of(await popper.pop())
    pop_ms = int(one.handle.split(" ")[1])
    row = ack_row(0b101, so=7, pt=pop_ms, it=30_000) | changes
    topic = RETRY if row["r"] == "1" else row["t"]
    refused = f"{topic} {row['q']} 7;{topic} {row['q']} 9"
    alone = await say(json_peer, row)
    assert (alone.code, alone.ext) == (Answer.NO_MESSAGE, {"escRefused": refused})
    assert remark in (alone.remark or "")
    beside = await say(json_peer, row, ack_row(1, pt=pop_ms, it=30_000))
    assert (beside.code, beside.ext) == (Answer.SUCCESS, {"escRefused": refused})
    assert (await popper.change(one, 30_000)).code == Answer.NO_MESSAGE, "it is done"
    assert (await popper.change(other, 30_000)).code == Answer.SUCCESS


async def test_what_many_pops_got_is_acknowledged_together(json_peer: Peer, popper: Popper) -> None:
    got = []
    for _ in range(12):
        for _ in range(32):
            await json_peer.send(TOPIC)
        got += got_of(await popper.pop())
    assert len(got) == 384
    answer = await popper.ack_together(*got)
    assert (answer.code, answer.ext) == (Answer.SUCCESS, {})


async def test_what_a_batch_is_refused_fits_a_header(json_peer: Peer) -> None:
    """Whatever is refused at once, with the longest of all names."""
    group = "g" * 119
    topic = "t" * (255 - len(f"%RETRY%{group}_"))
    rows = [
        ack_row((1 << MOST_ACKED // 4) - 1, c=group, t=topic, r="1", so=start, q=(1 << 63) - 1)
        for start in range((1 << 63) - 5, (1 << 63) - 1)
    ]
    answer = await say(json_peer, *rows)
    assert answer.code == Answer.NO_MESSAGE
    assert answer.ext["escRefused"].count(";") == MOST_ACKED - 1
    assert len(answer.ext["escRefused"]) < 2 << 20


def test_the_offsets_of_a_mask_are_those_of_its_bits() -> None:
    for mask in (0, 1, 0b1011, 1 << 65_535, 1 | 1 << 65_535, (1 << 65_536) - 1, 0xF0F0 << 1234):
        assert list(offsets_in(7, mask)) == [7 + bit for bit in range(mask.bit_length()) if mask >> bit & 1]


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
    from broker.server.processors.groups import AVERAGELY, BY_CIRCLE, _shared, allocate

    queues, clients = list(range(8)), ["a", "b", "c"]
    assert [allocate(AVERAGELY, queues, clients, one) for one in clients] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [allocate(BY_CIRCLE, queues, clients, one) for one in clients] == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert [allocate(AVERAGELY, [0], clients, one) for one in clients] == [[0], [], []]
    assert _shared(AVERAGELY, queues, clients, "c", 1) == [6, 7, 0, 1, 2]
    assert _shared(AVERAGELY, queues, clients, "c", 2) == [-1]
    assert _shared(AVERAGELY, [0, 1], [*clients, "d"], "d", 1) == [1]
    assert _shared(AVERAGELY, [0, 1], [*clients, "d"], "?", 1) == []
