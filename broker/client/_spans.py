"""Spans as OpenTelemetry's semantic conventions for messaging have them (with those for RocketMQ).

    send        PRODUCER  its context travels in the message: `traceparent`, `tracestate`, whatever propagators are set
    create      PRODUCER  of a message that another program sends later: its context travels in that
    process     CONSUMER  child of the message's context; around a handler
    receive     CLIENT    linked to the context of each message that it gave

Only loaded where a program traces.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import msgspec
from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from ..rocketmq.properties import (
    DELAY,
    KEYS,
    SYSTEM_PROPERTIES,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
)
from ._outgoing import Outgoing
from ._types import Message, SendResult
from .errors import ClientError

Result = TypeVar("Result")
Attributes = dict[str, Any]
#: Properties stay below this with a context: retries and timers need room for theirs, up to 32,767.
WITH_CONTEXT_BYTES = 30_000
_DELAYS = (DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS)


class Spans:
    """Makes the spans of one tracer provider."""

    def __init__(self, provider: object) -> None:
        self._tracer = cast(trace.TracerProvider, provider).get_tracer("broker.client")

    @contextmanager
    def sending(self, topic: str, messages: Sequence[Outgoing], client_id: str) -> Iterator[Sending]:
        """Open a span around a send; the messages of `Sending` carry it, but for those that brought a context."""
        stored = [_properties(message.properties) for message in messages]
        attributes = _about("send", "send", topic, client_id)
        if len(messages) == 1:
            attributes |= _about_message(messages[0].message_id, len(messages[0].body), stored[0])
        else:
            attributes["messaging.batch.message_count"] = len(messages)
        brought = [_span_context(properties) for properties in stored]
        links = [Link(each) for each in brought if each is not None]
        with self._tracer.start_as_current_span(
            f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes, links=links, record_exception=False,
            set_status_on_exception=False,
        ) as span, _failing(span):  # fmt: skip
            carried = _current()
            ready = [
                message if own is not None else _carrying(message, properties, carried)
                for message, properties, own in zip(messages, stored, brought, strict=True)
            ]
            yield Sending(span, ready)

    def created(self, topic: str, message: Outgoing) -> Outgoing:
        """Make a span for a message kept to be sent later; the message carries it, unless it brought a context."""
        properties = _properties(message.properties)
        attributes = _about("create", "create", topic, None)
        attributes |= _about_message(message.message_id, len(message.body), properties)
        brought = _span_context(properties)
        links = [] if brought is None else [Link(brought)]
        with self._tracer.start_as_current_span(
            f"create {topic}", kind=SpanKind.PRODUCER, attributes=attributes, links=links
        ):
            return message if brought is not None else _carrying(message, properties, _current())

    @contextmanager
    def processing(self, message: Message, group: str, client_id: str) -> Iterator[None]:
        """Open a span around the handling of a message; it is the current one meanwhile."""
        parent = propagate.extract(message.properties)
        attributes = _about("process", "process", message.topic, client_id) | _of_group(group)
        attributes |= _about_message(message.unique_key, len(message.body), message.properties)
        attributes["messaging.destination.partition.id"] = str(message.queue_id)
        span = self._tracer.start_span(
            f"process {message.topic}", parent, SpanKind.CONSUMER, attributes, record_exception=False
        )
        token = context.attach(trace.set_span_in_context(span, parent))
        try:
            with _failing(span):
                yield
        finally:
            context.detach(token)
            span.end()

    def received(
        self, operation: str, messages: Sequence[Message], group: str, client_id: str | None, began_ns: int
    ) -> None:
        """Make a span for messages received since `began_ns` (epoch), linked to each; `client_id` None is left out."""
        topics = sorted({message.topic for message in messages})
        attributes = _about(operation, "receive", topics[0], client_id) | _of_group(group)
        attributes["messaging.batch.message_count"] = len(messages)
        if len(topics) > 1:
            del attributes["messaging.destination.name"]
        name = f"{operation} {topics[0]}" if len(topics) == 1 else operation
        origins = [_span_context(message.properties) for message in messages]
        links = [Link(each) for each in origins if each is not None]
        self._tracer.start_span(name, None, SpanKind.CLIENT, attributes, links, began_ns).end(time.time_ns())


class Sending:
    """A send that is under way."""

    def __init__(self, span: Span, messages: list[Outgoing]) -> None:
        self._span = span
        self.messages = messages

    def sent(self, result: Result) -> Result:
        """Note the outcome, and give it back."""
        if isinstance(result, SendResult):
            self._span.set_attribute("messaging.destination.partition.id", str(result.queue_id))
        elif isinstance(result, list):
            failures = [each for each in result if isinstance(each, ClientError)]
            if failures:
                _fail(self._span, failures[0])
        return result


@contextmanager
def _failing(span: Span) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        _fail(span, error)
        raise


def _fail(span: Span, error: BaseException) -> None:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    span.set_attribute("error.type", name)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _about(operation: str, kind: str, topic: str, client_id: str | None) -> Attributes:
    about: Attributes = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
    }
    return about if client_id is None else about | {"messaging.client.id": client_id}


def _of_group(group: str) -> Attributes:
    return {"messaging.consumer.group.name": group, "messaging.rocketmq.consumption_model": "clustering"}


def _about_message(message_id: str | None, body_bytes: int, properties: Mapping[str, str]) -> Attributes:
    attributes: Attributes = {"messaging.message.body.size": body_bytes}
    if message_id:
        attributes["messaging.message.id"] = message_id
    if tag := properties.get(TAGS):
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys := properties.get(KEYS, "").split():
        attributes["messaging.rocketmq.message.keys"] = keys
    if (level := properties.get(DELAY, "")).isdigit():
        attributes["messaging.rocketmq.message.delay_time_level"] = int(level)
    if (due := properties.get(TIMER_DELIVER_MS, "")).isdigit():
        attributes["messaging.rocketmq.message.delivery_timestamp"] = int(due)
    if properties.get(TRANSACTION_PREPARED) == "true":
        attributes["messaging.rocketmq.message.type"] = "transaction"
    elif any(name in properties for name in _DELAYS):
        attributes["messaging.rocketmq.message.type"] = "delay"
    else:
        attributes["messaging.rocketmq.message.type"] = "normal"
    return attributes


def _properties(stored: str) -> dict[str, str]:
    pairs = (part.partition("\x01") for part in stored.split("\x02") if part)
    return {name: value for name, _, value in pairs}


def _span_context(properties: Mapping[str, str]) -> trace.SpanContext | None:
    """Return the context that a message carries, if it does."""
    found = trace.get_current_span(propagate.extract(properties, context.Context())).get_span_context()
    return found if found.is_valid else None


def _current() -> dict[str, str]:
    """Return what propagators put into a message for the current span."""
    carried: dict[str, str] = {}
    propagate.inject(carried)
    return carried


def _carrying(message: Outgoing, properties: Mapping[str, str], carried: Mapping[str, str]) -> Outgoing:
    """Return the message with what propagators say, as far as that can be properties, and has room."""
    stored = message.properties
    for name, value in carried.items():
        fits = not {"\x01", "\x02"} & {*name, *value} and name not in SYSTEM_PROPERTIES
        added = f"{name}\x01{value}\x02"
        if fits and name not in properties and len((stored + added).encode()) <= WITH_CONTEXT_BYTES:
            stored += added
    return message if stored is message.properties else msgspec.structs.replace(message, properties=stored)
