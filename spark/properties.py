"""The properties of many records at once.

All properties of a window are joined into one run of ``name \\x01 value \\x02``; the separators are found by one
comparison over the run, and names by their first eight bytes and their length, so that no Python object is made for a
property. A record whose separators do not alternate is left to the codec (``irregular``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from .fields import PADDING, Fields, Longs, Mask, Octets, Window

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_FIRST = 8


class Properties:
    """The parsed properties of the records of one window, in their order."""

    def __init__(self, data: bytes, offsets: Longs, separators: Longs) -> None:
        self._count = len(offsets) - 1
        self._data = data
        self._ones = separators[0::2]
        self._twos = separators[1::2]
        self._entries = np.searchsorted(self._twos, offsets)
        self._names = np.empty(len(self._twos), np.int64)
        if len(self._names):
            self._names[0] = 0
            self._names[1:] = self._twos[:-1] + 1
        self._codes: dict[str, Longs] = {}
        self._values_array: pa.Array | None = None

    def index(self, wanted: Sequence[str]) -> None:
        """Find the properties of these names; ``strings`` and ``longs`` answer about them afterwards."""
        records = np.repeat(np.arange(self._count), np.diff(self._entries))
        codes = _recognise(self._data, self._names, self._ones, tuple(wanted))
        for number, name in enumerate(wanted, 1):
            found = np.flatnonzero(codes == number)
            places = np.full(self._count, -1, np.int64)
            places[records[found]] = found  # of two equal names the later one counts, as in a dict
            self._codes[name] = places

    def places(self, name: str) -> Longs:
        """Return which property of the window has that name for each record, -1 for none."""
        return self._codes[name]

    def strings(self, name: str) -> pa.Array:
        """Return the value of one property for each record, null where it is missing."""
        return self.take(self.places(name))

    def take(self, places: Longs) -> pa.Array:
        """Return the values of the properties at these places, null for -1."""
        missing = places < 0
        if missing.all():
            return pa.nulls(len(places), pa.string())
        return self._values().take(pa.array(np.where(missing, 0, places * 3 + 1), mask=missing))

    def longs(self, name: str) -> pa.Array:
        """Return the value of one property as a number, null where it is missing or no whole number."""
        return whole_numbers(self.strings(name))

    def as_map(self) -> pa.Array:
        """Return all properties of each record as a map, in the order in which they are stored."""
        edges = np.empty(len(self._names) * 2 + 1, np.int64)
        edges[0:-1:2], edges[1::2], edges[-1] = self._names, self._ones, len(self._data)
        every = np.arange(len(self._names))
        names = _text(edges, self._data).take(pa.array(every * 2))
        values = self._values().take(pa.array(every * 3 + 1))
        return pa.MapArray.from_arrays(pa.array(self._entries, pa.int32()), names, values)

    def _values(self) -> pa.Array:
        if self._values_array is None:
            edges = np.empty(len(self._names) * 3 + 1, np.int64)
            edges[0:-1:3], edges[1::3], edges[2::3], edges[-1] = (
                self._names,
                self._ones + 1,
                self._twos,
                len(self._data),
            )
            self._values_array = _text(edges, self._data)
        return self._values_array


def whole_numbers(texts: pa.Array) -> pa.Array:
    """Return texts as 64-bit numbers, null where one is none."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), pa.int64())
    values = texts.to_numpy(zero_copy_only=False) if len(texts) < 64 else None
    if values is None:
        offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        octets = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
        lengths = np.diff(offsets)[np.asarray(texts.is_valid())]
        if ((octets >= 48) & (octets <= 57)).all() and lengths.min() > 0 and lengths.max() <= 18:
            return texts.cast(pa.int64())
        values = texts.to_numpy(zero_copy_only=False)
    numbers = [int(text) if text is not None and _WHOLE_NUMBER.fullmatch(text) else None for text in values]
    return pa.array(numbers, pa.int64())


def gather(window: Window, fields: Fields) -> tuple[Properties | None, Mask]:
    """Return the properties of the records and which of them are irregular; None if any is."""
    view = window.view
    sizes = fields.properties_end - fields.properties_at
    last = window.octets[fields.properties_end - 1]
    unclosed = (sizes > 0) & (last != 2)
    parts: list[bytes | memoryview] = [
        view[a:b] for a, b in zip(fields.properties_at.tolist(), fields.properties_end.tolist(), strict=True)
    ]
    if unclosed.any():  # older writers leave out the last separator
        for number in np.flatnonzero(unclosed).tolist():
            parts[number] = bytes(parts[number]) + b"\x02"
        sizes = sizes + unclosed
    data = b"".join(parts)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    octets: Octets = np.frombuffer(data, np.uint8)
    separators = np.flatnonzero((octets == 1) | (octets == 2))
    kinds = octets[separators]
    regular = len(kinds) % 2 == 0 and bool((kinds[0::2] == 1).all() and (kinds[1::2] == 2).all()) and _is_text(data)
    if regular:
        return Properties(data, offsets, separators), np.zeros(len(sizes), np.bool_)
    return None, _irregular(data, offsets, separators, kinds)


def _irregular(data: bytes, offsets: Longs, separators: Longs, kinds: Octets) -> Mask:
    edges = np.searchsorted(separators, offsets)
    counts = np.diff(edges)
    records = np.repeat(np.arange(len(counts)), counts)
    turn = (np.arange(len(separators)) - edges[:-1][records]) & 1
    odd = np.zeros(len(counts), np.bool_)
    odd[records[kinds != turn + 1]] = True
    odd |= counts % 2 == 1
    if not _is_text(data):
        for number, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            odd[number] |= not _is_text(data[a:b])
    return odd


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(edges: Longs, data: bytes) -> pa.Array:
    offsets = pa.py_buffer(edges.astype(np.int32))
    return pa.StringArray.from_buffers(len(edges) - 1, offsets, pa.py_buffer(data))


# recognising names


def _recognise(data: bytes, starts: Longs, ends: Longs, wanted: tuple[str, ...]) -> Octets:
    """Return for each property the number of its name in ``wanted``, counted from 1, or 0."""
    padded = data + PADDING
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    sizes = ends - starts
    heads = words[starts] & _MASKS[np.minimum(sizes, _FIRST)]
    tails = words[np.maximum(starts, ends - _FIRST)] & _MASKS[np.minimum(sizes, _FIRST)]
    multiplier, table, first, lengths = _hash_table(wanted)
    codes: Octets = table[((heads + tails * _TAIL + sizes.astype(np.uint64)) * multiplier) >> np.uint64(54)]
    codes[(first[codes] != heads) | (lengths[codes] != sizes)] = 0
    for number, name in enumerate(wanted, 1):
        rest = name.encode()[_FIRST:]
        if rest:
            candidates = np.flatnonzero(codes == number)
            same = np.ones(len(candidates), np.bool_)
            octets = np.frombuffer(padded, np.uint8)
            for at, octet in enumerate(rest, _FIRST):
                same &= octets[starts[candidates] + at] == octet
            codes[candidates[~same]] = 0
    return codes


#: Any odd number far from a power of two; it keeps first and last bytes apart in the sum.
_TAIL = np.uint64(0xC2B2AE3D27D4EB4F)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_FIRST + 1)], np.uint64)


@cache
def _hash_table(
    wanted: tuple[str, ...],
) -> tuple[np.uint64, Octets, np.ndarray[tuple[int], np.dtype[np.uint64]], Longs]:
    """Return a multiplier that sends every wanted name to a slot of its own, the slots, and what a name begins with.

    Names that share their first and their last eight bytes and the length cannot stand in one table: raises ValueError.
    """
    names = [name.encode() for name in wanted]
    heads = [int.from_bytes(name[:_FIRST], "little") for name in names]
    tails = [int.from_bytes(name[-_FIRST:], "little") for name in names]
    keys = [(h + t * int(_TAIL) + len(n)) & (1 << 64) - 1 for h, t, n in zip(heads, tails, names, strict=True)]
    if len(set(keys)) != len(keys):
        raise ValueError(f"Two of the names {wanted} begin alike and are equally long.")
    multiplier = 0x9E3779B97F4A7C15
    while len({((key * multiplier) & (1 << 64) - 1) >> 54 for key in keys}) != len(keys):
        multiplier = (multiplier * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1 | 1
    table = np.zeros(1024, np.uint8)
    for number, key in enumerate(keys, 1):
        table[((key * multiplier) & (1 << 64) - 1) >> 54] = number
    first = np.array([0, *heads], np.uint64)
    lengths = np.array([-1, *map(len, names)], np.int64)
    return np.uint64(multiplier), table, first, lengths
