"""Transactions over the wire: halves, decisions, and checks to a live producer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.message import decode
from broker.rocketmq.topics import HALF_TOPIC, PARKED_HALF_TOPIC
from broker.server.broker import BrokerService
from tests.server.frames import recorded_frames
from tests.server.peer import Peer
from tests.server.transacting import (
    COMMIT,
    GROUP,
    KEY,
    ROLLBACK,
    UNKNOWN,
    ask_json,
    asked,
    asking_soon,
    begin,
    bodies,
    end,
    live,
)
from tests.waiting import until_true


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    """A small store that asks soon."""
    return asking_soon(tmp_path)


async def test_a_commit_is_answered_when_it_is_durable_and_delivers_once(service: BrokerService, peer: Peer) -> None:
    half = await begin(peer)
    assert await bodies(peer) == []
    assert (await end(peer, half, COMMIT)).code == Answer.SUCCESS
    assert await bodies(peer) == [b"pay"]
    assert (await end(peer, half, COMMIT, fromTransactionCheck="true")).code == Answer.SUCCESS
    answer = await end(peer, half, ROLLBACK)
    assert answer.code == Answer.ILLEGAL_OPERATION
    assert "committed by producer 127.0.0.1:" in (answer.remark or "")
    assert await bodies(peer) == [b"pay"]


async def test_a_rollback_delivers_nothing(peer: Peer) -> None:
    half = await begin(peer)
    assert (await end(peer, half, ROLLBACK)).code == Answer.SUCCESS
    assert (await end(peer, half, COMMIT)).code == Answer.ILLEGAL_OPERATION
    assert await bodies(peer) == []


async def test_a_one_way_decision_is_carried_out(peer: Peer) -> None:
    half = await begin(peer)
    await peer.client.oneway(peer.address, Request.END_TRANSACTION, half | {"commitOrRollback": COMMIT})
    assert (await end(peer, half, COMMIT)).code == Answer.SUCCESS
    assert await bodies(peer) == [b"pay"]


async def test_a_half_of_an_old_client_says_so_by_its_property_alone(peer: Peer) -> None:
    half = await begin(peer, f="0")
    assert await bodies(peer) == []
    assert (await end(peer, half, COMMIT)).code == Answer.SUCCESS
    assert await bodies(peer) == [b"pay"]


async def test_a_half_without_a_group_property_is_of_the_group_that_sent_it(service: BrokerService, peer: Peer) -> None:
    answer = await peer.send("orders", b"x", f"TRAN_MSG\x01true\x02UNIQ_KEY\x01{KEY}\x02", f="4", a="others")
    assert answer.code == Answer.SUCCESS
    row = service.engine.transactions.table.halves.get(0)
    assert row is not None
    assert row.group == "others"


BAD_ENDS: dict[str, tuple[dict[str, str], Answer]] = {
    "another group": ({"producerGroup": "thieves"}, Answer.INVALID_PARAMETER),
    "a forged transaction id": ({"transactionId": "F" * 32}, Answer.INVALID_PARAMETER),
    "another offset": ({"tranStateTableOffset": "7"}, Answer.INVALID_PARAMETER),
    "another position": ({"commitLogOffset": "3"}, Answer.QUERY_NOT_FOUND),
    "a position far away": ({"commitLogOffset": str((1 << 63) - 1)}, Answer.QUERY_NOT_FOUND),
    "a position below zero": ({"commitLogOffset": "-1"}, Answer.INVALID_PARAMETER),
    "no offset": ({"tranStateTableOffset": ""}, Answer.SYSTEM_ERROR),
    "no such decision": ({"commitOrRollback": "4"}, Answer.INVALID_PARAMETER),
    "a word for a decision": ({"commitOrRollback": "commit"}, Answer.INVALID_PARAMETER),
}


@pytest.mark.parametrize(("changes", "code"), BAD_ENDS.values(), ids=BAD_ENDS.keys())
async def test_a_wrong_decision_is_refused_and_changes_nothing(
    service: BrokerService, peer: Peer, changes: dict[str, str], code: Answer
) -> None:
    half = await begin(peer)
    for decision in (COMMIT, ROLLBACK, UNKNOWN):
        answer = await peer.ask(Request.END_TRANSACTION, half | {"commitOrRollback": decision} | changes)
        assert answer.code == code
        assert answer.remark
    assert len(service.engine.transactions.table.halves) == 1
    assert (await end(peer, half, COMMIT)).code == Answer.SUCCESS
    assert await bodies(peer) == [b"pay"]


async def test_a_live_producer_is_asked_in_the_form_of_rocketmq(service: BrokerService, peer: Peer) -> None:
    questions = asked(peer)
    await live(peer)
    half = await begin(peer, b"paid?", more="TAGS\x01t\x02KEYS\x01k1\x02", e="2")
    question = await asyncio.wait_for(questions.get(), 5)
    recorded = next(frame for frame in recorded_frames() if frame.code == 39 and frame.serialize == "JSON")
    assert question.ext.keys() == recorded.header["extFields"].keys()
    assert question.ext["topic"] == HALF_TOPIC
    assert question.ext["tranStateTableOffset"] == half["tranStateTableOffset"]
    assert question.ext["commitLogOffset"] == half["commitLogOffset"]
    assert question.ext["transactionId"] == question.ext["msgId"] == KEY
    message = decode(question.body)
    assert (message.topic, message.queue_id, message.body) == ("orders", 2, b"paid?")
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
    answer = {
        "producerGroup": GROUP,
        "commitOrRollback": COMMIT,
        "fromTransactionCheck": "true",
        **{name: question.ext[name] for name in ("tranStateTableOffset", "commitLogOffset", "transactionId", "msgId")},
    }
    assert (await peer.ask(Request.END_TRANSACTION, answer)).code == Answer.SUCCESS
    page = await ask_json(peer, Request.LIST_TRANSACTIONS, state="decided")
    assert page["transactions"][0]["by"].startswith("check 127.0.0.1:")


async def test_after_the_last_check_it_is_parked_and_resumed_by_323(service: BrokerService, peer: Peer) -> None:
    questions = asked(peer)
    await live(peer)
    half = await begin(peer)
    for _ in range(2):
        await asyncio.wait_for(questions.get(), 5)
    await until_true(lambda: service.engine.transactions.table.parked)
    assert questions.empty()
    parked = next(iter(service.engine.transactions.table.parked.since(0)))
    copy = decode(service.engine.record_at(parked.copy_position))
    assert copy.topic == PARKED_HALF_TOPIC
    answer = await peer.ask(Request.RESUME_CHECK_HALF_MESSAGE, {"topic": copy.topic, "msgId": copy.offset_message_id})
    assert answer.code == Answer.SUCCESS, answer.remark
    await asyncio.wait_for(questions.get(), 5)
    assert (await end(peer, half, ROLLBACK, fromTransactionCheck="true")).code == Answer.SUCCESS


@pytest.mark.parametrize("identity", ["nonsense", "7F00000100002A9F0000000000FFFFFF", ""])
async def test_resuming_what_is_not_there_is_refused(peer: Peer, identity: str) -> None:
    answer = await peer.ask(Request.RESUME_CHECK_HALF_MESSAGE, {"topic": "x", "msgId": identity})
    assert answer.code in (Answer.INVALID_PARAMETER, Answer.QUERY_NOT_FOUND)
    assert answer.remark


async def test_nobody_there_is_shown_and_asked_as_soon_as_one_comes(service: BrokerService, peer: Peer) -> None:
    await begin(peer)
    table = service.engine.transactions.table
    await until_true(lambda: table.asking)
    status = await ask_json(peer, Request.GET_TRANSACTION_STATUS)
    assert status["groups"] == [{"group": GROUP, "open": 1, "due": 1, "producers": 0}]
    (row,) = (await ask_json(peer, Request.LIST_TRANSACTIONS))["transactions"]
    assert (row["state"], row["checks"], row["producers"]) == ("due", 0, [])
    questions = asked(peer)
    await live(peer)
    await asyncio.wait_for(questions.get(), 5)


async def test_a_producer_of_another_group_is_not_asked(service: BrokerService, peer: Peer) -> None:
    questions = asked(peer)
    await live(peer, "others")
    await begin(peer)
    await until_true(lambda: service.engine.transactions.table.asking)
    other = RemotingClient()
    heard = asked(own := Peer(other, service.address))
    await live(own)
    await asyncio.wait_for(heard.get(), 5)
    # what is answered after it has been sent after it
    await ask_json(peer, Request.GET_TRANSACTION_STATUS)
    assert questions.empty()
    await other.close()


async def test_a_producer_that_goes_is_not_asked(service: BrokerService, peer: Peer) -> None:
    gone = RemotingClient()
    other = Peer(gone, service.address)
    await live(other)
    await gone.close()
    await begin(peer)
    table = service.engine.transactions.table
    await until_true(lambda: table.asking)
    # another one that comes is the first that is asked
    questions = asked(peer)
    await live(peer)
    await asyncio.wait_for(questions.get(), 5)
    row = table.halves.get(0)
    assert row is not None
    assert row.checks == 1


async def test_a_half_with_a_separator_in_a_value_holds_up_nobody(service: BrokerService, peer: Peer) -> None:
    questions = asked(peer)
    await live(peer)
    await begin(peer, key="K0", more="note\x01a\x01b\x02")
    await begin(peer, key="K1")
    heard = {(await asyncio.wait_for(questions.get(), 5)).ext["transactionId"] for _ in range(2)}
    assert heard == {"K0", "K1"}
