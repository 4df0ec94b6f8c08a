"""Is this a whole, undamaged record? The one place that decides what survives rot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from struct import Struct
from zlib import crc32

from .errors import InvalidProperties
from .layout import (
    CRC_NAME,
    CRC_SIZE,
    FLAG_BORN_IPV6,
    FLAG_STORE_IPV6,
    HEAD,
    MAGIC_V1,
    MAGIC_V2,
    MASK31,
    MIN_RECORD_SIZE,
    U16,
    U32,
    crc_properties,
)
from .properties import parse_properties

#: Total size, magic, queue id, queue offset, position.
_PLACE = Struct(">II4xi4xqq").unpack_from


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
