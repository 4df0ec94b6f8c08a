"""What consumers say of popped messages: 200051 and 200151 (done), 200053 (visible again later, or sooner).

Answered when it is durable. What a handle does not speak for any more is refused with NO_MESSAGE: the message was given
out again, or the time was changed and a newer handle counts.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from ...engine.errors import GroupNotFound, HandleGone, TopicNotFound
from ...engine.log.ticket import Ticket
from ...engine.pop.popqueue import Key, offsets_in
from ...engine.pop.service import Acked, Handle, Pops
from ...rocketmq.codes import PROTOCOL_VERSION, Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, LONG_MAX, body_as, text, whole
from ...rocketmq.frame import JSON, Command
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


Long = Annotated[int, msgspec.Meta(ge=-LONG_MAX - 1, le=LONG_MAX)]


class BatchAck(msgspec.Struct):
    """What is done of one pop of one queue; bit n of ``bits`` is the offset start + n."""

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


class _Together:
    """Plain answers of one moment, written with one write a connection."""

    def __init__(self) -> None:
        self._waiting: dict[Connection, list[bytes]] = {}

    def succeed(self, connection: Connection, request: Command) -> None:
        """Answer a request that has a JSON header with success."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        server = connection.server
        server.times.note(request.code, Answer.SUCCESS, server.clock() - request.asked_ms)
        header = _SUCCESS % request.opaque
        size = len(header).to_bytes(4, "big")
        self._waiting.setdefault(connection, []).append((4 + len(header)).to_bytes(4, "big") + size + header)

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
        if self._fields is None and request.serialization == JSON:
            self._together.succeed(self._connection, request)
        else:
            self._connection.send(request.answer(self._fields))

    def refused(self, code: int, remark: str) -> None:
        """Answer that what was asked for may be lost."""
        self._connection.send(self._request.answer(code=code, remark=remark))


class AckProcessor:
    """The requests that acknowledge popped messages, or change for how long they are out."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine
        self._pops: Pops = state.engine.pops
        self._together = _Together()

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.ACK_MESSAGE: self._ack,
            Request.BATCH_ACK_MESSAGE: self._ack_many,
            Request.CHANGE_MESSAGE_INVISIBLETIME: self._change,
        }

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
        why = "Nothing of this is held any more: it was given out again, or there is nothing named."
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
        if key in self._pops.book.queues:
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
