"""What the broker writes down of pops: records of ``rmq_sys_esc_pops``, queue 0; RocketMQ has no such topic.

One record holds what came together. Its body, big-endian:

    1  version 1     2  number of queues, each  2 length, group \\0 topic \\0 queue id (UTF-8)     then entries:
    1  kind          2  which queue          then by kind

    "P"  popped           8 start  8 next offset  8 pop_ms  8 invisible_ms  mask
    "A"  acknowledged     8 start  8 pop_ms  mask
    "C"  changed          8 start  8 pop_ms  8 offset  8 new pop_ms  8 new invisible_ms
    "S"  placed           8 offset: the queue begins here, nothing is out; -1: the queue is forgotten
    "T"  cut              8 offset: nothing that was handed out is there from here on, the log has lost it
    "O"  popped in order  8 next offset  4 length  JSON of Orderly
    "a"  acknowledged     8 pop_ms  8 offset                        (in order)
    "c"  changed          8 pop_ms  8 offset  8 visible_ms          (in order)

    mask: 2 length, then bytes, lowest first: bit n is offset start + n
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from .popqueue import Key

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
        """Add a pop."""
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
            more = json.loads(body[at : at + numbers[1]])
            at += numbers[1]
        if at > len(body):
            raise ValueError("it ends in the middle of an entry")
        yield kind, keys[queue], numbers, more


def read_key(name: bytes) -> Key:
    """Return the queue that a name stands for. Raises ValueError."""
    group, topic, queue_id = name.decode().split("\0")
    return group, topic, int(queue_id)
