"""Questions to producers about their halves (request 39). The body is the half with its real topic and queue.

A million halves may be due at once, so a question is made from the bytes of the half's record:

    | size, magic | body crc | queue id | flag .. body | topic | properties | __CRC32# |
      new          as it was   new        as it was      new     + two        left out (clients check the body's alone)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple

from ..engine.tables.topics import HALF_TOPIC
from ..engine.transaction.questions import Check, Checks
from ..rocketmq.codes import ONEWAY_FLAG, PROTOCOL_VERSION, Request
from ..rocketmq.frame import BINARY, LANGUAGES, Command, encode_fields
from ..rocketmq.frame import encode as encode_frame
from ..rocketmq.layout import (
    CRC_NAME,
    CRC_SIZE,
    FLAG_BORN_IPV6,
    FLAG_STORE_IPV6,
    HEAD_V4,
    MAGIC_V1,
    U16,
    U32,
)
from ..rocketmq.message import Message
from ..rocketmq.properties import REAL_QUEUE_ID, REAL_TOPIC
from .check_frame_parts import WHERE, Cut, Cutter, ending_of
from .check_frames import MORE, Mould, Place

#: serialisation and header length, code, language, version, opaque, flag, remark length, ext length
_START = Struct(">IhbhiiiI").pack
_HEADER_OWN_BYTES = 21
_LANGUAGE = LANGUAGES.index("PYTHON")
_PREFIX_BYTES = 8
_SYS_FLAG_AT = 36
_QUEUE = f"\x02{REAL_QUEUE_ID}\x01".encode()
_NAMES = ("tranStateTableOffset", "commitLogOffset", "msgId", "transactionId", "offsetMsgId")
#: Places and moulds remembered.
_MOST = 10_000
#: Fewer questions than this go to one producer at a time.
_LEAST = 8


class Alike(NamedTuple):
    """Halves of one producer group and topic; with a ``cut`` they were cut together, and ``places`` says by the ends of
    their properties where they belong."""

    group: str
    topic: str
    checks: Checks
    cut: Cut | None = None
    places: Mapping[bytes, Place] = MappingProxyType({})

    def shares(self, count: int) -> list[Alike]:
        """Return them in up to ``count`` parts; few are not worth several."""
        whole = len(self.checks)
        each = max(-(-whole // count), _LEAST)
        if each >= whole:
            return [self]
        return [self._part(at, min(at + each, whole)) for at in range(0, whole, each)]

    def _part(self, begin: int, end: int) -> Alike:
        cut = self.cut and self.cut.part(begin, end)
        return self._replace(checks=self.checks.part(begin, end), cut=cut)


class Questions:
    """Makes the frames for one broker."""

    def __init__(self, broker_name: str) -> None:
        self._places: dict[bytes, Place | None] = {}
        self._moulds: dict[tuple[bytes, int, int], Mould] = {}
        self._cutter = Cutter()
        self._constant = {"topic": HALF_TOPIC, "bname": broker_name}

    def alike(self, taken: Iterable[Checks]) -> Iterator[Alike]:
        """Sort halves such that the questions of each part go to the same producers, and can be cast together."""
        for checks in taken:
            cut = self._cutter.cut(checks)
            endings = set(cut.endings) if cut else set()
            places = {ending: place for ending in endings if (place := self._place(ending))}
            if cut is None or len(places) < len(endings):
                for number, check in enumerate(checks):
                    yield Alike(checks.group, self._place_of(check).topic, checks.part(number, number + 1))
                continue
            topics = {place.topic for place in places.values()}
            if len(topics) == 1:
                yield Alike(checks.group, topics.pop(), checks, cut, places)
                continue
            for topic in topics:
                wanted = [places[ending].topic == topic for ending in cut.endings]
                yield Alike(checks.group, topic, checks.pick(wanted), cut.pick(wanted), places)

    def _place_of(self, check: Check) -> Place:
        return self._place(ending_of(check.record)) or _place_in(check.half)

    def _place(self, ending: bytes) -> Place | None:
        """Return where halves belong whose properties end so; None if that is not for their ending to say."""
        try:
            return self._places[ending]
        except KeyError:
            if len(self._places) >= _MOST:
                self._places.clear()
            place = self._places[ending] = _place_of(ending)
            return place

    def _mould(self, place: Place, serialization: int) -> Mould:
        """Return what casts the questions about halves of one place."""
        kind = place.name, place.queue_id, serialization
        mould = self._moulds.get(kind)
        if mould is None:
            if len(self._moulds) >= _MOST:
                self._moulds.clear()
            header = self._binary_header if serialization == BINARY else self._json_header
            mould = self._moulds[kind] = Mould(place, header)
        return mould

    def frames(self, alike: Alike, serialization: int) -> bytes:
        """Return the whole frames of all questions about halves that are alike."""
        checks, cut, places = alike.checks, alike.cut, alike.places
        if cut is not None:
            mould = self._mould(places[cut.endings[0]], serialization)
            queues = {ending: U32.pack(place.queue_id) for ending, place in places.items()}
            if (frames := mould.cast_all(checks, cut, queues)) is not None:
                return frames
        return b"".join([self._frame(check, serialization) for check in checks])

    def _frame(self, check: Check, serialization: int) -> bytes:
        place = self._place_of(check)
        mould = self._mould(place, serialization)
        return mould.cast(check) or encode_frame(self._slow(check, place, serialization))

    def _binary_header(self, lengths: Sequence[int]) -> tuple[list[bytes], int]:
        fields = [
            U16.pack(len(name)) + name.encode() + U32.pack(length) for name, length in zip(_NAMES, lengths, strict=True)
        ]
        constant = encode_fields(self._constant)
        fields_bytes = len(constant) + sum(map(len, fields)) + sum(lengths)
        start = _START(
            (_HEADER_OWN_BYTES + fields_bytes) | BINARY << 24, Request.CHECK_TRANSACTION_STATE, _LANGUAGE,
            PROTOCOL_VERSION, 0, ONEWAY_FLAG, 0, fields_bytes,
        )  # fmt: skip
        return [start + constant + fields[0], *fields[1:], b""], len(start) + fields_bytes

    def _json_header(self, lengths: Sequence[int]) -> tuple[list[bytes], int]:
        marks = {name: f"@{name}@" for name in _NAMES}
        command = Command(Request.CHECK_TRANSACTION_STATE, self._constant | marks, flag=ONEWAY_FLAG)
        header = encode_frame(command)[_PREFIX_BYTES:]
        length = len(header) + sum(lengths) - sum(map(len, marks.values()))
        parts = [U32.pack(length)]
        for mark in marks.values():
            before, _, header = header.partition(mark.encode())
            parts[-1] += before
            parts.append(b"")
        parts[-1] = header
        return parts, U32.size + length

    def _slow(self, check: Check, place: Place, serialization: int) -> Command:
        half = check.half
        key = half.unique_key or ""
        values = (str(half.queue_offset), str(half.position), key, key, half.offset_message_id)
        return Command(
            Request.CHECK_TRANSACTION_STATE, self._constant | dict(zip(_NAMES, values, strict=True)),
            question_body(check, place), flag=ONEWAY_FLAG, serialization=serialization,
        )  # fmt: skip


def question_body(check: Check, place: Place) -> bytes:
    """Return the half as its producer reads it, from a record of any form."""
    record, half = check.record, check.half
    flags = U32.unpack_from(record, _SYS_FLAG_AT)[0]
    hosts_size = sum(20 if flags & bit else 8 for bit in (FLAG_BORN_IPV6, FLAG_STORE_IPV6))
    body_end = HEAD_V4.size - 16 + hosts_size + len(half.body)
    named = len(half.topic) + (1 if U32.unpack_from(record, 4)[0] == MAGIC_V1 else 2)
    properties = record[body_end + named + 2 :]
    if properties[-CRC_SIZE:-11] == CRC_NAME:
        properties = properties[:-CRC_SIZE]
    if properties and properties[-1] != 2:
        properties += b"\x02"
    return _patched(record, record[8:12], body_end, properties + MORE % (check.checks + 1), place)


def _patched(record: bytes, body_crc: bytes, body_end: int, properties: bytes, place: Place) -> bytes:
    """Return the record with another end than that of its body, on another topic and queue."""
    _, name, queue_id = place
    length = len(properties)
    size = body_end + len(name) + 2 + length
    head = U32.pack(size), U32.pack(place.magic), body_crc, U32.pack(queue_id)
    return b"".join((*head, record[16:body_end], name, U16.pack(length), properties))


def _place_of(ending: bytes) -> Place | None:
    """Read the end of a half's properties: real topic and queue, as our broker writes them."""
    name, _, queue = ending.removeprefix(WHERE).partition(_QUEUE)
    if not (ending.startswith(WHERE) and queue.endswith(b"\x02") and queue[:-1].isdigit() and len(queue) <= 10):
        return None
    return None if b"\x02" in name else _named(name.decode("utf-8", "surrogateescape"), int(queue[:-1]))


def _place_in(half: Message) -> Place:
    queue = half.properties.get(REAL_QUEUE_ID, "")
    number = int(queue) if queue.isascii() and queue.isdigit() and len(queue) < 10 else 0
    return _named(half.properties.get(REAL_TOPIC, ""), number)


def _named(topic: str, queue_id: int) -> Place:
    name = topic.encode("utf-8", "surrogateescape")
    return Place(topic, (bytes((len(name),)) if len(name) <= 127 else U16.pack(len(name))) + name, queue_id)
