"""CRC32 over many zero bytes without looking at them.

Taking in a zero byte maps the checksum by a matrix over GF(2) and a constant. The map of 2n bytes is that of n bytes
applied twice, so a run of any length is a few maps of powers of two.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import xor
from typing import NamedTuple
from zlib import crc32

#: Shorter runs are quicker to look at.
_SHORT_BYTES = 1 << 13
_ZEROS = bytes(_SHORT_BYTES)


class _Map(NamedTuple):
    """What a run does to a checksum: the image of each bit, and what a checksum of 0 becomes."""

    images: tuple[int, ...]
    constant: int

    def linear(self, value: int) -> int:
        return reduce(xor, (image for bit, image in enumerate(self.images) if value >> bit & 1), 0)


@cache
def _map_of(power: int) -> _Map:
    """The map of ``2 ** power`` zero bytes."""
    if power == 0:
        constant = crc32(b"\0")
        return _Map(tuple(crc32(b"\0", 1 << bit) ^ constant for bit in range(32)), constant)
    half = _map_of(power - 1)
    return _Map(tuple(map(half.linear, half.images)), half.linear(half.constant) ^ half.constant)


def over_zeros(value: int, count: int) -> int:
    """Return the CRC32 of what ``value`` is the CRC32 of and ``count`` zero bytes behind it."""
    if count < _SHORT_BYTES:
        return crc32(_ZEROS[:count], value)
    for power in range(count.bit_length()):
        if count >> power & 1:
            run = _map_of(power)
            value = run.linear(value) ^ run.constant
    return value
