"""Our own requests about transactions: lists, steering, one life, status."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from tests.server.peer import Peer
from tests.server.transacting import (
    COMMIT,
    KEY,
    ROLLBACK,
    ask_json,
    asked,
    asking_soon,
    begin,
    bodies,
    end,
    live,
    steer,
)


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    """A small store that asks soon."""
    return asking_soon(tmp_path)


async def test_lists_go_page_by_page_and_filter(peer: Peer) -> None:
    halves = [await begin(peer, b"%d" % number, key=f"K{number}") for number in range(5)]
    await end(peer, halves[1], COMMIT)
    await end(peer, halves[3], ROLLBACK)
    first = await ask_json(peer, Request.LIST_TRANSACTIONS, count="2")
    second = await ask_json(peer, Request.LIST_TRANSACTIONS, count="2", after=str(first["next"]))
    rows = first["transactions"] + second["transactions"]
    assert [row["offset"] for row in rows] == [0, 2, 4]
    assert second["next"] is None
    assert (rows[0]["topic"], rows[0]["queueId"], rows[0]["transactionId"]) == ("orders", 0, "K0")
    assert (await ask_json(peer, Request.LIST_TRANSACTIONS, group="others"))["transactions"] == []
    assert (await ask_json(peer, Request.LIST_TRANSACTIONS, topic="others"))["transactions"] == []
    assert (await ask_json(peer, Request.LIST_TRANSACTIONS, olderThanMs="3600000"))["transactions"] == []
    decided = (await ask_json(peer, Request.LIST_TRANSACTIONS, state="decided"))["transactions"]
    assert [(row["offset"], row["state"]) for row in decided] == [(3, "rolled back"), (1, "committed")]
    assert (await peer.ask(Request.LIST_TRANSACTIONS, {"state": "lost"})).code == Answer.INVALID_PARAMETER


async def test_steering_says_of_each_what_became_of_it(peer: Peer) -> None:
    halves = [await begin(peer, b"%d" % number, key=f"K{number}") for number in range(3)]
    await end(peer, halves[0], ROLLBACK)
    missing = {"tranStateTableOffset": "99", "commitLogOffset": "5"}
    results = await steer(peer, "commit", *halves, halves[1], missing)
    assert [result["outcome"] for result in results] == ["refused", "done", "done", "done", "refused"]
    assert (results[0]["code"], results[4]["code"]) == (Answer.ILLEGAL_OPERATION, Answer.QUERY_NOT_FOUND)
    assert await bodies(peer) == [b"1", b"2"]
    assert [result["outcome"] for result in await steer(peer, "commit", halves[1])] == ["already"]
    row = (await ask_json(peer, Request.LIST_TRANSACTIONS, state="decided"))["transactions"][0]
    assert (row["by"], row["reason"]) == ("ann", "stuck")
    answer = await end(peer, halves[1], ROLLBACK)
    assert "committed by ann" in (answer.remark or "")


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b'{"action":"forget","targets":[],"who":"ann"}', b'{"action":"commit","targets":[],"who":" "}'],
)
async def test_steering_that_cannot_be_read_is_refused(peer: Peer, body: bytes) -> None:
    answer = await peer.ask(Request.STEER_TRANSACTIONS, {}, body)
    assert answer.code == Answer.INVALID_PARAMETER
    assert answer.remark


async def test_check_now_asks_at_once(service: BrokerService, peer: Peer) -> None:
    questions = asked(peer)
    await live(peer)
    half = await begin(peer, more="CHECK_IMMUNITY_TIME_IN_SECONDS\x013600\x02")
    assert [result["outcome"] for result in await steer(peer, "check", half)] == ["done"]
    await asyncio.wait_for(questions.get(), 5)


async def test_one_transaction_tells_its_life(service: BrokerService, peer: Peer) -> None:
    questions = asked(peer)
    await live(peer)
    half = await begin(peer)
    await asyncio.wait_for(questions.get(), 5)
    await end(peer, half, COMMIT, fromTransactionCheck="true")
    for ext in ({"transactionId": KEY}, {"offset": "0"}, {"position": half["commitLogOffset"]}):
        found = await ask_json(peer, Request.GET_TRANSACTION, **ext)
        assert found["state"] == "committed"
        kinds = [event["kind"] for event in found["life"]]
        assert kinds[:2] == ["half", "check"]
        assert set(kinds[2:]) == {"committed", "delivered"}
        delivered = next(event for event in found["life"] if event["kind"] == "delivered")
        assert (delivered["topic"], delivered["queueId"], delivered["queueOffset"]) == ("orders", 0, 0)
    assert (await peer.ask(Request.GET_TRANSACTION, {"transactionId": "nobody"})).code == Answer.QUERY_NOT_FOUND
