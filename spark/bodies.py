"""Bodies as the sender had them: what was compressed on the way is inflated when asked."""

from __future__ import annotations

import zlib

import pyarrow as pa

from broker.rocketmq.layout import COMPRESSION_MASK, COMPRESSION_SHIFT, FLAG_COMPRESSED

#: No body is larger when it is inflated: what a producer may send is a few MiB, and few bytes can claim to be many GiB.
LARGEST_BYTES = 64 << 20
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
            found, is_whole = _from_zlib(body)
        else:
            found, is_whole = _from_stream(body, codec), True
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise ValueError(f"its body does not inflate: {error}") from None
    if len(found) > LARGEST_BYTES:
        raise ValueError(f"its body does not inflate: it would be larger than {LARGEST_BYTES >> 20} MiB")
    if not is_whole:
        raise ValueError("its body does not inflate: it is cut off")
    return found


def _from_zlib(body: bytes) -> tuple[bytes, bool]:
    """Return what a body inflates to, up to one byte too many, and whether it ended. Raises zlib.error."""
    inflater = zlib.decompressobj()
    found = inflater.decompress(body, LARGEST_BYTES + 1)
    return found, inflater.eof


def _from_stream(body: bytes, codec: str) -> bytes:
    """Return what an LZ4 or ZSTD body inflates to, and whether it ended. Raises OSError, ArrowException."""
    return bytes(pa.CompressedInputStream(pa.BufferReader(body), codec).read(LARGEST_BYTES + 1))
