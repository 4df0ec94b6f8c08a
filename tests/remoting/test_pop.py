"""Popping over the wire: fields as the official broker gives them, waiting, handles, refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from broker.engine.store.groups import Group
from broker.remoting.client import RemotingClient
from broker.remoting.codec import Command
from broker.remoting.codes import Answer, Request
from broker.remoting.errors import RemotingError
from broker.remoting.service import BrokerService
from tests.remoting.frames import recorded_exchanges
from tests.remoting.peer import Peer
from tests.remoting.popper import GROUP, TOPIC, Popper, bodies, changed, got_of

RETRY = f"%RETRY%{GROUP}_{TOPIC}"


@pytest.fixture
async def peer(service: BrokerService) -> AsyncIterator[Peer]:
    """A client with JSON headers: the codes do not fit binary ones."""
    client = RemotingClient()
    peer = Peer(client, service.address)
    await peer.create_topic(TOPIC)
    yield peer
    await client.close()


@pytest.fixture
def popper(peer: Peer) -> Popper:
    return Popper(peer)


async def wait_for(service: BrokerService, count: int) -> None:
    """Returns when this many pops wait."""
    async with asyncio.timeout(5):
        while service.waiting_pops != count:
            await asyncio.to_thread(lambda: None)


def recorded(code: int, answer_code: int) -> Command:
    """What the real broker answered."""
    for _, answer in recorded_exchanges(code, "JSON"):
        if answer.header["code"] == answer_code:
            header = answer.header
            return Command(header["code"], header.get("extFields") or {}, remark=header.get("remark"))
    raise AssertionError(f"{code} was never answered with {answer_code}")


async def test_a_pop_is_answered_as_by_the_real_broker(peer: Peer, popper: Popper) -> None:
    real = recorded(Request.POP_MESSAGE, Answer.SUCCESS)
    await peer.send(TOPIC, b"first")
    answer = await popper.pop()
    assert (answer.code, answer.remark) == (Answer.SUCCESS, real.remark)
    assert set(answer.ext) == set(real.ext)
    same = ("startOffsetInfo", "msgOffsetInfo", "restNum", "reviveQid")
    assert {name: answer.ext[name] for name in same} == {name: real.ext[name] for name in same}
    assert answer.ext["invisibleTime"] == "30000"
    assert bodies(answer) == [b"first"]


async def test_nothing_is_answered_as_by_the_real_broker(popper: Popper) -> None:
    real = recorded(Request.POP_MESSAGE, Answer.POLLING_TIMEOUT)
    for poll_ms in ("0", "20"):
        answer = await popper.pop(pollTime=poll_ms)
        assert (answer.code, answer.remark) == (real.code, real.remark)
        assert set(answer.ext) == set(real.ext)
        assert (answer.ext["startOffsetInfo"], answer.ext["msgOffsetInfo"]) == ("", "")


async def test_offsets_of_several_queues(peer: Peer, popper: Popper) -> None:
    await peer.create_topic(TOPIC, 3)
    for queue in ("0", "2", "2"):
        await peer.send(TOPIC, queue.encode(), e=queue)
    answer = await popper.pop()
    assert sorted(answer.ext["msgOffsetInfo"].split(";")) == ["0 0 0", "0 2 0,1"]
    assert sorted(answer.ext["startOffsetInfo"].split(";")) == ["0 0 0", "0 2 0"]


async def test_what_is_acknowledged_is_done(peer: Peer, popper: Popper) -> None:
    await peer.send(TOPIC, b"one")
    (got,) = got_of(await popper.pop(invisibleTime="60"))
    answer = await popper.ack(got)
    assert (answer.code, answer.ext) == (Answer.SUCCESS, {})
    assert (await popper.pop(pollTime="150")).code == Answer.POLLING_TIMEOUT


async def test_what_is_not_acknowledged_comes_again_as_of_its_topic(peer: Peer, popper: Popper) -> None:
    await peer.send(TOPIC, b"pay", "UNIQ_KEY\x01A1\x02KEYS\x01k\x02")
    await popper.pop(invisibleTime="40")
    answer = await popper.pop(pollTime="9000")
    (again,) = got_of(answer)
    message = again.message
    assert (message.topic, message.body, message.reconsume_times) == (TOPIC, b"pay", 1)
    assert message.properties["UNIQ_KEY"] == "A1"
    assert "ESC_POPPED" not in message.properties
    assert answer.ext["msgOffsetInfo"] == "1 0 0"
    assert message.properties["POP_CK"] == f"0 {answer.ext['popTime']} 30000 0 1 broker-a 0 0"
    assert again.topic == RETRY
    assert (await popper.ack(again)).code == Answer.SUCCESS


async def test_an_acknowledgement_that_comes_too_late_is_refused(peer: Peer, popper: Popper) -> None:
    await peer.send(TOPIC, b"pay")
    (got,) = got_of(await popper.pop(invisibleTime="30"))
    assert bodies(await popper.pop(pollTime="9000")) == [b"pay"]
    answer = await popper.ack(got)
    assert answer.code == Answer.NO_MESSAGE
    assert "given out again" in (answer.remark or "")


async def test_many_are_acknowledged_together(peer: Peer, popper: Popper) -> None:
    for number in range(12):
        await peer.send(TOPIC, b"%d" % number)
    got = got_of(await popper.pop(maxMsgNums="10", invisibleTime="300"))
    answer = await popper.ack_together(*got[:4], got[9])
    assert (answer.code, answer.ext) == (Answer.SUCCESS, {})
    again = await popper.ack_together(got[4], pt=1)
    assert (again.code, again.ext) == (Answer.NO_MESSAGE, {"escRefused": f"{TOPIC} 0 4"})
    mixed = await popper.ack_together(got[5], got_of(await popper.pop(maxMsgNums="1"))[0])
    assert mixed.code == Answer.SUCCESS
    found: set[bytes] = set()
    while len(found) < 5:
        found.update(bodies(await popper.pop(pollTime="9000")))
    assert found == {b"4", b"6", b"7", b"8", b"11"}


async def test_a_time_is_changed_as_by_the_real_broker(peer: Peer, popper: Popper) -> None:
    real = recorded(Request.CHANGE_MESSAGE_INVISIBLETIME, Answer.SUCCESS)
    await peer.send(TOPIC, b"pay")
    (got,) = got_of(await popper.pop(invisibleTime="80"))
    answer = await popper.change(got, 30_000)
    assert (answer.code, set(answer.ext)) == (Answer.SUCCESS, set(real.ext))
    assert (answer.ext["invisibleTime"], answer.ext["reviveQid"]) == ("30000", "0")
    assert int(answer.ext["popTime"]) > int(got.handle.split(" ")[1])
    assert (await popper.pop(pollTime="200")).code == Answer.POLLING_TIMEOUT
    longer = changed(got, answer)
    assert (await popper.ack(got)).code == Answer.NO_MESSAGE
    sooner = await popper.change(longer, 0)
    assert sooner.code == Answer.SUCCESS
    assert bodies(await popper.pop(pollTime="9000")) == [b"pay"]
    assert (await popper.change(longer, 10)).code == Answer.NO_MESSAGE


async def test_a_pop_waits_for_a_message(service: BrokerService, peer: Peer, popper: Popper) -> None:
    waiting = asyncio.create_task(popper.pop(pollTime="15000"))
    await wait_for(service, 1)
    await peer.send(TOPIC, b"news")
    assert bodies(await waiting) == [b"news"]
    await wait_for(service, 0)


async def test_who_came_first_is_served_first_and_one_message_wakes_one(
    service: BrokerService, peer: Peer, popper: Popper
) -> None:
    waiting = []
    for number in range(3):
        waiting.append(asyncio.create_task(popper.pop(pollTime="15000")))
        await wait_for(service, number + 1)
    await peer.send(TOPIC, b"news")
    assert bodies(await waiting[0]) == [b"news"]
    await wait_for(service, 2)
    for number in range(2):
        await peer.send(TOPIC, b"%d" % number)
    assert [bodies(await task) for task in waiting[1:]] == [[b"0"], [b"1"]]


async def test_another_filter_does_not_keep_one_from_being_served(
    service: BrokerService, peer: Peer, popper: Popper
) -> None:
    waiting = []
    for number, expression in enumerate(("b", "a")):
        waiting.append(asyncio.create_task(popper.pop(pollTime="15000", exp=expression, consumerGroup=f"G{number}")))
        await wait_for(service, number + 1)
    await peer.send(TOPIC, b"news", "TAGS\x01a\x02")
    assert bodies(await waiting[1]) == [b"news"]
    await peer.send(TOPIC, b"more", "TAGS\x01b\x02")
    assert bodies(await waiting[0]) == [b"more"]


async def test_who_has_left_gets_nothing(service: BrokerService, peer: Peer, popper: Popper) -> None:
    gone = RemotingClient()
    lost = asyncio.create_task(Popper(Peer(gone, service.address)).pop(pollTime="15000"))
    await wait_for(service, 1)
    await gone.close()
    with pytest.raises(RemotingError):
        await lost
    async with asyncio.timeout(5):
        while sum(len(server.connections) for server in service._servers) > 1:
            await asyncio.to_thread(lambda: None)
    await peer.send(TOPIC, b"news")
    assert bodies(await popper.pop(pollTime="9000")) == [b"news"]


async def test_a_stopping_broker_answers_those_who_wait(service: BrokerService, popper: Popper) -> None:
    waiting = asyncio.create_task(popper.pop(pollTime="15000"))
    await wait_for(service, 1)
    await service.stop()
    assert (await waiting).code == Answer.POLLING_TIMEOUT


async def test_popping_in_order(service: BrokerService, peer: Peer, popper: Popper) -> None:
    for number in range(3):
        await peer.send(TOPIC, b"%d" % number)
    answer = await popper.pop(order="true", maxMsgNums="2", attemptId="a1")
    assert answer.ext["reviveQid"] == "999"
    assert answer.ext["orderCountInfo"] == "0 0 0"
    first, second = got_of(answer)
    waiting = asyncio.create_task(popper.pop(order="true", pollTime="15000"))
    await wait_for(service, 1)
    assert (await popper.ack(first)).code == Answer.SUCCESS
    assert service.waiting_pops == 1
    assert (await popper.ack(second)).code == Answer.SUCCESS
    assert bodies(await waiting) == [b"2"], "the queue is free"


async def test_an_orderly_queue_is_free_again_when_the_time_is_over(peer: Peer, popper: Popper) -> None:
    for number in range(3):
        await peer.send(TOPIC, b"%d" % number)
    first, _ = got_of(await popper.pop(order="true", maxMsgNums="2", invisibleTime="50"))
    await popper.ack(first)
    answer = await popper.pop(order="true", pollTime="9000")
    assert bodies(answer) == [b"1", b"2"]
    assert answer.ext["orderCountInfo"] == "0 qo0%1 1;0 0 0"
    later = got_of(answer)[0]
    changed_answer = await popper.change(later, 60_000)
    assert changed_answer.ext["popTime"] == answer.ext["popTime"]
    assert changed_answer.ext["reviveQid"] == "999"
    assert int(changed_answer.ext["invisibleTime"]) >= 60_000
    assert (await popper.ack(changed(later, changed_answer))).code == Answer.SUCCESS


async def test_a_filter_by_tag(peer: Peer, popper: Popper) -> None:
    for tag in ("a", "b", "a"):
        await peer.send(TOPIC, tag.encode(), f"TAGS\x01{tag}\x02")
    answer = await popper.pop(exp="a || c")
    assert bodies(answer) == [b"a", b"a"]
    assert answer.ext["msgOffsetInfo"] == "0 0 0,2"
    assert (await popper.ack_together(*got_of(answer))).code == Answer.SUCCESS


async def test_a_notification_tells_that_there_is_something(service: BrokerService, peer: Peer, popper: Popper) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "pollTime": "0", "bornTime": "0"}
    nothing = await peer.ask(Request.NOTIFICATION, ext)
    assert (nothing.code, nothing.ext) == (Answer.SUCCESS, {"hasMsg": "false", "pollingFull": "false"})
    waiting = [
        asyncio.create_task(peer.ask(Request.NOTIFICATION, ext | {"pollTime": "15000"}, timeout_ms=20_000))
        for _ in range(2)
    ]
    await wait_for(service, 2)
    await peer.send(TOPIC, b"news")
    assert [(await task).ext["hasMsg"] for task in waiting] == ["true", "true"]
    assert bodies(await popper.pop()) == [b"news"], "they took nothing"
    assert (await peer.ask(Request.NOTIFICATION, ext | {"pollTime": "20"})).ext["hasMsg"] == "false"


async def test_a_look_changes_nothing(peer: Peer, popper: Popper) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": "2"}
    assert (await peer.ask(Request.PEEK_MESSAGE, ext)).code == Answer.PULL_NOT_FOUND
    for number in range(3):
        await peer.send(TOPIC, b"%d" % number)
    for _ in range(2):
        answer = await peer.ask(Request.PEEK_MESSAGE, ext)
        assert (answer.code, answer.ext["restNum"]) == (Answer.SUCCESS, "1")
        assert bodies(Command(0, answer.ext | {"startOffsetInfo": "0 0 0"}, answer.body)) == [b"0", b"1"]
    assert len(bodies(await popper.pop())) == 3


async def test_how_many_wait(service: BrokerService, peer: Peer, popper: Popper) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1"}
    waiting = [asyncio.create_task(popper.pop(pollTime="15000")) for _ in range(2)]
    waiting.append(asyncio.create_task(popper.pop(pollTime="15000", queueId="0")))
    await wait_for(service, 3)
    assert (await peer.ask(Request.POLLING_INFO, ext)).ext == {"pollingNum": "2"}
    assert (await peer.ask(Request.POLLING_INFO, ext | {"queueId": "0"})).ext == {"pollingNum": "1"}
    assert (await peer.ask(Request.POLLING_INFO, ext | {"consumerGroup": "other"})).ext == {"pollingNum": "0"}
    for number in range(3):
        await peer.send(TOPIC, b"%d" % number)
    await asyncio.gather(*waiting)


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
async def test_a_pop_that_cannot_be(peer: Peer, popper: Popper, changes: dict[str, str], code: Answer) -> None:
    await peer.send(TOPIC)
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
async def test_what_is_said_of_no_message(peer: Peer, popper: Popper, changes: dict[str, str], code: Answer) -> None:
    await peer.send(TOPIC)
    (got,) = got_of(await popper.pop())
    assert (await popper.ack(got, **changes)).code == code
    assert (await popper.change(got, 5, **changes)).code == code
    assert (await popper.ack(got)).code == Answer.SUCCESS, "nothing was changed"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"acks":[]}', b'{"acks":[{}]}', b'{"acks":null}', b"\xff"],
)
async def test_a_batch_that_names_nothing(peer: Peer, body: bytes) -> None:
    answer = await peer.ask(Request.BATCH_ACK_MESSAGE, body=body)
    assert answer.code in (Answer.NO_MESSAGE, Answer.INVALID_PARAMETER)


@pytest.mark.parametrize("changes", [{"b": "!"}, {"b": "/" * 12_000}, {"r": "2"}, {"so": "x"}, {"t": "nowhere"}])
async def test_a_batch_that_cannot_be(peer: Peer, popper: Popper, changes: dict[str, object]) -> None:
    await peer.send(TOPIC)
    (got,) = got_of(await popper.pop())
    assert (await popper.ack_together(got, **changes)).code in (Answer.NO_MESSAGE, Answer.INVALID_PARAMETER)
    assert (await popper.ack(got)).code == Answer.SUCCESS


async def test_answers_of_before_a_start_count_after_it(service: BrokerService, peer: Peer, popper: Popper) -> None:
    for number in range(3):
        await peer.send(TOPIC, b"%d" % number)
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


async def test_modes_are_set_and_kept(service: BrokerService, peer: Peer) -> None:
    async def set_mode(**changes: object) -> int:
        value = {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0} | changes
        return (await peer.ask(Request.SET_MESSAGE_REQUEST_MODE, body=json.dumps(value).encode())).code

    async def assigned(**changes: str) -> object:
        value = {
            "topic": TOPIC, "consumerGroup": GROUP, "clientId": "c1", "messageModel": "CLUSTERING",
            "strategyName": "AVG",
        } | changes  # fmt: skip
        answer = await peer.ask(Request.QUERY_ASSIGNMENT, body=json.dumps(value).encode())
        assert answer.code == Answer.SUCCESS
        rows = json.loads(answer.body).get("messageQueueAssignments")
        return rows and [(row["mode"], row["messageQueue"]["queueId"]) for row in rows]

    await peer.create_topic(TOPIC, 4)
    assert await assigned() is None, "it is not known there"
    await peer.heartbeat("c1", GROUP)
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
