"""A popped message that its consumer passes on with all its properties is a new message with a handle of its own."""

from __future__ import annotations

import pytest

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.message import Message
from tests.server.peer import Peer, records, send_ext
from tests.server.popper import GROUP, TOPIC, Popper, got_of
from tests.server.test_replies import V1, asker
from tests.server.test_sending import batch_item
from tests.server.transacting import COMMIT, begin, end

HANDLE = "7 1795249116470 30000 0 0 broker-a 0 7"
KEY = "UNIQ_KEY\x01A1\x02"
PASSED = f"{KEY}TAGS\x01t\x02POP_CK\x01{HANDLE}\x021ST_POP_TIME\x011795249116470\x02shop\x019\x02"


async def stored(peer: Peer, topic: str, **changes: str) -> list[Message]:
    """What is in the log, as it stands there."""
    return records((await peer.pull(topic, **changes)).body)


def assert_new(message: Message) -> None:
    """The handle of before is gone, and nothing else of what the sender said."""
    assert "POP_CK" not in message.properties
    assert (message.properties["shop"], message.properties["TAGS"]) == ("9", "t")
    assert message.properties["1ST_POP_TIME"] == "1795249116470"


async def test_what_is_passed_on_is_popped_by_a_handle_of_its_own(json_peer: Peer, popper: Popper) -> None:
    for number in range(3):
        # the first shows the broker how this sender writes, the others go the short way
        assert (await json_peer.send(TOPIC, b"%d" % number, PASSED)).code == Answer.SUCCESS
    got = got_of(await popper.pop())
    for offset, each in enumerate(got):
        assert_new(each.message)
        assert each.handle.split(" ")[0] == "0"
        assert each.handle.split(" ")[-1] == str(offset)
        assert (await popper.ack(each)).code == Answer.SUCCESS
    assert (await popper.pop()).code == Answer.POLLING_TIMEOUT


async def test_a_popped_message_goes_round_and_is_acknowledged(json_peer: Peer, popper: Popper) -> None:
    await json_peer.send(TOPIC, b"round", KEY)
    await popper.pop(invisibleTime="40")
    (again,) = got_of(await popper.pop(pollTime="9000"))
    assert again.message.properties["POP_CK"] == again.handle, "a retry says its handle itself"
    everything = "".join(f"{name}\x01{value}\x02" for name, value in again.message.properties.items())
    assert (await json_peer.send(TOPIC, b"round", everything)).code == Answer.SUCCESS
    assert (await popper.ack(again)).code == Answer.SUCCESS
    (new,) = got_of(await popper.pop())
    assert "POP_CK" not in new.message.properties
    assert new.handle.split(" ")[4:] == ["0", "broker-a", "0", "1"]
    assert (await popper.ack(new)).code == Answer.SUCCESS


@pytest.mark.parametrize(
    ("properties", "topic", "queue_id"),
    [
        ("", TOPIC, "0"),
        ("WAIT\x01false\x02", TOPIC, "0"),
        ("MSG_REGION\x01x\x02", TOPIC, "0"),
        ("DELAY\x012\x02", "SCHEDULE_TOPIC_XXXX", "1"),
        ("TIMER_DELAY_MS\x01600000\x02", "rmq_sys_wheel_timer", "0"),
        ("TIMER_DELAY_MS\x01600000\x02ESC_SCHEDULE_KEY\x01k\x02", "rmq_sys_wheel_timer", "0"),
        ("__CRC32#\x01123\x02", TOPIC, "0"),
    ],
)
async def test_a_single_send_of_any_form(peer: Peer, properties: str, topic: str, queue_id: str) -> None:
    await peer.create_topic(TOPIC)
    for number, said in enumerate((properties + PASSED, PASSED + properties) * 2):
        said = said.replace("SCHEDULE_KEY\x01k", f"SCHEDULE_KEY\x01k{number}")
        assert (await peer.send(TOPIC, b"body", said)).code == Answer.SUCCESS
    # when this one is on the disk, so are those that nobody waited for
    assert (await peer.send(TOPIC, b"last", KEY)).code == Answer.SUCCESS
    messages = [message for message in await stored(peer, topic, queueId=queue_id) if message.body == b"body"]
    assert len(messages) == 4
    for message in messages:
        assert_new(message)


async def test_request_10_with_long_names(peer: Peer) -> None:
    await peer.create_topic(TOPIC)
    assert (await peer.ask(Request.SEND_MESSAGE, V1 | {"topic": TOPIC, "properties": PASSED})).code == Answer.SUCCESS
    (message,) = await stored(peer, TOPIC)
    assert_new(message)


@pytest.mark.parametrize("others", [PASSED, KEY, ""])
async def test_messages_of_a_batch(peer: Peer, others: str) -> None:
    await peer.create_topic(TOPIC)
    body = b"".join(batch_item(b"b", each.encode()) for each in (PASSED, others, PASSED))
    answer = await peer.ask(Request.SEND_BATCH_MESSAGE, send_ext(TOPIC, PASSED, m="true"), body)
    assert answer.code == Answer.SUCCESS, answer.remark
    first, second, third = await stored(peer, TOPIC)
    assert_new(first)
    assert_new(third)
    assert "POP_CK" not in second.properties


async def test_a_half_and_its_copy(peer: Peer) -> None:
    halves = [await begin(peer, more=PASSED.replace(KEY, ""), key=f"K{number}") for number in range(3)]
    for half in await stored(peer, "RMQ_SYS_TRANS_HALF_TOPIC"):
        assert_new(half)
    for half in halves:
        assert (await end(peer, half, COMMIT)).code == Answer.SUCCESS
    copies = await stored(peer, "orders")
    assert len(copies) == 3
    for copy in copies:
        assert_new(copy)


async def test_a_reply(peer: Peer) -> None:
    await asker(peer, lambda request: request.answer())
    properties = V1["properties"] + PASSED
    topic = V1["topic"]
    for code, ext in (
        (Request.SEND_REPLY_MESSAGE, V1 | {"properties": properties}),
        (Request.SEND_REPLY_MESSAGE_V2, send_ext(topic, properties)),
    ):
        assert (await peer.ask(code, ext, b"the reply")).code == Answer.SUCCESS
    messages = await stored(peer, topic)
    assert len(messages) == 2
    for message in messages:
        assert_new(message)


async def test_what_a_consumer_gives_back_itself(json_peer: Peer, popper: Popper) -> None:
    await json_peer.send(TOPIC, b"again", PASSED)
    await popper.pop(invisibleTime="40")
    (again,) = got_of(await popper.pop(pollTime="9000"))
    retry = f"%RETRY%{GROUP}"
    everything = "".join(f"{name}\x01{value}\x02" for name, value in again.message.properties.items())
    answer = await json_peer.send(retry, b"again", everything, j="1", l="16")
    assert answer.code == Answer.SUCCESS, answer.remark
    position = again.message.position
    ext = {"group": GROUP, "offset": str(position), "delayLevel": "-1", "originMsgId": "", "originTopic": TOPIC}
    assert (await json_peer.ask(Request.CONSUMER_SEND_MSG_BACK, ext)).code == Answer.SUCCESS
    (given,) = await stored(json_peer, retry)
    (dead,) = await stored(json_peer, f"%DLQ%{GROUP}")
    for message in (given, dead):
        assert_new(message)
        assert "ESC_POPPED" not in message.properties, "it is no copy that the broker made"
