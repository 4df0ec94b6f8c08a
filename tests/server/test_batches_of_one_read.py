"""Batches that come with one read are taken together: each is answered as if it had come alone, and order is kept."""

from __future__ import annotations

import pytest

from broker.engine.log.append import append_encoded
from broker.rocketmq.codes import ONEWAY_FLAG, Answer, Request
from broker.rocketmq.compiled import FAST
from broker.rocketmq.frame import Command, encode
from broker.server.broker import BrokerService
from tests.server.peer import send_ext
from tests.server.stranger import stranger_at
from tests.server.test_one_read import frame, key, learnt, messages
from tests.server.test_sending import batch_item
from tests.watching import Calls

pytestmark = pytest.mark.parametrize("serialization", [0, 1])

SIZE = 3


def bodies(number: int) -> list[bytes]:
    return [b"batch %d, %d" % (number, each) for each in range(SIZE)]


def batch(
    number: int, serialization: int, topic: str = "T", *, own: str = "", each: str = "", flag: int = 0, **changed: str
) -> bytes:
    """A batch; its own properties, and those of its messages."""
    items = [batch_item(body, f"{key(number * SIZE + at)}{each}".encode()) for at, body in enumerate(bodies(number))]
    ext = send_ext(topic, properties=own or key(number), m="true", **changed)
    command = Command(
        Request.SEND_BATCH_MESSAGE, ext, b"".join(items), flag=flag, opaque=number, serialization=serialization
    )
    return encode(command)


def stored(service: BrokerService, topic: str, queue_id: int) -> list[bytes]:
    return [message.body for message in messages(service.engine, topic, queue_id)]


async def test_each_is_answered_with_the_ids_of_its_messages(service: BrokerService, serialization: int) -> None:
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T", "U")
        with Calls(append_encoded) as calls:
            await socket.say(b"".join(batch(n, serialization, e=str(n % 4)) for n in range(40)))
            found = await socket.answers(40)
    if FAST is not None:
        assert calls.count < 20
    assert {answer.code for answer in found.values()} == {Answer.SUCCESS}
    for number, answer in found.items():
        assert answer.ext["transactionId"] == key(number)[9:41]
        assert answer.ext["queueId"] == str(number % 4)
        places = [int(each[-16:], 16) for each in answer.ext["msgId"].split(",")]
        first = int(answer.ext["queueOffset"])
        entries = service.engine.entries("T", number % 4, first, SIZE)
        assert [entry.position for entry in entries] == places
        assert [m.body for m in messages(service.engine, "T", number % 4)[first : first + SIZE]] == bodies(number)
    assert stored(service, "T", 1) == [body for n in range(1, 40, 4) for body in bodies(n)]


async def test_others_in_between_keep_their_order_and_their_answers(service: BrokerService, serialization: int) -> None:
    """Two topics, single sends, batches that are refused or that nobody waits for, a topic that is new, a question."""
    async with stranger_at(service.address) as socket:
        await learnt(socket, serialization, "T", "U")
        said = [batch(n, serialization, "U" if n % 7 == 0 else "T") for n in range(40)]
        said[4] = frame(4, serialization)
        said[9] = batch(9, serialization, e="99")
        said[12] = batch(12, serialization, own="without a separator")
        said[16] = batch(16, serialization, each="DELAY\x012\x02")
        said[18] = batch(18, serialization, flag=ONEWAY_FLAG)
        said[22] = batch(22, serialization, "New")
        said[24] = batch(24, serialization, each="TAGS\x01später\x02")
        ask = {"topic": "T", "queueId": "0"}
        said[31] = encode(Command(Request.GET_MAX_OFFSET, ask, opaque=31, serialization=serialization))
        said[33] = batch(33, serialization, f="1")
        await socket.say(b"".join(said))
        found = await socket.answers(39)
    assert sorted(n for n, answer in found.items() if answer.code) == [9, 12, 16]
    plain = [n for n in range(40) if n % 7 and n not in (9, 12, 16, 22, 31)]
    expected = [body for n in plain for body in ([b"body 4"] if n == 4 else bodies(n))]
    assert stored(service, "T", 0) == [b"body 9999", *expected]
    assert stored(service, "U", 0) == [b"body 9999", *(body for n in range(0, 40, 7) for body in bodies(n))]
    assert stored(service, "New", 0) == bodies(22)
