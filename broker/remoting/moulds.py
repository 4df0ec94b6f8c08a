"""Questions about halves that go to one queue (request 39), each cast in one piece.

What is the same in all of them is made once; %s marks what is filled in:

    %frame length | header with %offset, %position, %key, %message id |
    %size, magic, %body crc, queue id, %flag .. body | topic | %properties and how often was asked
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from ..engine.layout import CRC_NAME, CRC_SIZE, HEAD_V4, MAGIC_V1, MAGIC_V2, NOT_IPV6, U16, U32
from ..engine.properties import CHECK_TIMES, UNIQUE_KEY, WAIT
from ..engine.store.topics import HALF_TOPIC
from ..engine.transaction.checking import Check

#: What a question adds to a half's properties; %d: how often was asked, this time included.
MORE = f"{CHECK_TIMES}\x01%d\x02{WAIT}\x01false\x02".encode()
_UNIQUE = f"{UNIQUE_KEY}\x01".encode()
#: Of a record with IPv4 addresses: magic, body crc, sysFlag, store host, body length.
_LOOK = Struct(">4xI4s24xI24x8s12xI").unpack_from
#: Topic and length of the properties stand between body and properties.
_PROPERTIES_AT = 1 + len(HALF_TOPIC) + U16.size
#: The longest topic of the first form of a record, with its length.
_NARROW = 128
_ID_LENGTH = 32
_MOST_FORMS = 64

#: Returns, for values so long each, a frame's start behind its length, %b for each value; and how long it is with them.
HeaderOf = Callable[[Sequence[int]], tuple[bytes, int]]


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
    """What is filled in, and by how much the properties, the record and the frame (without its own length) that has it
    are longer than in the log."""

    text: bytes
    properties_more: int
    size_more: int
    frame_more: int


class Mould:
    """Casts the questions about halves of one place."""

    __slots__ = ("_forms", "_header_of", "place")

    def __init__(self, place: Place, header_of: HeaderOf) -> None:
        self.place = place
        self._header_of = header_of
        #: by lengths of offset, position and key, the count, and the store host
        self._forms: dict[tuple[int, int, int, int, bytes], _Form] = {}

    def cast(self, check: Check) -> bytes | None:
        """Return the frame of a question; None about a half with an IPv6 address, without checksum, or with an
        unusual key."""
        offset, position, record, _, checks = check
        magic, body_crc, sys_flag, host, body_length = _LOOK(record)
        body_end = HEAD_V4.size + body_length
        properties = record[body_end + _PROPERTIES_AT : -CRC_SIZE]
        at = properties.rfind(_UNIQUE)
        if at < 0 or (at and properties[at - 1] != 2):
            return None
        key = properties[at + len(_UNIQUE) : properties.find(b"\x02", at)]
        if not key.isalnum() or magic != MAGIC_V1 or sys_flag & ~NOT_IPV6 or record[-CRC_SIZE:-11] != CRC_NAME:
            return None
        offset_digits, position_digits = b"%d" % offset, b"%d" % position
        lengths = len(offset_digits), len(position_digits), len(key), checks, host
        text, properties_more, size_more, frame_more = self._forms.get(lengths) or self._form(*lengths)
        size = len(record)
        return text % (
            U32.pack(size + frame_more), offset_digits, position_digits, key, key, position, U32.pack(size + size_more),
            body_crc, record[16:body_end], U16.pack(len(properties) + properties_more), properties,
        )  # fmt: skip

    def _form(self, offset_length: int, position_length: int, key_length: int, checks: int, host: bytes) -> _Form:
        lengths = offset_length, position_length, key_length, key_length, _ID_LENGTH
        header, header_bytes = self._header_of(lengths)
        # the last one is the message id: store host and position
        start, _, end = header.rpartition(b"%b")
        header = start + host.hex().upper().encode() + b"%016X" + end
        _, name, queue_id = self.place
        more = MORE % (checks + 1)
        size_more = len(name) + U16.size - _PROPERTIES_AT - CRC_SIZE + len(more)
        magic, queue = (escaped(U32.pack(value)) for value in (self.place.magic, queue_id))
        text = b"".join((b"%b", header, b"%b", magic, b"%b", queue, b"%b", escaped(name), b"%b%b", escaped(more)))
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        key = offset_length, position_length, key_length, checks, host
        form = self._forms[key] = _Form(text, len(more), size_more, header_bytes + size_more)
        return form


def escaped(text: bytes) -> bytes:
    """Return bytes that stand for themselves where others are filled in."""
    return text.replace(b"%", b"%%")
