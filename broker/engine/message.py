"""One message as RocketMQ keeps it in the commit log, and its properties, ids and hashes.

A record, big-endian (Apache RocketMQ, MessageDecoder and CommitLog):

     0  4 total size     4  4 magic      8  4 CRC32 of the body & 0x7FFFFFFF    12  4 queue id     16  4 flag
    20  8 queue offset  28  8 position  36  4 sysFlag  40  8 born time          48  8|20 born host: address, 4 port
        8 store time        8|20 store host       4 reconsume times             8 prepared transaction position
        4 body length       body      1 (v1) | 2 (v2) topic length   topic      2 properties length   properties

A segment ends with BLANK: 4 bytes left over, 4 magic, the rest is not read.
Properties are ``name \\x01 value \\x02`` in UTF-8. The last one may be ``__CRC32#`` (always 20 bytes), the CRC32
& 0x7FFFFFFF of the record without these 20 bytes, ten decimal digits, lowest digit first.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from zlib import crc32

from .errors import CorruptRecord, InvalidProperties
from .properties import KEYS, TAGS, UNIQUE_KEY, format_properties, parse_properties

__all__ = [
    "Message",
    "decode",
    "encode",
    "format_properties",
    "is_sound",
    "offset_message_id",
    "pack_host",
    "parse_offset_message_id",
    "parse_properties",
    "record_size",
    "string_hash",
    "unpack_host",
]

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
#: Bytes a BLANK needs at the end of a segment.
BLANK_SIZE = 8

# sysFlag bits (MessageSysFlag)
FLAG_COMPRESSED = 0x1
FLAG_TRANSACTION_COMMIT = 0x8
FLAG_TRANSACTION_MASK = 0xC
FLAG_BORN_IPV6 = 0x10
FLAG_STORE_IPV6 = 0x20
COMPRESSION_SHIFT = 8
COMPRESSION_MASK = 0x7

CRC_PROPERTY = "__CRC32#"
CRC_NAME = b"__CRC32#\x01"
CRC_SIZE = 20
_MASK31 = 0x7FFFFFFF

#: total, magic, body crc, queue id, flag, queue offset, position, sysFlag, born time
HEAD = struct.Struct(">IIIiiqqiq")
#: the same, then born host, store time, store host (both IPv4), reconsume times, prepared position, body length
HEAD_V4 = struct.Struct(">IIIiiqqiq8sq8siqI")
#: total size and magic only
PREFIX = struct.Struct(">II")
_TAIL = struct.Struct(">iqI")
_LONG = struct.Struct(">q")
_U16 = struct.Struct(">H")
#: Smallest possible record: IPv4, empty body, one-letter topic, no properties.
MIN_RECORD_SIZE = HEAD_V4.size + 1 + 1 + 2
_PORT = struct.Struct(">I")
_NOT_IPV6 = ~(FLAG_BORN_IPV6 | FLAG_STORE_IPV6)
_BYTES = tuple(bytes((value,)) for value in range(128))


@dataclass(frozen=True, slots=True)
class Message:
    """A decoded record. Times are ms since 1970, hosts (address, port)."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int
    size: int
    body: bytes
    properties: dict[str, str]
    flag: int
    sys_flag: int
    born_ms: int
    born_host: tuple[str, int]
    store_ms: int
    store_host: tuple[str, int]
    reconsume_times: int
    prepared_position: int

    @property
    def tags(self) -> str | None:
        """The tag expression the sender gave, or None."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        """The business keys, in order."""
        return self.properties.get(KEYS, "").split()

    @property
    def unique_key(self) -> str | None:
        """The id the client made (property UNIQ_KEY), or None."""
        return self.properties.get(UNIQUE_KEY)

    @property
    def offset_message_id(self) -> str:
        """RocketMQ's offset message id: store host and position in hex."""
        return offset_message_id(pack_host(*self.store_host), self.position)


def pack_host(address: str, port: int) -> bytes:
    """Return a host as 4 or 16 address bytes and 4 bytes of port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.inet_pton(family, address) + _PORT.pack(port)


def unpack_host(host: bytes) -> tuple[str, int]:
    """Return (address, port) of 8 (IPv4) or 20 (IPv6) bytes."""
    family = socket.AF_INET if len(host) == 8 else socket.AF_INET6
    return socket.inet_ntop(family, host[:-4]), _PORT.unpack(host[-4:])[0]


def offset_message_id(store_host: bytes, position: int) -> str:
    """Return the hex id made of the store host (4|16 address bytes, 4 port) and the 8-byte position."""
    return (store_host + _LONG.pack(position)).hex().upper()


def parse_offset_message_id(text: str) -> tuple[str, int, int]:
    """Return (address, port, position) of an offset message id; raises ValueError."""
    raw = bytes.fromhex(text)
    if len(raw) not in (16, 28):
        raise ValueError(f"An offset message id has 32 or 56 hex digits, not {len(text)}.")
    address, port = unpack_host(raw[:-8])
    return address, port, int(_LONG.unpack(raw[-8:])[0])


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: over UTF-16 units, as a signed 32-bit number."""
    value = 0
    for unit in text.encode("latin-1") if text.isascii() else _utf16_units(text):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def _utf16_units(text: str) -> tuple[int, ...]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return struct.unpack(f">{len(raw) // 2}H", raw)


def record_size(topic: bytes, body: bytes, properties: bytes, born_host: bytes, store_host: bytes) -> int:
    """Return the bytes that ``encode`` will make of these."""
    size = 72 + len(born_host) + len(store_host) + len(body) + len(topic) + len(properties) + CRC_SIZE
    return size + 3 if len(topic) <= 127 else size + 4


def encode(
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    position: int,
    body: bytes,
    properties: bytes,
    flag: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    store_ms: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_position: int,
    size: int,
) -> bytes:
    """Return one record with ``__CRC32#``; ``size`` is what ``record_size`` says.

    ``properties`` is the stored form and ends with \\x02 (or is empty). The IPv6 bits of ``sys_flag`` are set here.
    """
    body_crc = crc32(body) & _MASK31
    length = _U16.pack(len(properties) + CRC_SIZE)
    if len(born_host) == 8 and len(store_host) == 8 and len(topic) <= 127:
        head = HEAD_V4.pack(
            size, MAGIC_V1, body_crc, queue_id, flag, queue_offset, position, sys_flag & _NOT_IPV6, born_ms, born_host,
            store_ms, store_host, reconsume_times, prepared_position, len(body),
        )  # fmt: skip
        record = b"".join((head, body, _BYTES[len(topic)], topic, length, properties))
        return record + CRC_NAME + (b"%010d" % (crc32(record) & _MASK31))[::-1] + b"\x02"
    sys_flag &= _NOT_IPV6
    if len(born_host) != 8:
        sys_flag |= FLAG_BORN_IPV6
    if len(store_host) != 8:
        sys_flag |= FLAG_STORE_IPV6
    wide = len(topic) > 127
    magic = MAGIC_V2 if wide else MAGIC_V1
    record = b"".join(
        (
            HEAD.pack(size, magic, body_crc, queue_id, flag, queue_offset, position, sys_flag, born_ms),
            born_host,
            _LONG.pack(store_ms),
            store_host,
            _TAIL.pack(reconsume_times, prepared_position, len(body)),
            body,
            _U16.pack(len(topic)) if wide else _BYTES[len(topic)],
            topic,
            length,
            properties,
        )
    )
    return record + crc_property(crc32(record))


def crc_property(value: int) -> bytes:
    """Return the 20 bytes of ``__CRC32#`` for a record's CRC32: ten digits, lowest first."""
    return CRC_NAME + (b"%010d" % (value & _MASK31))[::-1] + b"\x02"


def blank(size: int) -> bytes:
    """Return the 8 bytes that say the last ``size`` bytes of a segment hold nothing."""
    return PREFIX.pack(size, MAGIC_BLANK)


def is_sound(record: bytes, position: int) -> str | None:
    """Return None if the bytes are one whole undamaged record of this position, else what is wrong."""
    size = len(record)
    if size < MIN_RECORD_SIZE:
        return "shorter than any record"
    total, magic, body_crc, _, _, _, own_position, sys_flag, _ = HEAD.unpack_from(record)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return "no record starts here"
    if total != size:
        return "its size is not the one expected"
    if record[size - CRC_SIZE : size - 11] == CRC_NAME and record[size - 1] == 2:
        if record[size - 11 : size - 1] != (b"%010d" % (crc32(memoryview(record)[: size - CRC_SIZE]) & _MASK31))[::-1]:
            return "the checksum of the record differs"
        return None if own_position == position else "it says it belongs elsewhere"
    if own_position != position:
        return "it says it belongs elsewhere"
    at = HEAD.size + (20 if sys_flag & FLAG_BORN_IPV6 else 8) + 8 + (20 if sys_flag & FLAG_STORE_IPV6 else 8) + 12
    if at + 4 > size:
        return "its fields do not fit its size"
    body_length = _PORT.unpack_from(record, at)[0]
    at += 4
    if at + body_length + 3 > size:
        return "its body does not fit its size"
    if crc32(memoryview(record)[at : at + body_length]) & _MASK31 != body_crc:
        return "the checksum of the body differs"
    return _check_ends(record, at + body_length, magic)


def _check_ends(record: bytes, at: int, magic: int) -> str | None:
    """Check that topic and properties end exactly where the record ends."""
    if magic == MAGIC_V2:
        if at + 2 > len(record):
            return "its topic does not fit its size"
        at += 2 + int(_U16.unpack_from(record, at)[0])
    else:
        at += 1 + record[at]
    if at + 2 > len(record) or at + 2 + int(_U16.unpack_from(record, at)[0]) != len(record):
        return "its properties do not fit its size"
    return None


def decode(record: bytes, *, verify: bool = True) -> Message:
    """Decode one whole record. Raises CorruptRecord when ``verify`` finds damage, or the layout does not hold."""
    if len(record) < MIN_RECORD_SIZE:
        raise CorruptRecord(-1, "shorter than any record")
    total, magic, _, queue_id, flag, queue_offset, position, sys_flag, born_ms = HEAD.unpack_from(record)
    if verify and (why := is_sound(record, position)):
        raise CorruptRecord(position, why)
    try:
        at = HEAD.size
        host_size = 20 if sys_flag & FLAG_BORN_IPV6 else 8
        born_host = unpack_host(record[at : at + host_size])
        at += host_size
        store_ms = _LONG.unpack_from(record, at)[0]
        at += 8
        host_size = 20 if sys_flag & FLAG_STORE_IPV6 else 8
        store_host = unpack_host(record[at : at + host_size])
        at += host_size
        reconsume_times, prepared_position, body_length = _TAIL.unpack_from(record, at)
        at += _TAIL.size
        body = record[at : at + body_length]
        at += body_length
        topic_length, at = (_U16.unpack_from(record, at)[0], at + 2) if magic == MAGIC_V2 else (record[at], at + 1)
        topic = record[at : at + topic_length].decode()
        at += topic_length
        length = _U16.unpack_from(record, at)[0]
        properties = parse_properties(record[at + 2 : at + 2 + length])
        properties.pop(CRC_PROPERTY, None)
    except (struct.error, IndexError, ValueError, OSError, InvalidProperties) as error:
        raise CorruptRecord(position, f"its layout does not hold: {error}") from None
    return Message(
        topic, queue_id, queue_offset, position, total, body, properties, flag, sys_flag, born_ms, born_host,
        store_ms, store_host, reconsume_times, prepared_position,
    )  # fmt: skip
