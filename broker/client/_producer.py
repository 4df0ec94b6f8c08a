"""The asynchronous producer: the one implementation of sending. It belongs to the event loop in which it is used.

Sends of one message each go out on a line (_pipeline.py): many at once, each answered on its own.

RocketMQ's batch (request 320) holds many messages of one queue in one body, stored all or not at all:

    one message: 4 size | 4 magic 0 | 4 CRC 0 | 4 flag | 4 body length | body | 2 properties length | properties
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from struct import Struct
from typing import Unpack

from ..rocketmq.codes import Answer, Request
from ..rocketmq.properties import DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS, UNIQUE_KEY, WAIT
from ..rocketmq.recall_handle import OUTCOME, BadHandle, read_handle
from ..rocketmq.topics import TEMPLATE_TOPIC
from . import names
from ._event_loop import AsyncClosing, plain_send
from ._membership import Heartbeat
from ._outgoing import MessageOptions, Outgoing, prepare, ready_message
from ._pipeline import (
    DEFAULT_QUEUES,
    STORED,
    Answered,
    Destination,
    Destinations,
    Line,
    Lines,
    Outcome,
    find_destinations,
    result_of,
)
from ._replies import Replies, answer_of, reply_to, send_reply
from ._session import Deadline, Session
from ._trace_events import SendWatch, TraceWriter, trace_group, trace_topic
from ._types import Message, MessageQueue, SendResult
from .credentials import Access
from .errors import BadAnswer, BrokerRefused, BrokerUnreachable, ClientClosed, ClientError, InvalidArgument, NoSuchQueue

#: Refusals that another broker may not repeat (DefaultMQProducer's retryResponseCodes).
RETRIED = frozenset({Answer.SYSTEM_ERROR, Answer.SYSTEM_BUSY, Answer.SERVICE_NOT_AVAILABLE, Answer.NO_PERMISSION,
                     Answer.TOPIC_NOT_EXIST})  # fmt: skip
RETRY_PAUSE_S = 0.1
MAX_KNOWN_DESTINATIONS = 4096
#: What our brokers say of a recall that found nothing to take back, though it was well-formed and in time.
_NOTHING_RECALLED = {"unknown": "nothing of this id waits", "already_delivered": "it was delivered already"}
DEFAULT_GROUP = "ESCAPEMENT_PRODUCER"


class AsyncProducer(AsyncClosing):
    """Sends messages; `retries` further attempts go to other queues.

    >>> async with AsyncProducer("orders", "127.0.0.1:9876") as producer:
    ...     await producer.send("order", b"{}", tag="created", keys=["42"], delay_level=3)

    Every method raises ClientError and its kin; InvalidArgument before anything is sent. A send that ends with
    BrokerUnreachable or Timeout may have been stored, and so may an attempt before a retry: delivery is at least once.
    """

    group: str
    """The producer group; brokers ask its members about halves."""

    def __init__(
        self, group: str = DEFAULT_GROUP, namesrv: str = "127.0.0.1:9876", *, retries: int = 2,
        trace: bool | str = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        """`trace`: tell of every message in RocketMQ's trace topic (True), or in another one."""
        names.check_group(group)
        self.group = group
        self._retries = retries
        self._session = Session(namesrv, **access)
        self._lines = Lines(self._session.security)
        self._destinations: dict[tuple[str, str], Destinations] = {}
        self._heartbeat = Heartbeat(self._session, producer_group=group)
        self._watch = SendWatch(group, self._heartbeat.client_id, trace_writer(trace, group, namesrv, access))
        self._replies: Replies | None = None
        self._closed = False

    @plain_send
    async def send(
        self, topic: str, body: bytes | str, *, timeout_ms: int = 3000, **options: Unpack[MessageOptions]
    ) -> SendResult:
        """Send one message and wait until the broker has it; `prepare` says what can be given.

        Raises ClientError, of a timer also ScheduleKeyTaken, TimerTooFar, TimerPast and TimerLimit; InvalidArgument
        before anything is sent.
        """
        return await self.send_prepared(topic, prepare(body, **options), timeout_ms=timeout_ms)

    @plain_send
    async def send_prepared(
        self, topic: str, message: Outgoing, *, queue_id: int | None = None, timeout_ms: int = 3000
    ) -> SendResult:
        """Send one message that `prepare` made; otherwise as `send`."""
        return await self._watch.around(
            topic, [message], lambda each: self._send_until(topic, each[0], queue_id, timeout_ms)
        )

    async def _send_until(self, topic: str, message: Outgoing, queue_id: int | None, timeout_ms: int) -> SendResult:
        """Try until the broker has it, the tries are used up, or the time is over."""
        deadline = Deadline(timeout_ms)
        failed: Destination | None = None
        for attempt in range(self._retries + 1):
            try:
                failed = destination = await self._way_to(topic, message, queue_id, deadline, avoid=failed)
                return await self._send_to(destination, message, deadline)
            except (BrokerUnreachable, BrokerRefused) as error:
                pause = RETRY_PAUSE_S * 2**attempt
                if not self._worth_retrying(topic, message, error, attempt) or pause >= deadline.left_s:
                    raise
                self._forget(topic)
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _worth_retrying(self, topic: str, message: Outgoing, error: ClientError, attempt: int) -> bool:
        if attempt >= self._retries or self._closed:
            return False
        if isinstance(error, BrokerRefused):
            known = self._destinations.get((topic, message.group or self.group))
            return error.code in RETRIED and known is not None and known.has_several_brokers
        return True

    async def _send_to(self, destination: Destination, message: Outgoing, deadline: Deadline) -> SendResult:
        line = await line_with_room(self._lines, destination.address, deadline)
        answer: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()

        def answered(outcome: Outcome) -> None:
            if answer.done():
                return
            result = result_of(destination, message, outcome)
            if isinstance(result, ClientError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        line.ask(SEND, fields_of(destination, message), message.body, deadline.left_ms, answered)
        return await answer

    @plain_send
    async def send_each(
        self, topic: str, messages: Sequence[Outgoing], *, queue_id: int | None = None, timeout_ms: int = 5000
    ) -> list[SendResult | ClientError]:
        """Send many messages of one topic in one write; each is answered on its own, in the order given.

        Nothing is tried again here: the caller sees which failed. Raises ClientError if none could be sent.
        """
        if not messages:
            return []
        return await self._watch.around(
            topic, messages, lambda each: self._send_at_once(topic, each, queue_id, timeout_ms)
        )

    async def _send_at_once(
        self, topic: str, messages: Sequence[Outgoing], queue_id: int | None, timeout_ms: int
    ) -> list[SendResult | ClientError]:
        deadline = Deadline(timeout_ms)
        ways = await deadline.of(self._ways(topic, messages, queue_id), self._route_of(topic))
        results = await ask_each(self._lines, ways, messages, deadline)
        if any(isinstance(result, ClientError) for result in results):
            self._forget(topic)
        return results

    @plain_send
    async def send_topics(
        self, messages: Mapping[str, Sequence[Outgoing]], *, timeout_ms: int = 5000
    ) -> dict[str, list[SendResult | ClientError]]:
        """Send many messages of several topics at once: one that is slow or cannot be sent at all holds up no other.

        Raises nothing for a topic that could not be sent: each of its messages has the error.
        """
        sent = await asyncio.gather(
            *(self.send_each(topic, each, timeout_ms=timeout_ms) for topic, each in messages.items()),
            return_exceptions=True,
        )
        results: dict[str, list[SendResult | ClientError]] = {}
        for (topic, each), outcome in zip(messages.items(), sent, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, ClientError):
                raise outcome
            results[topic] = [outcome] * len(each) if isinstance(outcome, ClientError) else outcome
        return results

    @plain_send
    async def send_batch(
        self,
        topic: str,
        messages: Sequence[Outgoing | bytes | str],
        *,
        queue_id: int | None = None,
        timeout_ms: int = 5000,
    ) -> list[SendResult]:
        """Send many messages to one queue as RocketMQ's batch: all are stored or none. No delays in a batch.

        `prepare` makes messages with tags and the like; what is bytes or text goes as it is. Raises ClientError.
        """
        ready = [each if isinstance(each, Outgoing) else prepare(each) for each in messages]
        return await self._watch.around(topic, ready, lambda each: self._send_as_one(topic, each, queue_id, timeout_ms))

    async def _send_as_one(
        self, topic: str, messages: Sequence[Outgoing], queue_id: int | None, timeout_ms: int
    ) -> list[SendResult]:
        deadline = Deadline(timeout_ms)
        body = batch_body(messages)
        destination = await self._way_to(topic, messages[0], queue_id, deadline)
        ext = batch_header(self.group, destination.queue, time.time_ns() // 1_000_000, messages[0].unique_id)
        answer = await self._session.ask(
            destination.address,
            Request.SEND_BATCH_MESSAGE,
            ext,
            body,
            timeout_ms=deadline.left_ms,
            accept=tuple(STORED),
        )
        return batch_results(messages, destination.queue, answer.ext, STORED[answer.code])

    @plain_send
    async def send_oneway(
        self, topic: str, body: Outgoing | bytes | str, *, timeout_ms: int = 3000, **options: Unpack[MessageOptions]
    ) -> None:
        """Send without an answer: whether it arrived is not told. Raises Timeout where it cannot be written in time.

        `body`: also a message that `prepare` made, for which `queue_id` may be given here.
        """
        message = ready_message(body, options)
        await self._watch.around(topic, [message], lambda each: self._tell(topic, each[0], timeout_ms))

    async def _tell(self, topic: str, message: Outgoing, timeout_ms: int) -> None:
        deadline = Deadline(timeout_ms)
        destination = await self._way_to(topic, message, None, deadline)
        line = await line_with_room(self._lines, destination.address, deadline)
        line.tell(SEND, fields_of(destination, message), message.body)

    async def recall(self, topic: str, handle: str, *, timeout_ms: int = 3000) -> str:
        """Take back a timer by the handle that its send was answered with; returns its unique id.

        Raises InvalidArgument for what is no handle of this topic, BrokerRefused with code 604 when it is too late, and
        when a broker of this project says that nothing waited (should the message still come, it is ended). Apache
        RocketMQ only notes the wish: whether a message was found, it does not say.
        """
        names.check_writable_topic(topic)
        try:
            wanted = read_handle(handle)
        except BadHandle as error:
            raise InvalidArgument(f"handle {str(handle)[:80]!r} is not valid: {error}.", field="handle") from None
        if wanted.topic != topic:
            raise InvalidArgument(f"The handle is of topic {wanted.topic!r}, not {topic!r}.", field="topic")
        deadline = Deadline(timeout_ms)
        address = (await deadline.of(self._session.route(topic), self._route_of(topic))).addresses.get(wanted.broker)
        if address is None:
            raise InvalidArgument(f"The handle names broker {wanted.broker!r}, which lacks the topic.", field="handle")
        ext = {"producerGroup": self.group, "topic": topic, "recallHandle": handle, "bname": wanted.broker}
        with self._watch.recalling(topic, wanted.unique_key):
            answer = await self._session.ask(address, Request.RECALL_MESSAGE, ext, timeout_ms=deadline.left_ms)
            if (outcome := answer.ext.get(OUTCOME)) in _NOTHING_RECALLED:
                raise BrokerRefused(Answer.ILLEGAL_OPERATION, f"nothing was recalled: {_NOTHING_RECALLED[outcome]}")
        return answer.ext.get("msgId", wanted.unique_key)

    @plain_send
    async def request(
        self, topic: str, body: bytes | str, *, tag: str | None = None, keys: Iterable[str] = (),
        properties: Mapping[str, str] | None = None, queue_id: int | None = None, timeout_ms: int = 3000,
    ) -> Message:  # fmt: skip
        """Send a message that whoever consumes it answers (see `reply`), and wait for the answer.

        Raises Timeout if none came in `timeout_ms`, else as `send`; the question may have been consumed all the same.
        """
        deadline = Deadline(timeout_ms)
        message = prepare(body, tag=tag, keys=keys, properties=properties)
        destination = await self._way_to(topic, message, queue_id, deadline)
        if self._replies is None:
            self._replies = Replies(self._session, self._heartbeat)
        met = self._replies.introduce(destination.address)
        await deadline.of(met, f"{destination.address} to know who asks")
        question, answer = self._replies.ask(message, timeout_ms)
        try:
            queue = destination.queue.queue_id
            await self.send_prepared(topic, question, queue_id=queue, timeout_ms=deadline.left_ms)
            return await answer_of(answer, topic, deadline)
        finally:
            answer.cancel()

    async def reply(
        self, question: Message, body: bytes | str, *, properties: Mapping[str, str] | None = None,
        timeout_ms: int = 3000,
    ) -> None:  # fmt: skip
        """Answer a message that came by `request` (or RocketMQ's). Raises BrokerRefused if whoever asked is gone."""
        topic, message = reply_to(question, body, properties)
        await send_reply(self._session, self.group, topic, message, Deadline(timeout_ms))

    def _route_of(self, topic: str) -> str:
        """Name what is waited for before it is known where a topic is."""
        return f"the route of topic {topic} from {' or '.join(self._session.namesrv)}"

    async def _way_to(
        self, topic: str, message: Outgoing, queue_id: int | None, deadline: Deadline, *,
        avoid: Destination | None = None,
    ) -> Destination:  # fmt: skip
        """Find the destination in time; mostly no name server need be asked, and no time be kept."""
        finding = self._destination(topic, message, queue_id, avoid=avoid)
        known = self._destinations.get((topic, message.group or self.group))
        if known is not None and known.expires_s > time.monotonic():
            return await finding
        return await deadline.of(finding, self._route_of(topic))

    async def _destination(
        self, topic: str, message: Outgoing, queue_id: int | None, *, avoid: Destination | None = None
    ) -> Destination:
        if queue_id is not None:
            names.check_queue_id(queue_id)
        group = message.group or self.group
        known = self._destinations.get((topic, group))
        if known is None or known.expires_s <= time.monotonic():
            known = await self._find(topic, group)
        return known.of(message, queue_id, avoid)

    async def _ways(
        self, topic: str, messages: Sequence[Outgoing], queue_id: int | None
    ) -> list[Destination | NoSuchQueue]:
        return [await self._way(topic, message, queue_id) for message in messages]

    async def _way(self, topic: str, message: Outgoing, queue_id: int | None) -> Destination | NoSuchQueue:
        """Find one destination; a queue that one message alone asks for and that is not there harms no other."""
        try:
            return await self._destination(topic, message, queue_id)
        except NoSuchQueue as error:
            if queue_id is not None:
                raise
            return error

    async def _find(self, topic: str, group: str) -> Destinations:
        if self._closed:
            raise ClientClosed
        names.check_writable_topic(topic)
        found = await find_destinations(self._session, group, topic)
        if len(self._destinations) >= MAX_KNOWN_DESTINATIONS:
            self._destinations.clear()
        self._destinations[topic, group] = found
        self._heartbeat.reach(each.address for each in found.all)
        return found

    def _forget(self, topic: str) -> None:
        for known in [known for known in self._destinations if known[0] == topic]:
            del self._destinations[known]
        self._session.forget_route(topic)

    async def close(self) -> None:
        """Sign off at the brokers and end all connections; idempotent."""
        self._closed = True
        await self._watch.close()
        self._destinations.clear()
        await self._heartbeat.stop()
        self._lines.close()
        await self._session.close()


def trace_writer(trace: bool | str, group: str, namesrv: str, access: Access) -> TraceWriter | None:
    """Return what writes the traces of a client of `group`, None if they are not wanted; raises InvalidArgument."""
    topic = trace_topic(trace)
    if topic is None:
        return None
    return TraceWriter(topic, lambda: AsyncProducer(trace_group(group), namesrv, retries=1, **access))


# Sends of one message each.

SEND = int(Request.SEND_MESSAGE_V2)


def fields_of(way: Destination, message: Outgoing) -> bytes:
    """The encoded header fields of a send that leaves now."""
    return way.fields(time.time_ns() // 1_000_000, message.properties)


async def line_with_room(lines: Lines, address: str, deadline: Deadline) -> Line:
    """An open line on which something can be written. Raises BrokerUnreachable, Timeout."""
    line = lines.ready(address)
    if line is None:
        line = await deadline.of(lines.to(address), f"a connection to {address}")
    if not line.has_room:
        await deadline.of(line.room(), f"{address} to read what was sent before")
    return line


async def ask_each(
    lines: Lines, ways: Sequence[Destination | ClientError], messages: Sequence[Outgoing], deadline: Deadline
) -> list[SendResult | ClientError]:
    """Send each message, in one write to each broker; return what becomes of each, in order.

    One without a way has its error already.

    Raises BrokerUnreachable where no broker can be connected to; one that cannot harms no message for another.
    """
    connected, failed = await _connect(lines, {way.address for way in ways if isinstance(way, Destination)}, deadline)
    results: list[SendResult | ClientError | None] = [
        way if isinstance(way, ClientError) else failed.get(way.address) for way in ways
    ]
    going = [(nth, way) for nth, way in enumerate(ways) if isinstance(way, Destination) and way.address in connected]
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(going)

    def answer_to(nth: int, way: Destination) -> Answered:
        def answered(outcome: Outcome) -> None:
            nonlocal left
            results[nth] = result_of(way, messages[nth], outcome)
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        return answered

    timeout_ms = deadline.left_ms
    for nth, way in going:
        message = messages[nth]
        connected[way.address].ask(SEND, fields_of(way, message), message.body, timeout_ms, answer_to(nth, way))
    for line in connected.values():
        line.flush()  # the broker works on these while the next batch is read here
    if going:
        await done
    return [result for result in results if result is not None]


async def _connect(
    lines: Lines, addresses: Collection[str], deadline: Deadline
) -> tuple[dict[str, Line], dict[str, ClientError]]:
    """Open lines with room, and why others are not; raises the error where none is open."""
    connected: dict[str, Line] = {}
    failed: dict[str, ClientError] = {}

    async def connect(address: str) -> None:
        try:
            connected[address] = await line_with_room(lines, address, deadline)
        except ClientError as error:
            failed[address] = error

    for address in addresses:
        line = lines.ready(address)
        if line is not None and line.has_room:
            connected[address] = line
    if len(connected) < len(addresses):
        await asyncio.gather(*(connect(address) for address in addresses if address not in connected))
    if failed and not connected:
        raise next(iter(failed.values()))
    return connected, failed


# RocketMQ's batch.

_FRONT = Struct(">iiiii")
_SHORT = Struct(">H")
_DELAYS = tuple(f"\x02{name}\x01" for name in (DELAY, TIMER_DELIVER_MS, TIMER_DELAY_MS))


def batch_body(messages: Sequence[Outgoing]) -> bytes:
    """The request's body; raises InvalidArgument for an empty batch, delayed messages, or more than 4 MiB."""
    if not messages:
        raise InvalidArgument("A batch needs at least one message.", field="messages")
    if len({(message.queue_id, message.sharding_key) for message in messages}) > 1:
        raise InvalidArgument("Messages of a batch go to one queue; these ask for several.", field="messages")
    parts: list[bytes] = []
    for message in messages:
        if any(mark in message.properties for mark in _DELAYS):
            raise InvalidArgument("Messages of a batch cannot be delayed; send them one by one.", field="delay_level")
        properties = message.properties.encode()
        size = _FRONT.size + len(message.body) + _SHORT.size + len(properties)
        parts += (
            _FRONT.pack(size, 0, 0, 0, len(message.body)), message.body, _SHORT.pack(len(properties)), properties
        )  # fmt: skip
    whole = b"".join(parts)
    if len(whole) > names.MAX_BODY_BYTES:
        raise InvalidArgument(
            f"The batch has {len(whole):,} bytes, the limit is {names.MAX_BODY_BYTES:,}; make smaller batches.",
            field="messages",
        )
    return whole


def batch_header(group: str, queue: MessageQueue, born_ms: int, unique_id: str) -> dict[str, str]:
    """Return the header fields of the request (SendMessageRequestHeaderV2)."""
    return {
        "a": group, "b": queue.topic, "c": TEMPLATE_TOPIC, "d": str(DEFAULT_QUEUES), "e": str(queue.queue_id),
        "f": "0", "g": str(born_ms), "h": "0", "i": f"{UNIQUE_KEY}\x01{unique_id}\x02{WAIT}\x01true\x02", "j": "0",
        "k": "false", "m": "true", "n": queue.broker,
    }  # fmt: skip


def batch_results(
    messages: Sequence[Outgoing], queue: MessageQueue, ext: Mapping[str, str], status: str
) -> list[SendResult]:
    """Return a result for each message: ids come joined by commas, the offset is the first one's."""
    ids = ext.get("msgId", "").split(",")
    if len(ids) != len(messages):
        raise BadAnswer(f"The broker answered {len(ids)} ids to a batch of {len(messages)}.")
    first = int(ext.get("queueOffset", -1))
    queue_id = int(ext.get("queueId", queue.queue_id))
    return [
        SendResult(message.unique_id, each, queue.topic, queue.broker, queue_id, first + nth, status)
        for nth, (message, each) in enumerate(zip(messages, ids, strict=True))
    ]
