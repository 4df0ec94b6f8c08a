"""The names by which clients and broker speak of single messages: unique ids, recall handles, receipts.

A unique id (MessageClientIDSetter.createUniqID) is 32 upper-case hex digits:

    | address 4 | process id 2 | class loader 4 | ms since the month began 4 | counter 2 |   bytes

The first ten bytes are one prefix per process, so that two processes cannot make the same id and a broker hashes the
common prefix once. They are random here (of a broker all but its address): no client's address is told. The month is
that of the machine's time zone, as in RocketMQ, whose tools look for a message from that moment on.

A recall handle names a pending timer, and is what its send is answered with (RecallMessageHandle.HandleV1):

    base64url( "v1 " real topic " " broker name " " ms " " unique key ), with padding

`ms` is TIMER_OUT_MS + 1 of the parked record: less than the due time, but in the same slot of the wheel, which is what
Apache RocketMQ looks in.

Receipts are the words about popped messages (ExtraInfoUtil, KeyBuilder of 5.5.0):

    handle          "startOffset popTime invisibleTime reviveQueueId retry broker queueId offset"   of one message
    start offsets   "retry queueId startOffset" joined by ";"                                       of a pop's answer
    offsets         "retry queueId offset,offset,..." joined by ";"
    counts          "retry qo<queueId>%<offset> count" joined by ";"                                in order only

``retry`` is 0 for a message of the topic itself, 1 for one of its retry topic ``%RETRY%group_topic``, 2 for one of
``%RETRY%group+topic``, which is not in use here. The revive queue says nothing here but 999, which means "in order".
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Protocol
from weakref import WeakSet

from .codes import Answer
from .compiled import twin
from .errors import RequestRefused
from .message import Message, decode, encode, pack_host, record_size
from .properties import POP_HANDLE, POPPED, format_properties
from .topics import retry_topic

# Unique ids.

_PREFIX_BYTES = 10


def steady_clock() -> Callable[[], int]:
    """Return a clock (ms since 1970) that begins at the machine's time and never goes back."""
    began_ms, began_s = int(time.time() * 1000), time.monotonic()
    return lambda: began_ms + int((time.monotonic() - began_s) * 1000)


class UniqueIds:
    """Makes ids that no other call makes; safe for threads and after fork.

    `address`: four bytes that the ids begin with, random ones by default. `clock`: ms since 1970.
    """

    def __init__(self, address: bytes = b"", clock: Callable[[], int] | None = None) -> None:
        self._address = address[:4]
        self._clock = clock or steady_clock()
        self.renew()
        _known.add(self)

    def renew(self) -> None:
        """Begin with another prefix: two processes must not go on from the same one."""
        own = secrets.token_bytes(_PREFIX_BYTES - len(self._address))
        self._prefix = (self._address + own).hex().upper()
        self._count = count(secrets.randbelow(0x10000))
        self._month_ms = range(0)
        self._begun = (-1, "")

    def next_id(self) -> str:
        """Return the next id; the counter separates ids of one millisecond."""
        moment_ms, begun = self._clock(), self._begun
        if moment_ms != begun[0]:  # ids of one millisecond begin the same
            begun = self._begun = (moment_ms, self._begin(moment_ms))
        return f"{begun[1]}{next(self._count) & 0xFFFF:04X}"

    def _begin(self, moment_ms: int) -> str:
        month_ms = self._month_ms
        if moment_ms not in month_ms:
            month_ms = self._month_ms = _month_of(moment_ms)
        return f"{self._prefix}{moment_ms - month_ms.start:08X}"


def _month_of(moment_ms: int) -> range:
    """Return the milliseconds of the month that a moment is in."""
    year, month = time.localtime(moment_ms / 1000)[:2]
    begin_s, end_s = (time.mktime((year, each, 1, 0, 0, 0, 0, 0, -1)) for each in (month, month + 1))
    return range(int(begin_s * 1000), int(end_s * 1000))


_known: WeakSet[UniqueIds] = WeakSet()


def _renew_all() -> None:
    for ids in list(_known):
        ids.renew()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_renew_all)


# Recall handles.

#: Our own field of the answer to a recall: what became of it, in the words of 14005.
OUTCOME = "escOutcome"
_VERSION = "v1"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
#: A topic of 127 characters, a broker's name and a unique key of 255 each are well below.
LONGEST_HANDLE = 4096


class BadHandle(ValueError):
    """This is no recall handle."""


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """The timer that a handle names."""

    topic: str
    broker: str
    timestamp_ms: int
    unique_key: str

    def __str__(self) -> str:
        return _written(self.topic, self.broker, self.timestamp_ms, self.unique_key).decode()


@twin("handle")
def _written(topic: str, broker: str, timestamp_ms: int, unique_key: str) -> bytes:
    """Return the handle of a timer as text, in bytes."""
    raw = f"{_VERSION} {topic} {broker} {timestamp_ms} {unique_key}".encode()
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE)


def handle_of(topic: str, broker: str, due_ms: int, unique_key: str) -> bytes:
    """Return the handle of a timer that is due then."""
    return _written(topic, broker, (due_ms - 1) // 1000 * 1000 + 1, unique_key)


def read_handle(text: str) -> RecallHandle:
    """Read a handle, with or without padding, as Java does; raises BadHandle."""
    if not isinstance(text, str) or not text or len(text) > LONGEST_HANDLE or not text.isascii():
        raise BadHandle("recall handle is invalid")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        words = raw.decode().split(" ")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise BadHandle("recall handle is invalid") from None
    if len(words) < 5 or words[0] != _VERSION:
        raise BadHandle("recall handle is invalid")
    _, topic, broker, moment, unique_key, *_ = words
    if not (moment.isascii() and moment.isdigit() and len(moment) < 19 and topic and broker and unique_key):
        raise BadHandle("recall handle is invalid")
    return RecallHandle(topic, broker, int(moment), unique_key)


# Receipts.

ORDER_QUEUE = 999
"""POP_ORDER_REVIVE_QUEUE of KeyBuilder."""
PLAIN, RETRY, RETRY_V2 = "0", "1", "2"

_HANDLE = re.compile(r"([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,18}) [0-9]{1,18}(?: |\Z)").match


class PopHandle(NamedTuple):
    """The pop that a handle stands for: the offset it began at, its moment, and how long its messages are invisible."""

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
        """The number of times each was handed out before; empty unless popped in order."""


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


def read_pop_handle(extra_info: str) -> PopHandle:
    """Return what the handle of a message says; raises RequestRefused if it cannot be read."""
    found = _HANDLE(extra_info)
    if found is None:
        raise RequestRefused(Answer.INVALID_PARAMETER, f"The handle {extra_info[:120]!r} cannot be read.")
    return PopHandle(int(found[1]), int(found[2]), int(found[3]))


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
