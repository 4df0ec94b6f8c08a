"""Many messages in one write: what travels as a batch is stored, refused and answered as if each had gone alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.client import AsyncAdmin, AsyncProducer, BrokerRefused, Outgoing, SendResult, Timeout, prepare
from broker.client._each import MOST_BATCH_BYTES
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command, FrameBuffer, decode, encode
from tests.client.halfbroker import HalfBroker
from tests.client.test_producing import stranger


def broken(body: str, queue_id: int) -> Outgoing:
    """A message that no broker takes: its properties end within a name."""
    made = prepare(body, queue_id=queue_id)
    return Outgoing(made.body, made.properties + "no end of a name", made.message_id, queue_id=queue_id)


async def bodies(admin: AsyncAdmin, topic: str, queue_id: int) -> list[str]:
    return [each.body.decode() for each in await admin.pull(topic, queue_id, 0, 1000)]


async def test_messages_to_one_queue_keep_their_order_and_their_ids(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("orders", queues=2)
    made = [prepare(str(number), queue_id=0, wait_for_disk=number != 5, keys=[f"k{number}"]) for number in range(12)]
    results = await producer.send_each("orders", made)
    assert [each.queue_offset for each in results if isinstance(each, SendResult)] == list(range(12))
    stored = await admin.pull("orders", 0, 0, 100)
    assert [each.body.decode() for each in stored] == [str(number) for number in range(12)]
    assert [each.unique_key for each in stored] == [each.message_id for each in made]
    assert [each.offset_message_id for each in stored] == [
        each.offset_message_id for each in results if isinstance(each, SendResult)
    ]
    assert [each.keys for each in stored] == [[f"k{number}"] for number in range(12)]


async def test_what_waits_goes_by_itself_among_others(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("orders", queues=1)
    made = [prepare("a"), prepare("b", delay_ms=3_600_000), prepare("c"), prepare("d", delay_level=3), prepare("e")]
    results = await producer.send_each("orders", made)
    assert [isinstance(each, SendResult) and each.due_ms is not None for each in results] == [
        False, True, False, True, False
    ]  # fmt: skip
    assert await bodies(admin, "orders", 0) == ["a", "c", "e"]


async def test_one_that_is_refused_takes_none_with_it_and_none_comes_twice(
    producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await admin.create_topic("mixed", queues=1)
    made = [prepare("first", queue_id=0), broken("second", 0), prepare("third", queue_id=0)]
    results = await producer.send_each("mixed", made)
    assert [isinstance(each, SendResult) for each in results] == [True, False, True]
    assert isinstance(results[1], BrokerRefused)
    assert await bodies(admin, "mixed", 0) == ["first", "third"]


async def test_more_than_a_batch_holds_is_several(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("large", queues=1)
    body = b"x" * (MOST_BATCH_BYTES // 4)
    results = await producer.send_each("large", [prepare(body) for _ in range(10)])
    assert [each.queue_offset for each in results if isinstance(each, SendResult)] == list(range(10))


ONE = st.fixed_dictionaries(
    {},
    optional={
        "queue_id": st.integers(0, 1),
        "sharding_key": st.sampled_from(["a", "b"]),
        "delay_level": st.integers(0, 2),
        "wait_for_disk": st.booleans(),
        "tag": st.sampled_from(["DELAYED", "TRAM", "t"]),
        "group": st.just("others"),
    },
).filter(lambda each: not {"queue_id", "sharding_key"} <= each.keys())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.lists(ONE, min_size=1, max_size=12))
async def test_whatever_is_sent_together_is_where_its_answer_says(
    producer: AsyncProducer, admin: AsyncAdmin, wanted: list[dict[str, Any]]
) -> None:
    await admin.create_topic("any", queues=2)
    made = [prepare(str(number), **each) for number, each in enumerate(wanted)]
    results = await producer.send_each("any", made)
    await producer.send("any", "end")  # what was answered before it was on disk is there, too, when this is
    for number, (each, result) in enumerate(zip(made, results, strict=True)):
        assert isinstance(result, SendResult)
        assert result.message_id == each.message_id
        level = wanted[number].get("delay_level", 0)
        topic, queue_id = ("SCHEDULE_TOPIC_XXXX", level - 1) if level else ("any", result.queue_id)
        (stored,) = await admin.pull(topic, queue_id, result.queue_offset, 1)
        assert (stored.body.decode(), stored.unique_key) == (str(number), each.message_id)
        assert wanted[number].get("queue_id", result.queue_id) == result.queue_id or level


async def test_a_broker_that_knows_no_batches_is_sent_each_by_itself() -> None:
    with HalfBroker() as broker:
        broker.refused[b"1"] = Answer.MESSAGE_ILLEGAL
        async with AsyncProducer("g", broker.namesrv) as producer:
            results = await producer.send_each("t", [prepare(str(number)) for number in range(3)])
        assert [isinstance(each, SendResult) for each in results] == [True, False, True]
        assert [body for _, body in broker.plain] == [b"0", b"2"]


class Scripted:
    """A name server and broker in one that answers batches with this code and these fields, or not at all."""

    def __init__(self, code: int | None, **fields: str) -> None:
        self.code, self.fields = code, fields
        self.asked: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames, port = FrameBuffer(1 << 20), writer.get_extra_info("sockname")[1]
        while data := await reader.read(65536):
            for request in map(decode, frames.feed(data)):
                answer = self.answer(request, port)
                if answer is not None:
                    writer.write(encode(answer))

    def answer(self, request: Command, port: int) -> Command | None:
        if request.code == Request.GET_ROUTEINFO_BY_TOPIC:
            place = {"brokerAddrs": {"0": f"127.0.0.1:{port}"}, "brokerName": "b", "cluster": "c"}
            queues = {"brokerName": "b", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1, "topicSysFlag": 0}
            route = json.dumps({"brokerDatas": [place], "queueDatas": [queues]})
            return request.answer(body=route.encode())
        if request.code == Request.SEND_BATCH_MESSAGE:
            self.asked.append(request.code)
            return None if self.code is None else request.answer(code=self.code, ext=self.fields, remark="because")
        return request.answer()


@pytest.mark.parametrize(
    ("broker", "error"),
    [
        (Scripted(Answer.SYSTEM_BUSY), BrokerRefused),
        (Scripted(None), Timeout),
        (Scripted(Answer.SUCCESS, msgId="1,2", queueId="0", queueOffset="0"), Exception),
    ],
    ids=["busy", "silent", "fewer ids"],
)
async def test_what_becomes_of_a_batch_is_told_of_each(broker: Scripted, error: type[Exception]) -> None:
    async with stranger(broker.serve) as address, AsyncProducer("g", address) as producer:
        results = await producer.send_each("t", [prepare(str(number)) for number in range(3)], timeout_ms=700)
        assert [isinstance(each, error) and not isinstance(each, SendResult) for each in results] == [True] * 3
        assert broker.asked == [Request.SEND_BATCH_MESSAGE]
