"""One message as RocketMQ keeps it in the commit log, and its properties, ids and hashes.

The layout is drawn in ``layout.py``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv6Address
from zlib import crc32

from .errors import CorruptRecord, InvalidProperties
from .integrity import is_sound
from .layout import (
    BYTES,
    CRC_NAME,
    CRC_PROPERTY,
    CRC_SIZE,
    FLAG_BORN_IPV6,
    FLAG_STORE_IPV6,
    HEAD,
    HEAD_V4,
    LONG,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MASK31,
    MIN_RECORD_SIZE,
    NOT_IPV6,
    PREFIX,
    TAIL,
    U16,
    U32,
    crc_property,
)
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
    """Return a host as 4 or 16 address bytes and 4 bytes of port; raises ValueError."""
    if ":" in address:
        return IPv6Address(address).packed + U32.pack(port)
    packed = bytes(map(int, address.split(".")))
    if len(packed) != 4:
        raise ValueError(f"{address[:60]!r} is no address.")
    return packed + U32.pack(port)


def unpack_host(host: bytes) -> tuple[str, int]:
    """Return (address, port) of 8 (IPv4) or 20 (IPv6) bytes."""
    address = ".".join(map(str, host[:4])) if len(host) == 8 else str(IPv6Address(host[:-4]))
    return address, U32.unpack(host[-4:])[0]


def offset_message_id(store_host: bytes, position: int) -> str:
    """Return the hex id made of the store host (4|16 address bytes, 4 port) and the 8-byte position."""
    return (store_host + LONG.pack(position)).hex().upper()


def parse_offset_message_id(text: str) -> tuple[str, int, int]:
    """Return (address, port, position) of an offset message id; raises ValueError."""
    raw = bytes.fromhex(text)
    if len(raw) not in (16, 28):
        raise ValueError(f"An offset message id has 32 or 56 hex digits, not {len(text)}.")
    address, port = unpack_host(raw[:-8])
    return address, port, int(LONG.unpack(raw[-8:])[0])


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
    body_crc = crc32(body) & MASK31
    length = U16.pack(len(properties) + CRC_SIZE)
    if len(born_host) == 8 and len(store_host) == 8 and len(topic) <= 127:
        head = HEAD_V4.pack(
            size, MAGIC_V1, body_crc, queue_id, flag, queue_offset, position, sys_flag & NOT_IPV6, born_ms, born_host,
            store_ms, store_host, reconsume_times, prepared_position, len(body),
        )  # fmt: skip
        record = b"".join((head, body, BYTES[len(topic)], topic, length, properties))
        return record + CRC_NAME + (b"%010d" % (crc32(record) & MASK31))[::-1] + b"\x02"
    sys_flag &= NOT_IPV6
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
            LONG.pack(store_ms),
            store_host,
            TAIL.pack(reconsume_times, prepared_position, len(body)),
            body,
            U16.pack(len(topic)) if wide else BYTES[len(topic)],
            topic,
            length,
            properties,
        )
    )
    return record + crc_property(crc32(record))


def blank(size: int) -> bytes:
    """Return the 8 bytes that say the last ``size`` bytes of a segment hold nothing."""
    return PREFIX.pack(size, MAGIC_BLANK)


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
        store_ms = LONG.unpack_from(record, at)[0]
        at += 8
        host_size = 20 if sys_flag & FLAG_STORE_IPV6 else 8
        store_host = unpack_host(record[at : at + host_size])
        at += host_size
        reconsume_times, prepared_position, body_length = TAIL.unpack_from(record, at)
        at += TAIL.size
        body = record[at : at + body_length]
        at += body_length
        topic_length, at = (U16.unpack_from(record, at)[0], at + 2) if magic == MAGIC_V2 else (record[at], at + 1)
        topic = record[at : at + topic_length].decode()
        at += topic_length
        length = U16.unpack_from(record, at)[0]
        properties = parse_properties(record[at + 2 : at + 2 + length])
        properties.pop(CRC_PROPERTY, None)
    except (struct.error, IndexError, ValueError, OSError, InvalidProperties) as error:
        raise CorruptRecord(position, f"its layout does not hold: {error}") from None
    return Message(
        topic, queue_id, queue_offset, position, total, body, properties, flag, sys_flag, born_ms, born_host,
        store_ms, store_host, reconsume_times, prepared_position,
    )  # fmt: skip
