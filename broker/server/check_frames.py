"""Questions about halves that go to one queue (request 39), each cast in one piece.

What is the same in all of them is made once; %s marks what is filled in:

    %frame length | header with %offset, %position, %key, %message id |
    %size, magic, %body crc, queue id, %flag .. body | topic | %properties and how often was asked

Of halves that were cut together (halfcuts.py) sizes, lengths and the end of the properties are the same too: all their
questions are put together from columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from sys import byteorder
from typing import NamedTuple

from ..engine.transaction.questions import Check, Checks
from ..rocketmq.layout import CRC_NAME, CRC_SIZE, HEAD_V4, MAGIC_V1, MAGIC_V2, NOT_IPV6, U16, U32
from ..rocketmq.properties import CHECK_TIMES, WAIT
from .check_frame_parts import MARK, TOPIC_BYTES, Cut

#: What a question adds to a half's properties; %d: how often was asked, this time included.
MORE = f"{CHECK_TIMES}\x01%d\x02{WAIT}\x01false\x02".encode()
#: Of a record with IPv4 addresses: magic, body crc, sysFlag, store host, body length.
_LOOK = Struct(">4xI4s24xI24x8s12xI").unpack_from
#: The longest topic of the first form of a record, with its length.
_NARROW = 128
_ID_LENGTH = 32
_MOST_FORMS = 64
_MOST_ROWS = 1_024
#: Where the middle of a cut record has the store host.
_HOST_BEGIN, _HOST_END = 48, 56

#: Returns, for values so long each, what stands around them in a frame's start behind its length (one piece more than
#: there are values); and how long it is with them.
HeaderOf = Callable[[Sequence[int]], tuple[list[bytes], int]]


class Place(NamedTuple):
    """Where a half belongs; ``name``: the topic as it stands in a record, its length first."""

    topic: str
    name: bytes
    queue_id: int

    @property
    def magic(self) -> int:
        """What a record with so long a topic begins with."""
        return MAGIC_V1 if len(self.name) <= _NARROW else MAGIC_V2


class _Form(NamedTuple):
    """What stands around offset, position, key, key and position again; and by how much the properties, the record and
    the frame (without its own length) that has it are longer than in the log."""

    header: list[bytes]
    properties_more: int
    size_more: int
    frame_more: int


class Shape(NamedTuple):
    """What halves share that differ in nothing but what is filled in: how they were cut, how long offset and position
    are when written, how often was asked, the store host."""

    cut: int
    offset_length: int
    position_length: int
    checks: int
    host: bytes


class Mould:
    """Casts the questions about halves of one topic, and one queue if by themselves."""

    __slots__ = ("_forms", "_header_of", "_rows", "place")

    def __init__(self, place: Place, header_of: HeaderOf) -> None:
        self.place = place
        self._header_of = header_of
        #: by lengths of offset, position and key, the count, and the store host
        self._forms: dict[tuple[int, int, int, int, bytes], _Form] = {}
        #: of halves that were cut: a question in pieces
        self._rows: dict[Shape, list[bytes]] = {}

    def cast(self, check: Check) -> bytes | None:
        """Return the frame of a question; None about a half with an IPv6 address, without checksum, or with an
        unusual key."""
        offset, position, record, _, checks = check
        magic, body_crc, sys_flag, host, body_length = _LOOK(record)
        body_end = HEAD_V4.size + body_length
        properties = record[body_end + TOPIC_BYTES : -CRC_SIZE]
        at = properties.rfind(MARK)
        if at < 0 or (at and properties[at - 1] != 2):
            return None
        key = properties[at + len(MARK) : properties.find(b"\x02", at)]
        if not key.isalnum() or magic != MAGIC_V1 or sys_flag & ~NOT_IPV6 or record[-CRC_SIZE:-11] != CRC_NAME:
            return None
        offset_digits, position_digits = b"%d" % offset, b"%d" % position
        form = self._form(len(offset_digits), len(position_digits), len(key), checks, host)
        header, size = form.header, len(record)
        return b"".join(
            (
                U32.pack(size + form.frame_more), header[0], offset_digits, header[1], position_digits, header[2], key,
                header[3], key, header[4], b"%016X" % position, header[5], U32.pack(size + form.size_more),
                U32.pack(self.place.magic), body_crc, U32.pack(self.place.queue_id), record[16:body_end],
                self.place.name, U16.pack(len(properties) + form.properties_more), properties, MORE % (checks + 1),
            )
        )  # fmt: skip

    def cast_all(self, checks: Checks, cut: Cut, queue_of: Mapping[bytes, bytes]) -> bytes | None:
        """Return the frames of questions about halves of one topic that were cut together, None if they have several
        shapes; ``queue_of``: ending to queue id."""
        offsets, positions = _decimals(checks.offsets), _decimals(checks.positions)
        shape = _shape_of(offsets, positions, checks.checks, cut)
        if shape is None:
            return None
        row = self._rows.get(shape) or self._row(shape, checks, cut)
        pieces = row * len(checks)
        width = len(row)
        keys = cut.keys
        columns = (
            offsets, positions, keys, keys, _hexadecimals(checks.positions),
            cut.crcs, list(map(queue_of.__getitem__, cut.endings)), cut.middles, cut.befores, keys, cut.afters,
            cut.endings,
        )  # fmt: skip
        for at, column in zip(_COLUMNS_AT, columns, strict=True):
            pieces[at::width] = column
        return b"".join(pieces)

    def _row(self, shape: Shape, checks: Checks, cut: Cut) -> list[bytes]:
        """Return the pieces of a question of some shape, empty where a column is filled in."""
        _, offset_length, position_length, count, host = shape
        form = self._form(offset_length, position_length, len(cut.keys[0]), count, host)
        header, size = form.header, checks.size
        length = sum(len(column[0]) for column in (cut.befores, cut.keys, cut.afters, cut.endings))
        if len(self._rows) >= _MOST_ROWS:
            self._rows.clear()
        row = self._rows[shape] = [
            U32.pack(size + form.frame_more) + header[0], b"", header[1], b"", header[2], b"", header[3], b"",
            header[4], b"", header[5] + U32.pack(size + form.size_more) + U32.pack(self.place.magic), b"", b"", b"",
            self.place.name + U16.pack(length + form.properties_more), b"", b"", b"", b"", MORE % (count + 1),
        ]  # fmt: skip
        return row

    def _form(self, offset_length: int, position_length: int, key_length: int, checks: int, host: bytes) -> _Form:
        kind = offset_length, position_length, key_length, checks, host
        if (form := self._forms.get(kind)) is not None:
            return form
        header, header_bytes = self._header_of((offset_length, position_length, key_length, key_length, _ID_LENGTH))
        # the last one is the message id: store host and position
        header[4] += host.hex().upper().encode()
        more_bytes = len(MORE % (checks + 1))
        size_more = len(self.place.name) + U16.size - TOPIC_BYTES - CRC_SIZE + more_bytes
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        form = self._forms[kind] = _Form(header, more_bytes, size_more, header_bytes + size_more)
        return form


#: Where a row of ``Mould.cast_all`` has its columns.
_COLUMNS_AT = (1, 3, 5, 7, 9, 11, 12, 13, 15, 16, 17, 18)


def _shape_of(offsets: Sequence[bytes], positions: Sequence[bytes], checks: int, cut: Cut) -> Shape | None:
    host = cut.middles[0][_HOST_BEGIN:_HOST_END]
    lengths = len(offsets[0]), len(positions[0])
    if (
        set(map(len, offsets)) != {lengths[0]}
        or set(map(len, positions)) != {lengths[1]}
        or {middle[_HOST_BEGIN:_HOST_END] for middle in cut.middles} != {host}
    ):
        return None
    return Shape(cut.number, *lengths, checks, host)


def _decimals(values: Sequence[int]) -> list[bytes]:
    return (b"%d " * len(values) % tuple(values)).split()


def _hexadecimals(positions: Sequence[int]) -> list[bytes]:
    """Return each in 16 digits."""
    numbers = array("q", positions)
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes().hex(" ", numbers.itemsize).upper().encode().split()
