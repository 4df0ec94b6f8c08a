"""Deleting a topic for which something waits: what is asked, what is said, what comes of it."""

from __future__ import annotations

import json

import pytest

from broker.engine.testing.driver import BORN_HOST
from broker.engine.topic_backlog import Waiting
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from broker.server.processors import topics
from tests.server.peer import Peer
from tests.server.test_timers import HOUR_MS, listed, now_ms, send_timer
from tests.server.transacting import COMMIT, begin, end
from tests.waiting import until_true
from tests.watching import Calls

NOTHING = {"timers": 0, "delayed": 0, "halves": 0, "parkedHalves": 0}
SOME = {"timers": 2, "delayed": 1, "halves": 1, "parkedHalves": 0}


async def waiting(peer: Peer, topic: str = "orders") -> dict[str, int]:
    answer = await peer.ask(Request.GET_TOPIC_WAITING, {"topic": topic})
    assert answer.code == Answer.SUCCESS, answer.remark
    said = json.loads(answer.body)
    assert (said.pop("topic"), said.pop("complete")) == (topic, True)
    assert abs(said.pop("nowMs") - now_ms()) < HOUR_MS
    return dict(said)


async def with_something(peer: Peer) -> dict[str, str]:
    await peer.create_topic("orders", 3)
    await send_timer(peer, 1, topic="orders")
    await send_timer(peer, 2, topic="orders")
    await peer.send("orders", b"level", "DELAY\x012\x02")
    return await begin(peer)


async def test_what_waits_for_a_topic_is_told(peer: Peer) -> None:
    assert await waiting(peer) == NOTHING
    await with_something(peer)
    await send_timer(peer, 3, topic="others")
    assert await waiting(peer) == SOME


async def test_a_topic_for_which_something_waits_is_not_deleted_without_a_word(peer: Peer) -> None:
    await with_something(peer)
    answer = await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert answer.code == Answer.ILLEGAL_OPERATION
    assert answer.ext == {
        "escTimers": "2", "escDelayed": "1", "escHalves": "1", "escParkedHalves": "0",
        "escError": "topic_has_waiting",
    }  # fmt: skip
    assert "4 messages are pending: timers 2, delayed 1, halves 1" in (answer.remark or "")
    assert await waiting(peer) == SOME
    assert (await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "orders"})).code == Answer.SUCCESS


async def test_a_topic_for_which_nothing_waits_is_deleted_as_ever(peer: Peer) -> None:
    await peer.create_topic("orders")
    await peer.send("orders")
    for _ in range(2):
        answer = await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
        assert answer.code == Answer.SUCCESS
    assert (await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "orders"})).code == Answer.TOPIC_NOT_EXIST


async def test_another_word_is_refused(peer: Peer) -> None:
    await peer.create_topic("orders")
    answer = await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders", "escPending": "drop"})
    assert answer.code == Answer.INVALID_PARAMETER
    assert (await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "orders"})).code == Answer.SUCCESS


async def test_cancel_ends_all_that_waits(service: BrokerService, peer: Peer) -> None:
    half = await with_something(peer)
    answer = await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders", "escPending": "cancel"})
    assert answer.code == Answer.SUCCESS, answer.remark
    assert (answer.ext["escTimers"], answer.ext["escDelayed"], answer.ext["escHalves"]) == ("2", "1", "1")
    assert (await end(peer, half, COMMIT)).code == Answer.ILLEGAL_OPERATION
    await until_true(lambda: not service.engine.timers.states.by_topic)
    assert (await listed(peer, topic="orders"))["items"] == []
    assert await waiting(peer) == NOTHING
    assert (await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "orders"})).code == Answer.TOPIC_NOT_EXIST


async def test_keep_leaves_what_waits_and_it_can_be_cancelled_later(service: BrokerService, peer: Peer) -> None:
    await with_something(peer)
    answer = await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders", "escPending": "keep"})
    assert answer.code == Answer.SUCCESS, answer.remark
    assert await waiting(peer) == SOME
    await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders", "escPending": "cancel"})
    await until_true(lambda: not service.engine.timers.states.by_topic)
    assert await waiting(peer) == NOTHING


@pytest.mark.parametrize("choice", ["", "keep"])
async def test_what_comes_while_it_is_counted_is_not_missed(
    service: BrokerService, peer: Peer, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    """The message is parked when its lane was passed; it may not be on the disk yet when the count ends."""
    await peer.create_topic("orders", 3)
    for _ in range(20):
        await peer.send("others", b"level", "DELAY\x012\x02")
    monkeypatch.setattr(topics, "_LOOKS_AT_ONCE", 5)
    looks: list[bool] = []

    def send_meanwhile(_: object, more: bool) -> None:
        looks.append(more)
        if len(looks) == 2:
            service.engine.append(
                "orders", 2, b"late", b"DELAY\x011\x02", born_ms=now_ms(), born_host=BORN_HOST, now_ms=now_ms()
            )

    with Calls(Waiting.look, after=send_meanwhile):
        answer = await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders", "escPending": choice})
    assert looks[0]
    assert answer.ext["escDelayed"] == "1"
    assert answer.code == (Answer.SUCCESS if choice else Answer.ILLEGAL_OPERATION), answer.remark
    await until_true(lambda: (config := service.engine.topics.get("orders")) and config.read_queues == 3)


@pytest.mark.parametrize("gone", [True, False])
async def test_a_retry_topic_goes_with_what_waits_when_its_group_is_gone(peer: Peer, gone: bool) -> None:
    await peer.heartbeat("c1", "G")
    await peer.send("%RETRY%G", b"again", "DELAY\x012\x02")
    if gone:
        await peer.ask(Request.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G"})
    answer = await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%G"})
    assert answer.code == (Answer.SUCCESS if gone else Answer.ILLEGAL_OPERATION), answer.remark
    assert await waiting(peer, "%RETRY%G") == (NOTHING if gone else NOTHING | {"delayed": 1})
