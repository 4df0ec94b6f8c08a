"""Bad input over real sockets: a clear code or that one connection closed, nothing written, others unharmed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import BINARY, MAX_FRAME_BYTES, Command, encode
from broker.server import connection
from broker.server.broker import BrokerService
from broker.server.budgets import MOST_A_SECOND
from broker.server.clock import Clocks
from broker.server.connection import Limits
from tests.server.peer import Peer, send_ext
from tests.server.stranger import Stranger, stranger_at

MEBIBYTE = 1 << 20
START_MS = 1_764_000_000_000


@pytest.fixture
async def stranger(service: BrokerService) -> AsyncIterator[Stranger]:
    async with stranger_at(service.address) as connected:
        yield connected


def nothing_is_stored(service: BrokerService) -> bool:
    return service.engine.health().log_end_position == 0 and service.engine.health().pending_bytes == 0


NO_FRAMES = {
    "claims 2 GiB": b"\x7f\xff\xff\xff" + b"x" * 100,
    "claims a negative length": b"\xff\xff\xff\xff",
    "claims no length": b"\0\0\0\0",
    "one byte more than allowed": (MAX_FRAME_BYTES + 1).to_bytes(4, "big"),
    "header beyond the frame": b"\0\0\0\x14\0\0\x01\0" + b"{" * 16,
    "header of 16 MiB": b"\0\0\0\x14\0\xff\xff\xff" + b"{" * 16,
    "unknown serialisation": b"\0\0\0\x06\x09\0\0\x02{}",
    "JSON that is none": b"\0\0\0\x0c\0\0\0\x08not json",
    "JSON without a code": b"\0\0\0\x06\0\0\0\x02{}",
    "JSON that is a list": b"\0\0\0\x06\0\0\0\x02[]",
    "binary header too short": b"\0\0\0\x06\x01\0\0\x02\0\0",
    "binary remark beyond the header": b"\0\0\0\x19\x01\0\0\x15" + b"\0" * 13 + b"\x7f\xff\xff\xff" + b"\0" * 4,
    "binary fields beyond the header": b"\0\0\0\x19\x01\0\0\x15" + b"\0" * 17 + b"\0\0\x01\0",
    "HTTP that writes": b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
}


@pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES.keys())
async def test_what_is_no_frame_closes_that_connection_with_a_logged_reason(
    service: BrokerService, stranger: Stranger, peer: Peer, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await peer.ask(Request.GET_BROKER_CONFIG)
    with caplog.at_level(logging.WARNING, "broker.server"):
        await stranger.say(data)
        assert await stranger.is_closed()
    assert any("closing the connection of 127.0.0.1" in record.getMessage() for record in caplog.records)
    assert (await peer.ask(Request.GET_BROKER_CONFIG)).code == Answer.SUCCESS
    assert nothing_is_stored(service)


@pytest.fixture
async def standing(config: EngineConfig) -> AsyncIterator[BrokerService]:
    """A broker for which all comes in the same second."""
    running = BrokerService(config, broker_port=0, namesrv_port=0, clocks=Clocks(lambda: START_MS))
    await running.start()
    yield running
    await running.stop()


async def test_of_many_in_a_second_that_send_no_frame_the_others_are_closed_later(
    standing: BrokerService, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who came again as soon as he is closed would take the time of all others, and the log's room."""
    monkeypatch.setattr(connection, "HELD_S", 0.2)
    clock = asyncio.get_running_loop().time
    took_s = []
    with caplog.at_level(logging.WARNING, "broker.server"):
        for _ in range(MOST_A_SECOND + 3):
            async with stranger_at(standing.address) as stranger:
                begun_s = clock()
                await stranger.say(NO_FRAMES["claims 2 GiB"])
                assert await stranger.is_closed()
                took_s.append(clock() - begun_s)
    assert min(took_s[MOST_A_SECOND:]) >= 0.2
    assert len([line for line in caplog.messages if "closing the connection" in line]) == MOST_A_SECOND
    assert len([line for line in caplog.messages if "the others are closed 1 s later" in line]) == 1


async def test_of_many_in_a_second_that_ask_what_nobody_knows_some_are_logged(
    standing: BrokerService, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "broker.server"):
        for _ in range(MOST_A_SECOND + 3):
            async with stranger_at(standing.address) as stranger:
                await stranger.say(encode(Command(3442, opaque=1, serialization=BINARY)))
                assert await stranger.hear() is not None
    assert len([line for line in caplog.messages if "request code 3442" in line]) == MOST_A_SECOND
    assert len([line for line in caplog.messages if "the others are named at level DEBUG" in line]) == 1


async def test_half_a_frame_and_a_hang_up_leave_nothing(service: BrokerService, stranger: Stranger, peer: Peer) -> None:
    frame = encode(Command(Request.SEND_MESSAGE_V2, send_ext("T"), b"body"))
    await stranger.say(frame[: len(frame) // 2])
    await stranger.close()
    assert (await peer.ask(Request.GET_BROKER_CONFIG)).code == Answer.SUCCESS
    assert nothing_is_stored(service)


async def test_an_unknown_code_is_answered_with_3_and_a_log_line(
    stranger: Stranger, caplog: pytest.LogCaptureFixture
) -> None:
    for code in (3442, 32000, -1):
        await stranger.say(encode(Command(code, opaque=5, serialization=BINARY)))
        answer = await stranger.hear()
        assert answer is not None
        assert (answer.code, answer.opaque, answer.remark) == (3, 5, f"request type {code} not supported")
        assert answer.serialization == BINARY
    assert "request code 3442" in caplog.text


async def test_unknown_codes_without_end_are_one_log_line_a_connection(
    stranger: Stranger, caplog: pytest.LogCaptureFixture
) -> None:
    """A line costs more than the answer, and others wait for both."""
    with caplog.at_level(logging.WARNING, "broker.server"):
        for number in range(20):
            await stranger.say(encode(Command(3442 + number, opaque=number, serialization=BINARY)))
            assert await stranger.hear() is not None
    assert [record.args[1] for record in caplog.records if record.args] == [3442]


BAD_SENDS = {
    "topic too long": ({"b": "t" * 128}, Answer.MESSAGE_ILLEGAL),
    "topic with a blank": ({"b": "my topic"}, Answer.MESSAGE_ILLEGAL),
    "topic empty": ({"b": ""}, Answer.MESSAGE_ILLEGAL),
    "topic that climbs": ({"b": "../../etc"}, Answer.MESSAGE_ILLEGAL),
    "topic not UTF-8": ({"b": "\udcff\udcfe"}, Answer.INVALID_PARAMETER),
    "topic of the broker": ({"b": "SCHEDULE_TOPIC_XXXX"}, Answer.NO_PERMISSION),
    "queue that is not there": ({"e": "4"}, Answer.INVALID_PARAMETER),
    "queue below an int": ({"e": "-2147483649"}, Answer.INVALID_PARAMETER),
    "queue beyond an int": ({"e": "2147483648"}, Answer.INVALID_PARAMETER),
    "queue that is no number": ({"e": "zero"}, Answer.INVALID_PARAMETER),
    "born time that is no number": ({"g": "now"}, Answer.INVALID_PARAMETER),
    "properties not UTF-8": ({"i": "a\x01\udcff\x02"}, Answer.MESSAGE_ILLEGAL),
    "properties without a value": ({"i": "novalue\x02"}, Answer.MESSAGE_ILLEGAL),
    "properties too large": ({"i": "a\x01" + "v" * 33_000 + "\x02"}, Answer.MESSAGE_ILLEGAL),
    "level below zero": ({"i": "DELAY\x01-1\x02"}, Answer.MESSAGE_ILLEGAL),
    "level that is no number": ({"i": "DELAY\x01soon\x02"}, Answer.MESSAGE_ILLEGAL),
    "timer that is no number": ({"i": "TIMER_DELIVER_MS\x01soon\x02"}, Answer.MESSAGE_ILLEGAL),
    "half message of nobody": ({"a": "", "f": "4", "i": "TRAN_MSG\x01true\x02"}, Answer.MESSAGE_ILLEGAL),
    "half message of nobody by sysFlag": ({"f": "4"}, Answer.MESSAGE_ILLEGAL),
    "sent as committed": ({"f": "8"}, Answer.MESSAGE_ILLEGAL),
    "sent as rolled back": ({"f": "12"}, Answer.MESSAGE_ILLEGAL),
}


@pytest.mark.parametrize(("changes", "code"), BAD_SENDS.values(), ids=BAD_SENDS.keys())
async def test_a_bad_send_is_refused_with_its_code_and_nothing_is_written(
    service: BrokerService, peer: Peer, changes: dict[str, str], code: Answer
) -> None:
    answer = await peer.send("T", **changes)
    assert answer.code == code
    assert answer.remark
    assert nothing_is_stored(service)
    assert (await peer.send("T")).code == Answer.SUCCESS


async def test_a_body_over_the_limit_is_refused(service: BrokerService, peer: Peer) -> None:
    answer = await peer.send("T", b"x" * (4 * MEBIBYTE + 1))
    assert answer.code == Answer.MESSAGE_ILLEGAL
    assert "4,194,305" in (answer.remark or "")
    assert nothing_is_stored(service)
    assert (await peer.send("T", b"x" * 4 * MEBIBYTE)).code == Answer.SUCCESS


BAD_BATCHES = {
    "empty": b"",
    "cut off": b"\0\0\0\x40" + b"\0" * 10,
    "size zero": b"\0" * 20,
    "size beyond the end": b"\x7f\xff\xff\xff" + b"\0" * 30,
    "body beyond the message": b"\0\0\0\x16" + b"\0" * 12 + b"\x7f\xff\xff\xff" + b"\0\0",
    "properties beyond the message": b"\0\0\0\x16" + b"\0" * 16 + b"\0\x05",
}


async def test_a_batch_whose_own_properties_are_none_is_refused(service: BrokerService, peer: Peer) -> None:
    item = b"\0\0\0\x19" + b"\0" * 15 + b"\x03one\0\0"
    for _ in range(2):  # the first one shows the way to those that look like it
        answer = await peer.ask(Request.SEND_BATCH_MESSAGE, send_ext("T", "no separator", m="true"), item)
        assert answer.code == Answer.MESSAGE_ILLEGAL, answer.remark
    assert nothing_is_stored(service)
    assert (await peer.ask(Request.SEND_BATCH_MESSAGE, send_ext("T", m="true"), item)).code == Answer.SUCCESS


@pytest.mark.parametrize("body", BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
async def test_a_bad_batch_is_refused_whole(service: BrokerService, peer: Peer, body: bytes) -> None:
    answer = await peer.ask(Request.SEND_BATCH_MESSAGE, send_ext("T", m="true"), body)
    assert answer.code == Answer.MESSAGE_ILLEGAL
    assert nothing_is_stored(service)


BAD_REQUESTS = {
    "pull of no topic": (Request.PULL_MESSAGE, {"consumerGroup": "G"}, b""),
    "pull of a negative queue": (
        Request.PULL_MESSAGE, {"consumerGroup": "G", "topic": "T", "queueId": "-1", "queueOffset": "0"}, b""),
    "offset of nothing": (Request.GET_MAX_OFFSET, {}, b""),
    "heartbeat that is no JSON": (Request.HEART_BEAT, {}, b"\xff{"),
    "heartbeat that is a list": (Request.HEART_BEAT, {}, b"[]"),
    "heartbeat nested deeply": (Request.HEART_BEAT, {}, b"[" * 100_000),
    "locks that are no JSON": (Request.LOCK_BATCH_MQ, {}, b"{"),
    "group that is a number": (Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b"7"),
    "group without a name": (Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b"{}"),
    "topic with a million queues": (
        Request.UPDATE_AND_CREATE_TOPIC, {"topic": "X", "readQueueNums": "1000000", "writeQueueNums": "1"}, b""),
    "topic with no queue": (
        Request.UPDATE_AND_CREATE_TOPIC, {"topic": "X", "readQueueNums": "0", "writeQueueNums": "0"}, b""),
    "topic with a broken attribute": (
        Request.UPDATE_AND_CREATE_TOPIC,
        {"topic": "X", "readQueueNums": "1", "writeQueueNums": "1", "attributes": "colour"}, b""),
    "topic of the system": (
        Request.UPDATE_AND_CREATE_TOPIC,
        {"topic": "SCHEDULE_TOPIC_XXXX", "readQueueNums": "1", "writeQueueNums": "1"}, b""),
    "message at a negative position": (Request.VIEW_MESSAGE_BY_ID, {"offset": "-5"}, b""),
    "message beyond the log": (Request.VIEW_MESSAGE_BY_ID, {"offset": "123456789"}, b""),
    "message given back by nobody": (Request.CONSUMER_SEND_MSG_BACK, {"group": "no body", "offset": "0"}, b""),
}  # fmt: skip


@pytest.mark.parametrize(("code", "ext", "body"), BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
async def test_a_bad_request_is_answered_with_an_error_and_changes_nothing(
    service: BrokerService, peer: Peer, code: Request, ext: dict[str, str], body: bytes
) -> None:
    topics, groups = service.engine.topics.all(), service.engine.groups.all()
    answer = await peer.ask(code, ext, body)
    assert answer.code != Answer.SUCCESS
    assert answer.remark
    assert (service.engine.topics.all(), service.engine.groups.all()) == (topics, groups)
    assert service.engine.health().state == "OK"
    assert nothing_is_stored(service)


async def test_unknown_topics_are_refused_when_they_are_not_to_be_made(config: EngineConfig) -> None:
    service = BrokerService(replace(config, auto_create_topics=False), broker_port=0, namesrv_port=0)
    await service.start()
    client = RemotingClient()
    try:
        peer = Peer(client, service.address)
        assert (await peer.send("T")).code == Answer.TOPIC_NOT_EXIST
        route = await client.invoke(service.namesrv_address, Request.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
        assert route.code == Answer.TOPIC_NOT_EXIST
        assert nothing_is_stored(service)
    finally:
        await client.close()
        await service.stop()


async def test_a_connection_too_many_is_refused_and_the_others_live(config: EngineConfig) -> None:
    service = BrokerService(config, broker_port=0, namesrv_port=0, limits=Limits(max_connections=1))
    await service.start()
    client = RemotingClient()
    try:
        peer = Peer(client, service.address)
        assert (await peer.send("T")).code == Answer.SUCCESS
        async with stranger_at(service.address) as extra:
            assert await extra.is_closed()
        assert (await peer.send("T")).code == Answer.SUCCESS
    finally:
        await client.close()
        await service.stop()
