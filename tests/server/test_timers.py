"""Timers by remoting: RocketMQ's own requests, ours, and what of them cannot be."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from typing import Any

import pytest

from broker.client import AsyncProducer, BrokerRefused
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.rocketmq.ids import RecallHandle, read_handle
from broker.server.broker import BrokerService
from tests.server.peer import Peer, records
from tests.waiting import until_true

HOUR_MS = 3_600_000
KEY = "C00002024A5C30946E0968C7AD360000"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def unique(number: int = 0) -> str:
    return f"UNIQ_KEY\x01{KEY[:-4]}{number:04X}\x02"


async def send_timer(
    peer: Peer, number: int = 0, *, topic: str = "T", at_ms: int | None = None, more: str = ""
) -> Command:
    at_ms = now_ms() + HOUR_MS if at_ms is None else at_ms
    return await peer.send(topic, b"later", f"{unique(number)}TIMER_DELIVER_MS\x01{at_ms}\x02{more}")


async def recall(peer: Peer, handle: str, topic: str = "T") -> Command:
    ext = {"producerGroup": "g", "topic": topic, "recallHandle": handle, "bname": "broker-a"}
    return await peer.ask(Request.RECALL_MESSAGE, ext)


async def asked(peer: Peer, code: int, ext: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    answer = await peer.ask(code, ext, json.dumps(body).encode() if body else b"")
    assert answer.code == Answer.SUCCESS, answer.remark
    decoded: dict[str, Any] = json.loads(answer.body)
    return decoded


async def listed(peer: Peer, **ext: str) -> dict[str, Any]:
    return await asked(peer, Request.LIST_TIMERS, {"fromMs": "0", "toMs": str(2**62), "limit": "100"} | ext)


async def test_the_answer_to_a_timer_is_the_same_the_short_and_the_long_way(peer: Peer) -> None:
    at_ms = now_ms() // 1000 * 1000 + HOUR_MS
    for number in range(3):
        answer = await send_timer(peer, number, at_ms=at_ms)
        assert set(answer.ext) == {
            "msgId", "queueId", "queueOffset", "transactionId", "MSG_REGION", "TRACE_ON", "escDueMs", "recallHandle",
        }  # fmt: skip
        assert answer.ext["escDueMs"] == str(at_ms)
        assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("0", str(number))
        assert read_handle(answer.ext["recallHandle"]) == RecallHandle(
            "T", "broker-a", at_ms - 1000 + 1, answer.ext["transactionId"]
        )


async def test_a_timer_in_the_past_is_an_ordinary_message(peer: Peer) -> None:
    answer = await send_timer(peer, at_ms=5)
    assert "recallHandle" not in answer.ext
    assert "escDueMs" not in answer.ext
    stored = records((await peer.pull("T")).body)[0]
    assert (stored.properties["TIMER_DELIVER_MS"], "TIMER_OUT_MS" in stored.properties) == ("5", False)


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        (f"TIMER_DELIVER_MS\x01{2**62}\x02", "timer_too_far"),
        ("TIMER_DELIVER_MS\x015\x02ESC_REJECT_PAST\x01true\x02", "timer_past"),
        ("TIMER_DELIVER_MS\x01soon\x02", None),
        ("TIMER_DELIVER_MS\x01\x02", None),
        ("TIMER_DELAY_SEC\x01" + "9" * 19 + "\x02", None),
        ("TIMER_DELAY_MS\x011e3\x02", None),
        ("TIMER_DELAY_MS\x01100000\x02ESC_SCHEDULE_KEY\x01\x02", None),
        ("TIMER_DELAY_MS\x01100000\x02ESC_SCHEDULE_KEY\x01k\x02ESC_ON_CONFLICT\x01merge\x02", None),
        ("TIMER_DELIVER_MS\x015\x02TIMER_DEL_UNIQKEY\x01" + KEY + "\x02", "timer_past"),
    ],
)
async def test_moments_that_cannot_be_are_refused_with_13_and_a_word(
    peer: Peer, properties: str, word: str | None
) -> None:
    await peer.create_topic("T")
    answer = await peer.send("T", b"x", unique() + properties)
    assert (answer.code, answer.ext.get("escError")) == (Answer.MESSAGE_ILLEGAL, word)
    assert answer.remark
    assert (await listed(peer))["items"] == []
    assert records((await peer.pull("T")).body) == []


async def test_a_recall_takes_its_victim_and_says_what_it_did(peer: Peer) -> None:
    handle = (await send_timer(peer)).ext["recallHandle"]
    answers = [await recall(peer, handle) for _ in range(2)]
    assert [(answer.code, answer.ext["msgId"]) for answer in answers] == [(0, unique()[9:-1])] * 2
    assert [answer.ext["escOutcome"] for answer in answers] == ["cancelled", "already_cancelled"]
    assert (await listed(peer))["items"] == []
    assert (await asked(peer, Request.GET_TIMER_STATUS))["cancelledTotal"] == 1


async def test_recalls_that_cannot_be_are_refused_with_604(peer: Peer) -> None:
    handle = read_handle((await send_timer(peer)).ext["recallHandle"])
    await send_timer(peer, 1, topic="Other")
    wrong = [
        "nonsense", "",
        str(RecallHandle("T", "broker-a", now_ms() - 1_000, "0" * 32)),
        str(RecallHandle("T", "broker-a", now_ms() + 3_654 * 24 * HOUR_MS, "0" * 32)),
        str(RecallHandle("T", "broker-b", handle.timestamp_ms, handle.unique_key)),
        str(RecallHandle("Other", "broker-a", handle.timestamp_ms, handle.unique_key)),
    ]  # fmt: skip
    codes = [(await recall(peer, text)).code for text in wrong]
    assert codes == [Answer.ILLEGAL_OPERATION] * len(wrong)
    assert (await recall(peer, str(handle), "Missing")).code == Answer.TOPIC_NOT_EXIST
    assert len((await listed(peer))["items"]) == 2


async def test_a_recall_of_what_does_not_wait_succeeds_and_says_so(service: BrokerService, peer: Peer) -> None:
    await send_timer(peer, 1, topic="Other")
    await peer.create_topic("T")
    for moment_ms in (now_ms() + 60_000, now_ms() + 3_652 * 24 * HOUR_MS):
        for _ in range(2):
            answer = await recall(peer, str(RecallHandle("T", "broker-a", moment_ms, unique(1)[9:-1])))
            assert (answer.code, answer.ext["msgId"]) == (Answer.SUCCESS, unique(1)[9:-1])
            assert answer.ext["escOutcome"] == "unknown"
    assert [item["topic"] for item in (await listed(peer))["items"]] == ["Other"]
    assert service.engine.queue_bounds("rmq_sys_wheel_timer", 0) == (0, 2)


async def test_what_was_recalled_before_it_came_never_comes_out(service: BrokerService, peer: Peer) -> None:
    await peer.create_topic("T")
    at_ms = now_ms() + 700
    handle = str(RecallHandle("T", "broker-a", at_ms, unique()[9:-1]))
    assert (await recall(peer, handle)).code == Answer.SUCCESS
    answer = await send_timer(peer, at_ms=at_ms)
    assert (answer.code, "recallHandle" in answer.ext) == (Answer.SUCCESS, True)
    await send_timer(peer, 1, at_ms=at_ms + 1)
    pulled = await peer.pull("T", sysFlag="6", suspendTimeoutMillis="15000")
    assert [message.unique_key for message in records(pulled.body)] == [unique(1)[9:-1]]


async def test_a_recall_takes_a_message_wherever_its_handle_says_it_was(peer: Peer) -> None:
    answer = await send_timer(peer)
    key = read_handle(answer.ext["recallHandle"]).unique_key
    for moment_ms in (now_ms() + 60_000, 5):
        recalled = await recall(peer, str(RecallHandle("T", "broker-a", moment_ms, key)))
        assert (recalled.code, recalled.ext["escOutcome"]) == (
            (Answer.SUCCESS, "cancelled") if moment_ms > 5 else (Answer.ILLEGAL_OPERATION, "already_cancelled")
        )
    assert (await listed(peer))["items"] == []


async def test_a_recall_of_what_was_delivered_says_so(peer: Peer) -> None:
    answer = await send_timer(peer)
    position = int(answer.ext["msgId"][-16:], 16)
    steered = await asked(peer, Request.STEER_TIMERS, action="deliver_now", targets=[{"position": position}])
    assert steered["results"][0]["outcome"] == "delivered_now"
    recalled = await recall(peer, answer.ext["recallHandle"])
    assert (recalled.code, recalled.ext["escOutcome"]) == (Answer.SUCCESS, "already_delivered")


async def test_this_projects_own_producer_is_told_definitely(service: BrokerService, peer: Peer) -> None:
    handle = (await send_timer(peer)).ext["recallHandle"]
    unknown = str(RecallHandle("T", "broker-a", now_ms() + 60_000, "0" * 32))
    async with AsyncProducer("g", service.namesrv_address) as producer:
        for _ in range(2):
            assert await producer.recall("T", handle) == unique()[9:-1]
        with pytest.raises(BrokerRefused, match="no timer with this id is pending") as caught:
            await producer.recall("T", unknown)
    assert caught.value.code == Answer.ILLEGAL_OPERATION


async def test_checkpoint_and_metrics_have_rocketmqs_form(peer: Peer) -> None:
    for number in range(3):
        await send_timer(peer, number)
    body = (await peer.ask(Request.GET_TIMER_CHECK_POINT)).body
    assert len(body) == 56
    read_ms, _, offset, master = struct.unpack_from(">qqqq", body)
    assert (offset, master) == (3, 3)
    assert abs(read_ms - now_ms()) < 10_000
    metrics = json.loads((await peer.ask(Request.GET_TIMER_METRICS)).body)
    assert set(metrics) == {"dataVersion", "timingCount"}
    assert set(metrics["dataVersion"]) == {"counter", "stateVersion", "timestamp"}
    assert metrics["timingCount"]["T"]["count"] == 3
    assert set(metrics["timingCount"]["T"]) == {"count", "timeStamp"}


async def test_a_list_goes_on_from_its_cursor(peer: Peer) -> None:
    base_ms = now_ms() + HOUR_MS
    for number in (4, 2, 0, 3, 1):
        await send_timer(peer, number, at_ms=base_ms + number * 700)
    seen: list[int] = []
    cursor: dict[str, str] = {}
    for _ in range(9):
        page = await listed(peer, limit="2", **cursor)
        seen += [timer["dueMs"] for timer in page["items"]]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert seen == [base_ms + number * 700 for number in range(5)]
    part = await listed(peer, fromMs=str(base_ms + 700), toMs=str(base_ms + 2100))
    assert [timer["dueMs"] for timer in part["items"]] == [base_ms + 700, base_ms + 1400]


async def test_a_long_list_lets_others_have_their_answer_and_is_whole(peer: Peer) -> None:
    base_ms, count = now_ms() + HOUR_MS, 500
    await asyncio.gather(
        *(send_timer(peer, number, at_ms=base_ms + number, more="KEYS\x01batch\x02") for number in range(count))
    )
    answered: list[str] = []

    async def list_all() -> dict[str, Any]:
        page = await listed(peer, limit="1000")
        answered.append("list")
        return page

    async def ask_how_it_goes() -> None:
        await asked(peer, Request.GET_TIMER_STATUS)
        answered.append("status")

    page, _ = await asyncio.gather(list_all(), ask_how_it_goes())
    assert answered == ["status", "list"]
    assert [timer["dueMs"] for timer in page["items"]] == [base_ms + number for number in range(count)]
    assert (page["cursor"], page["complete"]) == (None, True)
    assert all(timer["handle"] for timer in page["items"])
    part = await listed(peer, limit="300")
    assert (len(part["items"]), part["complete"]) == (300, True)
    rest = await listed(peer, limit="300", cursor=part["cursor"])
    assert part["items"] + rest["items"] == page["items"]
    named = await listed(peer, limit="50", key="batch")
    assert len(named["items"]) == 50, "one that names a key has no cursor"


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (Request.LIST_TIMERS, {"fromMs": "x", "toMs": "5", "limit": "5"}),
        (Request.LIST_TIMERS, {"fromMs": "0", "toMs": "5", "limit": "0"}),
        (Request.LIST_TIMERS, {"fromMs": "0", "toMs": "5", "limit": "1001"}),
        (Request.LIST_TIMERS, {"fromMs": "0", "toMs": "5", "limit": "5", "cursor": "nonsense"}),
        (Request.GET_TIMER_WHEEL, {"fromMs": "0", "toMs": "5000", "stepMs": "999"}),
        (Request.GET_TIMER_WHEEL, {"fromMs": "0", "toMs": str(2**62), "stepMs": "1000"}),
        (Request.GET_TIMER_FORECAST, {"fromMs": "5000", "toMs": "5000", "stepMs": "1000"}),
        (Request.GET_TIMER_FORECAST, {"fromMs": "0", "toMs": "5000"}),
        (Request.PAUSE_TIMERS, {}),
        (Request.PAUSE_TIMERS, {"paused": "perhaps"}),
    ],
)
async def test_questions_that_make_no_sense_are_refused_by_name(peer: Peer, code: int, ext: dict[str, str]) -> None:
    answer = await peer.ask(code, ext)
    assert answer.code in (Answer.INVALID_PARAMETER, Answer.SYSTEM_ERROR)
    assert "failed; its log" not in (answer.remark or "")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"{}", b'{"action":"cancel"}', b'{"action":"cancel","targets":[]}',
        b'{"action":"explode","targets":[{"position":0}]}', b'{"action":"cancel","targets":[{}]}',
        b'{"action":"cancel","targets":[{"position":"0"}]}', b'{"action":"cancel","targets":[{"scheduleKey":"k"}]}',
        b'{"action":"cancel","targets":[{"position":0,"handle":"x"}]}',
        b'{"action":"reschedule","targets":[{"position":0}]}',
        b'{"action":"cancel","targets":[{"position":-1}]}', b'{"action":"cancel","targets":[{"position":1e400}]}',
        b'{"action":"reschedule","dueMs":-5,"targets":[{"position":0}]}',
        b'{"action":"cancel","targets":[' + b",".join([b'{"position":0}'] * 1001) + b"]}",
        b'{"action":"cancel","reason":"a\\u0002b","targets":[{"position":0}]}',
    ],
)  # fmt: skip
async def test_steering_that_cannot_be_is_refused_and_changes_nothing(peer: Peer, body: bytes) -> None:
    await send_timer(peer)
    answer = await peer.ask(Request.STEER_TIMERS, body=body)
    assert answer.code == Answer.INVALID_PARAMETER, answer.remark
    assert len((await listed(peer))["items"]) == 1


async def test_targets_of_nothing_are_unknown_each_on_its_own(peer: Peer) -> None:
    await send_timer(peer)
    await peer.send("T", b"plain", unique(9))
    targets = [
        {"position": 10**15}, {"position": 1}, {"topic": "T", "scheduleKey": "k"},
        {"topic": "None", "scheduleKey": "k"},
        {"topic": "T", "uniqueKey": "0" * 32}, {"topic": "T", "uniqueKey": unique(9)[9:-1]}, {"handle": "nonsense"},
        {"messageId": "0" * 32}, {"messageId": "nonsense"}, {"topic": "T", "uniqueKey": unique()[9:-1]},
    ]  # fmt: skip
    told = await asked(peer, Request.STEER_TIMERS, action="cancel", targets=targets)
    outcomes = [result["outcome"] for result in told["results"]]
    assert outcomes[-1] == "cancelled"
    assert set(outcomes[:-1]) <= {"unknown", "refused"}
    assert (await listed(peer))["items"] == []


async def test_the_release_wins_or_the_cancel_never_both(peer: Peer) -> None:
    await peer.create_topic("T")
    base_ms = now_ms() + 2_000
    for number in range(40):
        await send_timer(peer, number, at_ms=base_ms + number)

    async def cancel(number: int) -> str:
        target = {"topic": "T", "uniqueKey": unique(number)[9:-1]}
        told = await asked(peer, Request.STEER_TIMERS, action="cancel", targets=[target])
        outcome: str = told["results"][0]["outcome"]
        return outcome

    cancelling: list[asyncio.Task[str]] = []
    for number in range(40):
        await until_true(lambda due_ms=base_ms + number: now_ms() >= due_ms, every_s=0.001)
        cancelling.append(asyncio.create_task(cancel(number)))
    outcomes = await asyncio.gather(*cancelling)
    assert set(outcomes) <= {"cancelled", "already_delivered"}
    last = await send_timer(peer, 99, at_ms=base_ms + 50)
    assert last.code == Answer.SUCCESS
    async with asyncio.timeout(20):
        found: list[str] = []
        while unique(99)[9:-1] not in found:
            answer = await peer.pull("T", sysFlag="6", suspendTimeoutMillis="5000", queueOffset=str(len(found)))
            found += [message.unique_key or "" for message in records(answer.body)]
    delivered = [unique(number)[9:-1] in found for number in range(40)]
    assert delivered == [outcome == "already_delivered" for outcome in outcomes]
    assert len(found) == len(set(found))
