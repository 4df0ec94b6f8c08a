"""Sends that come with one read are taken together: each is answered as if it had come alone, and order is kept."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from broker.engine.engine import Engine
from broker.engine.log.append import append_sends
from broker.engine.timer.parking import Parking
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command, encode
from broker.rocketmq.message import Message
from broker.rocketmq.message import decode as decode_record
from broker.rocketmq.topics import HALF_TOPIC, OP_TOPIC
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


def messages(engine: Engine, topic: str, queue_id: int) -> list[Message]:
    return [decode_record(engine.record_at(entry.position)) for entry in engine.entries(topic, queue_id, 0, 100)]


async def learnt(socket: Stranger, serialization: int, *topics: str) -> None:
    """Have the broker know what such sends look like."""
    for topic in topics:
        await socket.say(frame(9999, serialization, topic))
        assert (await socket.answers(1))[9999].code == Answer.SUCCESS


async def test_each_of_many_is_answered_with_its_own_place(service: BrokerService, serialization: int) -> None:
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T")
        count = 150
        await socket.say(b"".join(frame(n, serialization, e=str(n % 4)) for n in range(count)))
        found = await socket.answers(count)
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
        found = await socket.answers(60)
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


HALF = "TRAN_MSG\x01true\x02PGROUP\x01payers\x02"


def half(number: int, serialization: int, topic: str = "T", more: str = "", **changed: str) -> bytes:
    return frame(number, serialization, topic, HALF + key(number) + more, f="4", **changed)


def ending(
    answer: Command, serialization: int, number: int, *, said: str = "8", flag: int = 2, **changed: str
) -> bytes:
    """What becomes of a half, by the answer to it."""
    ext = {
        "producerGroup": "payers", "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][-16:], 16)), "commitOrRollback": said,
        "transactionId": answer.ext["transactionId"], "msgId": answer.ext["transactionId"],
        "fromTransactionCheck": "false", **changed,
    }  # fmt: skip
    command = Command(Request.END_TRANSACTION, ext, flag=flag, opaque=number, serialization=serialization)
    return encode(command)


async def test_halves_and_decisions_of_one_read_are_each_taken(service: BrokerService, serialization: int) -> None:
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T")
        await socket.say(half(1000, serialization))
        known = (await socket.answers(1))[1000]
        await socket.say(ending(known, serialization, 1001, flag=0))
        await socket.answers(1)
        await socket.say(b"".join(half(n, serialization, e=str(n % 2)) for n in range(20)))
        begun = await socket.answers(20)
        said = [
            ending(begun[n], serialization, 100 + n, said="12" if n % 5 == 0 else "8", flag=0 if n % 3 == 0 else 2)
            for n in range(20)
        ]
        # between them: another read's halves, plain sends, a question, a half that waits for its moment, once more the
        # same, the opposite, and one about a half of this read, which nobody may know yet
        more = [half(200 + n, serialization) for n in range(8)] + [frame(300 + n, serialization) for n in range(8)]
        mixed = [part for pair in zip(said, more, strict=False) for part in pair] + said[16:]
        mixed[9:9] = [half(400, serialization, more="DELAY\x012\x02")]
        mixed[21:21] = [
            encode(
                Command(Request.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}, opaque=401, serialization=serialization)
            )
        ]
        mixed += [
            ending(begun[1], serialization, 402, flag=0), ending(begun[1], serialization, 403, said="12", flag=0),
            ending(begun[0], serialization, 404, flag=0, tranStateTableOffset="21", commitLogOffset="999999"),
            ending(begun[2], serialization, 405, flag=0, producerGroup="thieves"),
        ]  # fmt: skip
        await socket.say(b"".join(mixed))
        told = await socket.answers(7 + 16 + 6)
    assert {n: answer.code for n, answer in told.items() if answer.code} == {
        403: Answer.ILLEGAL_OPERATION, 404: Answer.QUERY_NOT_FOUND, 405: Answer.INVALID_PARAMETER,
    }  # fmt: skip
    assert {n for n in told if 100 <= n < 200} == {100 + n for n in range(0, 20, 3)}
    copies = [m for queue in (0, 1) for m in messages(service.engine, "T", queue) if m.prepared_position]
    assert sorted(m.body for m in copies) == sorted(b"body %d" % n for n in [1000, *range(20)] if n % 5 or n == 1000)
    halves = [m.body for m in messages(service.engine, HALF_TOPIC, 0)]
    assert [body for body in halves if body != b"body 400"] == [
        b"body 1000", *(b"body %d" % n for n in range(20)), *(b"body %d" % n for n in range(200, 208)),
    ]  # fmt: skip
    assert len(halves) == 1 + 20 + 8 + 1
    assert len(service.engine.transactions.table.halves) == 9
    assert messages(service.engine, OP_TOPIC, 0)


async def test_a_decision_about_a_half_of_the_same_read_finds_none(service: BrokerService, serialization: int) -> None:
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T")
        await socket.say(half(1000, serialization))
        known = (await socket.answers(1))[1000]
        size = messages(service.engine, HALF_TOPIC, 0)[0].size
        ahead = Command(0, {**known.ext, "queueOffset": "1", "transactionId": key(0)[9:41]})
        ahead.ext["msgId"] = known.ext["msgId"][:-16] + f"{int(known.ext['msgId'][-16:], 16) + size:016X}"
        await socket.say(b"".join(half(n, serialization) for n in range(6)) + ending(ahead, serialization, 7, flag=0))
        told = await socket.answers(7)
    assert [n for n, answer in told.items() if answer.code] == [7]
    assert told[7].code == Answer.QUERY_NOT_FOUND
    assert len(service.engine.transactions.table.halves) == 7


@contextmanager
def entered(*functions: Callable[..., object]) -> Iterator[Counter[str]]:
    """Count how often each of some functions of the broker is begun in this thread."""
    known = {function.__code__: function.__qualname__ for function in functions}
    counts: Counter[str] = Counter()

    def saw(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in known:
            counts[known[frame.f_code]] += 1

    sys.setprofile(saw)
    try:
        yield counts
    finally:
        sys.setprofile(None)


async def test_timers_are_parked_together(service: BrokerService, serialization: int) -> None:
    """What is read singly costs twice as much; the place of each is the same either way."""
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T")
        timers = [frame(n, serialization, properties=key(n) + "TIMER_DELAY_SEC\x01600\x02") for n in range(24)]
        with entered(Parking.append, append_sends) as counts:
            await socket.say(b"".join(timers))
            found = await socket.answers(24)
    assert {answer.code for answer in found.values()} == {Answer.SUCCESS}
    assert counts == {"append_sends": 1}


async def test_a_timer_whose_moment_is_over_keeps_its_place(service: BrokerService, serialization: int) -> None:
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T")
        said = [frame(n, serialization) for n in range(15)]
        said[7] = frame(7, serialization, properties=key(7) + "TIMER_DELIVER_MS\x011000\x02")
        await socket.say(b"".join(said))
        await socket.answers(15)
    bodies = [message.body for message in messages(service.engine, "T", 0)]
    assert bodies == [b"body 9999", *(b"body %d" % n for n in range(15))]
