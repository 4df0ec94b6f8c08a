"""Popping over the wire: waiting, orderly queues, filters, looks, modes."""

from __future__ import annotations

import asyncio

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.errors import RemotingError
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from tests.server.peer import Peer
from tests.server.popper import GROUP, TOPIC, Popper, bodies, changed, got_of
from tests.waiting import until_true

RETRY = f"%RETRY%{GROUP}_{TOPIC}"


async def test_a_pop_waits_for_a_message(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    waiting = asyncio.create_task(popper.pop(pollTime="15000"))
    await until_true(lambda: service.waiting_pops == 1)
    await json_peer.send(TOPIC, b"news")
    assert bodies(await waiting) == [b"news"]
    await until_true(lambda: service.waiting_pops == 0)


@pytest.mark.parametrize("poll_ms", ["0", "-1", "-30000", str(-(1 << 63))])
async def test_a_poll_time_of_nothing_or_less_never_waits(
    service: BrokerService, json_peer: Peer, popper: Popper, poll_ms: str
) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "pollTime": poll_ms, "bornTime": "0"}
    nothing = await popper.pop(pollTime=poll_ms)
    assert (nothing.code, nothing.remark) == (Answer.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
    told = await json_peer.ask(Request.NOTIFICATION, ext)
    assert (told.code, told.ext) == (Answer.SUCCESS, {"hasMsg": "false", "pollingFull": "false"})
    assert service.waiting_pops == 0
    await json_peer.send(TOPIC, b"there")
    assert (await json_peer.ask(Request.NOTIFICATION, ext)).ext == {"hasMsg": "true", "pollingFull": "false"}
    assert bodies(await popper.pop(pollTime=poll_ms, order="true")) == [b"there"]
    blocked = await popper.pop(pollTime=poll_ms, order="true")
    assert blocked.code == Answer.POLLING_TIMEOUT, "a blocked queue is not waited for"


async def test_who_came_first_is_served_first_and_one_message_wakes_one(
    service: BrokerService, json_peer: Peer, popper: Popper
) -> None:
    waiting = []
    for number in range(3):
        waiting.append(asyncio.create_task(popper.pop(pollTime="15000")))
        await until_true(lambda wanted=number + 1: service.waiting_pops == wanted)
    await json_peer.send(TOPIC, b"news")
    assert bodies(await waiting[0]) == [b"news"]
    await until_true(lambda: service.waiting_pops == 2)
    for number in range(2):
        await json_peer.send(TOPIC, b"%d" % number)
    assert [bodies(await task) for task in waiting[1:]] == [[b"0"], [b"1"]]


async def test_another_filter_does_not_keep_one_from_being_served(
    service: BrokerService, json_peer: Peer, popper: Popper
) -> None:
    waiting = []
    for number, expression in enumerate(("b", "a")):
        waiting.append(asyncio.create_task(popper.pop(pollTime="15000", exp=expression, consumerGroup=f"G{number}")))
        await until_true(lambda wanted=number + 1: service.waiting_pops == wanted)
    await json_peer.send(TOPIC, b"news", "TAGS\x01a\x02")
    assert bodies(await waiting[1]) == [b"news"]
    await json_peer.send(TOPIC, b"more", "TAGS\x01b\x02")
    assert bodies(await waiting[0]) == [b"more"]


async def test_who_has_left_gets_nothing(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    gone = RemotingClient()
    lost = asyncio.create_task(Popper(Peer(gone, service.address)).pop(pollTime="15000"))
    await until_true(lambda: service.waiting_pops == 1)
    await gone.close()
    with pytest.raises(RemotingError):
        await lost
    async with asyncio.timeout(5):
        while sum(len(server.connections) for server in service._servers) > 1:
            await asyncio.to_thread(lambda: None)
    await json_peer.send(TOPIC, b"news")
    assert bodies(await popper.pop(pollTime="9000")) == [b"news"]


async def test_a_stopping_broker_answers_those_who_wait(service: BrokerService, popper: Popper) -> None:
    waiting = asyncio.create_task(popper.pop(pollTime="15000"))
    await until_true(lambda: service.waiting_pops == 1)
    await service.stop()
    assert (await waiting).code == Answer.POLLING_TIMEOUT


async def test_popping_in_order(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    for number in range(3):
        await json_peer.send(TOPIC, b"%d" % number)
    answer = await popper.pop(order="true", maxMsgNums="2", attemptId="a1")
    assert answer.ext["reviveQid"] == "999"
    assert answer.ext["orderCountInfo"] == "0 0 0"
    first, second = got_of(answer)
    waiting = asyncio.create_task(popper.pop(order="true", pollTime="15000"))
    await until_true(lambda: service.waiting_pops == 1)
    assert (await popper.ack(first)).code == Answer.SUCCESS
    assert service.waiting_pops == 1
    assert (await popper.ack(second)).code == Answer.SUCCESS
    assert bodies(await waiting) == [b"2"], "the queue is free"


async def test_an_orderly_queue_is_free_again_when_the_time_is_over(json_peer: Peer, popper: Popper) -> None:
    for number in range(3):
        await json_peer.send(TOPIC, b"%d" % number)
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


async def test_a_filter_by_tag(json_peer: Peer, popper: Popper) -> None:
    for tag in ("a", "b", "a"):
        await json_peer.send(TOPIC, tag.encode(), f"TAGS\x01{tag}\x02")
    answer = await popper.pop(exp="a || c")
    assert bodies(answer) == [b"a", b"a"]
    assert answer.ext["msgOffsetInfo"] == "0 0 0,2"
    assert (await popper.ack_together(*got_of(answer))).code == Answer.SUCCESS


async def test_a_notification_tells_that_there_is_something(
    service: BrokerService, json_peer: Peer, popper: Popper
) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "pollTime": "0", "bornTime": "0"}
    nothing = await json_peer.ask(Request.NOTIFICATION, ext)
    assert (nothing.code, nothing.ext) == (Answer.SUCCESS, {"hasMsg": "false", "pollingFull": "false"})
    waiting = [
        asyncio.create_task(json_peer.ask(Request.NOTIFICATION, ext | {"pollTime": "15000"}, timeout_ms=20_000))
        for _ in range(2)
    ]
    await until_true(lambda: service.waiting_pops == 2)
    await json_peer.send(TOPIC, b"news")
    assert [(await task).ext["hasMsg"] for task in waiting] == ["true", "true"]
    assert bodies(await popper.pop()) == [b"news"], "they took nothing"
    assert (await json_peer.ask(Request.NOTIFICATION, ext | {"pollTime": "20"})).ext["hasMsg"] == "false"


async def test_a_look_changes_nothing(json_peer: Peer, popper: Popper) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": "2"}
    assert (await json_peer.ask(Request.PEEK_MESSAGE, ext)).code == Answer.PULL_NOT_FOUND
    for number in range(3):
        await json_peer.send(TOPIC, b"%d" % number)
    for _ in range(2):
        answer = await json_peer.ask(Request.PEEK_MESSAGE, ext)
        assert (answer.code, answer.ext["restNum"]) == (Answer.SUCCESS, "1")
        assert bodies(Command(0, answer.ext | {"startOffsetInfo": "0 0 0"}, answer.body)) == [b"0", b"1"]
    assert len(bodies(await popper.pop())) == 3


async def test_how_many_wait(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1"}
    waiting = [asyncio.create_task(popper.pop(pollTime="15000")) for _ in range(2)]
    waiting.append(asyncio.create_task(popper.pop(pollTime="15000", queueId="0")))
    await until_true(lambda: service.waiting_pops == 3)
    assert (await json_peer.ask(Request.POLLING_INFO, ext)).ext == {"pollingNum": "2"}
    assert (await json_peer.ask(Request.POLLING_INFO, ext | {"queueId": "0"})).ext == {"pollingNum": "1"}
    assert (await json_peer.ask(Request.POLLING_INFO, ext | {"consumerGroup": "other"})).ext == {"pollingNum": "0"}
    for number in range(3):
        await json_peer.send(TOPIC, b"%d" % number)
    await asyncio.gather(*waiting)
