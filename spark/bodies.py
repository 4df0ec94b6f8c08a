"""Bodies as the sender had them: what was compressed on the way is inflated when asked."""

from __future__ import annotations

import zlib

import pyarrow as pa

from broker.engine.layout import COMPRESSION_MASK, COMPRESSION_SHIFT, FLAG_COMPRESSED

#: Compression types (RocketMQ, CompressionType): 1 LZ4 in frames, 2 ZSTD, 3 ZLIB; 0 is ZLIB of old clients.
_CODECS = {1: "lz4", 2: "zstd"}


def is_compressed(sys_flag: int) -> bool:
    """Tell whether a body with that sysFlag is stored compressed."""
    return bool(sys_flag & FLAG_COMPRESSED)


def inflated(body: bytes, sys_flag: int) -> bytes:
    """Return the body as it was sent. Raises ValueError for bytes that are not what the flag says."""
    if not is_compressed(sys_flag):
        return body
    codec = _CODECS.get(sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK)
    try:
        if codec is None:
            return zlib.decompress(body)
        return bytes(pa.CompressedInputStream(pa.BufferReader(body), codec).read())
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise ValueError(f"its body does not inflate: {error}") from None
