"""The words in which clients and broker speak of popped messages (ExtraInfoUtil, KeyBuilder of 5.5.0).

    handle          "startOffset popTime invisibleTime reviveQueueId retry broker queueId offset"   of one message
    start offsets   "retry queueId startOffset" joined by ";"                                       of a pop's answer
    offsets         "retry queueId offset,offset,..." joined by ";"
    counts          "retry qo<queueId>%<offset> count" joined by ";"                                in order only

``retry`` is 0 for a message of the topic itself, 1 for one of its retry topic ``%RETRY%group_topic``, 2 for one of
``%RETRY%group+topic``, which is not in use here. The revive queue says nothing here but 999, which means "in order".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from .codes import Answer
from .errors import RequestRefused
from .message import Message, decode, encode, format_properties, pack_host, record_size
from .properties import POP_HANDLE, POPPED
from .topics import retry_topic

ORDER_QUEUE = 999
"""POP_ORDER_REVIVE_QUEUE of KeyBuilder."""
PLAIN, RETRY, RETRY_V2 = "0", "1", "2"

_HANDLE = re.compile(r"([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,18}) [0-9]{1,18}(?: |\Z)").match


class ReadHandle(NamedTuple):
    """What a handle says of its pop: the offset that it began at, when it was, and for how long it holds."""

    start: int
    pop_ms: int
    invisible_ms: int


class Taken(Protocol):
    """Messages that a pop got from one queue. `counts`: how often each was handed out before, in order only."""

    @property
    def topic(self) -> str:
        """The topic asked for, or its retry topic."""

    @property
    def queue_id(self) -> int:
        """The queue of that topic."""

    @property
    def start(self) -> int:
        """The offset at which the handles begin."""

    @property
    def offsets(self) -> Sequence[int]:
        """The offsets of the messages."""

    @property
    def counts(self) -> Sequence[int]:
        """How often each was handed out before; empty unless popped in order."""


def retry_mark(topic: str, asked_topic: str) -> str:
    """Return how a handle says which of the two topics a message is of."""
    return PLAIN if topic == asked_topic else RETRY


def marked_topic(mark: str, group: str, topic: str) -> str:
    """Return the topic that a handle means; raises RequestRefused if there is none such."""
    if mark == PLAIN:
        return topic
    if mark == RETRY:
        return retry_topic(group, topic)
    raise RequestRefused(Answer.INVALID_PARAMETER, f"The retry mark {mark[:20]!r} of a handle is neither 0 nor 1.")


def start_offsets(taken: Iterable[Taken], asked_topic: str) -> str:
    """Return where each queue of an answer begins."""
    return ";".join([f"{retry_mark(one.topic, asked_topic)} {one.queue_id} {one.start}" for one in taken])


def message_offsets(taken: Iterable[Taken], asked_topic: str) -> str:
    """Return the queue offsets of all messages of an answer."""
    return ";".join(
        [f"{retry_mark(one.topic, asked_topic)} {one.queue_id} {','.join(map(str, one.offsets))}" for one in taken]
    )


def order_counts(taken: Iterable[Taken], asked_topic: str) -> str:
    """Return how often messages of an orderly answer were handed out before: those that were, then the least of the
    queue."""
    parts: list[str] = []
    for one in taken:
        mark = retry_mark(one.topic, asked_topic)
        counted = zip(one.offsets, one.counts, strict=True)
        parts += [f"{mark} qo{one.queue_id}%{offset} {count}" for offset, count in counted if count]
        parts.append(f"{mark} {one.queue_id} {min(one.counts, default=0)}")
    return ";".join(parts)


def read_handle(extra_info: str) -> ReadHandle:
    """Return what the handle of a message says; raises RequestRefused if it cannot be read."""
    found = _HANDLE(extra_info)
    if found is None:
        raise RequestRefused(Answer.INVALID_PARAMETER, f"The handle {extra_info[:120]!r} cannot be read.")
    return ReadHandle(int(found[1]), int(found[2]), int(found[3]))


def as_of_topic(record: bytes, topic: str, start: int, pop_ms: int, invisible_ms: int, broker: str) -> bytes:
    """Return a record of a retry topic as one of the topic that was asked for, with its handle in it (POP_CK)."""
    message: Message = decode(record, verify=False)
    handle = f"{start} {pop_ms} {invisible_ms} 0 {RETRY} {broker} {message.queue_id} {message.queue_offset}"
    properties = {name: value for name, value in message.properties.items() if name != POPPED}
    stored = format_properties({**properties, POP_HANDLE: handle})
    name, born_host, store_host = topic.encode(), pack_host(*message.born_host), pack_host(*message.store_host)
    return encode(
        name, message.queue_id, message.queue_offset, message.position, message.body, stored, message.flag,
        message.sys_flag, message.born_ms, born_host, message.store_ms, store_host, message.reconsume_times,
        message.prepared_position, record_size(name, message.body, stored, born_host, store_host),
    )  # fmt: skip
