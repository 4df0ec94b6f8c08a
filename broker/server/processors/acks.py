"""What consumers say of popped messages: 200051 and 200151 (done), 200053 (visible again later, or sooner).

It is answered when it is durable. What a handle does not speak for any more is refused with NO_MESSAGE: the message was
given out again, or the time was changed and a newer handle counts.

Consumers acknowledge message by message, and those of one pop come together. The short way reads what a frame says
without a table of its fields, holds it back until the frames of its read are through, and takes all that have one
handle at once; whatever is not as usual goes the long way, which decides what is valid.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Annotated, NamedTuple

import msgspec

from ...engine.errors import GroupNotFound, HandleGone, TopicNotFound
from ...engine.log.ticket import Ticket
from ...engine.pop.popqueue import Key, offsets_in
from ...engine.pop.service import Acked, Handle, Pops
from ...rocketmq.codes import PROTOCOL_VERSION, Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, LONG_MAX, body_as, text, whole
from ...rocketmq.frame import JSON, Command, Int32
from ...rocketmq.ids import marked_topic, read_pop_handle
from ...rocketmq.topics import check_group_name, check_topic_name
from ..connection import Connection, Handler
from ..state import BrokerState
from .pop import LONGEST_INVISIBLE_MS

MOST_BITS = 1 << 16
"""How far the last message of a batch may be from the first of its pop."""
MOST_ACKED = 4096
"""Messages that one batch may name, an empty set counted as one: those of 128 full pops. What is refused of them fits
the header of an answer, whatever their topics are called."""
_SUCCESS = (
    b'{"code":0,"flag":1,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
    % PROTOCOL_VERSION
)


#: Of an answer without a body: the bytes behind this number, and those of its header.
_SIZES = Struct(">II").pack
Long = Annotated[int, msgspec.Meta(ge=-LONG_MAX - 1, le=LONG_MAX)]


class BatchAck(msgspec.Struct):
    """The messages done of one pop of one queue; bit n of ``bits`` is the offset start + n."""

    group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")
    retry: str = msgspec.field(name="r")
    start: Long = msgspec.field(name="so")
    queue_id: Long = msgspec.field(name="q")
    pop_ms: Long = msgspec.field(name="pt")
    invisible_ms: Long = msgspec.field(name="it")
    bits: str = msgspec.field(name="b")


class BatchAckBody(msgspec.Struct):
    """The body of request 200151 (BatchAckMessageRequestBody)."""

    acks: list[BatchAck]


class _AckFields(msgspec.Struct):
    """The fields of an acknowledgement (AckMessageRequestHeader); others of it say nothing here."""

    group: str = msgspec.field(name="consumerGroup")
    topic: str
    queue_id: str = msgspec.field(name="queueId")
    offset: str
    handle: str = msgspec.field(name="extraInfo")


class _AckHeader(msgspec.Struct):
    code: Int32
    fields: _AckFields = msgspec.field(name="extFields")
    flag: Int32 = 0
    opaque: Int32 = 0


_decode_ack = msgspec.json.Decoder(_AckHeader).decode
#: A longer one goes the long way, and so do numbers of more digits.
_LONGEST_ACK_BYTES = 1_024
_MOST_INT_DIGITS, _MOST_DIGITS = 9, 18


class _HeldAck(NamedTuple):
    """An acknowledgement that was read and is not taken yet."""

    offset: int
    opaque: int
    frame: bytes


#: Group, topic, queue id, and the handle up to the offset of the message: the same for all of one pop.
_Alike = tuple[str, str, int, str]


class _Together:
    """Plain answers of one moment, written with one write a connection."""

    def __init__(self) -> None:
        self._waiting: dict[Connection, list[bytes]] = {}

    def succeed(self, connection: Connection, code: int, asked_ms: int, opaques: Sequence[int]) -> None:
        """Answer requests of one code that have JSON headers with success."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        server = connection.server
        server.times.answered(
            connection, code, Answer.SUCCESS, asked_ms, server.clock(), is_later=False, count=len(opaques)
        )
        frames = self._waiting.setdefault(connection, [])
        for opaque in opaques:
            header = _SUCCESS % opaque
            size = len(header)
            frames.append(_SIZES(4 + size, size) + header)

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for connection, frames in waiting.items():
            connection.write(b"".join(frames))


class _Answered:
    """The owner of a ticket that answers one request when it is durable."""

    __slots__ = ("_connection", "_fields", "_request", "_together")

    def __init__(
        self, together: _Together, connection: Connection, request: Command, fields: dict[str, str] | None = None
    ) -> None:
        self._together = together
        self._connection = connection
        self._request = request
        self._fields = fields

    def stored(self, _: Ticket) -> None:
        """Answer: what was asked for is durable."""
        request = self._request
        if request.is_oneway:
            return
        if self._fields is None and request.serialization == JSON:
            self._together.succeed(self._connection, request.code, request.asked_ms, (request.opaque,))
        else:
            self._connection.send(request.answer(self._fields))

    def refused(self, code: int, remark: str) -> None:
        """Answer that what was asked for may be lost."""
        if not self._request.is_oneway:
            self._connection.send(self._request.answer(code=code, remark=remark))


class _AllAnswered:
    """The owner of a ticket that answers acknowledgements of one read when they are durable."""

    __slots__ = ("_asked_ms", "_connection", "_opaques", "_together")

    def __init__(self, together: _Together, connection: Connection, asked_ms: int, opaques: Sequence[int]) -> None:
        self._together = together
        self._connection = connection
        self._asked_ms = asked_ms
        self._opaques = opaques

    def stored(self, _: Ticket | None) -> None:
        """Answer: what was asked for is durable."""
        self._together.succeed(self._connection, Request.ACK_MESSAGE, self._asked_ms, self._opaques)

    def refused(self, code: int, remark: str) -> None:
        """Answer that what was asked for may be lost."""
        for opaque in self._opaques:
            request = Command(Request.ACK_MESSAGE, opaque=opaque, asked_ms=self._asked_ms)
            self._connection.send(request.answer(code=code, remark=remark))


class AckProcessor:
    """The requests that acknowledge popped messages, or change for how long they are out."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine
        self._pops: Pops = state.engine.pops
        self._together = _Together()
        self._held: dict[_Alike, list[_HeldAck]] = {}

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.ACK_MESSAGE: self._ack,
            Request.BATCH_ACK_MESSAGE: self._ack_many,
            Request.CHANGE_MESSAGE_INVISIBLETIME: self._change,
        }

    def express(self, connection: Connection, frame: bytes, now_ms: int) -> bool:
        """Hold back an acknowledgement, to take it with others of its pop; return False if it is to go the long way."""
        body_at = 4 + int.from_bytes(frame[1:4], "big")
        if frame[0] != JSON or body_at != len(frame) or body_at > _LONGEST_ACK_BYTES:
            return False
        try:
            head = _decode_ack(frame[4:])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        fields = head.fields
        queue_id, offset = fields.queue_id, fields.offset
        numbers = queue_id + offset
        if (
            head.code != Request.ACK_MESSAGE
            or head.flag
            or not (queue_id and offset and numbers.isascii() and numbers.isdigit())
            or len(queue_id) > _MOST_INT_DIGITS
            or len(offset) > _MOST_DIGITS
        ):
            return False
        alike = fields.group, fields.topic, int(queue_id), fields.handle.rpartition(" ")[0]
        held = self._held.get(alike)
        if held is None:
            held = self._held[alike] = []
        held.append(_HeldAck(int(offset), head.opaque, frame))
        return True

    def take_held(self, connection: Connection, now_ms: int) -> None:
        """Take what was held back, all of one pop together; what is refused goes the long way, which says why."""
        if not self._held:
            return
        all_held, self._held = self._held, {}
        for alike, held in all_held.items():
            for refused in self._take_alike(connection, alike, held, now_ms):
                connection.take(refused.frame, now_ms)

    def _take_alike(
        self, connection: Connection, alike: _Alike, held: Sequence[_HeldAck], now_ms: int
    ) -> Sequence[_HeldAck]:
        """Take acknowledgements that have one handle; return those that are not taken."""
        group, topic, queue_id, named = alike
        known = self._engine.topics.get(topic)
        if known is None or queue_id >= known.read_queues or not self._engine.is_open:
            return held
        try:
            said = read_pop_handle(named)
        except RequestRefused:
            return held
        low, high = self._engine.queue_bounds(topic, queue_id)
        low, high = max(low, said.start), min(high, said.start + MOST_BITS)
        handle = Handle((group, topic, queue_id), said.start, said.pop_ms, said.invisible_ms)
        mask = 0
        for offset, _, _ in held:
            if low <= offset < high:
                mask |= 1 << (offset - said.start)
        taken = self._pops.ack(handle, mask, self._state.clock()).taken if mask else 0
        if not taken:
            return held
        refused: list[_HeldAck] = []
        opaques: list[int] = []
        for each in held:
            bit = each.offset - said.start
            if bit >= 0 and taken >> bit & 1:
                opaques.append(each.opaque)
            else:
                refused.append(each)
        owner = _AllAnswered(self._together, connection, now_ms, opaques)
        if not self._pops.tell(handle.key, owner):
            owner.stored(None)
        return refused

    def _place(self, ext: Mapping[str, str]) -> tuple[Handle, int]:
        """Return the handle and the offset that a request names; refused if there is no such queue or offset."""
        topic, queue_id = text(ext, "topic"), whole(ext, "queueId", low=-INT_MAX - 1, high=INT_MAX)
        known = self._engine.topics.get(topic)
        if known is None:
            raise TopicNotFound(topic)
        if not 0 <= queue_id < known.read_queues:
            raise RequestRefused(
                Answer.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic {topic!r} has {known.read_queues} queues.",
            )
        offset = whole(ext, "offset")
        low, high = self._engine.queue_bounds(topic, queue_id)
        if not low <= offset < high:
            raise RequestRefused(
                Answer.NO_MESSAGE, f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{low}~{high}"
            )
        handle = read_pop_handle(text(ext, "extraInfo"))
        key = text(ext, "consumerGroup"), topic, queue_id
        return Handle(key, handle.start, handle.pop_ms, handle.invisible_ms), offset

    def _ack(self, connection: Connection, request: Command) -> Command | None:
        self._engine.check_open()
        handle, offset = self._place(request.ext)
        bit = offset - handle.start
        if not 0 <= bit < MOST_BITS or not self._pops.ack(handle, 1 << bit, self._state.clock()).taken:
            raise HandleGone(handle.key[1], handle.key[2], offset)
        waits = self._pops.tell(handle.key, _Answered(self._together, connection, request))
        return None if waits else request.answer()

    def _ack_many(self, connection: Connection, request: Command) -> Command | None:
        """Answer success if anything was taken, as RocketMQ does; `escRefused` names what was not (topic, queue,
        offset)."""
        self._engine.check_open()
        taken: Key | None = None
        why = "None of these messages is held any more: they were redelivered, or none is named."
        refused: list[str] = []
        now_ms = self._state.clock()
        for handle, mask in _named(body_as(BatchAckBody, request.body).acks):
            acked = Acked(0, mask)
            if (missing := self._missing(handle.key)) is not None:
                why = missing
            else:
                acked = self._pops.ack(handle, mask, now_ms)
            _, topic, queue_id = handle.key
            taken = handle.key if acked.taken else taken
            refused += [f"{topic} {queue_id} {offset}" for offset in offsets_in(handle.start, acked.refused)]
        fields = {"escRefused": ";".join(refused)} if refused else None
        if taken is None:
            return request.answer(fields, code=Answer.NO_MESSAGE, remark=why)
        waits = self._pops.tell(taken, _Answered(self._together, connection, request, fields))
        return None if waits else request.answer(fields)

    def _missing(self, key: Key) -> str | None:
        """Return why nothing can be held of a queue, what of it is not there; None if it is popped, or may be."""
        group, topic, queue_id = key
        if key in self._pops.table.queues:
            return None
        known = self._engine.topics.get(topic)
        if known is None:
            return str(TopicNotFound(topic))
        if not 0 <= queue_id < known.read_queues:
            return f"Topic {topic!r} has no queue {queue_id}: it has {known.read_queues}."
        return str(GroupNotFound(group)) if self._engine.groups.get(group) is None else None

    def _change(self, connection: Connection, request: Command) -> Command | None:
        self._engine.check_open()
        handle, offset = self._place(request.ext)
        invisible_ms = whole(request.ext, "invisibleTime", low=0, high=LONGEST_INVISIBLE_MS)
        pop_ms, span_ms = self._pops.change(handle, offset, invisible_ms, self._state.clock())
        self._state.hurry()
        revive_queue = request.ext["extraInfo"].split(" ")[3]
        fields = {"popTime": str(pop_ms), "invisibleTime": str(span_ms), "reviveQid": revive_queue}
        waits = self._pops.tell(handle.key, _Answered(self._together, connection, request, fields))
        return None if waits else request.answer(fields)


def _named(acks: list[BatchAck]) -> Iterable[tuple[Handle, int]]:
    """Return the handles and messages that a batch names. It is refused as a whole, before anything of it is taken,
    where it is too much or cannot be."""
    named: list[tuple[Handle, int]] = []
    count = len(acks)
    for each in acks if count <= MOST_ACKED else ():
        topic = marked_topic(each.retry, each.group, each.topic)
        check_group_name(each.group)
        check_topic_name(topic)
        mask = _mask(each.bits)
        count += max(mask.bit_count() - 1, 0)
        named.append((Handle((each.group, topic, each.queue_id), each.start, each.pop_ms, each.invisible_ms), mask))
    if count > MOST_ACKED:
        remark = f"A batch names at most {MOST_ACKED:,} messages. Nothing was acknowledged; send several batches."
        raise RequestRefused(Answer.INVALID_PARAMETER, remark)
    return named


def _mask(bits: str) -> int:
    """Read a BitSet as fastjson writes it: its bytes, lowest first, in base64."""
    try:
        raw = b64decode(bits, validate=True)
    except (NotBase64, ValueError):
        raise RequestRefused(Answer.INVALID_PARAMETER, f"The bit set {bits[:40]!r} is not base64.") from None
    if len(raw) * 8 > MOST_BITS:
        raise RequestRefused(Answer.INVALID_PARAMETER, f"A batch names at most {MOST_BITS} messages of one pop.")
    return int.from_bytes(raw, "little")
