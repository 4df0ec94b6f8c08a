"""The fields of many records at once: numpy reads one field of all records of a window with one gather.

The layout is drawn in ``broker/rocketmq/layout.py``. A window is a stretch of a segment that was read in one go; a
record is named by its start in the window. What cannot be decided here is left to the codec, record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from broker.rocketmq.layout import (
    CRC_NAME,
    CRC_SIZE,
    FLAG_BORN_IPV6,
    FLAG_STORE_IPV6,
    HEAD,
    HEAD_V4,
    HOST_SIZE,
    IPV6_MORE,
    MAGIC_V2,
    MASK31,
    POSITION_AT,
    SYS_FLAG_AT,
)

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]

#: Bytes that may be read behind the last record without leaving the buffer.
PADDING = bytes(32)
#: The ten bytes of ``__CRC32#`` that never change, and where they stand in its twenty; the first eight as a number.
_FIXED_AT = np.array([*range(len(CRC_NAME)), CRC_SIZE - 1])
_FIXED = np.frombuffer(CRC_NAME + b"\x02", np.uint8)
_NAME_WORD = int.from_bytes(CRC_NAME[:8], "big")
#: The digits stand the least significant first; a double holds ten of them exactly.
_DIGIT_WEIGHTS = 10.0 ** np.arange(10)
_ZERO = np.uint8(ord("0"))


class Window:
    """Bytes of a segment as views from which any field can be gathered at any byte.

    ``data`` may be longer than ``size``: what is behind is no part of it, but may be touched.
    """

    def __init__(self, data: bytes, position: int, size: int) -> None:
        self.position = position
        self.size = min(size, len(data))
        self.data = data if len(data) - self.size >= len(PADDING) else data + PADDING
        self.view = memoryview(self.data)
        self.octets: Octets = np.frombuffer(self.data, np.uint8)
        length = len(self.data)
        self._wide = np.ndarray((length - 7,), ">i8", self.data, strides=(1,))
        self._word = np.ndarray((length - 3,), ">i4", self.data, strides=(1,))
        self._half = np.ndarray((length - 1,), ">u2", self.data, strides=(1,))

    def positions(self, starts: Longs) -> Longs:
        """Return where the records that begin there stand in the log."""
        return starts + self.position

    def longs(self, at: Longs) -> Longs:
        """Return the signed 8-byte numbers there."""
        return self._wide[at].astype(np.int64)

    def ints(self, at: Longs) -> Longs:
        """Return the signed 4-byte numbers there."""
        return self._word[at].astype(np.int64)

    def shorts(self, at: Longs) -> Longs:
        """Return the unsigned 2-byte numbers there."""
        return self._half[at].astype(np.int64)

    def bytes_at(self, at: Longs, count: int) -> Octets:
        """Return ``count`` bytes from each place, one row a record."""
        rows = np.ndarray((len(self.data) - count + 1,), f"V{count}", self.data, strides=(1,))[at]
        found: Octets = rows.view(np.uint8).reshape(len(at), count)
        return found

    def between(self, begin: Longs, end: Longs, keep: Mask | None = None) -> pa.Array:
        """Return the bytes between two places of each record as an Arrow array; null where not kept."""
        edges = np.empty(len(begin) * 2, np.int32)
        edges[0::2], edges[1::2] = begin, end
        every = pa.BinaryArray.from_buffers(
            pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(self.data)]
        )
        return every.take(pa.array(np.arange(0, len(edges), 2), mask=None if keep is None else ~keep))


class PulledWindow(Window):
    """Records that a broker gave out, one after another: each says itself where it stands in the log."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, 0, len(data))

    def positions(self, starts: Longs) -> Longs:
        """Return where the records say that they stand."""
        return self.longs(starts + POSITION_AT)


@dataclass(frozen=True, slots=True)
class Fields:
    """The places of each record's parts in the window, and the numbers that give them."""

    starts: Longs
    ends: Longs
    sys_flag: Longs
    born_host_size: Longs
    store_host_size: Longs
    body_at: Longs
    body_size: Longs
    topic_at: Longs
    topic_size: Longs
    properties_at: Longs
    properties_end: Longs
    #: the layout holds exactly: the parts fill the record, no more and no less
    fits: Mask
    #: the record ends with ``__CRC32#``
    has_checksum: Mask

    def take(self, keep: slice) -> Fields:
        """Return the fields of some records."""
        return Fields(*(getattr(self, name)[keep] for name in self.__dataclass_fields__))


def locate(window: Window, starts: Longs, sizes: Longs) -> Fields:
    """Find the parts of records that begin at ``starts``; each lies wholly in the window."""
    ends = starts + sizes
    sys_flag = window.ints(starts + SYS_FLAG_AT)
    born = np.where(sys_flag & FLAG_BORN_IPV6, HOST_SIZE + IPV6_MORE, HOST_SIZE)
    store = np.where(sys_flag & FLAG_STORE_IPV6, HOST_SIZE + IPV6_MORE, HOST_SIZE)
    body_at = starts + (HEAD_V4.size - 2 * HOST_SIZE) + born + store
    fits = body_at + 4 <= ends
    body_size = window.ints(np.where(fits, body_at - 4, starts))
    topic_length_at = body_at + body_size
    wide = (window.ints(starts + 4) & 0xFFFFFFFF) == MAGIC_V2
    fits &= (body_size >= 0) & (topic_length_at + 1 + wide <= ends)
    safe = np.where(fits, topic_length_at, starts)
    topic_size = np.where(wide, window.shorts(safe), window.octets[safe].astype(np.int64))
    topic_at = safe + 1 + wide
    length_at = topic_at + topic_size
    fits &= length_at + 2 <= ends
    properties_at = np.where(fits, length_at, starts) + 2
    properties_end = properties_at + window.shorts(properties_at - 2)
    fits &= properties_end == ends
    has_checksum = sizes > CRC_SIZE + HEAD.size
    has_checksum &= (window.longs(ends - CRC_SIZE) == _NAME_WORD) & (window.octets[ends - CRC_SIZE + 8] == 1)
    return Fields(
        starts,
        ends,
        sys_flag,
        born,
        store,
        body_at,
        body_size,
        topic_at,
        topic_size,
        properties_at,
        np.where(fits & has_checksum, properties_end - CRC_SIZE, properties_end),
        fits,
        has_checksum,
    )


def surely_sound(window: Window, fields: Fields) -> Mask:
    """Tell which records are whole and undamaged beyond doubt; the codec decides about the others.

    What is true here is what ``is_sound`` says, except that the properties of a record without ``__CRC32#`` are not
    looked at.
    """
    starts, ends = fields.starts, fields.ends
    sound: Mask = fields.fits & (window.longs(starts + POSITION_AT) == window.positions(starts))
    view = window.view
    # one call a record: the checksum runs over hundreds of bytes, the call costs less than they do
    from_ = np.where(fields.has_checksum, starts, fields.body_at)
    to = np.where(fields.has_checksum, ends - CRC_SIZE, np.where(sound, fields.body_at + fields.body_size, starts))
    found = np.array([crc32(view[a:b]) for a, b in zip(from_.tolist(), to.tolist(), strict=True)], np.int64)
    tail = window.bytes_at(ends - CRC_SIZE, CRC_SIZE)
    digits = tail[:, len(CRC_NAME) : -1] - _ZERO  # octets: what is below "0" becomes large
    stated = np.where(fields.has_checksum, (digits @ _DIGIT_WEIGHTS).astype(np.int64), window.ints(starts + 8))
    proper: Mask = (digits.max(axis=1, initial=0) <= 9) & (tail[:, -1] == 2)
    if not fields.has_checksum.all():
        matching = (tail[:, _FIXED_AT] == _FIXED).sum(axis=1)
        plain = (matching < len(CRC_NAME) - 1) & (tail[:, -1] != 0)
        proper = np.where(fields.has_checksum, proper, plain)
    sound &= proper & (stated == (found & MASK31))
    return sound
