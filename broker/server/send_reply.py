"""Answers to sends, made when the messages are durable, and histograms of sizes and times.

On a message's way there is one `list.append`; the rest is done for all messages of a sync at once. Answers are made
from templates that keep the constant parts, with one write a connection: each write wakes a client, which on a busy
machine takes the processor from whoever writes the next. `Sends` counts how large the messages are that come in, and
how long their senders wait for an answer.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Protocol, cast

from ..engine.lateness import LATENCY_BOUNDS_MS, Histogram
from ..engine.log.ticket import Ticket
from ..rocketmq.codes import PROTOCOL_VERSION, RESPONSE_FLAG, Answer, Request
from ..rocketmq.compiled import FAST
from ..rocketmq.frame import BINARY, LANGUAGES, MAX_HEADER_BYTES, Command, encode, encode_fields
from ..rocketmq.ids import handle_of
from ..rocketmq.properties import MSG_REGION, TRACE_SWITCH
from .connection import Connection, frame_of
from .slow_requests import SlowRequests

REGION = "DefaultRegion"
"""Value of MSG_REGION in messages and answers (BrokerConfig.regionId)."""

TRACE_FIELDS = {MSG_REGION: REGION, TRACE_SWITCH: "true"}

#: frame length, serialisation and header length, code, language, version, opaque, flag, remark length, ext length
_START = Struct(">IIhbhiiii").pack
_LANGUAGE = LANGUAGES.index("PYTHON")
_TAIL = encode_fields(TRACE_FIELDS)
_ID, _QUEUE, _OFFSET, _TRANSACTION = (
    len(name).to_bytes(2, "big") + name + b"\0\0\0"
    for name in (b"msgId", b"queueId", b"queueOffset", b"transactionId")
)  # fmt: skip
_DUE = b"\0\x08escDueMs\0\0\0%c%b"
_DUE_AND_HANDLE = _DUE + b"\0\x0crecallHandle%b%b"
#: what an answer without remark looks like, and values that stand in it as they are
_JSON_LAST = json.dumps(TRACE_FIELDS, separators=(",", ":"))[1:-1].encode()
_JSON_BEFORE_OPAQUE = b'},"flag":%d,"language":"PYTHON","opaque":' % RESPONSE_FLAG
_JSON_BEHIND_OPAQUE = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % PROTOCOL_VERSION
_JSON_HEADER, _JSON_BATCH_HEADER = (
    b'{"code":0,"extFields":{"msgId":"%b","queueId":"%%d","queueOffset":"%%d","transactionId":"%%b",%b%%b%b%%d%b'
    % (ids, _JSON_LAST, _JSON_BEFORE_OPAQUE, _JSON_BEHIND_OPAQUE)
    for ids in (b"%b%016X", b"%b")
)
_JSON_START = Struct(">II").pack
_NEEDS_NO_ESCAPE = re.compile("[0-9A-Za-z_.:,-]*+").fullmatch
_HEADER_OWN_BYTES = 21
_OPAQUE_AT = 13
_CONSTANT_BYTES = sum(len(part) + 1 for part in (_ID, _QUEUE, _OFFSET, _TRANSACTION)) + len(_TAIL)

_templates: dict[tuple[bytes, int, int, int, int], bytes] = {}
"""Bounded by the lengths: a queue id and an offset have at most 19 digits, a unique key at most 255 bytes here, what a
timer adds some hundred."""


class _Hosts(dict[bytes, bytes]):
    """Addresses of stores as ids of messages have them; a process has one or a few."""

    def __missing__(self, store_host: bytes) -> bytes:
        made = self[store_host] = store_host.hex().upper().encode()
        return made


_hosts = _Hosts()


class StoredOwner(Protocol):
    """An owner of tickets that is told about each (a message sent back)."""

    def stored(self, ticket: Ticket) -> None:
        """Take note that the ticket's message is durable."""

    def refused(self, code: int, remark: str) -> None:
        """Take note that the message could not be made durable; may be called once for each message of a batch."""


class BatchOwner:
    """The owner of a batch's ticket: who sent it waits for one answer with the ids of all its messages."""

    __slots__ = ("asked_ms", "connection", "opaque", "serialization", "unique_key")

    def __init__(self, connection: Connection, opaque: int, serialization: int, asked_ms: int, unique_key: str) -> None:
        self.connection = connection
        self.opaque = opaque
        self.serialization = serialization
        self.asked_ms = asked_ms
        self.unique_key = unique_key

    def refused(self, code: int, remark: str) -> None:
        """Answer that the batch may be lost."""
        self.connection.send(Command(
            code, remark=remark, flag=RESPONSE_FLAG, opaque=self.opaque, serialization=self.serialization,
            asked_code=Request.SEND_BATCH_MESSAGE, asked_ms=self.asked_ms,
        ))  # fmt: skip


class SendReplies:
    """Builds and writes the answers for the tickets of one sync."""

    def __init__(self, broker_name: str) -> None:
        self._broker_name = broker_name

    def write(self, tickets: Iterable[Ticket]) -> None:
        """Answer all that waited for these tickets."""
        written: defaultdict[Connection, list[bytes]] = defaultdict(list)
        batches: list[tuple[Connection, int]] = []
        for ticket in tickets:
            owner = ticket.owner
            if isinstance(owner, tuple):
                connection, opaque, serialization = owner
                handle = None
                if ticket.is_timer and ticket.due_ms is not None and ticket.unique_key:
                    handle = handle_of(ticket.topic, self._broker_name, ticket.due_ms, ticket.unique_key)
                if serialization == BINARY:
                    frame = binary_reply(ticket, opaque, handle)
                else:
                    frame = json_reply(ticket, opaque, handle)
                written[connection].append(frame)
            elif isinstance(owner, BatchOwner):
                written[owner.connection].append(batch_reply(ticket, owner))
                batches.append((owner.connection, owner.asked_ms))
            elif owner is not None:
                cast(StoredOwner, owner).stored(ticket)
        if batches:
            _count(batches)
        for connection, parts in written.items():
            connection.write(b"".join(parts))

    def refuse(self, tickets: Iterable[Ticket], remark: str) -> None:
        """Answer an error to all that waited for these tickets: writing them failed."""
        for ticket in tickets:
            owner = ticket.owner
            if isinstance(owner, tuple):
                connection, opaque, serialization = owner
                answer = Command(Answer.SYSTEM_ERROR, TRACE_FIELDS, b"", remark, RESPONSE_FLAG, opaque)
                answer.serialization = serialization
                connection.send(answer)
            elif owner is not None:
                cast(StoredOwner, owner).refused(Answer.SYSTEM_ERROR, remark)


def _count(batches: list[tuple[Connection, int]]) -> None:
    """Count how long these batches took; those of one read were asked at the same time."""
    for (connection, asked_ms), count in Counter(batches).items():
        server = connection.server
        server.times.answered(
            connection, Request.SEND_BATCH_MESSAGE, Answer.SUCCESS, asked_ms, server.clock(), is_later=True, count=count
        )


def binary_reply(ticket: Ticket, opaque: int, handle: bytes | None = None) -> bytes:
    """Return the answer to one send, with a binary header; `handle` is a timer's."""
    if ticket.conflict is not None:
        return encode(_command(ticket, opaque, BINARY, handle))
    more = b"" if ticket.due_ms is None else _waiting(ticket.due_ms, handle)
    if FAST is not None:
        frame = FAST.send_reply(
            _LANGUAGE, PROTOCOL_VERSION, _TAIL, _hosts[ticket.store_host], opaque, ticket.position, ticket.queue_id,
            ticket.queue_offset, ticket.unique_key, more,
        )  # fmt: skip
        if frame is not None:
            return frame
    unique_key = (ticket.unique_key or "").encode()
    queue_id = b"%d" % ticket.queue_id
    queue_offset = b"%d" % ticket.queue_offset
    shape = (ticket.store_host, len(queue_id), len(queue_offset), len(unique_key), len(more))
    template = _templates.get(shape)
    if template is None:
        if len(unique_key) > 255:
            return encode(_command(ticket, opaque, BINARY, handle))
        template = _templates[shape] = _template(*shape)
    key = opaque.to_bytes(4, "big", signed=True)
    return template % (key, ticket.position, queue_id, queue_offset, unique_key, more)


def _waiting(due_ms: int, handle: bytes | None) -> bytes:
    """Return the fields that a message which waits adds to its answer."""
    due = b"%d" % due_ms
    if handle is None:
        return _DUE % (len(due), due)
    return _DUE_AND_HANDLE % (len(due), due, len(handle).to_bytes(4, "big"), handle)


def _template(store_host: bytes, queue_digits: int, offset_digits: int, key_length: int, more_length: int) -> bytes:
    """Return an answer with places for opaque, position, queue id, queue offset, unique key and more, of these
    lengths."""
    host = _hosts[store_host]
    id_length = len(host) + 16
    ext_length = _CONSTANT_BYTES + id_length + queue_digits + offset_digits + key_length + more_length
    header_length = _HEADER_OWN_BYTES + ext_length
    start = _START(
        4 + header_length, header_length | BINARY << 24, 0, _LANGUAGE, PROTOCOL_VERSION, 0, RESPONSE_FLAG, 0, ext_length
    )
    constants = (
        start[:_OPAQUE_AT],
        start[_OPAQUE_AT + 4 :] + _ID + bytes((id_length,)) + host,
        _QUEUE + bytes((queue_digits,)),
        _OFFSET + bytes((offset_digits,)),
        _TRANSACTION + bytes((key_length,)),
        _TAIL,
    )
    opaque, *rest = (constant.replace(b"%", b"%%") for constant in constants)
    places = (b"%b", b"%016X", b"%b", b"%b", b"%b")
    return opaque + b"".join(place + constant for place, constant in zip(places, rest, strict=True)) + b"%b"


def json_reply(ticket: Ticket, opaque: int, handle: bytes | None = None) -> bytes:
    """Return the answer to one send, with a JSON header; `handle` is a timer's."""
    if ticket.conflict is not None:
        return encode(_command(ticket, opaque, 0, handle))
    more = b"" if ticket.due_ms is None else b',"escDueMs":"%d"' % ticket.due_ms
    if handle is not None:
        more += b',"recallHandle":"%b"' % handle
    if FAST is not None:
        frame = FAST.json_send_reply(
            _JSON_LAST, _JSON_BEFORE_OPAQUE, _JSON_BEHIND_OPAQUE, _hosts[ticket.store_host], opaque, ticket.position,
            ticket.queue_id, ticket.queue_offset, ticket.unique_key, more,
        )  # fmt: skip
        if frame is not None:
            return frame
    unique_key = ticket.unique_key or ""
    if _NEEDS_NO_ESCAPE(unique_key) is None:
        return encode(_command(ticket, opaque, 0, handle))
    header = _JSON_HEADER % (
        _hosts[ticket.store_host], ticket.position, ticket.queue_id, ticket.queue_offset,
        unique_key.encode(), more, opaque,
    )  # fmt: skip
    return _JSON_START(4 + len(header), len(header)) + header


def batch_reply(ticket: Ticket, owner: BatchOwner) -> bytes:
    """Return the answer to a batch; one that says so where the ids of its messages do not fit a header."""
    if owner.serialization != BINARY and _NEEDS_NO_ESCAPE(owner.unique_key) is not None:
        header = _JSON_BATCH_HEADER % (
            ticket.offset_message_id.encode(), ticket.queue_id, ticket.queue_offset, owner.unique_key.encode(), b"",
            owner.opaque,
        )  # fmt: skip
        if len(header) <= MAX_HEADER_BYTES:
            return _JSON_START(4 + len(header), len(header)) + header
    command = reply_command(ticket, owner.opaque, owner.serialization, owner.unique_key)
    command.asked_code = Request.SEND_BATCH_MESSAGE
    return frame_of(command)


def _command(ticket: Ticket, opaque: int, serialization: int, handle: bytes | None) -> Command:
    command = reply_command(ticket, opaque, serialization, ticket.unique_key or "")
    if handle is not None:
        command.ext["recallHandle"] = handle.decode()
    if ticket.conflict is not None:
        command.ext["escConflict"] = ticket.conflict
    return command


def reply_command(ticket: Ticket, opaque: int, serialization: int, unique_key: str) -> Command:
    """Return the answer to a send; a batch has its ids joined by commas, and the first one's offset."""
    ext = {
        "msgId": ticket.offset_message_id,
        "queueId": str(ticket.queue_id),
        "queueOffset": str(ticket.queue_offset),
        "transactionId": unique_key,
        **TRACE_FIELDS,
    }
    if ticket.due_ms is not None:
        ext["escDueMs"] = str(ticket.due_ms)
    return Command(0, ext, flag=RESPONSE_FLAG, opaque=opaque, serialization=serialization)


# Histograms of sizes and times.

#: Those of RocketMQ (1 and 4 KiB, 512 KiB, 1, 2 and 4 MiB; BrokerMetricsManager 5.5.0), and some between them.
SIZE_BOUNDS_BYTES = (
    128, 256, 512, 1024, 2048, 4096, 16_384, 65_536, 262_144, 524_288, 1_048_576, 2_097_152, 4_194_304,
)  # fmt: skip


#: Sizes of records that are kept until they are counted together.
_MOST_UNCOUNTED = 1_000


class Sends:
    """Counts since the start: messages made durable, and two histograms: bytes of records, and ms from being taken to
    being durable and answered."""

    def __init__(self, slow: SlowRequests | None = None) -> None:
        self.total = 0
        self._sizes = Histogram(SIZE_BOUNDS_BYTES)
        self._taken: list[int] = []
        self.latencies = Histogram(LATENCY_BOUNDS_MS)
        self._slow = slow or SlowRequests(0)
        self._slow_ms = self._slow.limit_ms
        #: to be called with the bytes of each record that is taken
        self.took = self._taken.append
        #: to be called with the bytes of all records of a batch
        self.took_all = self._taken.extend

    @property
    def sizes(self) -> Histogram:
        """The histogram of the sizes of all records taken by now."""
        self._count_sizes()
        return self._sizes

    def stored(self, tickets: Sequence[Ticket], now_ms: int) -> None:
        """Count messages that are durable; who waits for one of them is answered now. Batches have no latency here."""
        if len(self._taken) >= _MOST_UNCOUNTED:
            self._count_sizes()
        self.total += sum([ticket.count for ticket in tickets])
        if len(tickets) == 1:  # mostly so, unless the broker is busy
            if type(tickets[0].owner) is tuple:
                took_ms = now_ms - tickets[0].store_ms
                self.latencies.add(max(0, took_ms))
                if took_ms >= self._slow_ms:
                    self._slow.sent(tickets, tickets[0].store_ms, now_ms)
            return
        taken = [ticket.store_ms for ticket in tickets if type(ticket.owner) is tuple]
        if not taken:
            return
        same = taken.count(taken[0])  # mostly all
        for taken_ms, count in ((taken[0], same),) if same == len(taken) else Counter(taken).items():
            self.latencies.add(max(0, now_ms - taken_ms), count)
            if now_ms - taken_ms >= self._slow_ms:
                self._slow.sent(tickets, taken_ms, now_ms)

    def _count_sizes(self) -> None:
        if len(set(self._taken)) == 1:  # mostly so
            self._sizes.add(self._taken[0], len(self._taken))
        else:
            for size_bytes, count in Counter(self._taken).items():
                self._sizes.add(size_bytes, count)
        self._taken.clear()
