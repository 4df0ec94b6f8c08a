"""What a producer, and what a consumer, tells of messages where that is wanted (`trace`): RocketMQ's message trace."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

from ..rocketmq.message import offset_message_id, pack_host, unpack_host
from .errors import BrokerRefused
from .outgoing import Outgoing
from .trace_lines import (
    DECIDED_HALF,
    Subject,
    delivered_line,
    ended_line,
    handled_line,
    recalled_line,
    sent_line,
    subject_of,
)
from .trace_writer import TraceWriter
from .tracing import tracing
from .transaction import Check, Decision, Half
from .types import Message, SendResult
from .unique_ids import unique_ids

Result = TypeVar("Result")
_OK = "SEND_OK"
#: An offset message id ends with the position, 8 bytes.
_POSITION_DIGITS = 16


class SendTelling:
    """A producer's part. Nothing is told of what the trace topic holds itself."""

    def __init__(self, writer: TraceWriter, group: str) -> None:
        self._writer = writer
        self._group = group

    def sent(self, topic: str, messages: Sequence[Outgoing], result: object, began_ms: int) -> None:
        """Messages were sent, and `result` is what the send gave back.

        What no broker has answered is not told, nor what made way for a timer with the same schedule key.
        """
        if topic == self._writer.topic:
            return
        took_ms = max(0, _now_ms() - began_ms)
        results = result if isinstance(result, list) else [result]
        for message, each in zip(messages, results, strict=False):
            if isinstance(each, SendResult) and each.conflict != "kept":
                offset_id, succeeded = each.offset_message_id, each.status == _OK
                host = _host_of(offset_id[:-_POSITION_DIGITS])
            elif isinstance(each, Half):
                offset_id, host, succeeded = _offset_id_of(each), each.address, True
            else:
                continue
            subject = subject_of(message.unique_id, topic, message.properties)
            line = sent_line(
                subject, message.group or self._group, at_ms=began_ms, took_ms=took_ms, body_bytes=len(message.body),
                offset_id=offset_id, host=host, succeeded=succeeded,
            )  # fmt: skip
            self._writer.put(line, subject.found_by)

    def ended(self, topic: str, unique_id: str, host: str, decision: Decision, *, is_answer: bool) -> None:
        """A transaction was decided, by its producer or (`is_answer`) by whoever the broker asked."""
        subject = Subject(unique_id, topic, kind=DECIDED_HALF)
        line = ended_line(subject, self._group, decision, at_ms=_now_ms(), host=host, is_answer=is_answer)
        self._writer.put(line, subject.found_by)

    def recalled(self, topic: str, unique_id: str, *, succeeded: bool) -> None:
        """A broker was asked to take a timer back."""
        subject = Subject(unique_id, topic)
        line = recalled_line(subject, self._group, at_ms=_now_ms(), succeeded=succeeded)
        self._writer.put(line, subject.found_by)


class SendWatch:
    """Around every send: a span where the program traces with OpenTelemetry, and the trace where it is wanted."""

    def __init__(self, group: str, client_id: str, writer: TraceWriter | None) -> None:
        self._client_id = client_id
        self._writer = writer
        self._telling = SendTelling(writer, group) if writer is not None else None

    async def around(
        self, topic: str, messages: Sequence[Outgoing], send: Callable[[Sequence[Outgoing]], Awaitable[Result]]
    ) -> Result:
        """Send the messages, which carry the span's context then."""
        spans, telling = tracing.spans(), self._telling
        if spans is None and telling is None:
            return await send(messages)
        began_ms = _now_ms()
        if spans is None:
            result = await send(messages)
        else:
            with spans.sending(topic, messages, self._client_id) as sending:
                result = sending.sent(await send(sending.messages))
        if telling is not None:
            telling.sent(topic, messages, result, began_ms)
        return result

    @contextmanager
    def recalling(self, topic: str, unique_id: str) -> Iterator[None]:
        """Around the request that takes a timer back; what no broker has answered is not told."""
        try:
            yield
        except BrokerRefused:
            if self._telling is not None:
                self._telling.recalled(topic, unique_id, succeeded=False)
            raise
        if self._telling is not None:
            self._telling.recalled(topic, unique_id, succeeded=True)

    def ended(self, half: Half, decision: Decision) -> None:
        """A transaction was decided."""
        if self._telling is not None:
            self._telling.ended(half.topic, half.transaction_id, half.address, decision, is_answer=False)

    def answered(self, check: Check, decision: Decision) -> None:
        """A broker's question what became of a half was answered."""
        if self._telling is not None:
            topic = check.fields.get("topic") or check.message.topic
            self._telling.ended(topic, check.transaction_id, check.address, decision, is_answer=True)

    async def close(self) -> None:
        """Send what is still to be told."""
        if self._writer is not None:
            await self._writer.close()


class HandlingTelling:
    """A consumer's part."""

    def __init__(self, writer: TraceWriter, group: str) -> None:
        self._writer = writer
        self._group = group

    @contextmanager
    def handling(self, message: Message) -> Iterator[None]:
        """Around the handler of a message."""
        if not self._is_told(message):
            yield
            return
        subject, request_id = _subject(message), unique_ids.next_id()
        began_ms = self._delivered(subject, request_id, message.reconsume_times)
        try:
            yield
        except BaseException:
            self._handled(subject, request_id, began_ms, succeeded=False)
            raise
        self._handled(subject, request_id, began_ms, succeeded=True)

    def polled(self, messages: Sequence[Message]) -> None:
        """Messages were given to a program that polls: what it does with them is not known (as in Java)."""
        request_id = unique_ids.next_id()
        for message in messages:
            if self._is_told(message):
                subject = _subject(message)
                began_ms = self._delivered(subject, request_id, message.reconsume_times)
                self._handled(subject, request_id, began_ms, succeeded=True)

    def _is_told(self, message: Message) -> bool:
        # tracing the reading of traces would never end
        return message.topic != self._writer.topic and message.properties.get("TRACE_ON") != "false"

    def _delivered(self, subject: Subject, request_id: str, retries: int) -> int:
        at_ms = _now_ms()
        line = delivered_line(subject, self._group, at_ms=at_ms, request_id=request_id, retries=retries)
        self._writer.put(line, subject.found_by)
        return at_ms

    def _handled(self, subject: Subject, request_id: str, began_ms: int, *, succeeded: bool) -> None:
        at_ms = max(began_ms, _now_ms())
        line = handled_line(
            subject, self._group, at_ms=at_ms, took_ms=at_ms - began_ms, request_id=request_id, succeeded=succeeded
        )
        self._writer.put(line, subject.found_by)


def _subject(message: Message) -> Subject:
    named = message.properties
    return Subject(
        message.unique_key or message.offset_message_id, message.topic, message.tags or "", named.get("KEYS", "")
    )


@lru_cache(maxsize=256)
def _host_of(store_host: str) -> str:
    """The address that an offset message id begins with."""
    try:
        host, port = unpack_host(bytes.fromhex(store_host))
    except ValueError:
        return ""
    return f"{host}:{port}"


def _offset_id_of(half: Half) -> str:
    host, _, port = half.address.rpartition(":")
    try:
        return offset_message_id(pack_host(host.strip("[]"), int(port)), half.position)
    except ValueError:  # the broker goes by a name
        return ""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
