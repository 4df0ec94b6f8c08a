"""Sends: what is answered, what is stored, and that both ways of reading a send store the same."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.config import EngineConfig
from broker.engine.log.ticket import Ticket
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.errors import RequestRefused
from broker.rocketmq.frame import BINARY, decode, encode
from broker.rocketmq.message import decode as decode_record
from broker.rocketmq.sends import split_batch
from broker.server.broker import BrokerService
from broker.server.send_reply import binary_reply, reply_command
from tests.server.peer import BORN_MS, Peer, records, send_ext

UNIQUE = "UNIQ_KEY\x01C00002024A5C30946E0968C7AD360000\x02"


async def test_a_send_is_answered_with_what_java_clients_read(service: BrokerService, peer: Peer) -> None:
    await peer.send("T", properties=UNIQUE)
    answer = await peer.send("T", properties=UNIQUE, e="0")
    port = int(peer.address.rpartition(":")[2])
    second = service.engine.entries("T", 0, 1, 1)[0].position
    assert answer.ext == {
        "msgId": f"7F000001{port:08X}{second:016X}",
        "queueId": "0",
        "queueOffset": "1",
        "transactionId": "C00002024A5C30946E0968C7AD360000",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


async def test_what_is_stored_is_what_was_sent_and_what_the_broker_adds(peer: Peer) -> None:
    await peer.send("T", b"first", UNIQUE + "TAGS\x01a\x02", h="3")
    await peer.send("T", b"second", UNIQUE + "TAGS\x01a\x02colour\x01红\x02", h="3")
    for message, body in zip(records((await peer.pull("T")).body), (b"first", b"second"), strict=True):
        assert (message.topic, message.queue_id, message.body) == ("T", 0, body)
        assert (message.flag, message.sys_flag, message.born_ms) == (3, 0, BORN_MS)
        assert message.properties["MSG_REGION"] == "DefaultRegion"
        assert message.properties["TRACE_ON"] == "true"
        assert message.properties["CLUSTER"] == "DefaultCluster"
        assert message.tags == "a"
        assert message.born_host[0] == "127.0.0.1"


async def test_a_second_send_stores_the_same_as_the_first(peer: Peer) -> None:
    """The second binary send goes the short way, the first the long one."""
    for _ in range(3):
        await peer.send("T", b"body", UNIQUE + "WAIT\x01true\x02")
    stored = records((await peer.pull("T")).body)
    assert len({tuple(sorted(message.properties.items())) for message in stored}) == 1


async def test_properties_that_the_broker_adds_are_not_there_twice(peer: Peer) -> None:
    again = UNIQUE + "MSG_REGION\x01elsewhere\x02CLUSTER\x01other\x02TRACE_ON\x01false\x02"
    for _ in range(2):
        await peer.send("T", properties=again)
    for message in records((await peer.pull("T")).body):
        assert message.properties["CLUSTER"] == "DefaultCluster"
        assert message.properties["MSG_REGION"] == "DefaultRegion"


async def test_a_message_without_a_unique_id_is_given_one(peer: Peer) -> None:
    keys = set()
    for _ in range(3):
        await peer.send("T")
        keys.add((await peer.send("T", properties="a\x01b")).ext["transactionId"])
    assert len(keys) == 3
    assert all(len(key) == 32 for key in keys)


async def test_the_answer_to_a_delayed_send_says_when_it_is_due(service: BrokerService, peer: Peer) -> None:
    answers = [await peer.send("T", b"later", UNIQUE + "DELAY\x012\x02") for _ in range(3)]
    due_ms = [str(entry.tags_code) for entry in service.engine.entries("SCHEDULE_TOPIC_XXXX", 1, 0, 3)]
    assert [answer.ext["escDueMs"] for answer in answers] == due_ms
    assert {answer.ext["queueId"] for answer in answers} == {"0"}


async def test_a_oneway_send_is_stored_and_not_answered(peer: Peer) -> None:
    for _ in range(3):
        await peer.client.oneway(peer.address, Request.SEND_MESSAGE_V2, send_ext("T", UNIQUE), b"quiet")
    await peer.send("T", b"loud", UNIQUE)
    assert [message.body for message in records((await peer.pull("T")).body)] == [b"quiet"] * 3 + [b"loud"]


async def test_request_10_with_long_names_is_a_send(peer: Peer) -> None:
    ext = {"producerGroup": "g", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
           "sysFlag": "0", "bornTimestamp": str(BORN_MS), "flag": "0", "properties": "KEYS\x01k\x02"}  # fmt: skip
    assert (await peer.ask(Request.SEND_MESSAGE, ext, b"old")).code == Answer.SUCCESS
    assert [message.keys for message in records((await peer.pull("T")).body)] == [["k"]]


def batch_item(body: bytes, properties: bytes) -> bytes:
    size = 22 + len(body) + len(properties)
    return b"".join((size.to_bytes(4, "big"), b"\0" * 12, len(body).to_bytes(4, "big"), body,
                     len(properties).to_bytes(2, "big"), properties))  # fmt: skip


async def test_a_batch_is_stored_in_order_and_answered_once_with_all_ids(peer: Peer) -> None:
    items = [batch_item(b"item %d" % n, b"KEYS\x01k%d\x02" % n) for n in range(3)]
    answer = await peer.ask(Request.SEND_BATCH_MESSAGE, send_ext("T", UNIQUE, m="true"), b"".join(items))
    assert answer.code == Answer.SUCCESS
    assert len(answer.ext["msgId"].split(",")) == 3
    assert answer.ext["queueOffset"] == "0"
    assert answer.ext["transactionId"] == "C00002024A5C30946E0968C7AD360000"
    stored = records((await peer.pull("T")).body)
    assert [message.body for message in stored] == [b"item 0", b"item 1", b"item 2"]
    assert "MSG_REGION" not in stored[0].properties


@pytest.mark.parametrize("ext", [{"m": "true"}, {}], ids=["said", "by its code"])
async def test_the_body_of_a_batch_has_the_size_of_one_message_and_no_more(
    peer: Peer, config: EngineConfig, ext: dict[str, str]
) -> None:
    half = batch_item(b"x" * (config.max_body_bytes // 2 - 22), b"")
    assert len(half) * 2 == config.max_body_bytes
    taken = await peer.ask(Request.SEND_BATCH_MESSAGE, send_ext("T", **ext), half + half)
    assert taken.code == Answer.SUCCESS
    refused = await peer.ask(Request.SEND_BATCH_MESSAGE, send_ext("T", **ext), half + half + batch_item(b"", b""))
    assert refused.code == Answer.MESSAGE_ILLEGAL
    assert f"{config.max_body_bytes:,}" in (refused.remark or "")
    assert (await peer.ask(Request.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})).ext["offset"] == "2"


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "a\x01b\x02"])), min_size=1, max_size=4))
def test_a_batch_is_cut_alike_whether_its_messages_are(shapes: list[tuple[int, str]]) -> None:
    body = b"".join(batch_item(b"x" * length, properties.encode()) for length, properties in shapes)
    parts = split_batch(body)
    assert parts == [(b"x" * length, properties.encode(), 0) for length, properties in shapes]
    for wrong in (body[:1], body[:-1], body[:3] + bytes([body[3] + 1]) + body[4:], b"", bytes(len(body))):
        with pytest.raises(RequestRefused):
            split_batch(wrong)


async def test_a_message_given_back_is_parked_for_its_group_and_then_dead(service: BrokerService, peer: Peer) -> None:
    await peer.heartbeat("c1", "G")
    await peer.send("T", b"bad luck", UNIQUE)
    position = records((await peer.pull("T")).body)[0].position
    back = {"group": "G", "offset": str(position), "delayLevel": "2", "maxReconsumeTimes": "1"}
    assert (await peer.ask(Request.CONSUMER_SEND_MSG_BACK, back)).code == Answer.SUCCESS
    parked = decode_record(service.engine.record_at(service.engine.entries("SCHEDULE_TOPIC_XXXX", 1, 0, 1)[0].position))
    assert parked.properties["REAL_TOPIC"] == "%RETRY%G"
    assert (await peer.ask(Request.CONSUMER_SEND_MSG_BACK, back | {"delayLevel": "-1"})).code == Answer.SUCCESS
    assert [message.body for message in records((await peer.pull("%DLQ%G")).body)] == [b"bad luck"]


@pytest.mark.parametrize(("tries", "topic"), [("1", "%RETRY%G"), ("3", "%DLQ%G")])
async def test_a_consumer_that_sends_its_failure_itself_is_served(peer: Peer, tries: str, topic: str) -> None:
    await peer.heartbeat("c1", "G")
    answer = await peer.send("%RETRY%G", b"again", UNIQUE, j=tries, l="2")
    assert answer.code == Answer.SUCCESS
    assert [message.body for message in records((await peer.pull(topic)).body)] == [b"again"]


@given(
    queue_id=st.integers(0, 100_000),
    queue_offset=st.integers(0, 1 << 60),
    position=st.integers(0, 1 << 62),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    unique_key=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    host=st.sampled_from([bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F]), bytes([37] * 8), bytes(range(20))]),
)
def test_the_quick_answer_is_the_slow_one(
    queue_id: int, queue_offset: int, position: int, opaque: int, unique_key: str | None, host: bytes
) -> None:
    ticket = Ticket(None, "T", queue_id, queue_offset, position, 100, 1, host, None, unique_key)
    slow = encode(reply_command(ticket, opaque, BINARY, unique_key or ""))
    assert decode(binary_reply(ticket, opaque)[4:]) == decode(slow[4:])


async def test_thousands_of_sends_in_one_go_are_all_answered_and_stored(peer: Peer) -> None:
    await peer.create_topic("T", 4)
    answers = await asyncio.gather(*(peer.send("T", b"%d" % n, UNIQUE, e=str(n % 4)) for n in range(2000)))
    assert {answer.code for answer in answers} == {Answer.SUCCESS}
    assert len({answer.ext["msgId"] for answer in answers}) == 2000
    assert sorted(int(answer.ext["queueOffset"]) for answer in answers) == sorted(list(range(500)) * 4)
