"""Pulls: filters, answers, and waiting for what is not there yet."""

from __future__ import annotations

import asyncio

import pytest

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from broker.server.processors import pull
from broker.server.processors.pull import PullHeaders
from tests.server.frames import recorded_exchanges
from tests.server.peer import Peer, pull_ext, records

SUSPEND = {"sysFlag": "6", "suspendTimeoutMillis": "10000"}
SHORTLY = {"sysFlag": "6", "suspendTimeoutMillis": "30"}


async def waiting(service: BrokerService, count: int) -> None:
    """Returns when this many pulls wait."""
    async with asyncio.timeout(5):
        while service.waiting_pulls != count:
            await asyncio.to_thread(lambda: None)


def bodies(answer: Command) -> list[bytes]:
    return [message.body for message in records(answer.body)]


async def test_messages_come_in_order_with_the_bounds_of_the_queue(peer: Peer) -> None:
    for number in range(5):
        await peer.send("T", b"%d" % number)
    answer = await peer.pull("T", 1, maxMsgNums="3")
    assert (answer.code, answer.remark) == (Answer.SUCCESS, "FOUND")
    assert bodies(answer) == [b"1", b"2", b"3"]
    assert {name: answer.ext[name] for name in ("nextBeginOffset", "minOffset", "maxOffset")} == {
        "nextBeginOffset": "4", "minOffset": "0", "maxOffset": "5"}  # fmt: skip


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
async def test_an_answer_has_the_fields_that_the_real_broker_gives(peer: Peer, serialize: str) -> None:
    recorded = {
        answer.header["code"]: set(answer.header["extFields"])
        for _, answer in recorded_exchanges(Request.PULL_MESSAGE, serialize)
        if answer.header.get("extFields")
    }
    await peer.send("T")
    assert set((await peer.pull("T")).ext) == recorded[Answer.SUCCESS]
    assert set((await peer.pull("T", 1)).ext) == recorded[Answer.PULL_NOT_FOUND]


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        (2, Answer.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", "2"),
        (7, Answer.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", "2"),
        (-3, Answer.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", "0"),
    ],
)
async def test_offsets_outside_the_queue(peer: Peer, offset: int, code: Answer, remark: str, next_offset: str) -> None:
    await peer.send("T")
    await peer.send("T")
    answer = await peer.pull("T", offset)
    assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (code, remark, next_offset)


async def test_what_a_pull_says_once_does_not_stand_for_another(peer: Peer) -> None:
    for number in range(4):
        await peer.send("T", b"%d" % number, "TAGS\x01even\x02" if number % 2 == 0 else "")
    assert bodies(await peer.pull("T", maxMsgNums="2")) == [b"0", b"1"]
    assert bodies(await peer.pull("T", 2, maxMsgNums="2")) == [b"2", b"3"]
    assert bodies(await peer.pull("T", maxMsgNums="2", subscription="even")) == [b"0", b"2"]
    assert bodies(await peer.pull("T", maxMsgNums="1")) == [b"0"]
    assert (await peer.pull("T", maxMsgNums="1", queueOffset="x")).code == Answer.INVALID_PARAMETER
    assert (await peer.pull("T", maxMsgNums="many")).code == Answer.INVALID_PARAMETER
    assert bodies(await peer.pull("T", 3, maxMsgNums="1")) == [b"3"]


def test_what_is_remembered_of_pulls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "_MOST_HEADERS", 3)
    headers = PullHeaders()
    long = pull_ext("g", "T", subscription="a || " * 200)
    assert headers.read(long) is not headers.read(long)
    few = [pull_ext("g", f"T{number}") for number in range(3)]
    first = [headers.read(ext) for ext in few]
    assert [headers.read(ext) for ext in few] == first
    headers.read(pull_ext("g", "one more"))
    assert headers.read(few[0]) is not first[0]


async def test_an_empty_queue_begins_at_zero(peer: Peer) -> None:
    await peer.create_topic("T")
    empty, beyond = await peer.pull("T"), await peer.pull("T", 5)
    assert (empty.code, empty.remark) == (Answer.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
    assert (beyond.code, beyond.ext["nextBeginOffset"]) == (Answer.PULL_OFFSET_MOVED, "0")


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [("*", [b"a", b"b", b"c"]), ("a", [b"a"]), ("a || c", [b"a", b"c"]), (" c||  b ", [b"b", b"c"]), ("A", [])],
)
async def test_tags_are_filtered_by_the_pulls_own_expression(peer: Peer, expression: str, wanted: list[bytes]) -> None:
    for tag in ("a", "b", "c"):
        await peer.send("T", tag.encode(), f"TAGS\x01{tag}\x02")
    answer = await peer.pull("T", subscription=expression)
    assert bodies(answer) == wanted
    assert answer.code == (Answer.SUCCESS if wanted else Answer.PULL_RETRY_IMMEDIATELY)
    assert answer.ext["nextBeginOffset"] == "3"


async def test_tags_are_filtered_by_the_groups_subscription(peer: Peer) -> None:
    await peer.send("T", b"a", "TAGS\x01a\x02")
    await peer.send("T", b"b", "TAGS\x01b\x02")
    await peer.heartbeat("c1", "G", expression="b", version=5)
    assert bodies(await peer.pull("T", sysFlag="0", subVersion="5")) == [b"b"]


async def test_a_pull_that_needs_a_subscription_says_which_one_is_missing(peer: Peer) -> None:
    await peer.send("T")
    assert (await peer.pull("T", sysFlag="0")).code == Answer.SUBSCRIPTION_NOT_EXIST
    await peer.heartbeat("c1", "G", topic="Other", version=5)
    assert (await peer.pull("T", sysFlag="0")).code == Answer.SUBSCRIPTION_NOT_EXIST
    await peer.heartbeat("c1", "G", topic="T", version=5)
    assert (await peer.pull("T", sysFlag="0", subVersion="6")).code == Answer.SUBSCRIPTION_NOT_LATEST
    assert (await peer.pull("T", subVersion="6")).code == Answer.SUCCESS


async def test_a_pull_of_what_may_not_be_read_is_refused(peer: Peer) -> None:
    await peer.create_topic("W", perm="2")
    assert (await peer.pull("W")).code == Answer.NO_PERMISSION
    assert (await peer.pull("Nowhere")).code == Answer.TOPIC_NOT_EXIST
    await peer.create_topic("T")
    assert (await peer.pull("T", queueId="1")).code == Answer.INVALID_PARAMETER


async def test_a_pull_commits_the_offset_of_a_known_group(service: BrokerService, peer: Peer) -> None:
    await peer.send("T")
    await peer.pull("T", group="TOOLS_CONSUMER", sysFlag="5", commitOffset="1")
    assert service.engine.offsets.get("TOOLS_CONSUMER", "T", 0) is None
    await peer.pull("T", sysFlag="5", commitOffset="1")
    assert service.engine.offsets.get("G", "T", 0) == 1


async def test_request_361_is_a_pull(peer: Peer) -> None:
    await peer.send("T", b"lite")
    assert bodies(await peer.ask(Request.LITE_PULL_MESSAGE, pull_ext("G", "T"))) == [b"lite"]


async def test_a_message_wakes_all_that_wait_for_its_queue(service: BrokerService, peer: Peer) -> None:
    await peer.create_topic("T", 2)
    pulls = [asyncio.ensure_future(peer.pull("T", **SUSPEND)) for _ in range(500)]
    other = asyncio.ensure_future(peer.pull("T", queueId="1", **SUSPEND))
    await waiting(service, 501)
    await peer.send("T", b"news")
    assert {tuple(bodies(answer)) for answer in await asyncio.gather(*pulls)} == {(b"news",)}
    assert not other.done()
    await peer.send("T", b"other news", e="1")
    assert bodies(await other) == [b"other news"]


async def test_a_message_that_is_not_wanted_wakes_nobody(service: BrokerService, peer: Peer) -> None:
    await peer.create_topic("T")
    pull = asyncio.ensure_future(peer.pull("T", subscription="b", **SUSPEND))
    await waiting(service, 1)
    await peer.send("T", b"a", "TAGS\x01a\x02")
    assert not pull.done()
    await peer.send("T", b"b", "TAGS\x01b\x02")
    answer = await pull
    assert bodies(answer) == [b"b"]
    assert answer.ext["nextBeginOffset"] == "2"


async def test_time_that_is_over_is_answered_with_nothing_found(service: BrokerService, peer: Peer) -> None:
    await peer.create_topic("T")
    answers = await asyncio.gather(*(peer.pull("T", **SHORTLY) for _ in range(50)))
    assert {(answer.code, answer.ext["nextBeginOffset"]) for answer in answers} == {(Answer.PULL_NOT_FOUND, "0")}
    assert service.waiting_pulls == 0


async def test_a_waiting_pull_ends_with_its_topic(service: BrokerService, peer: Peer) -> None:
    await peer.create_topic("T")
    pull = asyncio.ensure_future(peer.pull("T", **SUSPEND | {"suspendTimeoutMillis": "200"}))
    await waiting(service, 1)
    await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
    assert (await pull).code == Answer.TOPIC_NOT_EXIST


async def test_pulls_that_wait_are_answered_when_the_broker_stops(service: BrokerService, peer: Peer) -> None:
    await peer.create_topic("T")
    pull = asyncio.ensure_future(peer.pull("T", **SUSPEND))
    await waiting(service, 1)
    await service.stop()
    assert (await pull).code == Answer.PULL_NOT_FOUND


async def test_delayed_messages_wake_their_consumers_when_due_and_not_before(
    service: BrokerService, peer: Peer
) -> None:
    await peer.create_topic("T")
    pull = asyncio.ensure_future(peer.pull("T", **SUSPEND))
    await waiting(service, 1)
    sent = await peer.send("T", b"later", "DELAY\x011\x02")
    assert sent.code == Answer.SUCCESS
    due_ms = service.engine.entries("SCHEDULE_TOPIC_XXXX", 0, 0, 1)[0].tags_code
    (message,) = records((await pull).body)
    assert message.body == b"later"
    assert 0 <= message.store_ms - due_ms < 500


async def test_a_pull_gives_at_most_32_messages_and_256_kb_until_the_settings_say_more(peer: Peer) -> None:
    for _ in range(2):
        for number in range(20):
            await peer.send("many", b"%d" % number)
    for _ in range(4):
        await peer.send("large", b"x" * 100_000)
    for asked, given in (("10", 10), ("32", 32), ("33", 32), ("1024", 32)):
        answer = await peer.pull("many", maxMsgNums=asked)
        assert (len(bodies(answer)), answer.ext["nextBeginOffset"]) == (given, str(given))
    assert len(bodies(await peer.pull("many", 32, maxMsgNums="1024"))) == 8
    assert len(bodies(await peer.pull("large", maxMsgBytes=str(4 << 20)))) == 2
    assert len(bodies(await peer.pull("large", maxMsgBytes="1"))) == 1
    settings = b"maxTransferCountOnMessageInMemory=36\nmaxTransferBytesOnMessageInMemory=400000"
    assert (await peer.ask(Request.UPDATE_BROKER_CONFIG, body=settings)).code == Answer.SUCCESS
    assert len(bodies(await peer.pull("many", maxMsgNums="1024"))) == 36
    assert len(bodies(await peer.pull("large", maxMsgBytes=str(4 << 20)))) == 3


@pytest.mark.parametrize("wait_ms", ["0", "-1", "-9223372036854775808"])
async def test_a_pull_that_has_no_time_to_wait_is_answered_at_once(
    peer: Peer, service: BrokerService, wait_ms: str
) -> None:
    await peer.send("T")
    answer = await peer.pull("T", 1, **SUSPEND | {"suspendTimeoutMillis": wait_ms})
    assert (answer.code, service.waiting_pulls) == (Answer.PULL_NOT_FOUND, 0)
