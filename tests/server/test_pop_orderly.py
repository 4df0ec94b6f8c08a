"""Popping in order over the wire: progress is the first message that is not acknowledged, as in Apache RocketMQ."""

from __future__ import annotations

import asyncio

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from tests.server.peer import Peer
from tests.server.popper import GROUP, TOPIC, Popper, bodies, changed, got_of
from tests.waiting import until_true

ORDER = {"order": "true"}


async def send(peer: Peer, count: int) -> None:
    for number in range(count):
        await peer.send(TOPIC, b"%d" % number)


async def progress(peer: Peer) -> str:
    """The offset of the group, as tools see it."""
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    return (await peer.ask(Request.QUERY_CONSUMER_OFFSET, ext)).ext["offset"]


async def test_everything_from_the_first_open_message_on_comes_again(json_peer: Peer, popper: Popper) -> None:
    await send(json_peer, 4)
    zero, one, two = got_of(await popper.pop(maxMsgNums="3", attemptId="a1", **ORDER))
    assert (await popper.ack(zero)).code == Answer.SUCCESS
    assert (await popper.change(one, 300)).code == Answer.SUCCESS
    assert (await popper.ack(two)).code == Answer.SUCCESS
    assert await progress(json_peer) == "1"
    again = await popper.pop(maxMsgNums="3", attemptId="a2", pollTime="15000", **ORDER)
    assert bodies(again) == [b"1", b"2", b"3"]
    assert again.ext["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 0"
    assert (again.ext["startOffsetInfo"], again.ext["msgOffsetInfo"]) == ("0 0 1", "0 0 1,2,3")
    for late in (one, two):
        assert (await popper.ack(late)).code == Answer.NO_MESSAGE
    assert await progress(json_peer) == "1"
    for got in reversed(got_of(again)):
        assert (await popper.ack(got)).code == Answer.SUCCESS
    assert await progress(json_peer) == "4"


async def test_the_same_attempt_gets_its_pop_again_with_the_same_counts(json_peer: Peer, popper: Popper) -> None:
    await send(json_peer, 3)
    first = await popper.pop(maxMsgNums="3", attemptId="a1", invisibleTime="50", **ORDER)
    assert first.ext["orderCountInfo"] == "0 0 0"
    second = await popper.pop(maxMsgNums="3", attemptId="a2", pollTime="15000", **ORDER)
    assert second.ext["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 qo0%2 1;0 0 1"
    again = await popper.pop(maxMsgNums="3", attemptId="a2", **ORDER)
    assert bodies(again) == [b"0", b"1", b"2"]
    assert again.ext["orderCountInfo"] == second.ext["orderCountInfo"]
    assert (await popper.pop(attemptId="a3", **ORDER)).code == Answer.POLLING_TIMEOUT
    # what was acknowledged behind an open message is part of it, too
    assert (await popper.ack(got_of(again)[2])).code == Answer.SUCCESS
    third = await popper.pop(maxMsgNums="3", attemptId="a2", **ORDER)
    assert bodies(third) == [b"0", b"1", b"2"]
    assert third.ext["orderCountInfo"] == second.ext["orderCountInfo"]
    assert (await popper.ack(got_of(again)[0])).code == Answer.NO_MESSAGE
    assert (await popper.ack_together(*got_of(third))).code == Answer.SUCCESS
    assert await progress(json_peer) == "3"


async def test_the_block_lasts_until_the_last_open_message_is_visible(
    service: BrokerService, json_peer: Peer, popper: Popper
) -> None:
    await send(json_peer, 3)
    zero, one, two = got_of(await popper.pop(maxMsgNums="3", **ORDER))
    later = changed(two, await popper.change(two, 60_000))
    assert (await popper.change(zero, 10)).code == Answer.SUCCESS
    assert (await popper.ack(one)).code == Answer.SUCCESS
    assert (await popper.pop(pollTime="60", **ORDER)).code == Answer.POLLING_TIMEOUT
    waiting = asyncio.create_task(popper.pop(pollTime="15000", **ORDER))
    await until_true(lambda: service.waiting_pops == 1)
    assert (await popper.ack(later)).code == Answer.SUCCESS
    assert bodies(await waiting) == [b"0", b"1", b"2"], "it was answered when the last one that kept it was done"


async def test_a_batch_with_gaps(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    await send(json_peer, 6)
    got = got_of(await popper.pop(maxMsgNums="5", **ORDER))
    waiting = asyncio.create_task(popper.pop(pollTime="15000", **ORDER))
    await until_true(lambda: service.waiting_pops == 1)
    assert (await popper.ack_together(got[0], got[2], got[4])).code == Answer.SUCCESS
    assert await progress(json_peer) == "1"
    assert service.waiting_pops == 1
    assert (await popper.ack_together(got[3], got[1])).code == Answer.SUCCESS
    assert bodies(await waiting) == [b"5"], "who waits is woken when the last gap is closed"


@pytest.mark.parametrize("offset", ["0", "1"])
async def test_what_is_said_of_a_pop_from_before_a_reset_ends_nothing(
    json_peer: Peer, popper: Popper, offset: str
) -> None:
    await send(json_peer, 3)
    before = got_of(await popper.pop(**ORDER))
    ext = {"topic": TOPIC, "group": GROUP, "queueId": "0", "offset": offset, "timestamp": "-1", "isForce": "true"}
    assert (await json_peer.ask(Request.INVOKE_BROKER_TO_RESET_OFFSET, ext)).code == Answer.SUCCESS
    again = await popper.pop(**ORDER)
    assert bodies(again) == [b"%d" % number for number in range(int(offset), 3)]
    assert again.ext["orderCountInfo"] == "0 0 0"
    await popper.ack_together(*before)
    for got in before:
        await popper.ack(got)
    assert await progress(json_peer) == offset
    assert (await popper.pop(**ORDER)).code == Answer.POLLING_TIMEOUT
    assert (await popper.ack_together(*got_of(again))).code == Answer.SUCCESS
    assert await progress(json_peer) == "3"


async def test_it_is_so_after_the_broker_was_started_again(
    service: BrokerService, config: EngineConfig, json_peer: Peer, popper: Popper
) -> None:
    await send(json_peer, 4)
    zero, one, two = got_of(await popper.pop(maxMsgNums="3", **ORDER))
    assert (await popper.ack_together(zero, two)).code == Answer.SUCCESS
    assert (await popper.change(one, 300)).code == Answer.SUCCESS
    await service.stop()
    another = BrokerService(config, broker_port=0, namesrv_port=0)
    await another.start()
    client = RemotingClient()
    try:
        again = await Popper(Peer(client, another.address)).pop(maxMsgNums="3", pollTime="15000", **ORDER)
        assert bodies(again) == [b"1", b"2", b"3"]
        assert again.ext["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 0"
    finally:
        await client.close()
        await another.stop()
