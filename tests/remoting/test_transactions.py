"""Transactions over the wire: halves, decisions, checks to a live producer, and what operators ask and steer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.engine.config import EngineConfig
from broker.engine.message import decode
from broker.engine.store.topics import HALF_TOPIC, PARKED_HALF_TOPIC
from broker.remoting.client import RemotingClient
from broker.remoting.codec import Command
from broker.remoting.codes import Answer, Request
from broker.remoting.service import BrokerService
from tests.remoting.conftest import MEBIBYTE
from tests.remoting.frames import recorded_frames
from tests.remoting.peer import Peer, records

GROUP = "payers"
KEY = "C00002024A5C30946E0968C7AD360000"
COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    """A small store that asks soon."""
    return EngineConfig(
        root=str(tmp_path / "store"),
        segment_size_bytes=16 * MEBIBYTE,
        queue_file_entries=1000,
        index_slots=1000,
        index_entries=4000,
        delay_levels="1s 1h",
        transaction_timeout_ms=200,
        transaction_interval_ms=300,
        transaction_checks=2,
    )


async def begin(peer: Peer, body: bytes = b"pay", *, key: str = KEY, more: str = "", **changes: str) -> dict[str, str]:
    """Send a half; the fields that decide it."""
    properties = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02UNIQ_KEY\x01{key}\x02{more}"
    answer = await peer.send("orders", body, properties, **({"f": "4"} | changes))
    assert answer.code == Answer.SUCCESS, answer.remark
    assert answer.ext["transactionId"] == key
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][-16:], 16)),
        "transactionId": key,
        "msgId": key,
        "fromTransactionCheck": "false",
    }


async def end(peer: Peer, half: dict[str, str], decision: str, **changes: str) -> Command:
    return await peer.ask(Request.END_TRANSACTION, half | {"commitOrRollback": decision} | changes)


async def until(holds: Callable[[], object], timeout_s: float = 5) -> None:
    """Wait until something holds: the broker moves in its own time."""
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 (the broker has no event for it)
            await asyncio.sleep(0.02)


async def bodies(peer: Peer) -> list[bytes]:
    answer = await peer.pull("orders")
    return [message.body for message in records(answer.body)] if answer.code == Answer.SUCCESS else []


def asked(peer: Peer) -> asyncio.Queue[Command]:
    """The questions that the broker puts to this client."""
    heard: asyncio.Queue[Command] = asyncio.Queue()
    peer.client.register(Request.CHECK_TRANSACTION_STATE, lambda _, request: heard.put_nowait(request))
    return heard


async def live(peer: Peer, group: str = GROUP) -> None:
    """Be a producer of the group."""
    body = json.dumps({"clientID": "c1", "producerDataSet": [{"groupName": group}], "consumerDataSet": []}).encode()
    assert (await peer.ask(Request.HEART_BEAT, body=body)).code == Answer.SUCCESS


async def ask_json(peer: Peer, code: int, body: bytes = b"", **ext: str) -> Any:
    answer = await peer.ask(code, ext, body)
    assert answer.code == Answer.SUCCESS, answer.remark
    return json.loads(answer.body)


async def steer(peer: Peer, action: str, *targets: dict[str, str], reason: str = "stuck") -> list[dict[str, Any]]:
    places = [{"offset": int(t["tranStateTableOffset"]), "position": int(t["commitLogOffset"])} for t in targets]
    said = json.dumps({"action": action, "targets": places, "who": "ann", "reason": reason}).encode()
    found = await ask_json(peer, Request.STEER_TRANSACTIONS, said)
    results: list[dict[str, Any]] = found["results"]
    return results


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
    row = service.engine.transactions.book.halves.get(0)
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
    assert len(service.engine.transactions.book.halves) == 1
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
    await until(lambda: service.engine.transactions.book.parked)
    assert questions.empty()
    parked = next(iter(service.engine.transactions.book.parked.since(0)))
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
    book = service.engine.transactions.book
    await until(lambda: book.asking)
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
    await until(lambda: service.engine.transactions.book.asking)
    await asyncio.sleep(0.3)
    assert questions.empty()


# our own requests


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


async def test_a_producer_that_goes_is_not_asked(service: BrokerService, peer: Peer) -> None:
    gone = RemotingClient()
    other = Peer(gone, service.address)
    await live(other)
    await gone.close()
    await begin(peer)
    book = service.engine.transactions.book
    await until(lambda: book.asking)
    await asyncio.sleep(0.3)
    row = book.halves.get(0)
    assert row is not None
    assert row.checks == 0
