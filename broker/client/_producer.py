"""The asynchronous producer: the one implementation of sending. It belongs to the event loop in which it is used.

Sends of one message each go out on a pipeline (_pipeline.py): many at once, each answered on its own.

Request and reply go over topics: a message that is answered by whoever consumes it. The asker names himself and his
question in properties; the answer goes to the cluster's reply topic, and the broker hands it over (request 326) on the
connection over which the asker's heartbeats come.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Unpack

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.errors import RequestRefused
from ..rocketmq.fields import whole
from ..rocketmq.frame import Command
from ..rocketmq.ids import OUTCOME, BadHandle, read_handle
from ..rocketmq.properties import (
    CLUSTER,
    CORRELATION_ID,
    MESSAGE_REPLY_TO_CLIENT,
    MESSAGE_TTL,
    MESSAGE_TYPE,
)
from ..rocketmq.topics import TEMPLATE_TOPIC, reply_topic
from . import names
from ._each import Each
from ._event_loop import AsyncClosing, plain_send
from ._membership import Heartbeat
from ._outgoing import Body, MessageOptions, Outgoing, batch_body, batch_header, batch_results, prepare, ready_message
from ._pipeline import (
    SEND,
    STORED,
    Destination,
    Destinations,
    Outcome,
    Pipelines,
    fields_of,
    find_destinations,
    pipeline_with_room,
    result_of,
    told_of_key,
)
from ._session import Deadline, Session
from ._timers import FRESH_S, AsyncTimers
from ._trace_events import SendWatch, TraceWriter, trace_group, trace_topic
from ._types import Message, SendResult
from .credentials import Access
from .errors import BrokerRefused, BrokerUnreachable, ClientClosed, ClientError, InvalidArgument, NoSuchQueue

logger = logging.getLogger(__name__)


#: Refusals that another broker may not repeat (DefaultMQProducer's retryResponseCodes).
RETRIED = frozenset({Answer.SYSTEM_ERROR, Answer.SYSTEM_BUSY, Answer.SERVICE_NOT_AVAILABLE, Answer.NO_PERMISSION,
                     Answer.TOPIC_NOT_EXIST})  # fmt: skip
RETRY_PAUSE_S = 0.1
MAX_KNOWN_DESTINATIONS = 4096
#: What our brokers say of a recall that found nothing to take back, though it was well-formed and in time.
_NOTHING_RECALLED = {"unknown": "no timer with this id is pending", "already_delivered": "it was delivered already"}
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
        self._pipelines = Pipelines(self._session.security)
        self._destinations: dict[tuple[str, str], Destinations] = {}
        self._heartbeat = Heartbeat(self._session, producer_group=group)
        self._watch = SendWatch(group, self._heartbeat.client_id, trace_writer(trace, group, namesrv, access))
        self._replies: Replies | None = None
        self._timers = AsyncTimers(
            self._session,
            lambda topic, message, deadline: self._way_to(topic, message, None, deadline),
            lambda topic, message, timeout_ms: self.send_prepared(topic, message, timeout_ms=timeout_ms),
        )
        self._closed = False

    @property
    def timers(self) -> AsyncTimers:
        """The timers of schedule keys: put, move, cancel, get."""
        return self._timers

    @plain_send
    async def send(
        self, topic: str, body: Body, *, timeout_ms: int = 3000, **options: Unpack[MessageOptions]
    ) -> SendResult:
        """Send one message and wait until the broker has it; `prepare` says what can be given.

        Raises ClientError, of a timer also ScheduleKeyTaken, TimerTooFar, TimerPast and TimerLimit; InvalidArgument
        before anything is sent.
        """
        return await self.send_prepared(topic, prepare(body, **options), timeout_ms=timeout_ms)

    @plain_send
    async def send_prepared(
        self, topic: str, message: Outgoing, *, queue_id: int | None = None, broker: str | None = None,
        timeout_ms: int = 3000,
    ) -> SendResult:  # fmt: skip
        """Send one message that `prepare` made; otherwise as `send`."""
        message = message.to(broker)
        if self._watch.is_idle:
            return await self._send_until(topic, message, queue_id, timeout_ms)
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
                    raise (error if failed is None else told_of_key(error, failed, message)) from error.__cause__
                self._forget(topic)
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _worth_retrying(self, topic: str, message: Outgoing, error: ClientError, attempt: int) -> bool:
        if attempt >= self._retries or self._closed:
            return False
        if isinstance(error, BrokerRefused):
            known = self._destinations.get((topic, message.group or self.group))
            is_free = message.broker is None and message.schedule_key is None  # to go to another broker
            return error.code in RETRIED and is_free and known is not None and known.has_others
        return True

    async def _send_to(self, destination: Destination, message: Outgoing, deadline: Deadline) -> SendResult:
        pipeline = self._pipelines.with_room(destination.address)
        if pipeline is None:
            pipeline = await pipeline_with_room(self._pipelines, destination.address, deadline)
        answer: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()

        def answered(outcome: Outcome) -> None:
            if answer.done():
                return
            result = result_of(destination, message, outcome)
            if isinstance(result, ClientError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        pipeline.ask(SEND, fields_of(destination, message), message.body, deadline.left_ms, answered)
        return await answer

    @plain_send
    async def send_each(
        self, topic: str, messages: Sequence[Outgoing], *, queue_id: int | None = None, broker: str | None = None,
        timeout_ms: int = 5000,
    ) -> list[SendResult | ClientError]:  # fmt: skip
        """Send many messages of one topic in one write; each is answered on its own, in the order given.

        Nothing is tried again here: the caller sees which failed. Raises ClientError if none could be sent.
        """
        if not messages:
            return []
        if broker is not None:
            messages = [each.to(broker) for each in messages]
        return await self._watch.around(
            topic, messages, lambda each: self._send_at_once(topic, each, queue_id, timeout_ms)
        )

    async def _send_at_once(
        self, topic: str, messages: Sequence[Outgoing], queue_id: int | None, timeout_ms: int
    ) -> list[SendResult | ClientError]:
        deadline = Deadline(timeout_ms)
        ways = await deadline.of(self._ways(topic, messages, queue_id), self._route_of(topic))
        results = await Each(self._pipelines, self.group, ways, messages).sent(deadline)
        if any(isinstance(result, ClientError) for result in results):
            self._forget(topic)
        return results

    @plain_send
    async def send_topics(
        self, messages: Mapping[str, Sequence[Outgoing]], *, timeout_ms: int = 5000
    ) -> dict[str, list[SendResult | ClientError]]:
        """Send many messages of several topics in one go: one that is slow or cannot be sent at all holds up no other.

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
        messages: Sequence[Outgoing | Body],
        *,
        queue_id: int | None = None,
        broker: str | None = None,
        timeout_ms: int = 5000,
    ) -> list[SendResult]:
        """Send many messages to one queue as RocketMQ's batch: all are stored or none. No delays in a batch.

        `prepare` makes messages with tags and the like; what is bytes or text goes as it is. Raises ClientError.
        """
        ready = [(each if isinstance(each, Outgoing) else prepare(each)).to(broker) for each in messages]
        return await self._watch.around(topic, ready, lambda each: self._send_as_one(topic, each, queue_id, timeout_ms))

    async def _send_as_one(
        self, topic: str, messages: Sequence[Outgoing], queue_id: int | None, timeout_ms: int
    ) -> list[SendResult]:
        deadline = Deadline(timeout_ms)
        body = batch_body(messages)
        destination = await self._way_to(topic, messages[0], queue_id, deadline)
        ext = batch_header(self.group, destination.queue, time.time_ns() // 1_000_000, messages[0].message_id)
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
        self, topic: str, body: Outgoing | Body, *, timeout_ms: int = 3000, **options: Unpack[MessageOptions]
    ) -> None:
        """Send without an answer: whether it arrived is not told. Raises Timeout where it cannot be written in time.

        `body`: also a message that `prepare` made, for which `queue_id` and `broker` may be given here.
        """
        message = ready_message(body, options)
        await self._watch.around(topic, [message], lambda each: self._tell(topic, each[0], timeout_ms))

    async def _tell(self, topic: str, message: Outgoing, timeout_ms: int) -> None:
        deadline = Deadline(timeout_ms)
        destination = await self._way_to(topic, message, None, deadline)
        pipeline = await pipeline_with_room(self._pipelines, destination.address, deadline)
        pipeline.tell(SEND, fields_of(destination, message), message.body)

    async def recall(self, topic: str, handle: str, *, timeout_ms: int = 3000) -> str:
        """Cancel a timer by the handle that its send was answered with; returns its message id.

        Raises InvalidArgument for what is no handle of this topic, BrokerRefused with code 604 when it is too late, and
        when a broker of this project says that nothing waited (should the message still come, it is ended). Apache
        RocketMQ only notes the wish: whether a message was found, it does not report.
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
                raise BrokerRefused(Answer.ILLEGAL_OPERATION, f"nothing was cancelled: {_NOTHING_RECALLED[outcome]}")
        return answer.ext.get("msgId", wanted.unique_key)

    async def brokers_of(self, topic: str, *, timeout_ms: int = 3000) -> tuple[str, ...]:
        """Return the names of the brokers that have a topic now, and whose masters are there; raises RouteNotFound."""
        names.check_topic(topic)
        route = await Deadline(timeout_ms).of(self._session.route(topic, max_age_s=FRESH_S), self._route_of(topic))
        return tuple(sorted(route.addresses))

    @plain_send
    async def request(
        self, topic: str, body: Body, *, tag: str | None = None, keys: Iterable[str] = (),
        properties: Mapping[str, str] | None = None, queue_id: int | None = None, broker: str | None = None,
        timeout_ms: int = 3000,
    ) -> Message:  # fmt: skip
        """Send a message that whoever consumes it answers (see `reply`), and wait for the answer.

        Raises Timeout if none came in `timeout_ms`, else as `send`; the question may have been consumed all the same.
        """
        deadline = Deadline(timeout_ms)
        message = prepare(body, tag=tag, keys=keys, properties=properties, broker=broker)
        destination = await self._way_to(topic, message, queue_id, deadline)
        if self._replies is None:
            self._replies = Replies(self._session, self._heartbeat)
        met = self._replies.introduce(destination.address)
        await deadline.of(met, f"{destination.address} to know who asks")
        question, answer = self._replies.ask(message, timeout_ms)
        try:
            queue, there = destination.queue.queue_id, destination.queue.broker
            await self.send_prepared(topic, question, queue_id=queue, broker=there, timeout_ms=deadline.left_ms)
            return await deadline.of(answer, f"an answer of the consumers of {topic}")
        finally:
            answer.cancel()

    async def reply(
        self, question: Message, body: Body, *, properties: Mapping[str, str] | None = None,
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
        if queue_id is not None:
            names.check_queue_id(queue_id)
        group = message.group or self.group
        known = self._destinations.get((topic, group))
        if known is None or known.expires_s <= time.monotonic():
            known = await deadline.of(self._known(topic, group), self._route_of(topic))
        return known.of(message, queue_id, avoid)

    async def _ways(
        self, topic: str, messages: Sequence[Outgoing], queue_id: int | None
    ) -> list[Destination | NoSuchQueue]:
        """Find all destinations; a queue that one message alone asks for and that is not there harms no other."""
        if queue_id is not None:
            names.check_queue_id(queue_id)
        known: dict[str | None, Destinations] = {}
        ways: list[Destination | NoSuchQueue] = []
        for message in messages:
            there = known.get(message.group)
            if there is None:
                there = known[message.group] = await self._known(topic, message.group or self.group)
            try:
                ways.append(there.of(message, queue_id, None))
            except NoSuchQueue as error:
                if queue_id is not None:
                    raise
                ways.append(error)
        return ways

    async def _known(self, topic: str, group: str) -> Destinations:
        known = self._destinations.get((topic, group))
        if known is None or known.expires_s <= time.monotonic():
            known = await self._find(topic, group)
        return known

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
        self._pipelines.close()
        await self._session.close()


def trace_writer(trace: bool | str, group: str, namesrv: str, access: Access) -> TraceWriter | None:
    """Return what writes the traces of a client of `group`, None if they are not wanted; raises InvalidArgument."""
    topic = trace_topic(trace)
    if topic is None:
        return None
    return TraceWriter(topic, lambda: AsyncProducer(trace_group(group), namesrv, retries=1, **access))


# Questions and their answers.

MOST_WAITING = 100_000
#: How long a question waits until other brokers know its asker: one that is away must not hold it up.
OTHERS_WAIT_S = 1.0


class Replies:
    """The questions of one producer that have no answer yet."""

    def __init__(self, session: Session, heartbeat: Heartbeat) -> None:
        self._session = session
        self._heartbeat = heartbeat
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._known: set[str] = set()
        #: others that were told, or could not be at that time
        self._tried: set[str] = set()
        session.register(Request.PUSH_REPLY_MESSAGE_TO_CLIENT, self._came)
        session.on_lost(self._known.discard)

    async def introduce(self, address: str) -> None:
        """Make sure that brokers know where answers are to go: who answers sends to any broker of the cluster.

        Raises BrokerUnreachable, Timeout if that of the question cannot be told; others hear of it with a heartbeat.
        """
        others = [asyncio.ensure_future(self._meet_other(each)) for each in await self._new_others(address)]
        await self._meet(address)
        if others:
            await asyncio.wait(others, timeout=OTHERS_WAIT_S)

    async def _new_others(self, address: str) -> list[str]:
        """Return brokers that were not told yet, beside this one."""
        try:
            found = {broker.address for broker in await self._session.masters()} - self._tried - {address}
        except ClientError:
            return []
        self._tried |= found
        return sorted(found)

    async def _meet_other(self, address: str) -> None:
        with suppress(ClientError):
            await self._meet(address)

    async def _meet(self, address: str) -> None:
        if address not in self._known:
            self._heartbeat.reach([address])
            await self._heartbeat.beat(address)
            self._known.add(address)

    def ask(self, message: Outgoing, timeout_ms: int) -> tuple[Outgoing, asyncio.Future[Message]]:
        """Return the message with what makes it a question, and its answer to come."""
        if len(self._waiting) >= MOST_WAITING:
            raise InvalidArgument(f"{MOST_WAITING:,} requests are waiting for their answers already.", field="topic")
        correlation = secrets.token_hex(16)
        added = {
            CORRELATION_ID: correlation,
            MESSAGE_REPLY_TO_CLIENT: self._heartbeat.client_id,
            MESSAGE_TTL: str(timeout_ms),
        }
        properties = message.properties + "".join(f"{name}\x01{value}\x02" for name, value in added.items())
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(correlation, None))
        return msgspec.structs.replace(message, properties=properties), answer

    def _came(self, _: str, request: Command) -> Command:
        try:
            message = _message(request)
        except (RequestRefused, ValueError) as error:
            logger.warning("an answer cannot be read: %s", error)
            return request.answer(code=Answer.SYSTEM_ERROR, remark="the reply message cannot be read")
        waiting = self._waiting.get(message.properties.get(CORRELATION_ID, ""))
        if waiting is None or waiting.done():
            # its asker has given up; the broker and who answered need not know
            logger.info("an answer came that nobody waits for any more")
        else:
            waiting.set_result(message)
        return request.answer()


#: What an answer says as its question does.
_HANDED_BACK = (CORRELATION_ID, MESSAGE_REPLY_TO_CLIENT, MESSAGE_TTL)


def reply_to(question: Message, body: Body, properties: Mapping[str, str] | None) -> tuple[str, Outgoing]:
    """Return the topic that an answer goes to, and the answer. Raises InvalidArgument if nobody asked."""
    about = question.properties
    missing = [name for name in (CLUSTER, CORRELATION_ID, MESSAGE_REPLY_TO_CLIENT) if not about.get(name)]
    if missing:
        raise InvalidArgument(f"The message is no question: it lacks {' and '.join(missing)}.", field="question")
    message = prepare(body, properties=properties)
    added = {
        MESSAGE_TYPE: "reply",
        **{name: about[name] for name in _HANDED_BACK if name in about},
    }
    stored = message.properties + "".join(f"{name}\x01{value}\x02" for name, value in added.items())
    return reply_topic(about[CLUSTER]), Outgoing(message.body, stored, message.message_id)


async def send_reply(session: Session, group: str, topic: str, message: Outgoing, deadline: Deadline) -> None:
    """Send an answer. Raises BrokerRefused if its asker is gone."""
    names.check_topic(topic)
    route = await deadline.of(session.route(topic), f"the route of topic {topic} from {' or '.join(session.namesrv)}")
    queue = next(iter(route.writable()), None)
    if queue is None:
        raise BrokerRefused(Answer.NO_PERMISSION, f"No broker lets topic {topic} be written to now.")
    ext = {
        "a": group, "b": topic, "c": TEMPLATE_TOPIC, "d": "4", "e": str(queue.queue_id), "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": message.properties, "j": "0", "k": "false", "m": "false",
        "n": queue.broker,
    }  # fmt: skip
    address = route.addresses[queue.broker]
    await session.ask(address, Request.SEND_REPLY_MESSAGE_V2, ext, message.body, timeout_ms=deadline.left_ms)


def _message(request: Command) -> Message:
    """Read the answer that a broker pushes (ReplyMessageRequestHeader)."""
    ext = request.ext
    pairs = (part.partition("\x01") for part in ext.get("properties", "").split("\x02") if part)
    return Message(
        ext.get("topic", ""), whole(ext, "queueId", 0), 0, 0, 0, request.body,
        {name: value for name, _, value in pairs}, whole(ext, "flag", 0), whole(ext, "sysFlag", 0),
        whole(ext, "bornTimestamp", 0), _host(ext.get("bornHost", "")), whole(ext, "storeTimestamp", 0),
        _host(ext.get("storeHost", "")), whole(ext, "reconsumeTimes", 0), 0,
    )  # fmt: skip


def _host(text: str) -> tuple[str, int]:
    host, _, port = text.lstrip("/").rpartition(":")
    return host, int(port) if port.isdigit() else 0
