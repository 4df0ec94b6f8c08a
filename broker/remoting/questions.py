"""Questions to producers about their halves (request 39). The body is the half with its real topic and queue.

A million halves may be due at once, so a question is made from the bytes of the half's record where these are as our
broker writes them:

    | size, magic | body crc | queue id | flag .. body | topic | properties | __CRC32# |
      new          as it was   new        as it was      new     + two        left out (clients check the body's alone)
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ..engine.layout import (
    CRC_NAME,
    CRC_SIZE,
    FLAG_BORN_IPV6,
    FLAG_STORE_IPV6,
    HEAD_V4,
    MAGIC_V1,
    MAGIC_V2,
    NOT_IPV6,
    U16,
    U32,
)
from ..engine.message import Message
from ..engine.properties import CHECK_TIMES, REAL_QUEUE_ID, REAL_TOPIC, UNIQUE_KEY, WAIT
from ..engine.store.topics import HALF_TOPIC
from ..engine.transaction.checking import Check
from .codec import BINARY, LANGUAGES, Command, encode_fields
from .codec import encode as encode_frame
from .codes import ONEWAY_FLAG, PROTOCOL_VERSION, Request

#: frame length, serialisation and header length, code, language, version, opaque, flag, remark length, ext length
_START = Struct(">IIhbhiiii").pack
_HEADER_OWN_BYTES = 21
_LANGUAGE = LANGUAGES.index("PYTHON")
_PREFIX, _PREFIX_BYTES = Struct(">II").pack, 8
_PLACE = Struct(">II4si").pack
#: Of a record with IPv4 addresses: magic, body crc, sys flag, store host, body length.
_LOOK = Struct(">4xI4s24xI24x8s12xI").unpack_from
_SYS_FLAG_AT = 36
_NAMED = len(HALF_TOPIC) + 1
_WHERE = f"\x02{REAL_TOPIC}\x01".encode()
_QUEUE = f"\x02{REAL_QUEUE_ID}\x01".encode()
_UNIQUE = f"{UNIQUE_KEY}\x01".encode()
_MORE = f"{CHECK_TIMES}\x01%d\x02{WAIT}\x01false\x02".encode()
_NAMES = ("tranStateTableOffset", "commitLogOffset", "msgId", "transactionId", "offsetMsgId")
_FIELDS = b"".join(len(name).to_bytes(2, "big") + name.encode() + b"\0\0\0%c%b" for name in _NAMES)
#: The longest topic of the first form, with its length.
_NARROW = 128
#: Places and store hosts remembered.
_MOST = 10_000


class Place(NamedTuple):
    """Where a half belongs; ``name``: the topic as it stands in a record, its length first."""

    topic: str
    name: bytes
    queue_id: int


class Questions:
    """Makes the frames for one broker."""

    def __init__(self, broker_name: str) -> None:
        self._places: dict[bytes, Place | None] = {}
        self._hosts: dict[bytes, bytes] = {}
        self._constant = {"topic": HALF_TOPIC, "bname": broker_name}
        self._constant_fields = encode_fields(self._constant)
        marks = {name: f"@{name}@" for name in _NAMES}
        command = Command(Request.CHECK_TRANSACTION_STATE, self._constant | marks, flag=ONEWAY_FLAG)
        header = encode_frame(command)[_PREFIX_BYTES:].replace(b"%", b"%%")
        for mark in marks.values():
            header = header.replace(mark.encode(), b"%b")
        self._json = header

    def place(self, check: Check) -> Place:
        """Return where a half belongs."""
        record = check.record
        ending = record[record.rfind(_WHERE) : -CRC_SIZE]
        try:
            known = self._places[ending]
        except KeyError:
            if len(self._places) >= _MOST:
                self._places.clear()
            known = self._places[ending] = _place_of(ending)
        return known or _place_in(check.half)

    def frame(self, check: Check, place: Place, serialization: int) -> bytes:
        """Return the whole frame of one question."""
        return self._quick(check, place, serialization) or encode_frame(self._slow(check, place, serialization))

    def _quick(self, check: Check, place: Place, serialization: int) -> bytes | None:
        offset, position, record, _, checks = check
        magic, body_crc, sys_flag, store_host, body_length = _LOOK(record)
        if magic != MAGIC_V1 or sys_flag & ~NOT_IPV6 or record[-CRC_SIZE:-11] != CRC_NAME:
            return None
        body_end = HEAD_V4.size + body_length
        begin = body_end + _NAMED + 2
        at = record.rfind(_UNIQUE, begin)
        if at < begin or (at > begin and record[at - 1] != 2):
            return None
        key = record[at + len(_UNIQUE) : record.find(b"\x02", at)]
        if not key.isalnum() or len(key) > 255:
            return None
        body = _patched(record, body_crc, body_end, record[begin:-CRC_SIZE] + _MORE % (checks + 1), place)
        message_id = b"%b%016X" % (self._hosts.get(store_host) or self._host(store_host), position)
        offset_digits, position_digits = b"%d" % offset, b"%d" % position
        if serialization == BINARY:
            fields = self._constant_fields + _FIELDS % (
                len(offset_digits), offset_digits, len(position_digits), position_digits, len(key), key, len(key), key,
                len(message_id), message_id,
            )  # fmt: skip
            header_length = _HEADER_OWN_BYTES + len(fields)
            start = _START(
                4 + header_length + len(body), header_length | BINARY << 24, Request.CHECK_TRANSACTION_STATE, _LANGUAGE,
                PROTOCOL_VERSION, 0, ONEWAY_FLAG, 0, len(fields),
            )  # fmt: skip
            return start + fields + body
        header = self._json % (offset_digits, position_digits, key, key, message_id)
        return _PREFIX(4 + len(header) + len(body), len(header)) + header + body

    def _host(self, store_host: bytes) -> bytes:
        if len(self._hosts) >= _MOST:
            self._hosts.clear()
        host = self._hosts[store_host] = store_host.hex().upper().encode()
        return host

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
    return _patched(record, record[8:12], body_end, properties + _MORE % (check.checks + 1), place)


def _patched(record: bytes, body_crc: bytes, body_end: int, properties: bytes, place: Place) -> bytes:
    """Return the record with another end than that of its body, on another topic and queue."""
    _, name, queue_id = place
    length = len(properties)
    size = body_end + len(name) + 2 + length
    head = _PLACE(size, MAGIC_V1 if len(name) <= _NARROW else MAGIC_V2, body_crc, queue_id)
    return b"".join((head, record[16:body_end], name, U16.pack(length), properties))


def _place_of(ending: bytes) -> Place | None:
    """Read the end of a half's properties: real topic and queue, as our broker writes them."""
    name, _, queue = ending.removeprefix(_WHERE).partition(_QUEUE)
    if not (ending.startswith(_WHERE) and queue.endswith(b"\x02") and queue[:-1].isdigit() and len(queue) <= 10):
        return None
    return None if b"\x02" in name else _named(name.decode("utf-8", "surrogateescape"), int(queue[:-1]))


def _place_in(half: Message) -> Place:
    queue = half.properties.get(REAL_QUEUE_ID, "")
    number = int(queue) if queue.isascii() and queue.isdigit() and len(queue) < 10 else 0
    return _named(half.properties.get(REAL_TOPIC, ""), number)


def _named(topic: str, queue_id: int) -> Place:
    name = topic.encode("utf-8", "surrogateescape")
    return Place(topic, (bytes((len(name),)) if len(name) <= 127 else U16.pack(len(name))) + name, queue_id)
