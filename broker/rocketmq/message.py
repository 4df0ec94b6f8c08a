"""A message as RocketMQ keeps it in the commit log: its ids, its hashes, and whether its record is undamaged.

The layout is drawn in ``layout.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from itertools import repeat
from typing import TypeVar
from zlib import crc32

from .compiled import FAST, twin
from .errors import CorruptRecord, InvalidProperties
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
    crc_properties,
    crc_property,
)
from .properties import KEYS, TAGS, UNIQUE_KEY, parse_properties


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


@twin("offset_message_ids")
def offset_message_ids(store_host: bytes, positions: Sequence[int]) -> str:
    """Return the hex ids of records of one store host, by their 8-byte positions, joined by commas."""
    return ",".join([offset_message_id(store_host, position) for position in positions])


def parse_offset_message_id(text: str) -> tuple[str, int, int]:
    """Return (address, port, position) of an offset message id; raises ValueError."""
    raw = bytes.fromhex(text)
    if len(raw) not in (16, 28):
        raise ValueError(f"An offset message id has 32 or 56 hex digits, not {len(text)}.")
    address, port = unpack_host(raw[:-8])
    return address, port, int(LONG.unpack(raw[-8:])[0])


def written_address(host: str, port: int) -> str:
    """Return ``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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


@twin("record")
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
    return decode_as(Message, record, verify=verify)


Decoded = TypeVar("Decoded", bound=Message)


def decode_as(kind: type[Decoded], record: bytes, *, verify: bool = True) -> Decoded:
    """Decode one whole record as this kind of message; otherwise as ``decode``."""
    if FAST is not None and (fields := FAST.usual_record(record)) is not None:
        return kind(*fields)
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
    return kind(
        topic, queue_id, queue_offset, position, total, body, properties, flag, sys_flag, born_ms, born_host,
        store_ms, store_host, reconsume_times, prepared_position,
    )  # fmt: skip


# Soundness: the one place that decides what survives rot.

#: Total size, magic, queue id, queue offset, position.
_PLACE = struct.Struct(">II4xi4xqq").unpack_from


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
    if record[size - CRC_SIZE : size - 11] == CRC_NAME:
        if not has_its_checksum(record):
            return "the checksum of the record differs"
        return None if own_position == position else "it says it belongs elsewhere"
    if own_position != position:
        return "it says it belongs elsewhere"
    if _almost_has_checksum(record):
        return "the property with the checksum is damaged"
    at = HEAD.size + (20 if sys_flag & FLAG_BORN_IPV6 else 8) + 8 + (20 if sys_flag & FLAG_STORE_IPV6 else 8) + 12
    if at + 4 > size:
        return "its fields do not fit its size"
    body_length = U32.unpack_from(record, at)[0]
    at += 4
    if at + body_length + 3 > size:
        return "its body does not fit its size"
    if crc32(memoryview(record)[at : at + body_length]) & MASK31 != body_crc:
        return "the checksum of the body differs"
    return _check_ends(record, at + body_length, magic)


def stands_here(record: bytes, position: int, queue_id: int, offset: int) -> bool:
    """Tell whether the bytes are the whole undamaged record of this position and place in a queue."""
    size = len(record)
    if size < MIN_RECORD_SIZE:
        return False
    total, magic, *place = _PLACE(record)
    if place != [queue_id, offset, position] or total != size:
        return False
    if magic == MAGIC_V1 and record[size - CRC_SIZE : size - 11] == CRC_NAME:
        return has_its_checksum(record)
    return is_sound(record, position) is None


@twin("all_stand_here")
def all_stand_here(
    records: Sequence[bytes], positions: Sequence[int], sizes: Sequence[int], queue_id: int, offset: int
) -> bool:
    """Tell whether ``stands_here`` holds for all of these, one after the other in a queue from ``offset`` on; False,
    too, where one is sound in another way than most are."""
    count = len(records)
    if min(sizes) < MIN_RECORD_SIZE or list(map(len, records)) != list(sizes):
        return False
    places = zip(sizes, repeat(MAGIC_V1), repeat(queue_id), range(offset, offset + count), positions, strict=False)
    if list(map(_PLACE, records)) != list(places):
        return False
    ends = crc_properties([crc32(record[:-CRC_SIZE]) for record in records])
    return ends == b"".join([record[-CRC_SIZE:] for record in records])


def has_its_checksum(record: bytes) -> bool:
    """Tell whether a record that ends with ``__CRC32#`` is as it was when that was made."""
    digits = record[-2:-12:-1]  # written lowest first
    checked = memoryview(record)[: len(record) - CRC_SIZE]
    return digits.isdigit() and int(digits) == crc32(checked) & MASK31 and record[-1] == 2


def _almost_has_checksum(record: bytes) -> bool:
    """Tell whether a record ends with what was ``__CRC32#`` before a bit or two flipped."""
    fixed = record[-CRC_SIZE:-11] + record[-1:]
    return sum(found == meant for found, meant in zip(fixed, CRC_NAME + b"\x02", strict=False)) >= len(CRC_NAME) - 1


def _check_ends(record: bytes, at: int, magic: int) -> str | None:
    """Check that topic and properties end exactly where the record ends, and that the properties are some."""
    if magic == MAGIC_V2:
        if at + 2 > len(record):
            return "its topic does not fit its size"
        at += 2 + int(U16.unpack_from(record, at)[0])
    else:
        at += 1 + record[at]
    if at + 2 > len(record) or at + 2 + int(U16.unpack_from(record, at)[0]) != len(record):
        return "its properties do not fit its size"
    # no checksum covers the properties: a sector that never reached the disk reads as zero, rot as anything
    if record[-1] == 0:
        return "its end was never written"
    try:
        parse_properties(record[at + 2 :])
    except InvalidProperties:
        return "its properties are no text"
    return None
