"""The bytes of a commit-log record.

Big-endian (Apache RocketMQ, MessageDecoder and CommitLog):

     0  4 total size     4  4 magic      8  4 CRC32 of the body & 0x7FFFFFFF    12  4 queue id     16  4 flag
    20  8 queue offset  28  8 position  36  4 sysFlag  40  8 born time          48  8|20 born host: address, 4 port
        8 store time        8|20 store host       4 reconsume times             8 prepared transaction position
        4 body length       body      1 (v1) | 2 (v2) topic length   topic      2 properties length   properties

A segment ends with BLANK: 4 bytes left over, 4 magic, the rest is not read.
Properties are ``name \\x01 value \\x02`` in UTF-8. The last one may be ``__CRC32#`` (always 20 bytes), the CRC32
& 0x7FFFFFFF of the record without these 20 bytes, ten decimal digits, lowest digit first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
#: Bytes a BLANK needs at the end of a segment.
BLANK_SIZE = 8
#: How long a segment is kept, in hours, where nobody has set anything else (``fileReservedTime``).
RETENTION_HOURS = 72
#: Most messages of a batch.
MOST_IN_BATCH = 100_000

# sysFlag bits (MessageSysFlag)
FLAG_COMPRESSED = 0x1
FLAG_TRANSACTION_PREPARED = 0x4
FLAG_TRANSACTION_COMMIT = 0x8
FLAG_TRANSACTION_MASK = 0xC
FLAG_BORN_IPV6 = 0x10
FLAG_STORE_IPV6 = 0x20
COMPRESSION_SHIFT = 8
COMPRESSION_MASK = 0x7

CRC_PROPERTY = "__CRC32#"
CRC_NAME = b"__CRC32#\x01"
CRC_SIZE = 20
#: ``__CRC32#`` from its last byte to its first.
_CRC_REVERSED = b"\x02%010d" + CRC_NAME[::-1]
MASK31 = 0x7FFFFFFF

#: total, magic, body crc, queue id, flag, queue offset, position, sysFlag, born time
HEAD = struct.Struct(">IIIiiqqiq")
#: the same, then born host, store time, store host (both IPv4), reconsume times, prepared position, body length
HEAD_V4 = struct.Struct(">IIIiiqqiq8sq8siqI")
#: total size and magic only
PREFIX = struct.Struct(">II")
TAIL = struct.Struct(">iqI")
LONG = struct.Struct(">q")
U16 = struct.Struct(">H")
#: Smallest possible record: IPv4, empty body, one-letter topic, no properties.
MIN_RECORD_SIZE = HEAD_V4.size + 1 + 1 + 2
U32 = struct.Struct(">I")
ANY_IPV6 = FLAG_BORN_IPV6 | FLAG_STORE_IPV6
NOT_IPV6 = ~ANY_IPV6
BYTES = tuple(bytes((value,)) for value in range(128))

# where fields stand in every record
QUEUE_ID_AT = 12
BODY_CRC = slice(8, 12)
QUEUE_OFFSET_AT = 20
QUEUE_OFFSET = slice(20, 28)
POSITION = slice(28, 36)
POSITION_AT = 28
SYS_FLAG_AT = 36
BORN_HOST_AT = 48
#: A host is an address, then a port of four bytes; the second form is so many bytes longer.
HOST_SIZE, IPV6_MORE = 8, 12
# ... and where hosts are IPv4; each that is not moves what stands behind it by IPV6_MORE
STORE_TIME_AT = BORN_HOST_AT + HOST_SIZE
STORE_HOST_AT = STORE_TIME_AT + LONG.size
BODY_LENGTH_AT = HEAD_V4.size - U32.size
#: From the start of a record to the end of its store time, whatever its hosts are.
TO_STORE_TIME = STORE_HOST_AT + IPV6_MORE


def store_ms_of(head: bytes) -> int:
    """Return when a record was stored, from its first ``TO_STORE_TIME`` bytes."""
    is_v6 = head[SYS_FLAG_AT + 3] & FLAG_BORN_IPV6
    return int(LONG.unpack_from(head, STORE_TIME_AT + IPV6_MORE if is_v6 else STORE_TIME_AT)[0])


def crc_property(value: int) -> bytes:
    """Return the 20 bytes of ``__CRC32#`` for a record's CRC32: ten digits, lowest first."""
    return CRC_NAME + (b"%010d" % (value & MASK31))[::-1] + b"\x02"


def crc_properties(values: Sequence[int]) -> bytes:
    """Return ``crc_property`` of each, one after the other: many are made in one piece."""
    return (_CRC_REVERSED * len(values) % tuple([value & MASK31 for value in reversed(values)]))[::-1]
