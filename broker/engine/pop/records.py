"""The records in which the broker writes down what was popped: their form, and how they are collected and appended.

They stand in ``rmq_sys_esc_pops``, queue 0; RocketMQ has no such topic. What happens is collected, and becomes records
when the batch is closed. So what one moment brings shares a record and a sync, however many pops and acknowledgements
it was. The body of a record, big-endian:

    1  version 1     2  number of queues, each  2 length, name      then entries:
    1  kind          2  which queue             then by kind

    "P"  popped           8 start  8 next offset  8 pop_ms  8 invisible_ms  mask
    "A"  acknowledged     8 start  8 pop_ms  mask
    "C"  changed          8 start  8 pop_ms  8 offset  8 new pop_ms  8 new invisible_ms
    "S"  placed           8 offset: the queue begins here, nothing is out; -1: the queue is forgotten
    "T"  cut              8 offset: nothing that was handed out is there from here on, the log has lost it
    "O"  popped in order  8 next offset  4 length  JSON of Orderly
    "a"  acknowledged     8 pop_ms  8 offset                        (in order)
    "c"  changed          8 pop_ms  8 offset  8 visible_ms          (in order)

    name: group, topic and queue id in UTF-8, a zero byte between them
    mask: 2 length, then bytes, lowest first: bit n is offset start + n
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, cast

from ...rocketmq.properties import WAIT, format_properties
from ...rocketmq.topics import POP_TOPIC
from ..log.ticket import Ticket
from ..message_header import Facts
from ..store import Store
from .popqueue import CheckPoint, Key, PopQueue

# The form of a record.

VERSION = 1
POPPED, ACKED, CHANGED, PLACED, CUT = b"PACST"
ORDERED, ORDER_ACKED, ORDER_CHANGED = b"Oac"

_HEAD = struct.Struct(">BH")
_KIND = struct.Struct(">BH")
_LENGTH = struct.Struct(">H")
_NUMBERS = {
    POPPED: struct.Struct(">4q"),
    ACKED: struct.Struct(">2q"),
    CHANGED: struct.Struct(">5q"),
    PLACED: struct.Struct(">q"),
    CUT: struct.Struct(">q"),
    ORDERED: struct.Struct(">qI"),
    ORDER_ACKED: struct.Struct(">2q"),
    ORDER_CHANGED: struct.Struct(">3q"),
}
_POPPED = struct.Struct(">BH4qH").pack
_ACKED = struct.Struct(">BH2qH").pack
#: Offset of a queue that is placed nowhere.
FORGOTTEN = -1


class Page:
    """Entries on their way into one record."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._parts: list[bytes] = []
        self.size = _HEAD.size

    def _queue(self, name: bytes) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            self.size += _LENGTH.size + len(name)
        return number

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self.size += len(part)

    def popped(self, name: bytes, start: int, next_offset: int, pop_ms: int, invisible_ms: int, mask: int) -> None:
        """Add the entry of a pop."""
        raw = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
        queue = self._queue(name)
        self._add(_POPPED(POPPED, queue, start, next_offset, pop_ms, invisible_ms, len(raw)) + raw)

    def acked(self, name: bytes, start: int, pop_ms: int, mask: int) -> None:
        """Add acknowledgements of one check point."""
        raw = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
        self._add(_ACKED(ACKED, self._queue(name), start, pop_ms, len(raw)) + raw)

    def add(self, kind: int, name: bytes, *numbers: int) -> None:
        """Add an entry that holds nothing but numbers."""
        self._add(_KIND.pack(kind, self._queue(name)) + _NUMBERS[kind].pack(*numbers))

    def ordered(self, name: bytes, next_offset: int, value: dict[str, Any]) -> None:
        """Add what is out in an orderly queue."""
        raw = json.dumps(value, separators=(",", ":")).encode()
        head = _KIND.pack(ORDERED, self._queue(name)) + _NUMBERS[ORDERED].pack(next_offset, len(raw))
        self._add(head + raw)

    def body(self) -> bytes:
        """Return the body of the record."""
        names = [_LENGTH.pack(len(name)) + name for name in self._numbers]
        return b"".join((_HEAD.pack(VERSION, len(names)), *names, *self._parts))

    def __bool__(self) -> bool:
        return bool(self._parts)


Entry = tuple[int, Key, tuple[int, ...], Any]
"""Kind, queue, numbers, and what else there is: a mask, or the value of an orderly queue."""


def read_page(body: bytes) -> Iterator[Entry]:
    """Yield the entries of a record's body; raises ValueError where it does not hold together."""
    try:
        yield from _read(body)
    except (struct.error, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"these are no entries of pops: {error!r}") from None


def _read(body: bytes) -> Iterator[Entry]:
    version, count = _HEAD.unpack_from(body)
    if version != VERSION:
        raise ValueError(f"entries of version {version} are not known")
    at = _HEAD.size
    keys: list[Key] = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        keys.append(read_key(body[at : at + length]))
        at += length
    while at < len(body):
        kind, queue = _KIND.unpack_from(body, at)
        at += _KIND.size
        form = _NUMBERS[kind]
        numbers = form.unpack_from(body, at)
        at += form.size
        more: Any = None
        if kind in (POPPED, ACKED):
            (length,) = _LENGTH.unpack_from(body, at)
            at += _LENGTH.size
            more = int.from_bytes(body[at : at + length], "little")
            at += length
        elif kind == ORDERED:
            more = _read_json(body[at : at + numbers[1]])
            at += numbers[1]
        if at > len(body):
            raise ValueError("it ends in the middle of an entry")
        yield kind, keys[queue], numbers, more


def _read_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_key(name: bytes) -> Key:
    """Return the queue that a name stands for. Raises ValueError."""
    group, topic, queue_id = name.decode().split("\0")
    return group, topic, int(queue_id)


# Collecting and appending.

#: A record is closed at this size, in small stores at a quarter of a segment.
_PAGE_BYTES = 128 << 10
_PROPERTIES = format_properties({WAIT: "true"})


class Waiting(Protocol):
    """A caller that wants to know when what it asked for is durable."""

    def stored(self, ticket: Ticket) -> None:
        """Hear that what was noted is durable."""

    def refused(self, code: int, remark: str) -> None:
        """Hear that what was noted may be lost."""


class _Owners:
    """Owner of a record's ticket: all who wait for something in it."""

    __slots__ = ("_owners",)

    def __init__(self, owners: list[object]) -> None:
        self._owners = owners

    def stored(self, ticket: Ticket) -> None:
        for owner in self._owners:
            cast(Waiting, owner).stored(ticket)

    def refused(self, code: int, remark: str) -> None:
        for owner in self._owners:
            cast(Waiting, owner).refused(code, remark)


class Written(NamedTuple):
    """Noted on pop records: so many were appended."""

    records: int


class PopWriter:
    """Collects entries and appends them as records. Owners are told when everything noted so far is durable.

    ``note`` is told of each record that was appended.
    """

    def __init__(self, store: Store, note: Callable[[Written], None]) -> None:
        self._store = store
        self._note = note
        self._pages: list[Page] = [Page()]
        self._page_bytes = min(_PAGE_BYTES, store.config.segment_size_bytes // 4)
        #: acknowledgements, many of one check point together
        self._acks: dict[CheckPoint, tuple[PopQueue, int]] = {}
        self._owners: list[object] = []
        #: records that were appended and are not durable yet
        self._unsynced = 0

    @property
    def page(self) -> Page:
        """Return the page that takes the next entry."""
        page = self._pages[-1]
        if page.size > self._page_bytes:
            page = Page()
            self._pages.append(page)
        return page

    def popped(self, queue: PopQueue, point: CheckPoint) -> None:
        """Note that messages of a queue were handed out."""
        invisible_ms = point.due_ms - point.pop_ms
        self.page.popped(queue.name, point.start, queue.next_offset, point.pop_ms, invisible_ms, point.held)

    def acked(self, queue: PopQueue, point: CheckPoint, mask: int) -> None:
        """Note that messages of a check point were acknowledged."""
        known = self._acks.get(point)
        self._acks[point] = (queue, mask if known is None else known[1] | mask)

    def changed(self, queue: PopQueue, point: CheckPoint, changed: CheckPoint) -> None:
        """Note that a message got another time."""
        numbers = (point.start, point.pop_ms, changed.start, changed.pop_ms, changed.due_ms - changed.pop_ms)
        self.page.add(CHANGED, queue.name, *numbers)

    def placed(self, queue: PopQueue, offset: int = FORGOTTEN) -> None:
        """Note that a queue begins at an offset, or is forgotten."""
        self.page.add(PLACED, queue.name, offset)

    def ordered(self, queue: PopQueue, value: dict[str, Any]) -> None:
        """Note that messages were handed out in order."""
        self.page.ordered(queue.name, queue.next_offset, value)

    def cut(self, queue: PopQueue, offset: int) -> None:
        """Note that nothing is there from an offset on that was handed out before."""
        self.page.add(CUT, queue.name, offset)

    def order_acked(self, queue: PopQueue, pop_ms: int, offset: int) -> None:
        """Note the acknowledgement of one message of an orderly pop."""
        self.page.add(ORDER_ACKED, queue.name, pop_ms, offset)

    def order_changed(self, queue: PopQueue, pop_ms: int, offset: int, visible_ms: int) -> None:
        """Note that a message of an orderly pop got another time."""
        self.page.add(ORDER_CHANGED, queue.name, pop_ms, offset, visible_ms)

    def tell(self, queue: PopQueue, owner: object) -> bool:
        """Have somebody told when all that was noted so far is durable; False if it is already."""
        if not self._acks and not self._pages[0]:
            if not self._unsynced:
                return False
            # what it waits for is on its way to the disk: an entry that says nothing goes after it
            self.page.acked(queue.name, 0, 0, 0)
        self._owners.append(owner)
        return True

    def synced(self, records: int) -> None:
        """Hear that so many of the records are durable."""
        self._unsynced -= records

    def write(self, now_ms: int) -> None:
        """Append what was collected. Raises StoreRefused; then some of it waits for the next time."""
        acks, self._acks = self._acks, {}
        for point, (queue, mask) in acks.items():
            self.page.acked(queue.name, point.start, point.pop_ms, mask)
        store = self._store
        while self._pages[0]:
            is_last = len(self._pages) == 1
            owners = _Owners(self._owners) if is_last and self._owners else None
            body, facts, host = self._pages[0].body(), Facts(_PROPERTIES, None, None, None), store.store_host
            store.append(POP_TOPIC, 0, body, facts, 0, 0, 0, now_ms, host, now_ms, owner=owners)
            self._note(Written(1))
            self._unsynced += 1
            if owners is not None:
                self._owners = []
            self._pages.pop(0)
            if not self._pages:
                self._pages.append(Page())
