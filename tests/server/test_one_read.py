"""Sends that come with one read are taken together: each is answered as if it had come alone, and order is kept."""

from __future__ import annotations

import pytest

from broker.engine.engine import Engine
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command, encode
from broker.rocketmq.message import Message
from broker.rocketmq.message import decode as decode_record
from broker.server.broker import BrokerService
from tests.server.peer import send_ext
from tests.server.stranger import Stranger, stranger_at

pytestmark = pytest.mark.parametrize("serialization", [0, 1])


def key(number: int) -> str:
    return f"UNIQ_KEY\x01C00002024A5C30946E0968C7AD36{number:04X}\x02WAIT\x01true\x02"


def frame(number: int, serialization: int, topic: str = "T", properties: str = "", **changed: str) -> bytes:
    ext = send_ext(topic, properties=properties or key(number), **changed)
    body = b"body %d" % number
    return encode(Command(Request.SEND_MESSAGE_V2, ext, body, opaque=number, serialization=serialization))


async def answers(socket: Stranger, count: int) -> dict[int, Command]:
    found: dict[int, Command] = {}
    while len(found) < count:
        answer = await socket.hear()
        assert answer is not None
        found[answer.opaque] = answer
    return found


def messages(engine: Engine, topic: str, queue_id: int) -> list[Message]:
    return [decode_record(engine.record_at(entry.position)) for entry in engine.entries(topic, queue_id, 0, 100)]


async def learnt(socket: Stranger, serialization: int, *topics: str) -> None:
    """Have the broker know what such sends look like."""
    for topic in topics:
        await socket.say(frame(9999, serialization, topic))
        assert (await answers(socket, 1))[9999].code == Answer.SUCCESS


async def test_each_of_many_is_answered_with_its_own_place(service: BrokerService, serialization: int) -> None:
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T")
        count = 150
        await socket.say(b"".join(frame(n, serialization, e=str(n % 4)) for n in range(count)))
        found = await answers(socket, count)
    assert {answer.code for answer in found.values()} == {Answer.SUCCESS}
    for number, answer in found.items():
        assert answer.ext["transactionId"] == f"C00002024A5C30946E0968C7AD36{number:04X}"
        assert answer.ext["queueId"] == str(number % 4)
    offsets = [[int(found[n].ext["queueOffset"]) for n in range(queue, count, 4)] for queue in range(4)]
    assert all(each == list(range(each[0], each[0] + len(each))) for each in offsets)
    assert [m.body for m in messages(service.engine, "T", 1)] == [b"body %d" % n for n in range(1, count, 4)]


async def test_others_in_between_keep_their_order_and_their_answers(service: BrokerService, serialization: int) -> None:
    """Two topics, a timer, a delay level, a queue that is not there, a topic that is new, and a question."""
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T", "U")
        said = [frame(n, serialization, "U" if n % 5 == 0 else "T") for n in range(60)]
        said[7] = frame(7, serialization, properties=key(7) + "TIMER_DELAY_SEC\x01600\x02")
        said[13] = frame(13, serialization, e="99")
        said[22] = frame(22, serialization, properties=key(22) + "DELAY\x012\x02")
        said[23] = frame(23, serialization, "New")
        ask = {"topic": "T", "queueId": "0"}
        said[31] = encode(Command(Request.GET_MAX_OFFSET, ask, opaque=31, serialization=serialization))
        await socket.say(b"".join(said))
        found = await answers(socket, 60)
    assert [n for n, answer in found.items() if answer.code] == [13]
    plain = [n for n in range(60) if n % 5 and n not in (7, 13, 22, 23, 31)]
    assert [m.body for m in messages(service.engine, "T", 0)] == [b"body 9999", *(b"body %d" % n for n in plain)]
    others = [b"body %d" % n for n in range(0, 60, 5)]
    assert [m.body for m in messages(service.engine, "U", 0)] == [b"body 9999", *others]
    assert [m.body for m in messages(service.engine, "New", 0)] == [b"body 23"]


async def test_what_was_said_before_a_broken_frame_is_taken(service: BrokerService, serialization: int) -> None:
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T")
        broken = (8).to_bytes(4, "big") + b"\0\0\0\x04" + b"rest"
        await socket.say(b"".join(frame(n, serialization) for n in range(10)) + broken + frame(11, serialization))
        while await socket.hear() is not None:
            pass  # answers may still leave before the connection is closed
    async with stranger_at(service.address) as socket:
        # one that is answered is behind all of them on the disk
        await learnt(socket, serialization, "T")
    assert len(messages(service.engine, "T", 0)) == 12
