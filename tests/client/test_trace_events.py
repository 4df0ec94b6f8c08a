"""What our client tells of messages: RocketMQ's lines, in the background, at nobody's expense."""

from __future__ import annotations

import asyncio

import pytest

from broker.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncLitePullConsumer,
    AsyncProducer,
    AsyncTransactionProducer,
    BrokerRefused,
    Decision,
    InvalidArgument,
    Message,
    Outgoing,
    SendResult,
    Timeout,
    Trace,
    prepare,
)
from broker.client._trace_events import (
    MOST_LINES,
    MOST_WAITING,
    SendWatch,
    Subject,
    TraceWriter,
    ended_line,
    handled_line,
)
from broker.rocketmq.topics import TRACE_TOPIC
from broker.rocketmq.traces import read_traces
from broker.server.broker import BrokerService


async def test_each_way_of_sending_is_told(service: BrokerService, admin: AsyncAdmin) -> None:
    async with AsyncProducer("shop", service.namesrv_address, trace=True) as producer:
        one = await producer.send("orders", "one", tag="created", keys=["4711", "eu"])
        batch = await producer.send_batch("orders", [prepare("two"), prepare("three")])
        each = await producer.send_each("orders", [prepare("four")])
        delayed = await producer.send("orders", "later", delay_ms=3_600_000)
        assert delayed.recall_handle
        await producer.recall("orders", delayed.recall_handle)
    results = [one, *batch, *[result for result in each if isinstance(result, SendResult)]]
    for result in results:
        (told,) = await admin.traces(result.message_id)
        assert (told.kind, told.group, told.topic, told.succeeded) == ("sent", "shop", "orders", True)
        assert told.at_ms is not None
        assert told.took_ms is not None
    assert [told.kind for told in await admin.traces(one.message_id)] == ["sent"]
    assert any(one.message_id in message.body.decode() for message in await admin.messages_by_key(TRACE_TOPIC, "4711"))
    assert [(told.kind, told.group, told.succeeded) for told in await admin.traces(delayed.message_id)] == [
        ("sent", "shop", True), ("recalled", "shop", True),
    ]  # fmt: skip


async def test_the_line_of_a_send_has_the_fields_of_javas(service: BrokerService, admin: AsyncAdmin) -> None:
    async with AsyncProducer("shop", service.namesrv_address, trace="traces") as producer:
        sent = await producer.send("orders", "12345", tag="created", keys=["4711", "eu"], delay_level=2)
    (message,) = await admin.messages_by_key("traces", sent.message_id)
    fields = message.body.decode().removesuffix("\x02").split("\x01")
    moment, took_ms = int(fields.pop(1)), int(fields.pop(9))
    assert abs(moment - message.born_ms) < 60_000
    assert 0 <= took_ms < 60_000
    assert fields == [
        "Pub", "DefaultRegion", "shop", "orders", sent.message_id, "created", "4711 eu", service.address, "5", "3",
        sent.offset_message_id, "true",
    ]  # fmt: skip
    assert await admin.traces(sent.message_id) == []
    assert len(await admin.traces(sent.message_id, topic="traces")) == 1


async def test_halves_and_their_ends_are_told(service: BrokerService, admin: AsyncAdmin) -> None:
    async with AsyncTransactionProducer(
        "pay", service.namesrv_address, check=lambda message: Decision.UNKNOWN, trace=True
    ) as producer:
        halves = [await producer.send_half("paid", prepare("1")), await producer.send_half("paid", prepare("2"))]
        await producer.end(halves[0], Decision.COMMIT)
        await producer.end(halves[1], Decision.ROLLBACK)
    for half, state in zip(halves, ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE"), strict=True):
        sent, ended = await admin.traces(half.transaction_id)
        assert (sent.kind, sent.topic, sent.succeeded) == ("sent", "paid", True)
        assert (ended.kind, ended.group, ended.topic, ended.state) == ("ended", "pay", "paid", state)


async def test_each_try_of_a_handler_is_told(service: BrokerService, admin: AsyncAdmin) -> None:
    done = asyncio.Event()

    async def handle(message: Message) -> None:
        if message.reconsume_times == 0:
            raise ValueError("not at the first attempt")
        done.set()

    async with AsyncProducer("shop", service.namesrv_address) as producer:
        sent = await producer.send("orders", "one", keys=["4711"])
    consumer = AsyncConsumer(
        "billing", service.namesrv_address, from_where="first", orderly=True, suspend_ms=10, trace=True
    )
    consumer.subscribe("orders", "*", handle)
    await consumer.start()
    async with asyncio.timeout(20):
        await done.wait()
    await consumer.stop()
    told = await admin.traces(sent.message_id)
    begun = [each for each in told if each.kind == "delivered"]
    assert [(each.group, each.retries) for each in begun] == [("billing", 0), ("billing", 1)]
    ended = {each.request_id: each for each in told if each.kind == "handled"}
    assert [ended[each.request_id].succeeded for each in begun] == [False, True]
    assert [ended[each.request_id].group for each in begun] == ["billing", "billing"]
    assert await admin.messages_by_key(TRACE_TOPIC, "4711")


async def test_what_a_poll_gives_is_told_and_traces_that_are_read_are_not(
    service: BrokerService, admin: AsyncAdmin
) -> None:
    async with AsyncProducer("shop", service.namesrv_address, trace=True) as producer:
        sent = await producer.send("orders", "one")
    async with AsyncLitePullConsumer("reports", service.namesrv_address, from_where="first", trace=True) as consumer:
        await consumer.subscribe("orders")
        await consumer.subscribe(TRACE_TOPIC)
        topics: set[str] = set()
        while topics != {"orders", TRACE_TOPIC}:
            topics |= {message.topic for message in await consumer.poll(20_000)}
    assert [each.kind for each in await admin.traces(sent.message_id)] == ["sent", "delivered", "handled"]
    stats = await admin.topic_stats(TRACE_TOPIC)
    # one of the producer, one of the consumer
    assert sum(queue.max_offset for queue in stats.queues) == 2


class Recorder:
    """A sender that keeps what it is given, when it is let."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.may_send = asyncio.Event()
        self.asked: asyncio.Queue[bytes] = asyncio.Queue()
        self.failure: Timeout | None = None
        self.is_closed = False

    async def send_prepared(self, topic: str, message: Outgoing, *, timeout_ms: int) -> SendResult:
        self.asked.put_nowait(message.body)
        await self.may_send.wait()
        if self.failure is not None:
            raise self.failure
        self.bodies.append(message.body)
        return SendResult(message.message_id, "", topic, "b", 0, 0)

    async def close(self) -> None:
        self.is_closed = True


async def test_many_lines_go_at_once_in_their_order_and_what_waits_goes_at_the_end() -> None:
    recorder = Recorder()
    recorder.may_send.set()
    writer = TraceWriter(TRACE_TOPIC, lambda: recorder)
    for number in range(MOST_LINES + 50):
        writer.put(f"line-{number}\x02", (f"k{number}",))
    await writer.close()
    assert recorder.is_closed
    assert [body.count(b"\x02") for body in recorder.bodies] == [MOST_LINES, 50]
    assert b"".join(recorder.bodies).decode().split("\x02")[:-1] == [f"line-{n}" for n in range(MOST_LINES + 50)]


async def test_a_slow_send_does_not_hold_up_the_next() -> None:
    recorder = Recorder()
    writer = TraceWriter(TRACE_TOPIC, lambda: recorder)
    for number in range(3 * MOST_LINES):
        writer.put(f"line-{number}\x02", (f"k{number}",))
    asked = [await asyncio.wait_for(recorder.asked.get(), 5) for _ in range(3)]
    assert recorder.bodies == []
    recorder.may_send.set()
    await writer.close()
    assert sorted(recorder.bodies) == sorted(asked)


async def test_what_is_too_much_or_cannot_be_sent_is_dropped_and_counted() -> None:
    recorder = Recorder()
    recorder.failure = Timeout("127.0.0.1:1", 5)
    writer = TraceWriter(TRACE_TOPIC, lambda: recorder)
    writer.put("first\x02", ("k",))
    await recorder.asked.get()
    for number in range(MOST_WAITING + 7):
        writer.put(f"line-{number}\x02", ("k",))
    assert writer.dropped == 7
    recorder.may_send.set()
    await writer.close()
    assert (writer.dropped, recorder.bodies) == (MOST_WAITING + 8, [])
    writer.put("late\x02", ("k",))
    assert writer.dropped == MOST_WAITING + 9


async def test_keys_and_texts_of_other_clients_never_stop_the_rest() -> None:
    recorder = Recorder()
    recorder.may_send.set()
    writer = TraceWriter(TRACE_TOPIC, lambda: recorder)
    writer.put("half \ud800 a character\x02", ("half\ud800", "two words", "", "\u3000", "x" * 16_000))
    writer.put("long\x02", ("y" * 33_000,))
    writer.put("plain\x02", ("k",))
    await writer.close()
    assert [body.split(b"\x02")[0] for body in recorder.bodies] == [b"half ? a character", b"plain"]
    assert writer.dropped == 1


async def test_only_what_is_there_is_told_as_sent() -> None:
    recorder = Recorder()
    recorder.may_send.set()
    watch = SendWatch("shop", "c1", TraceWriter(TRACE_TOPIC, lambda: recorder))
    messages = [prepare(body) for body in ("stored", "unsafe", "kept out", "unknown")]
    place = ("", "orders", "broker-a", 0, 7)
    results: list[SendResult | Timeout] = [
        SendResult(messages[0].message_id, *place),
        SendResult(messages[1].message_id, *place, status="FLUSH_DISK_TIMEOUT"),
        SendResult("OTHER", *place, conflict="kept"),
        Timeout("127.0.0.1:1", 5),
    ]

    async def send(_: object) -> list[SendResult | Timeout]:
        return results

    assert await watch.around("orders", messages, send) is results
    assert await watch.around(TRACE_TOPIC, messages, send) is results
    await watch.close()
    told = read_traces(b"".join(recorder.bodies))
    assert [(each.message_id, each.succeeded) for each in told] == [
        (messages[0].message_id, True), (messages[1].message_id, False),
    ]  # fmt: skip


async def test_a_recall_that_came_too_late_is_told_so() -> None:
    recorder = Recorder()
    recorder.may_send.set()
    watch = SendWatch("shop", "c1", TraceWriter(TRACE_TOPIC, lambda: recorder))
    with pytest.raises(BrokerRefused), watch.recalling("orders", "ID"):
        raise BrokerRefused(604, "it was delivered")
    with pytest.raises(Timeout), watch.recalling("orders", "ID"):
        raise Timeout("127.0.0.1:1", 5)
    await watch.close()
    (told,) = read_traces(b"".join(recorder.bodies))
    assert (told.kind, told.message_id, told.group, told.succeeded) == ("recalled", "ID", "shop", False)


async def test_sends_work_while_their_trace_topic_is_closed_to_writers(
    service: BrokerService, admin: AsyncAdmin
) -> None:
    await admin.create_topic("closed", queues=1, permission=4)
    async with AsyncProducer("shop", service.namesrv_address, trace="closed") as producer:
        sent = await producer.send("orders", "one")
    assert sent.status == "SEND_OK"
    assert await admin.traces(sent.message_id, topic="closed") == []


@pytest.mark.parametrize("wanted", ["no topic", "SCHEDULE_TOPIC_XXXX", 1])
async def test_what_is_no_topic_is_refused(wanted: str) -> None:
    with pytest.raises(InvalidArgument):
        AsyncProducer("shop", trace=wanted)


def test_what_is_written_is_read_the_same() -> None:
    subject = Subject("ID", "orders", "created", "4711")
    handled = handled_line(subject, "billing", at_ms=107, took_ms=7, request_id="R", succeeded=False)
    ended = ended_line(subject, "pay", Decision.UNKNOWN, at_ms=200, host="127.0.0.1:10911", is_answer=True)
    assert handled == "SubAfter\x01R\x01ID\x017\x01false\x014711\x012\x01107\x01billing\x02"
    assert ended.endswith("\x01127.0.0.1:10911\x012\x01ID\x01UNKNOW\x01true\x02")
    assert read_traces((handled + ended).encode()) == [
        Trace("handled", "ID", 107, "billing", took_ms=7, succeeded=False, request_id="R"),
        Trace("ended", "ID", 200, "pay", "orders", state="UNKNOW"),
    ]
