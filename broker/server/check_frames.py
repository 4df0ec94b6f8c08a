"""The frames that ask producers about their half messages (request 39), made in bulk from the records of the halves.

The bar: a round over a million open halves takes at most 10 s (docs/BENCHMARKS.md, "halves that stay open"), 10 us a
question with all that the engine does for it. Where questions of 256 halves were made in turn on one busy machine, each
took 2.4 us in columns, 15 us by a template of its own, and 95 us decoded and encoded as other messages are.

So a question is not encoded field by field: it is put together from the bytes of the half's record, as the half with
its real topic and queue:

    | size, magic | body crc | queue id | flag .. body | topic | properties | __CRC32# |
      new          as it was   new        as it was      new     + two        left out (clients check the body's alone)

Halves of one producer are much alike. A ``RecordSplitter`` finds out once where a record of some size and body length
has its pieces, and splits all records of that kind there:

    | size | magic | body crc | queue id | middle: flag .. body | topic | before | key | after | ending | crc |

``before`` ends with the mark, ``UNIQ_KEY\\x01``; ``ending`` says real topic and queue.

A ``FrameTemplate`` keeps what is the same in all questions about halves that go to one queue. The words with a % are
filled in at one stroke:

    %frame length | header with %offset, %position, %key, %message id |
    %size, magic, %body crc, queue id, %flag .. body | topic | %properties and how often was asked

Of halves that were split together sizes, lengths and the end of the properties are the same too: all their questions
are put together from columns. ``Questions`` has a plain way for records of any other form.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from struct import Struct
from sys import byteorder
from types import MappingProxyType
from typing import NamedTuple

from ..engine.transaction.check import Check, Checks, Kind, kind_of
from ..rocketmq.codes import ONEWAY_FLAG, PROTOCOL_VERSION, Request
from ..rocketmq.frame import BINARY, LANGUAGES, Command, encode_fields
from ..rocketmq.frame import encode as encode_frame
from ..rocketmq.layout import (
    BODY_CRC,
    CRC_NAME,
    CRC_SIZE,
    FLAG_BORN_IPV6,
    FLAG_STORE_IPV6,
    HEAD_V4,
    HOST_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    NOT_IPV6,
    STORE_HOST_AT,
    SYS_FLAG_AT,
    U16,
    U32,
)
from ..rocketmq.message import Message
from ..rocketmq.properties import CHECK_TIMES, REAL_QUEUE_ID, REAL_TOPIC, UNIQUE_KEY, WAIT
from ..rocketmq.topics import HALF_TOPIC

# Templates make many questions at once.

#: What a question adds to a half's properties; %d: how often was asked, this time included.
MORE = f"{CHECK_TIMES}\x01%d\x02{WAIT}\x01false\x02".encode()
#: Of a record with IPv4 addresses: magic, body crc, sysFlag, store host, body length.
_LOOK = Struct(">4xI4s24xI24x8s12xI").unpack_from
#: The longest topic of the first form of a record, with its length.
_NARROW = 128
_ID_LENGTH = 32
_MOST_FORMS = 64
_MOST_ROWS = 1_024
_MIDDLE_AT = 16
#: Where the middle of a split record has the store host.
_HOST_BEGIN = STORE_HOST_AT - _MIDDLE_AT
_HOST_END = _HOST_BEGIN + HOST_SIZE

#: Returns, for values so long each, what stands around them in a frame's start behind its length (one piece more than
#: there are values); and how long it is with them.
HeaderOf = Callable[[Sequence[int]], tuple[list[bytes], int]]


class Place(NamedTuple):
    """The place where a half belongs; ``name``: the topic as it stands in a record, its length first."""

    topic: str
    name: bytes
    queue_id: int

    @property
    def magic(self) -> int:
        """The magic number of a record with a topic of this length."""
        return MAGIC_V1 if len(self.name) <= _NARROW else MAGIC_V2


class _Form(NamedTuple):
    """The bytes around offset, position, key, key and position again; and by how much the properties, the record and
    the frame (without its own length) that has it are longer than in the log."""

    header: list[bytes]
    properties_more: int
    size_more: int
    frame_more: int


class Shape(NamedTuple):
    """The shape shared by halves that differ only in values: how they were split, the lengths of offset and
    position in decimals, how often they were asked about, the store host."""

    pieces: int
    offset_length: int
    position_length: int
    checks: int
    host: bytes


class FrameTemplate:
    """The constant parts of questions about halves of one topic, and of one queue if a question is made by itself."""

    __slots__ = ("_forms", "_header_of", "_rows", "place")

    def __init__(self, place: Place, header_of: HeaderOf) -> None:
        self.place = place
        self._header_of = header_of
        #: by lengths of offset, position and key, the count, and the store host
        self._forms: dict[tuple[int, int, int, int, bytes], _Form] = {}
        #: of halves that were split: a question in pieces
        self._rows: dict[Shape, list[bytes]] = {}

    def fill(self, check: Check) -> bytes | None:
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

    def fill_all(self, checks: Checks, pieces: Pieces, queue_of: Mapping[bytes, bytes]) -> bytes | None:
        """Return the frames of questions about halves of one topic that were split together, None if they have several
        shapes; ``queue_of``: ending to queue id."""
        offsets, positions = _decimals(checks.offsets), _decimals(checks.positions)
        shape = _shape_of(offsets, positions, checks.checks, pieces)
        if shape is None:
            return None
        row = self._rows.get(shape) or self._row(shape, checks, pieces)
        frames = row * len(checks)
        width = len(row)
        keys = pieces.keys
        columns = (
            offsets, positions, keys, keys, _hexadecimals(checks.positions),
            pieces.crcs, list(map(queue_of.__getitem__, pieces.endings)), pieces.middles, pieces.befores, keys,
            pieces.afters, pieces.endings,
        )  # fmt: skip
        for at, column in zip(_COLUMNS_AT, columns, strict=True):
            frames[at::width] = column
        return b"".join(frames)

    def _row(self, shape: Shape, checks: Checks, pieces: Pieces) -> list[bytes]:
        """Return the pieces of a question of some shape, empty where a column is filled in."""
        _, offset_length, position_length, count, host = shape
        form = self._form(offset_length, position_length, len(pieces.keys[0]), count, host)
        header, size = form.header, checks.size
        length = sum(len(column[0]) for column in (pieces.befores, pieces.keys, pieces.afters, pieces.endings))
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


#: Where a row of ``FrameTemplate.fill_all`` has its columns.
_COLUMNS_AT = (1, 3, 5, 7, 9, 11, 12, 13, 15, 16, 17, 18)


def _shape_of(offsets: Sequence[bytes], positions: Sequence[bytes], checks: int, pieces: Pieces) -> Shape | None:
    host = pieces.middles[0][_HOST_BEGIN:_HOST_END]
    lengths = len(offsets[0]), len(positions[0])
    if (
        set(map(len, offsets)) != {lengths[0]}
        or set(map(len, positions)) != {lengths[1]}
        or {middle[_HOST_BEGIN:_HOST_END] for middle in pieces.middles} != {host}
    ):
        return None
    return Shape(pieces.number, *lengths, checks, host)


def _decimals(values: Sequence[int]) -> list[bytes]:
    return (b"%d " * len(values) % tuple(values)).split()


def _hexadecimals(positions: Sequence[int]) -> list[bytes]:
    """Return each position in 16 hexadecimal digits."""
    numbers = array("q", positions)
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes().hex(" ", numbers.itemsize).upper().encode().split()


# Records are split into the pieces that templates take.

#: Before the real topic, and before the unique key.
WHERE = f"\x02{REAL_TOPIC}\x01".encode()
MARK = f"{UNIQUE_KEY}\x01".encode()
#: Of the middle: the lowest byte of sysFlag.
_FLAGS_AT = SYS_FLAG_AT + 3 - _MIDDLE_AT
#: Topic and length of the properties stand between body and properties.
TOPIC_BYTES = 1 + len(HALF_TOPIC) + U16.size
#: Forms of records that are remembered.
_MOST_FORMS = 4_096

_Fields = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes]


class Pieces(NamedTuple):
    """Halves split alike, by column. ``number``: of their form; those of one form have pieces of the same
    lengths. ``befores``: with the mark."""

    number: int
    crcs: Sequence[bytes]
    middles: Sequence[bytes]
    befores: Sequence[bytes]
    keys: Sequence[bytes]
    afters: Sequence[bytes]
    endings: Sequence[bytes]

    def pick(self, selectors: Sequence[object]) -> Pieces:
        """Return those rows whose selector is true."""
        return Pieces(self.number, *(list(compress(column, selectors)) for column in self[1:]))

    def part(self, begin: int, end: int) -> Pieces:
        """Return the rows from one number to another."""
        return Pieces(self.number, *(column[begin:end] for column in self[1:]))


def ending_of(record: bytes) -> bytes:
    """Return what a record's properties end with from the real topic on, without the checksum."""
    return record[record.rfind(WHERE) : -CRC_SIZE]


class RecordSplitter:
    """Splits records of one kind together into columns."""

    def __init__(self) -> None:
        self._forms: dict[Kind, tuple[int, Callable[[bytes], Iterator[_Fields]]] | None] = {}
        self._count = 0

    def split(self, checks: Checks) -> Pieces | None:
        """Return the pieces of the halves of some questions; None if one of them has another form than most."""
        records = checks.records
        kind = kind_of(0, checks.size, records)
        try:
            way = self._forms[kind]
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
        return Pieces(number, crcs, middles, befores, keys, afters, endings)

    def _learn(self, kind: Kind, record: bytes) -> tuple[int, Callable[[bytes], Iterator[_Fields]]] | None:
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        unpack = _unpack_of(record, U32.unpack(kind[2])[0])
        self._count += 1
        self._forms[kind] = found = (self._count, unpack) if unpack else None
        return found


def _unpack_of(record: bytes, body_length: int) -> Callable[[bytes], Iterator[_Fields]] | None:
    """Return what splits records of this one's kind; None if it has no usual form."""
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


# The frames for one broker.

#: serialisation and header length, code, language, version, opaque, flag, remark length, ext length
_START = Struct(">IhbhiiiI").pack
_HEADER_OWN_BYTES = 21
_LANGUAGE = LANGUAGES.index("PYTHON")
_PREFIX_BYTES = 8
_QUEUE = f"\x02{REAL_QUEUE_ID}\x01".encode()
_NAMES = ("tranStateTableOffset", "commitLogOffset", "msgId", "transactionId", "offsetMsgId")
#: Places and templates remembered.
_MOST = 10_000
#: Fewer questions than this go to one producer at a time.
_LEAST = 8


class Alike(NamedTuple):
    """Halves of one producer group and topic; with ``pieces`` they were split together, and ``places`` says by
    the ends of their properties where they belong."""

    group: str
    topic: str
    checks: Checks
    pieces: Pieces | None = None
    places: Mapping[bytes, Place] = MappingProxyType({})

    def shares(self, count: int) -> list[Alike]:
        """Return them in up to ``count`` parts; few are not worth several."""
        whole = len(self.checks)
        each = max(-(-whole // count), _LEAST)
        if each >= whole:
            return [self]
        return [self._part(at, min(at + each, whole)) for at in range(0, whole, each)]

    def _part(self, begin: int, end: int) -> Alike:
        pieces = self.pieces and self.pieces.part(begin, end)
        return self._replace(checks=self.checks.part(begin, end), pieces=pieces)


class Questions:
    """The frames of one broker's questions."""

    def __init__(self, broker_name: str) -> None:
        self._places: dict[bytes, Place | None] = {}
        self._templates: dict[tuple[bytes, int, int], FrameTemplate] = {}
        self._splitter = RecordSplitter()
        self._constant = {"topic": HALF_TOPIC, "bname": broker_name}

    def alike(self, taken: Iterable[Checks]) -> Iterator[Alike]:
        """Sort halves such that the questions of each part go to the same producers, and can be made together."""
        for checks in taken:
            pieces = self._splitter.split(checks)
            endings = set(pieces.endings) if pieces else set()
            places = {ending: place for ending in endings if (place := self._place(ending))}
            if pieces is None or len(places) < len(endings):
                for number, check in enumerate(checks):
                    yield Alike(checks.group, self._place_of(check).topic, checks.part(number, number + 1))
                continue
            topics = {place.topic for place in places.values()}
            if len(topics) == 1:
                yield Alike(checks.group, topics.pop(), checks, pieces, places)
                continue
            for topic in topics:
                wanted = [places[ending].topic == topic for ending in pieces.endings]
                yield Alike(checks.group, topic, checks.pick(wanted), pieces.pick(wanted), places)

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

    def _template(self, place: Place, serialization: int) -> FrameTemplate:
        """Return the template of questions about halves of one place."""
        kind = place.name, place.queue_id, serialization
        template = self._templates.get(kind)
        if template is None:
            if len(self._templates) >= _MOST:
                self._templates.clear()
            header = self._binary_header if serialization == BINARY else self._json_header
            template = self._templates[kind] = FrameTemplate(place, header)
        return template

    def frames(self, alike: Alike, serialization: int) -> bytes:
        """Return the whole frames of all questions about halves that are alike."""
        checks, pieces, places = alike.checks, alike.pieces, alike.places
        if pieces is not None:
            template = self._template(places[pieces.endings[0]], serialization)
            queues = {ending: U32.pack(place.queue_id) for ending, place in places.items()}
            if (frames := template.fill_all(checks, pieces, queues)) is not None:
                return frames
        return b"".join([self._frame(check, serialization) for check in checks])

    def _frame(self, check: Check, serialization: int) -> bytes:
        place = self._place_of(check)
        template = self._template(place, serialization)
        return template.fill(check) or encode_frame(self._plain(check, place, serialization))

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

    def _plain(self, check: Check, place: Place, serialization: int) -> Command:
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
    flags = U32.unpack_from(record, SYS_FLAG_AT)[0]
    hosts_size = sum(20 if flags & bit else 8 for bit in (FLAG_BORN_IPV6, FLAG_STORE_IPV6))
    body_end = HEAD_V4.size - 16 + hosts_size + len(half.body)
    named = len(half.topic) + (1 if U32.unpack_from(record, 4)[0] == MAGIC_V1 else 2)
    properties = record[body_end + named + 2 :]
    if properties[-CRC_SIZE:-11] == CRC_NAME:
        properties = properties[:-CRC_SIZE]
    if properties and properties[-1] != 2:
        properties += b"\x02"
    return _patched(record, record[BODY_CRC], body_end, properties + MORE % (check.checks + 1), place)


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
