"""The quick way of a send: which queue it goes to, and one connection on which many are under way at once.

A `Destination` has the ready parts of the request headers of one queue; `Destinations` gives a topic's queues in turn.

A broker knows the schedule keys of its own timers only. So of several brokers one has all timers with a key: the one
with the largest SHA-256 of `broker name \\0 key` (rendezvous hashing: where a broker comes or goes, only the keys that
it gets or had are sent elsewhere). A retry stays there, whatever happened: elsewhere the key might wait a second time.

The general RemotingClient serves every kind of request; a Pipeline serves the one that must be quick. A caller hands
over the header's fields ready encoded, all requests of one turn of the event loop leave in one write, and answers are
matched by opaque. Nothing is awaited per message but the answer itself. Headers are RocketMQ's binary ones.

Answers are read a short way, too. Escapement answers a binary send with a binary header whose fields have one order:

    1 serialisation 1 | 3 header length | 2 code 0 | 1 language | 2 version | 4 opaque | 4 flag | 4 remark length 0 |
    4 fields length | msgId | queueId | queueOffset | transactionId | ...

What waits has escDueMs behind them, a timer also recallHandle. Anything else (a refusal, a schedule key that was
taken, Apache RocketMQ's JSON) is decoded as any frame is (broker/rocketmq/frame.py).
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, cycle
from struct import Struct
from typing import Literal, NamedTuple, cast

from ..rocketmq.codes import ONEWAY_FLAG, PROTOCOL_VERSION, Answer, Request
from ..rocketmq.errors import BadFrame
from ..rocketmq.frame import BINARY, LANGUAGES, FrameBuffer, decode, encode_fields
from ..rocketmq.message import string_hash
from ..rocketmq.topics import TEMPLATE_TOPIC
from ._outgoing import DEFAULT_QUEUES, Outgoing
from ._session import ROUTE_AGE_S, Deadline, Session, refusal
from ._types import MessageQueue, Route, RouteQueues, SendResult
from .credentials import Security, Signer
from .errors import BrokerUnreachable, ClientError, NoBroker, NoSuchQueue, NotWritable, RouteNotFound, Timeout
from .remoting import MAX_ANSWER_BYTES, Connection, Connections, Response

#: How long such a borrowed route is used before the topic's own is asked for.
BORROWED_AGE_S = 2.0
#: MessageSysFlag.TRANSACTION_PREPARED_TYPE of 5.5.0: the send is a transaction's half.
PREPARED_FLAG = 4
#: Name of the time of birth, whose text has 13 digits until the year 2286; then the flag, and the properties' name.
_BORN_FIELD = b"\0\x01g\0\0\0\x0d"
_FLAG_FIELD = encode_fields({"h": "0"}) + b"\0\x01i"


@dataclass(frozen=True, slots=True)
class Destination:
    """A queue to send to; `before` and `after` are the encoded fields around what changes with each message.

    `before_half` is `before` with the sysFlag of a transaction's half. `has_others`: other brokers take the topic, too.
    """

    queue: MessageQueue
    address: str
    before: bytes
    after: bytes
    before_half: bytes
    has_others: bool = False

    def fields(self, born_ms: int, properties: str, *, half: bool = False) -> bytes:
        """Return the encoded fields of a send of one message (SendMessageRequestHeaderV2)."""
        stored = properties.encode()
        before = self.before_half if half else self.before
        return b"%b%d%b%b%b%b" % (before, born_ms, _FLAG_FIELD, len(stored).to_bytes(4, "big"), stored, self.after)


class Destinations:
    """The queues of one topic in turn; remade when its route is older than `expires_s` (monotonic)."""

    def __init__(self, group: str, route: Route, *, borrowed: bool) -> None:
        queues = route.writable()
        if not queues:
            raise NotWritable(route.topic)
        self.expires_s = time.monotonic() + (BORROWED_AGE_S if borrowed else ROUTE_AGE_S)
        several = len({queue.broker for queue in queues}) > 1
        self.all = tuple(_destination(group, queue, route.addresses[queue.broker], several) for queue in queues)
        first = secrets.randbelow(len(self.all))
        self._turn: Iterator[Destination] = cycle(self.all[first:] + self.all[:first])
        #: another broker may take what one refuses
        self.has_others = several
        self._parts: dict[str, _Part] = {}

    def of(self, message: Outgoing, queue_id: int | None, avoid: Destination | None) -> Destination:
        """Return where a message goes: to the queue that it names, else to the next one in turn.

        Raises NoSuchQueue, and BrokerUnreachable where the broker of a schedule key left after the first attempt.
        """
        if queue_id is None:
            queue_id = message.queue_id
        if message.broker is not None:
            return self._at(message.broker, message, queue_id)
        if message.schedule_key is not None and (self if avoid is None else avoid).has_others:
            return self._of_key(message, message.schedule_key, queue_id, avoid)
        if queue_id is not None:
            return self.of_queue(queue_id)
        if message.sharding_key is not None:
            return _of_sharding_key(self.all, message.sharding_key)
        return self.next(avoid=avoid)

    def _at(self, broker: str, message: Outgoing, queue_id: int | None) -> Destination:
        """Return a queue of this broker: of the number, of the sharding key, or the next; raises NoSuchQueue."""
        part = self._parts.get(broker)
        if part is None:
            own = tuple(each for each in self.all if each.queue.broker == broker)
            if not own:
                raise NoSuchQueue(self.all[0].queue.topic, queue_id, broker)
            part = self._parts[broker] = _Part(own, cycle(own))
        if queue_id is not None:
            for each in part.all:
                if each.queue.queue_id == queue_id:
                    return each
            raise NoSuchQueue(each.queue.topic, queue_id, broker)
        if message.sharding_key is not None:
            return _of_sharding_key(part.all, message.sharding_key)
        return next(part.turn)

    def _of_key(self, message: Outgoing, key: str, queue_id: int | None, avoid: Destination | None) -> Destination:
        """Return where a timer with a schedule key goes; a retry goes where the first attempt went."""
        if avoid is not None:
            again = [each for each in self.all if each.queue == avoid.queue]
            if not again:
                raise BrokerUnreachable(avoid.address, f"{avoid.queue.broker} is no longer listed")
            return again[0]
        if message.sharding_key is not None:
            # its queue is promised, and a schedule key mostly comes with the same sharding key each time
            return _of_sharding_key(self.all, message.sharding_key)
        return self._at(broker_of_key(key, {each.queue.broker for each in self.all}), message, queue_id)

    def next(self, *, avoid: Destination | None = None) -> Destination:
        """Return the next queue in turn; a retry avoids the broker that failed, or at least the queue."""
        chosen = next(self._turn)
        if avoid is None:
            return chosen
        elsewhere = [each for each in self.all if each.queue.broker != avoid.queue.broker]
        if elsewhere:
            while chosen.queue.broker == avoid.queue.broker:
                chosen = next(self._turn)
        elif chosen is avoid:
            chosen = next(self._turn)
        return chosen

    def of_queue(self, queue_id: int) -> Destination:
        """Return the queue with this number, on the first broker that has it; raise NoSuchQueue."""
        for each in self.all:
            if each.queue.queue_id == queue_id:
                return each
        raise NoSuchQueue(self.all[0].queue.topic, queue_id)


class _Part(NamedTuple):
    """The queues of one broker, and the same in turn."""

    all: tuple[Destination, ...]
    turn: Iterator[Destination]


def _of_sharding_key(queues: Sequence[Destination], key: str) -> Destination:
    # SelectMessageQueueByHash: Java's remainder has the sign of the hash, which is dropped
    return queues[abs(string_hash(key)) % len(queues)]


def broker_of_key(schedule_key: str, brokers: Iterable[str]) -> str:
    """Return which of these brokers has the timers with a schedule key."""
    return max(brokers, key=lambda name: sha256(f"{name}\0{schedule_key}".encode()).digest())


def told_of_key(error: ClientError, way: Destination, message: Outgoing) -> ClientError:
    """Return the error of a send, which says of a schedule key why no other broker was tried."""
    is_chosen = message.schedule_key is not None and message.broker is None and way.has_others
    if not is_chosen or not isinstance(error, BrokerUnreachable):
        return error
    return BrokerUnreachable(
        error.address,
        f"{error.reason}; {way.queue.broker} has the timers with schedule key {message.schedule_key!r}; it is sent to "
        "no other broker, so that it has one pending timer",
    )


def _destination(group: str, queue: MessageQueue, address: str, has_others: bool) -> Destination:
    # the order of the fields is the official client's: brokers may know it by heart
    before = {"a": group, "b": queue.topic, "c": TEMPLATE_TOPIC, "d": str(DEFAULT_QUEUES), "e": str(queue.queue_id)}
    after = {"j": "0", "k": "false", "m": "false", "n": queue.broker}
    plain, half = (encode_fields(before | {"f": str(flag)}) + _BORN_FIELD for flag in (0, PREPARED_FLAG))
    return Destination(queue, address, plain, encode_fields(after), half, has_others)


async def _unknown(session: Session, topic: str) -> RouteNotFound:
    """Return the error of a topic that has no route: there is none, or there is no broker that could tell.

    Raises ClientError where the name server does not say which brokers are there.
    """
    return RouteNotFound(topic) if await session.masters() else NoBroker(topic)


async def find_destinations(session: Session, group: str, topic: str) -> Destinations:
    """Return the queues of `topic` now, or of the template topic if it does not exist yet; raise RouteNotFound,
    NotWritable."""
    try:
        return Destinations(group, await session.route(topic, max_age_s=0.5), borrowed=False)
    except RouteNotFound:
        pass
    try:
        template = await session.route(TEMPLATE_TOPIC)
    except RouteNotFound:
        raise await _unknown(session, topic) from None
    parts = tuple(
        RouteQueues(part.broker, *(2 * (min(DEFAULT_QUEUES, part.write_queues),)), part.permission)
        for part in template.queues
    )
    return Destinations(group, Route(topic, template.addresses, parts), borrowed=True)


# One connection.

CONNECT_TIMEOUT_S = 3.0
#: Written ahead of a broker that reads slowly; asyncio's 64 KiB would make large batches take turns.
WRITE_AHEAD_BYTES = 4 << 20
#: How often requests without an answer are looked through: a timeout is at most this late.
SWEEP_S = 0.25

#: frame length, serialisation and header length, code, language, version, opaque, flag, remark length, fields length
_START = Struct(">IIhbhiiii").pack
_HEADER_OWN_BYTES = 21
_LANGUAGE = LANGUAGES.index("PYTHON")


class Stored(NamedTuple):
    """A message is stored: its offset message id, its queue, its offset there; of a timer also its due time, and the
    handle to recall it by."""

    offset_message_id: str
    queue_id: int
    queue_offset: int
    due_ms: int | None = None
    recall_handle: str | None = None


#: The answer, or why there is none.
Outcome = Stored | Response | ClientError
Answered = Callable[[Outcome], None]


class Pipeline(Connection):
    """A connection on which many sends are under way at a time; made by Pipelines."""

    def __init__(self, address: str, lost: Callable[[Pipeline], object], signer: Signer | None = None) -> None:
        super().__init__(address)
        self._lost = lost
        self._signer = signer
        self._loop = asyncio.get_running_loop()
        self._frames = FrameBuffer(MAX_ANSWER_BYTES)
        self._opaques = count(1)
        self._waiting: dict[int, tuple[float, int, Answered]] = {}
        self._outgoing: list[bytes] = []
        self._flush_planned = False
        self._sweeper: asyncio.TimerHandle | None = None

    def ask(self, code: int, fields: bytes, body: bytes, timeout_ms: int, answered: Answered) -> None:
        """Send a request with these encoded header fields; `answered` is called exactly once."""
        if not self.is_open:
            answered(BrokerUnreachable(self.address, "the connection is closed"))
            return
        opaque = next(self._opaques) & 0x7FFFFFFF
        self._waiting[opaque] = (self._loop.time() + timeout_ms / 1000, timeout_ms, answered)
        self._write(code, 0, opaque, fields, body)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def tell(self, code: int, fields: bytes, body: bytes) -> None:
        """Send a request that is not answered."""
        if not self.is_open:
            raise BrokerUnreachable(self.address, "the connection is closed")
        self._write(code, ONEWAY_FLAG, next(self._opaques) & 0x7FFFFFFF, fields, body)

    def _write(self, code: int, flag: int, opaque: int, fields: bytes, body: bytes) -> None:
        if self._signer is not None:
            fields = self._signer.sign_encoded(fields, body)
        header = _HEADER_OWN_BYTES + len(fields)
        start = _START(
            4 + header + len(body),
            header | BINARY << 24,
            code,
            _LANGUAGE,
            PROTOCOL_VERSION,
            opaque,
            flag,
            0,
            len(fields),
        )
        self._outgoing += (start, fields, body)
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was handed over now, instead of at the end of this turn of the loop."""
        self._flush_planned = False
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and outgoing:
            self._transport.write(b"".join(outgoing))

    def _sweep(self) -> None:
        now = self._loop.time()
        late = [opaque for opaque, (deadline, _, _) in self._waiting.items() if deadline <= now]
        for opaque in late:
            _, timeout_ms, answered = self._waiting.pop(opaque)
            answered(Timeout(self.address, timeout_ms))
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep) if self._waiting else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is there."""
        super().connection_made(transport)
        cast(asyncio.Transport, transport).set_write_buffer_limits(high=WRITE_AHEAD_BYTES)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came; every whole answer goes to who waits for it."""
        try:
            for frame in self._frames.feed(data):
                stored = read_stored(frame)
                if stored is None:
                    self._answered(decode(frame))
                else:
                    waiting = self._waiting.pop(stored[0], None)
                    if waiting is not None:
                        waiting[2](stored[1])
        except BadFrame:
            self.close()

    def _answered(self, command: Response) -> None:
        waiting = self._waiting.pop(command.opaque, None) if command.is_response else None
        if waiting is not None:
            waiting[2](command)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection ended; who waits is told."""
        super().connection_lost(exc)
        if self._sweeper is not None:
            self._sweeper.cancel()
        waiting, self._waiting = self._waiting, {}
        for _, _, answered in waiting.values():
            answered(BrokerUnreachable(self.address, "the connection ended before the answer came"))
        self._lost(self)

    def close(self) -> None:
        """End the connection after what was handed over is written."""
        self.flush()
        super().close()


class Pipelines(Connections[Pipeline]):
    """The pipelines of one producer; whoever waits for one meets BrokerUnreachable."""

    def __init__(self, security: Security | None = None) -> None:
        security = security or Security()
        super().__init__(
            lambda address: Pipeline(address, self.forget, security.signer),
            secure=security.of_host,
            timeout_s=CONNECT_TIMEOUT_S,
            failed=BrokerUnreachable,
            closed=lambda address: BrokerUnreachable(address, "the client was closed"),
        )

    def with_room(self, address: str) -> Pipeline | None:
        """Return the pipeline to `address` if something can be written there without waiting."""
        pipeline = self.ready(address)
        return pipeline if pipeline is not None and pipeline.has_room else None


# The answer to a send, read the short way.

_SHORT = re.compile(
    rb"\x01...\0\0...(....)....\0\0\0\0....\0\x05msgId\0\0\0.([0-9A-F]+)\0\x07queueId\0\0\0.(\d+)"
    rb"\0\x0bqueueOffset\0\0\0.(\d+)\0\x0dtransactionId\0",
    re.DOTALL,
).match
#: how such an answer ends, but for what waits
_END = b"\0\x08TRACE_ON\0\0\0\x04true"
_WAITING = re.compile(
    re.escape(_END) + rb"\0\x08escDueMs\0\0\0.(\d+)(?:\0\x0crecallHandle\0\0..([A-Za-z0-9_=-]+))?\Z", re.DOTALL
).search


def read_stored(frame: bytes) -> tuple[int, Stored] | None:
    """Return opaque and place of such an answer, None for any other."""
    waiting = None
    if not frame.endswith(_END):
        waiting = _WAITING(frame)
        if waiting is None:
            return None
    match = _SHORT(frame)
    if match is None:
        return None
    opaque, offset_message_id, queue_id, queue_offset = match.groups()
    stored = Stored(offset_message_id.decode(), int(queue_id), int(queue_offset))
    if waiting is not None:
        due, handle = waiting.groups()
        stored = stored._replace(due_ms=int(due), recall_handle=handle.decode() if handle else None)
    return int.from_bytes(opaque, "big"), stored


# What an answer means.

#: Stored, with less safety than was asked for (ResponseCode of 5.5.0).
STORED = {
    int(Answer.SUCCESS): "SEND_OK",
    10: "FLUSH_DISK_TIMEOUT",
    11: "SLAVE_NOT_AVAILABLE",
    12: "FLUSH_SLAVE_TIMEOUT",
}


def result_of(destination: Destination, message: Outgoing, outcome: Outcome) -> SendResult | ClientError:
    """Return the result that a broker's answer to a send means, or the error."""
    if type(outcome) is Stored:
        queue = destination.queue
        return SendResult(
            message.message_id,
            outcome.offset_message_id,
            queue.topic,
            queue.broker,
            outcome.queue_id,
            outcome.queue_offset,
            due_ms=outcome.due_ms,
            recall_handle=outcome.recall_handle,
        )
    if isinstance(outcome, ClientError):
        return outcome
    return _full_result(destination, message, cast(Response, outcome))


def _full_result(destination: Destination, message: Outgoing, outcome: Response) -> SendResult | ClientError:
    status = STORED.get(outcome.code)
    if status is None:
        return refusal(outcome)
    ext = outcome.ext
    queue = destination.queue
    due = ext.get("escDueMs")
    conflict = ext.get("escConflict")
    return SendResult(
        ext.get("transactionId", "") if conflict == "kept" else message.message_id,
        ext.get("msgId", ""),
        queue.topic,
        queue.broker,
        int(ext.get("queueId", queue.queue_id)),
        int(ext.get("queueOffset", -1)),
        status,
        int(due) if due is not None else None,
        ext.get("recallHandle"),
        cast(Literal["replaced", "kept"], conflict) if conflict in ("replaced", "kept") else None,
    )


# Sends of one message each.

SEND = int(Request.SEND_MESSAGE_V2)


def fields_of(way: Destination, message: Outgoing) -> bytes:
    """Return the encoded header fields of a send that leaves now."""
    return way.fields(time.time_ns() // 1_000_000, message.properties)


async def pipeline_with_room(pipelines: Pipelines, address: str, deadline: Deadline) -> Pipeline:
    """Return an open pipeline on which something can be written. Raises BrokerUnreachable, Timeout."""
    pipeline = pipelines.ready(address)
    if pipeline is None:
        pipeline = await deadline.of(pipelines.to(address), f"a connection to {address}")
    if not pipeline.has_room:
        await deadline.of(pipeline.room(), f"{address} to read what was sent before")
    return pipeline
