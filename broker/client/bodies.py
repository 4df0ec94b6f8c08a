"""Bodies as their sender had them: official clients compress large ones, by ZLIB unless they are told otherwise."""

from __future__ import annotations

import zlib

from ..rocketmq.layout import COMPRESSION_MASK, COMPRESSION_SHIFT, FLAG_COMPRESSED

MOST_INFLATED_BYTES = 64 * 1024 * 1024
"""A body that would be larger is left as it is stored: 4 MiB on the wire may hold a thousand times that."""

#: Compression types (RocketMQ, CompressionType): 1 LZ4, 2 ZSTD, 3 ZLIB; 0 is the ZLIB of clients before 5.0.
_ZLIB_TYPES = frozenset({0, 3})


def inflated(body: bytes, sys_flag: int) -> tuple[bytes, int]:
    """The body and the sysFlag as they were before compression; both unchanged where they cannot be had."""
    if not sys_flag & FLAG_COMPRESSED or sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK not in _ZLIB_TYPES:
        return body, sys_flag
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, MOST_INFLATED_BYTES)
    except zlib.error:
        return body, sys_flag
    if not stream.eof:
        return body, sys_flag
    return plain, sys_flag & ~(FLAG_COMPRESSED | COMPRESSION_MASK << COMPRESSION_SHIFT)
