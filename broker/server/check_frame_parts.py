"""Halves cut into the pieces that a question about them repeats.

Those of one producer are much alike: where a record of some size and body length has its pieces is found out once.

    | size | magic | body crc | queue id | middle: flag .. body | topic | before | key | after | ending | crc |

``before`` ends with the mark, ``UNIQ_KEY\\x01``; ``ending`` says real topic and queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from struct import Struct
from typing import NamedTuple

from ..engine.tables.topics import HALF_TOPIC
from ..engine.transaction.questions import Checks, Kind, kind_of
from ..rocketmq.layout import CRC_NAME, CRC_SIZE, HEAD_V4, MAGIC_V1, NOT_IPV6, U16, U32
from ..rocketmq.properties import REAL_TOPIC, UNIQUE_KEY

#: Before the real topic, and before the unique key.
WHERE = f"\x02{REAL_TOPIC}\x01".encode()
MARK = f"{UNIQUE_KEY}\x01".encode()
_MIDDLE_AT = 16
#: Of the middle: the lowest byte of sysFlag.
_FLAGS_AT = 36 + 3 - _MIDDLE_AT
#: Topic and length of the properties stand between body and properties.
TOPIC_BYTES = 1 + len(HALF_TOPIC) + U16.size
#: Ways to cut that are remembered.
_MOST = 4_096

_Fields = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes]


class Cut(NamedTuple):
    """Halves cut alike, by column. ``number``: of the way to cut; those that are cut one way have pieces of the same
    lengths. ``befores``: with the mark."""

    number: int
    crcs: Sequence[bytes]
    middles: Sequence[bytes]
    befores: Sequence[bytes]
    keys: Sequence[bytes]
    afters: Sequence[bytes]
    endings: Sequence[bytes]

    def pick(self, selectors: Sequence[object]) -> Cut:
        """Return those rows whose selector is true."""
        return Cut(self.number, *(list(compress(column, selectors)) for column in self[1:]))

    def part(self, begin: int, end: int) -> Cut:
        """Return the rows from one number to another."""
        return Cut(self.number, *(column[begin:end] for column in self[1:]))


def ending_of(record: bytes) -> bytes:
    """Return what a record's properties end with from the real topic on, without the checksum."""
    return record[record.rfind(WHERE) : -CRC_SIZE]


class Cutter:
    """Cuts records of one kind together."""

    def __init__(self) -> None:
        self._ways: dict[Kind, tuple[int, Callable[[bytes], Iterator[_Fields]]] | None] = {}
        self._count = 0

    def cut(self, checks: Checks) -> Cut | None:
        """Return the pieces of the halves of some questions; None if one of them has another form than most."""
        records = checks.records
        kind = kind_of(0, checks.size, records)
        try:
            way = self._ways[kind]
        except KeyError:
            way = self._learn(kind, records[: checks.size])
        if way is None:
            return None
        number, unpack = way
        magics, crcs, middles, befores, keys, afters, endings, names = zip(*unpack(records), strict=True)
        count = len(checks)
        end = MARK if len(befores[0]) == len(MARK) else b"\x02" + MARK
        between, width = b"".join(afters), len(afters[0])
        if (
            magics.count(MAGIC_V1) != count
            or names.count(CRC_NAME) != count
            or any(flags & ~NOT_IPV6 for flags in {middle[_FLAGS_AT] for middle in middles})
            or not b"".join(keys).isalnum()
            or not all(before.endswith(end) for before in set(befores))
            or (width and (between[::width].count(2) != count or MARK in between))
        ):
            return None
        return Cut(number, crcs, middles, befores, keys, afters, endings)

    def _learn(self, kind: Kind, record: bytes) -> tuple[int, Callable[[bytes], Iterator[_Fields]]] | None:
        if len(self._ways) >= _MOST:
            self._ways.clear()
        unpack = _unpack_of(record, U32.unpack(kind[2])[0])
        self._count += 1
        self._ways[kind] = found = (self._count, unpack) if unpack else None
        return found


def _unpack_of(record: bytes, body_length: int) -> Callable[[bytes], Iterator[_Fields]] | None:
    """Return what cuts records of this one's kind; None if it has no usual form."""
    begin = HEAD_V4.size + body_length + TOPIC_BYTES
    end = len(record) - CRC_SIZE
    ending = record.rfind(WHERE)
    mark = record.rfind(b"\x02" + MARK, begin, ending) + 1 or record.find(MARK, begin, begin + len(MARK))
    key = mark + len(MARK)
    key_end = record.find(b"\x02", key)
    if not begin <= mark < key_end <= ending < end:
        return None
    middle = HEAD_V4.size + body_length - _MIDDLE_AT
    return Struct(
        f">4xI4s4x{middle}s{TOPIC_BYTES}x{key - begin}s{key_end - key}s{ending - key_end}s"
        f"{end - ending}s{len(CRC_NAME)}s{CRC_SIZE - len(CRC_NAME)}x"
    ).iter_unpack
