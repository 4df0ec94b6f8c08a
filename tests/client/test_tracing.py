"""OpenTelemetry: spans of sends and handlers, context in the messages, and nothing at all where nobody traces."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from broker.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncLitePullConsumer,
    AsyncProducer,
    AsyncSimpleConsumer,
    AsyncTransactionProducer,
    ClientError,
    Decision,
    Message,
    Producer,
    prepare,
)
from broker.client._tracing import tracing
from broker.server.broker import BrokerService
from tests.client.recording import RecordedSpan, RecordingProvider
from tests.client.running import BrokerThread
from tests.client.test_consuming import Inbox

ORIGIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> RecordingProvider:
    """The program's tracer provider (which could be set only once)."""
    provider = RecordingProvider()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return provider


def carried(span: RecordedSpan) -> str:
    """The context of a span as messages carry it."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


async def test_a_message_carries_the_span_of_its_send(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin, recorded: RecordingProvider
) -> None:
    sent = await producer.send("t", "body", tag="x", keys=["a", "b"], queue_id=0)
    (span,) = recorded.spans
    assert (span.name, span.kind, span.has_ended) == ("send t", SpanKind.PRODUCER, True)
    assert span.attributes.pop("messaging.client.id")
    assert span.attributes == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
        "messaging.message.id": sent.message_id,
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.tag": "x",
        "messaging.rocketmq.message.keys": ["a", "b"],
        "messaging.rocketmq.message.type": "normal",
    }
    (message,) = await admin.pull("t", 0, 0, 5)
    assert message.properties["traceparent"] == carried(span)


async def test_each_way_of_sending_has_a_span(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin, recorded: RecordingProvider
) -> None:
    await admin.create_topic("t", queues=1)
    await producer.send_batch("t", [prepare("1"), prepare("2")])
    await producer.send_each("t", [prepare("3"), prepare("4")])
    await producer.send_oneway("t", prepare("5"))
    await producer.send("t", "6", delay_level=1)
    spans = recorded.named("send t")
    assert [span.attributes.get("messaging.batch.message_count") for span in spans] == [2, 2, None, None]
    assert spans[3].attributes["messaging.rocketmq.message.delay_time_level"] == 1
    async with asyncio.timeout(20):
        while len(messages := await admin.pull("t", 0, 0, 9)) < 5:
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.02)
    told = {message.body: message.properties["traceparent"] for message in messages}
    for body, nth in ((b"1", 0), (b"2", 0), (b"3", 1), (b"4", 1), (b"5", 2)):
        assert told[body] == carried(spans[nth])


async def test_halves_of_transactions_carry_it_too(
    service: BrokerService, admin: AsyncAdmin, recorded: RecordingProvider
) -> None:
    async with AsyncTransactionProducer("p", service.namesrv_address, check=lambda half: Decision.COMMIT) as producer:
        half = await producer.send_half("t", prepare("body"), queue_id=0)
        await producer.end(half, Decision.COMMIT)
    (span,) = recorded.spans
    assert span.attributes["messaging.rocketmq.message.type"] == "transaction"
    (message,) = await admin.pull("t", 0, 0, 5)
    assert message.properties["traceparent"] == carried(span)


async def test_a_context_that_a_message_brings_is_kept_and_linked(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin, recorded: RecordingProvider
) -> None:
    await producer.send("t", "body", properties={"traceparent": ORIGIN}, queue_id=0)
    (span,) = recorded.spans
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [ORIGIN.split("-")[1]]
    (message,) = await admin.pull("t", 0, 0, 5)
    assert message.properties["traceparent"] == ORIGIN


async def test_what_has_no_room_is_sent_without_context(
    service: BrokerService, producer: AsyncProducer, admin: AsyncAdmin, recorded: RecordingProvider
) -> None:
    await producer.send("t", "body", properties={"long": "x" * 29_900}, queue_id=0)
    (message,) = await admin.pull("t", 0, 0, 5)
    assert "traceparent" not in message.properties


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_handler_runs_in_a_span_below_that_of_the_send(
    service: BrokerService, producer: AsyncProducer, recorded: RecordingProvider, in_thread: bool
) -> None:
    current: list[trace.Span] = []
    inbox, done = Inbox(), threading.Event()

    async def take(message: Message) -> None:
        current.append(trace.get_current_span())
        await inbox.take(message)

    def take_in_thread(message: Message) -> None:
        current.append(trace.get_current_span())
        done.set()

    consumer = AsyncConsumer("g", service.namesrv_address, from_where="first")
    consumer.subscribe("t", "*", take_in_thread if in_thread else take)
    await producer.send("t", "body", queue_id=0)
    await consumer.start()
    assert await (asyncio.to_thread(done.wait, 20) if in_thread else inbox.holds(1))
    await consumer.stop()
    (send,), (process,) = recorded.named("send t"), recorded.named("process t")
    assert current == [process]
    assert (process.kind, process.parent, process.has_ended) == (
        SpanKind.CONSUMER, trace.SpanContext(
            send.get_span_context().trace_id, send.get_span_context().span_id, True, trace.TraceFlags(1)
        ), True
    )  # fmt: skip
    assert process.attributes["messaging.consumer.group.name"] == "g"
    assert process.attributes["messaging.client.id"] == consumer.client_id
    assert process.status is None


async def test_failures_are_told(service: BrokerService, producer: AsyncProducer, recorded: RecordingProvider) -> None:
    failed = asyncio.Event()

    async def fail(message: Message) -> None:
        failed.set()
        raise ValueError("not now")

    consumer = AsyncConsumer("g", service.namesrv_address, from_where="first")
    consumer.subscribe("t", "*", fail)
    await producer.send("t", "body")
    await consumer.start()
    async with asyncio.timeout(20):
        await failed.wait()
    await consumer.stop()
    (process,) = recorded.named("process t")
    assert (process.status, process.attributes["error.type"]) == (StatusCode.ERROR, "ValueError")
    with pytest.raises(ClientError):
        await producer.send("t", "body", queue_id=99)
    refused = recorded.named("send t")[-1]
    assert refused.attributes["error.type"] == "broker.client.errors.NoSuchQueue"
    assert [type(error).__name__ for error in refused.errors] == ["NoSuchQueue"]


async def test_polls_and_receives_are_linked_to_what_they_gave(
    service: BrokerService, producer: AsyncProducer, recorded: RecordingProvider
) -> None:
    await producer.send_batch("t", [prepare("1"), prepare("2")], queue_id=0)
    origin = recorded.spans[0].get_span_context().span_id
    async with AsyncLitePullConsumer("poller", service.namesrv_address, from_where="first") as consumer:
        await consumer.subscribe("t")
        count = len(await consumer.poll(20_000))
        assert await consumer.poll(0, 1) == [] or count == 1
    async with AsyncSimpleConsumer("receiver", service.namesrv_address) as simple:
        received = await simple.receive("t", wait_ms=20_000)
        await simple.ack(*received)
    polled, popped = recorded.named("poll t")[0], recorded.named("receive t")[0]
    for span, messages in ((polled, count), (popped, len(received))):
        assert (span.kind, span.attributes["messaging.batch.message_count"]) == (SpanKind.CLIENT, messages)
        assert [link.context.span_id for link in span.links] == [origin] * messages


def test_a_send_belongs_to_the_span_of_the_calling_thread(broker: BrokerThread, recorded: RecordingProvider) -> None:
    with (
        Producer("p", broker.namesrv) as producer,
        trace.get_tracer("program").start_as_current_span("order") as order,
    ):
        producer.send("t", "body")
    (send,) = recorded.named("send t")
    assert send.parent == order.get_span_context()


def test_nothing_is_loaded_for_a_program_that_does_not_trace(broker: BrokerThread) -> None:
    program = f"""
import sys
from broker.client import LitePullConsumer, Producer
with Producer("p", {broker.namesrv!r}) as producer:
    producer.send("t", "body", queue_id=0)
with LitePullConsumer("g", {broker.namesrv!r}, from_where="first") as consumer:
    consumer.subscribe("t")
    (message,) = consumer.poll(20_000)
assert "traceparent" not in message.properties
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
import opentelemetry.trace
from broker.client._tracing import tracing
assert tracing.spans() is None, "the API alone traces nothing"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_provider_of_the_moment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    assert tracing.spans() is None
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", RecordingProvider())
    assert tracing.spans() is tracing.spans() is not None
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())
    assert tracing.spans() is None
