"""Sending to a real broker, and to ends that are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from broker.client import (
    AsyncAdmin,
    AsyncProducer,
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    InvalidArgument,
    NotSupported,
    NotWritable,
    RouteNotFound,
    SendResult,
    Timeout,
    prepare,
)
from broker.client._pipeline import Pipelines
from broker.client.errors import ClientClosed
from broker.rocketmq.codes import Answer
from broker.rocketmq.topics import TEMPLATE_TOPIC
from broker.server.broker import BrokerService
from tests.client.halfbroker import HalfBroker

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def stranger(serve: Serve) -> AsyncIterator[str]:
    """A server that is no broker; gives its address. All its connections end with it."""
    writers: list[asyncio.StreamWriter] = []

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await serve(reader, writer)

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
            await writer.wait_closed()


async def test_a_message_is_stored_as_it_was_sent(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    sent = await producer.send("orders", "红", tag="paid", keys=["42", "43"], properties={"colour": "red"})
    stored = (await admin.pull("orders", sent.queue_id, sent.queue_offset, 1))[0]
    assert (stored.body.decode(), stored.tags, stored.keys) == ("红", "paid", ["42", "43"])
    assert (stored.unique_key, stored.offset_message_id) == (sent.message_id, sent.offset_message_id)
    assert stored.properties["colour"] == "red"
    assert sent.due_ms is None


async def test_a_key_leads_to_the_queue_that_java_takes_for_it(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    """SelectMessageQueueByHash: "4711".hashCode() is 1603555, and that of "polygenelubricants" the lowest of all."""
    await admin.create_topic("keyed", queues=5)
    for key, queue_id in (("4711", 1603555 % 5), ("polygenelubricants", 2**31 % 5), ("订单", 1129459 % 5)):
        sent = [await producer.send("keyed", b"", sharding_key=key) for _ in range(2)]
        assert {each.queue_id for each in sent} == {queue_id}
        stored = (await admin.pull("keyed", queue_id, sent[0].queue_offset, 1))[0]
        assert stored.properties["__SHARDINGKEY"] == key


async def test_a_queue_that_is_not_there_is_refused_alone(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("turns", queues=2)
    messages = [prepare(b"0", queue_id=0), prepare(b"2", queue_id=2), prepare(b"1", queue_id=1)]
    stored, refused, other = await producer.send_each("turns", messages)
    assert isinstance(stored, SendResult)
    assert isinstance(other, SendResult)
    assert (stored.queue_id, other.queue_id) == (0, 1)
    assert isinstance(refused, InvalidArgument)
    assert refused.field == "queue_id"
    assert [isinstance(each, InvalidArgument) for each in await producer.send_each("turns", messages[1:2])] == [True]
    with pytest.raises(InvalidArgument):
        await producer.send("turns", b"", queue_id=2)
    with pytest.raises(InvalidArgument):
        await producer.send_batch("turns", [messages[0], messages[2]])
    assert [queue.max_offset for queue in (await admin.topic_stats("turns")).queues] == [1, 1]


@pytest.mark.parametrize("place", [{"queue_id": -1}, {"queue_id": True}, {"sharding_key": ""},
                                   {"sharding_key": "a\x01b"}, {"sharding_key": "a", "queue_id": 0}])  # fmt: skip
def test_a_place_that_is_none_is_refused(place: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        prepare(b"", **place)  # type: ignore[arg-type]  # that is what is tried


async def test_queues_take_turns(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("turns", queues=4)
    used = [(await producer.send("turns", b"")).queue_id for _ in range(8)]
    assert sorted(used) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_a_queue_can_be_chosen_if_it_exists(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await admin.create_topic("chosen", queues=2)
    assert (await producer.send("chosen", b"", queue_id=1)).queue_id == 1
    for wrong in (2, -1):
        with pytest.raises(InvalidArgument):
            await producer.send("chosen", b"", queue_id=wrong)


async def test_a_delayed_message_waits_and_says_when_it_is_due(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    sent = await producer.send("later", b"", delay_level=2)
    parked = (await admin.pull("SCHEDULE_TOPIC_XXXX", 1, 0, 1))[0]
    assert parked.unique_key == sent.message_id
    assert sent.due_ms == parked.store_ms + 3_600_000
    assert (await admin.queue_entries("SCHEDULE_TOPIC_XXXX", 1, 0, 1)).entries[0].tags_code == sent.due_ms


async def test_each_of_many_is_answered_in_order(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    results = await producer.send_each("many", [prepare(str(number)) for number in range(500)])
    assert all(isinstance(result, SendResult) for result in results)
    for number in (0, 123, 499):
        result = results[number]
        assert isinstance(result, SendResult)
        stored = await admin.pull("many", result.queue_id, result.queue_offset, 1)
        assert stored[0].body == str(number).encode()


async def test_one_that_the_broker_refuses_leaves_the_others_alone(producer: AsyncProducer) -> None:
    good, bad = prepare("good"), prepare("bad")
    broken = type(bad)(bad.body, bad.properties + "no end of a name", bad.message_id)
    results = await producer.send_each("mixed", [good, broken, prepare("also good")])
    assert [isinstance(result, SendResult) for result in results] == [True, False, True]
    assert isinstance(results[1], BrokerRefused)


async def test_a_batch_lies_together_in_one_queue(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    results = await producer.send_batch("batch", [prepare(text) for text in ("a", "b", "c")], queue_id=0)
    assert [result.queue_offset for result in results] == [0, 1, 2]
    stored = await admin.pull("batch", 0, 0, 10)
    assert [each.body for each in stored] == [b"a", b"b", b"c"]
    assert [each.unique_key for each in stored] == [result.message_id for result in results]


@pytest.mark.parametrize("messages", [[], [prepare("x", delay_level=1)], [prepare(bytes(1 << 21))] * 2])
async def test_batches_that_cannot_be_are_refused(producer: AsyncProducer, messages: list) -> None:
    with pytest.raises(InvalidArgument):
        await producer.send_batch("batch", messages)


async def test_a_oneway_message_arrives(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await producer.send_oneway("oneway", prepare("x"), queue_id=0)
    await producer.send("oneway", b"after", queue_id=0)
    assert [each.body for each in await admin.pull("oneway", 0, 0, 5)] == [b"x", b"after"]


async def test_topics_of_the_broker_are_refused_before_anything_is_sent(producer: AsyncProducer) -> None:
    with pytest.raises(InvalidArgument, match="belongs to the broker"):
        await producer.send("SCHEDULE_TOPIC_XXXX", b"")


async def test_nobody_at_the_name_servers_address(free_port: int) -> None:
    async with AsyncProducer("tests", f"127.0.0.1:{free_port}", retries=0) as lonely:
        with pytest.raises(BrokerUnreachable):
            await lonely.send("t", b"")


async def test_no_topic_is_said_only_where_that_is_known() -> None:
    """A name server that knows no route, and does not say which brokers are there, leaves that open."""
    with HalfBroker() as broker:
        broker.away |= {"orders", TEMPLATE_TOPIC}
        broker.cluster_code = Answer.REQUEST_CODE_NOT_SUPPORTED
        async with AsyncProducer("p", broker.namesrv) as producer:
            with pytest.raises(NotSupported):
                await producer.send("orders", "4711")
            broker.cluster_code = 0
            with pytest.raises(RouteNotFound, match="knows no topic 'orders'"):
                await producer.send("orders", "4711")


async def test_a_topic_that_nobody_takes_messages_for_says_so() -> None:
    with HalfBroker() as broker:
        broker.permission = 4
        async with AsyncProducer("p", broker.namesrv) as producer:
            with pytest.raises(NotWritable, match="Topic orders has no queue that can be written") as refused:
                await producer.send("orders", "4711")
    assert refused.value.code == Answer.NO_PERMISSION


async def test_the_second_name_server_is_asked_when_the_first_is_away(service: BrokerService, free_port: int) -> None:
    async with AsyncProducer("tests", f"127.0.0.1:{free_port};{service.namesrv_address}") as producer:
        assert (await producer.send("t", b"")).status == "SEND_OK"


async def test_a_closed_producer_says_so(service: BrokerService) -> None:
    producer = AsyncProducer("tests", service.namesrv_address)
    await producer.send("t", b"")
    await producer.close()
    await producer.close()
    with pytest.raises(ClientClosed):
        await producer.send("t", b"")


async def test_no_answer_is_a_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    async with stranger(silent) as address:
        lines = Pipelines()
        (await lines.to(address)).ask(310, b"", b"", 50, outcome.set_result)
        assert isinstance(await asyncio.wait_for(outcome, 5), Timeout)
        lines.close()


async def test_an_end_of_the_connection_answers_all_who_wait() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    outcomes: asyncio.Queue[object] = asyncio.Queue()
    async with stranger(hang_up) as address:
        lines = Pipelines()
        line = await lines.to(address)
        for _ in range(3):
            line.ask(310, b"", b"", 60_000, outcomes.put_nowait)
        for _ in range(3):
            assert isinstance(await asyncio.wait_for(outcomes.get(), 5), BrokerUnreachable)
        assert lines.ready(address) is None


async def test_nonsense_from_the_other_end_closes_the_line() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    async with stranger(babble) as address:
        (await Pipelines().to(address)).ask(310, b"", b"", 60_000, outcome.set_result)
        assert isinstance(await asyncio.wait_for(outcome, 5), ClientError)
