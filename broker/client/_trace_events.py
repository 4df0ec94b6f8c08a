"""RocketMQ's message trace: the events that producers and consumers report where that is wanted (`trace`).

Events are written as lines, as RocketMQ 5.5.0 writes them (TraceDataEncoder); broker/rocketmq/traces.py reads them. A
line ends with \\x02, its fields are parted by \\x01. Names of fields are in the order of RocketMQ's TraceContext.

A `TraceWriter` sends the lines to the trace topic in the background, many at a time. Sends and handlers do not wait for
it and do not fail with it: what cannot be sent is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

from ..rocketmq.message import offset_message_id, pack_host, unpack_host
from ..rocketmq.properties import KEYS, TAGS, TRACE_SWITCH, TRANSACTION_PREPARED, is_delayed
from ..rocketmq.topics import TRACE_TOPIC
from ._outgoing import Outgoing, message_ids, prepare
from ._tracing import tracing
from ._transaction import Check, Decision, Half
from ._types import Message, SendResult
from .errors import BrokerRefused, ClientError, InvalidArgument
from .names import MAX_GROUP_CHARACTERS, check_writable_topic

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
_OK = "SEND_OK"
#: An offset message id ends with the position, 8 bytes.
_POSITION_DIGITS = 16


class SendTrace:
    """Writes what a producer does into the trace; what goes to the trace topic itself is left out."""

    def __init__(self, writer: TraceWriter, group: str) -> None:
        self._writer = writer
        self._group = group

    def sent(self, topic: str, messages: Sequence[Outgoing], result: object, began_ms: int) -> None:
        """Tell that messages were sent; `result` is what the send gave back.

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
            subject = subject_of(message.message_id, topic, message.properties)
            line = sent_line(
                subject, message.group or self._group, at_ms=began_ms, took_ms=took_ms, body_bytes=len(message.body),
                offset_id=offset_id, host=host, succeeded=succeeded,
            )  # fmt: skip
            self._writer.put(line, subject.found_by)

    def ended(self, topic: str, message_id: str, host: str, decision: Decision, *, is_answer: bool) -> None:
        """Tell that a transaction was decided, by its producer or (`is_answer`) by whoever the broker asked."""
        subject = Subject(message_id, topic, kind=DECIDED_HALF)
        line = ended_line(subject, self._group, decision, at_ms=_now_ms(), host=host, is_answer=is_answer)
        self._writer.put(line, subject.found_by)

    def recalled(self, topic: str, message_id: str, *, succeeded: bool) -> None:
        """Tell that a broker was asked to take a timer back."""
        subject = Subject(message_id, topic)
        line = recalled_line(subject, self._group, at_ms=_now_ms(), succeeded=succeeded)
        self._writer.put(line, subject.found_by)


class SendWatch:
    """Around every send: a span where the program traces with OpenTelemetry, and the trace where it is wanted."""

    def __init__(self, group: str, client_id: str, writer: TraceWriter | None) -> None:
        self._client_id = client_id
        self._writer = writer
        self._trace = SendTrace(writer, group) if writer is not None else None

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody wants to know of a send that begins now."""
        return self._trace is None and tracing.spans() is None

    async def around(
        self, topic: str, messages: Sequence[Outgoing], send: Callable[[Sequence[Outgoing]], Awaitable[Result]]
    ) -> Result:
        """Send the messages, which carry the span's context then."""
        if self.is_idle:
            return await send(messages)
        spans, trace = tracing.spans(), self._trace
        began_ms = _now_ms()
        if spans is None:
            result = await send(messages)
        else:
            with spans.sending(topic, messages, self._client_id) as sending:
                result = sending.sent(await send(sending.messages))
        if trace is not None:
            trace.sent(topic, messages, result, began_ms)
        return result

    @contextmanager
    def recalling(self, topic: str, message_id: str) -> Iterator[None]:
        """Tell of the request in this block, which takes a timer back; what no broker has answered is not told."""
        try:
            yield
        except BrokerRefused:
            if self._trace is not None:
                self._trace.recalled(topic, message_id, succeeded=False)
            raise
        if self._trace is not None:
            self._trace.recalled(topic, message_id, succeeded=True)

    def ended(self, half: Half, decision: Decision) -> None:
        """Tell that a transaction was decided by its producer."""
        if self._trace is not None:
            self._trace.ended(half.topic, half.transaction_id, half.address, decision, is_answer=False)

    def answered(self, check: Check, decision: Decision) -> None:
        """Tell that a broker's question what became of a half was answered."""
        if self._trace is not None:
            topic = check.fields.get("topic") or check.message.topic
            self._trace.ended(topic, check.transaction_id, check.address, decision, is_answer=True)

    async def close(self) -> None:
        """Send what is still to be told."""
        if self._writer is not None:
            await self._writer.close()


class HandlerTrace:
    """Tells of messages that a consumer was given."""

    def __init__(self, writer: TraceWriter, group: str) -> None:
        self._writer = writer
        self._group = group

    @contextmanager
    def handling(self, message: Message) -> Iterator[None]:
        """Tell of the handler of a message, which runs in this block."""
        if not self._is_told(message):
            yield
            return
        subject, request_id = _subject(message), message_ids.next_id()
        began_ms = self._delivered(subject, request_id, message.reconsume_times)
        try:
            yield
        except BaseException:
            self._handled(subject, request_id, began_ms, succeeded=False)
            raise
        self._handled(subject, request_id, began_ms, succeeded=True)

    def polled(self, messages: Sequence[Message]) -> None:
        """Tell that a polling program got messages; what it does with them is not known (as in Java)."""
        request_id = message_ids.next_id()
        for message in messages:
            if self._is_told(message):
                subject = _subject(message)
                began_ms = self._delivered(subject, request_id, message.reconsume_times)
                self._handled(subject, request_id, began_ms, succeeded=True)

    def _is_told(self, message: Message) -> bool:
        # tracing the reading of traces would never end
        return message.topic != self._writer.topic and message.properties.get(TRACE_SWITCH) != "false"

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
        message.unique_key or message.offset_message_id, message.topic, message.tags or "", named.get(KEYS, "")
    )


@lru_cache(maxsize=256)
def _host_of(store_host: str) -> str:
    """Return the address that an offset message id begins with."""
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


#: MixAll.DEFAULT_TRACE_REGION_ID; brokers give the same name unless they are told another one.


# Lines, as RocketMQ writes them.

REGION = "DefaultRegion"
#: Ordinals of org.apache.rocketmq.common.message.MessageType.
NORMAL, HALF, DECIDED_HALF, DELAYED = 0, 1, 2, 3
#: Ordinals of ConsumeReturnType: a handler returned, or raised.
RETURNED, RAISED = 0, 2

_STATES = {
    Decision.UNKNOWN: "UNKNOW",
    Decision.COMMIT: "COMMIT_MESSAGE",
    Decision.ROLLBACK: "ROLLBACK_MESSAGE",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """The message that is told of; `keys` as its property has them, parted by blanks."""

    message_id: str
    topic: str = ""
    tag: str = ""
    keys: str = ""
    kind: int = NORMAL

    @property
    def found_by(self) -> tuple[str, ...]:
        """Keys under which what is told can be found."""
        return (self.message_id, *self.keys.split())


_HALF_MARK = f"\x02{TRANSACTION_PREPARED}\x01"


def subject_of(message_id: str, topic: str, stored: str) -> Subject:
    """Describe a message on its way out; `stored` are its properties in RocketMQ's stored form."""
    framed = "\x02" + stored
    if _HALF_MARK in framed:
        kind = HALF
    elif is_delayed(framed):
        kind = DELAYED
    else:
        kind = NORMAL
    return Subject(message_id, topic, _property(framed, TAGS), _property(framed, KEYS), kind)


def _property(framed: str, name: str) -> str:
    """Return the value of one property, each of which stands between \x02; empty if there is none."""
    mark = f"\x02{name}\x01"
    begin = framed.find(mark)
    if begin < 0:
        return ""
    begin += len(mark)
    return framed[begin : framed.find("\x02", begin)]


def sent_line(
    subject: Subject, group: str, *, at_ms: int, took_ms: int, body_bytes: int, offset_id: str, host: str,
    succeeded: bool,
) -> str:  # fmt: skip
    """Return the line of a message sent to `host`: `at_ms` is when that began, `offset_id` names the record."""
    return _line(
        "Pub", at_ms, REGION, group, subject.topic, subject.message_id, subject.tag, subject.keys, host,
        body_bytes, took_ms, subject.kind, offset_id, _truth(succeeded),
    )  # fmt: skip


def delivered_line(subject: Subject, group: str, *, at_ms: int, request_id: str, retries: int) -> str:
    """Return the line of a message that a consumer's handler gets."""
    return _line("SubBefore", at_ms, REGION, group, request_id, subject.message_id, retries, subject.keys)


def handled_line(subject: Subject, group: str, *, at_ms: int, took_ms: int, request_id: str, succeeded: bool) -> str:
    """Return the line that tells that a handler ended at `at_ms`."""
    code = RETURNED if succeeded else RAISED
    return _line(
        "SubAfter", request_id, subject.message_id, took_ms, _truth(succeeded), subject.keys, code, at_ms, group
    )


def ended_line(subject: Subject, group: str, decision: Decision, *, at_ms: int, host: str, is_answer: bool) -> str:
    """Return the line of a transaction that was decided; `is_answer`: its broker had asked."""
    return _line(
        "EndTransaction", at_ms, REGION, group, subject.topic, subject.message_id, subject.tag, subject.keys, host,
        DECIDED_HALF, subject.message_id, _STATES[decision], _truth(is_answer),
    )  # fmt: skip


def recalled_line(subject: Subject, group: str, *, at_ms: int, succeeded: bool) -> str:
    """Return the line of a timer that was to be cancelled."""
    return _line("Recall", at_ms, REGION, group, subject.topic, subject.message_id, _truth(succeeded))


def _line(*fields: str | int) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


def _truth(is_so: bool) -> str:
    return "true" if is_so else "false"


# Sending lines to the trace topic.

#: How long a line waits for others (AsyncTraceDispatcher's pollingTimeMil), and how many go in one message.
LINGER_S = 0.1
MOST_LINES = 100
#: Limits of one message: its body (maxMsgSize is 128,000), and its keys, which stand in its properties.
MOST_BODY_CHARACTERS = 60_000
MOST_KEY_CHARACTERS = 16_000
#: Messages that are sent at the same time: where sends take long, one after the other would not keep up.
MOST_UNDER_WAY = 16
#: Lines that wait at most (queueSize of 5.5.0).
MOST_WAITING = 2048
SEND_TIMEOUT_MS = 5_000
CLOSE_WAIT_S = 3.0


class TraceSender(Protocol):
    """The part of a producer that writes traces."""

    async def send_prepared(self, topic: str, message: Outgoing, *, timeout_ms: int) -> SendResult:
        """Send one message of lines."""

    async def close(self) -> None:
        """End all connections of the producer."""


def trace_topic(wanted: bool | str) -> str | None:
    """Return the topic to tell in: True is RocketMQ's own, a text another one, False none. Raises InvalidArgument."""
    if isinstance(wanted, str):
        check_writable_topic(wanted)
        return wanted
    if not isinstance(wanted, bool):
        raise InvalidArgument(f"trace is {wanted!r}; give True, False or the name of a topic.", field="trace")
    return TRACE_TOPIC if wanted else None


def trace_group(group: str) -> str:
    """Return the producer group in whose name traces of `group` are sent (as the official client's)."""
    return f"_INNER_TRACE_PRODUCER-{group}"[:MAX_GROUP_CHARACTERS]


class TraceWriter:
    """The traces that one client tells; `make` gives the producer that sends them, which traces nothing itself."""

    def __init__(self, topic: str, make: Callable[[], TraceSender]) -> None:
        self.topic = topic
        self.dropped = 0
        self._make = make
        self._sender: TraceSender | None = None
        self._waiting: deque[tuple[str, tuple[str, ...]]] = deque()
        self._arrived = asyncio.Event()
        self._is_enough = asyncio.Event()
        self._free = asyncio.Semaphore(MOST_UNDER_WAY)
        self._under_way: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._failing = False

    def put(self, line: str, keys: tuple[str, ...]) -> None:
        """Have a line sent, to be found by these keys; dropped when too many wait."""
        if self._closing or len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append((line, keys))
        self._arrived.set()
        if len(self._waiting) >= MOST_LINES:
            self._is_enough.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        self._sender = self._make()
        while self._waiting or not self._closing:
            await self._arrived.wait()
            try:
                async with asyncio.timeout(LINGER_S):
                    await self._is_enough.wait()
            except TimeoutError:
                pass
            while self._waiting:
                await self._free.acquire()
                sending = asyncio.ensure_future(self._send(self._sender, *self._next()))
                self._under_way.add(sending)
                sending.add_done_callback(self._sent)
            if not self._closing:
                self._arrived.clear()
                self._is_enough.clear()
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _sent(self, sending: asyncio.Future[None]) -> None:
        self._under_way.discard(sending)
        self._free.release()

    def _next(self) -> tuple[str, list[str], int]:
        """Return the body, keys and number of lines of the next message."""
        lines: list[str] = []
        keys: dict[str, None] = {}
        characters = key_characters = 0
        while self._waiting and len(lines) < MOST_LINES:
            line, named = self._waiting[0]
            new = [key for key in named if key not in keys]
            characters += len(line)
            for key in new:
                key_characters += len(key) + 1
            if lines and (characters > MOST_BODY_CHARACTERS or key_characters > MOST_KEY_CHARACTERS):
                break
            lines.append(line)
            keys.update(dict.fromkeys(new))
            self._waiting.popleft()
        return "".join(lines), _words(keys), len(lines)

    async def _send(self, sender: TraceSender, body: str, keys: list[str], count: int) -> None:
        try:
            # what others have sent may hold halves of characters
            message = prepare(body.encode(errors="replace"), keys=keys)
            await sender.send_prepared(self.topic, message, timeout_ms=SEND_TIMEOUT_MS)
            self._failing = False
        except ClientError as error:
            self.dropped += count
            # said once for each outage
            logger.log(logging.DEBUG if self._failing else logging.WARNING, "traces are dropped: %s", error)
            self._failing = True

    async def close(self) -> None:
        """Send what waits, if that is a matter of seconds; idempotent."""
        self._closing = True
        task, self._task = self._task, None
        if task is None:
            return
        self._arrived.set()
        self._is_enough.set()
        await asyncio.wait([task], timeout=CLOSE_WAIT_S)
        late = [task, *self._under_way]
        for each in late:
            each.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if self._sender is not None:
            await self._sender.close()


def _words(keys: Iterable[str]) -> list[str]:
    """Return keys that a message can have; those of other clients' messages may be anything."""
    words = [key if key.isascii() else key.encode(errors="replace").decode() for key in keys]
    return [word for word in words if word and word.split() == [word]]
