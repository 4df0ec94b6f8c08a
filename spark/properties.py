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

from broker.rocketmq.layout import CRC_NAME

from .fields import PADDING, Fields, Longs, Mask, Octets, Window

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
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

    def index(self, wanted: Sequence[str]) -> None:
        """Find the properties of these names; ``strings`` and ``longs`` answer about them afterwards."""
        names = tuple(dict.fromkeys(wanted))
        if not names:
            return
        found, codes = _recognise(self._data, self._names, self._ones, names)
        order = np.argsort(codes, kind="stable")
        found = found[order]
        edges = np.searchsorted(codes[order], np.arange(1, len(names) + 2))
        records = np.repeat(np.arange(self._count), np.diff(self._entries))[found]
        for number, name in enumerate(names):
            mine = slice(edges[number], edges[number + 1])
            places = np.full(self._count, -1, np.int64)
            places[records[mine]] = found[mine]  # of two equal names the later one counts, as in a dict
            self._codes[name] = places

    def places(self, name: str) -> Longs:
        """Return which property of the window has that name for each record, -1 for none."""
        return self._codes[name]

    def strings(self, name: str) -> pa.Array:
        """Return the value of one property for each record, null where it is missing."""
        places = self.places(name)
        missing = places < 0
        if missing.all():
            return pa.nulls(len(places), pa.string())
        return self._values(places, missing if missing.any() else None)

    def longs(self, name: str) -> pa.Array:
        """Return the value of one property as a number, null where it is missing or no whole number."""
        places = self.places(name)
        found = np.flatnonzero(places >= 0)
        if not len(found):
            return pa.nulls(len(places), pa.int64())
        numbers = whole_numbers(self._values(places[found], None))
        if len(found) == len(places):
            return numbers
        at = np.full(len(places), -1, np.int64)
        at[found] = np.arange(len(found))
        return numbers.take(pa.array(at, mask=at < 0))

    def as_map(self) -> pa.Array:
        """Return all properties of each record as a map, in the order in which they are stored; of two equal names
        the later value counts, at the place of the first, as in a dict."""
        entries, last = self._entries, np.arange(len(self._names))
        names = _texts(self._data, self._names, self._ones)
        encoded = names.dictionary_encode()
        records = np.repeat(np.arange(self._count), np.diff(entries))
        pairs = records * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        distinct, first = np.unique(pairs, return_index=True)
        if len(distinct) < len(pairs):
            last_of = len(pairs) - 1 - np.unique(pairs[::-1], return_index=True)[1]
            order = np.argsort(first)
            first, last = first[order], last_of[order]
            names, entries = names.take(pa.array(first)), np.searchsorted(first, entries)
        return pa.MapArray.from_arrays(pa.array(entries, pa.int32()), names, self._values(last, None))

    def _values(self, places: Longs, missing: Mask | None) -> pa.Array:
        """Return the values of the properties at these places, null where missing."""
        return _texts(self._data, self._ones[places] + 1, self._twos[places], missing)


def column_of(name: str) -> str:
    """Return the column in which a property asked for by name stands."""
    return "property_" + name.strip("_").lower()


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
    numbers = [int(text) if text is not None and WHOLE_NUMBER.fullmatch(text) else None for text in values]
    return pa.array(numbers, pa.int64())


def gather(window: Window, fields: Fields) -> tuple[Properties | None, Mask]:
    """Return the properties of the records and which of them are irregular; None if any is."""
    data, offsets = _joined(window, fields)
    octets: Octets = np.frombuffer(data, np.uint8)
    separators = np.flatnonzero(octets < 3)
    kinds = octets[separators]
    regular = len(kinds) % 2 == 0 and bool((kinds[0::2] == 1).all() and (kinds[1::2] == 2).all()) and _is_plain(data)
    if regular:
        return Properties(data, offsets, separators), np.zeros(len(fields.starts), np.bool_)
    return None, _irregular(data, offsets, separators, kinds)


def _joined(window: Window, fields: Fields) -> tuple[bytes, Longs]:
    """Return the properties of all records in one run, and where those of each begin in it."""
    last = window.octets[fields.properties_end - 1]
    unclosed = (fields.properties_end > fields.properties_at) & (last != 2)
    if not unclosed.any():
        joined = window.between(fields.properties_at, fields.properties_end)
        offsets = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1].astype(np.int64)
        return memoryview(joined.buffers()[2])[: offsets[-1]].tobytes() if offsets[-1] else b"", offsets
    view = window.view
    edges = zip(fields.properties_at.tolist(), fields.properties_end.tolist(), unclosed.tolist(), strict=True)
    # older writers leave out the last separator
    parts = [bytes(view[a:b]) + b"\x02" if is_unclosed else view[a:b] for a, b, is_unclosed in edges]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return b"".join(parts), offsets


def _irregular(data: bytes, offsets: Longs, separators: Longs, kinds: Octets) -> Mask:
    edges = np.searchsorted(separators, offsets)
    counts = np.diff(edges)
    records = np.repeat(np.arange(len(counts)), counts)
    turn = (np.arange(len(separators)) - edges[:-1][records]) & 1
    odd = np.zeros(len(counts), np.bool_)
    odd[records[kinds != turn + 1]] = True
    odd |= counts % 2 == 1
    if not _is_plain(data):
        for number, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            odd[number] |= not _is_plain(data[a:b])
    return odd


def _is_plain(data: bytes) -> bool:
    """Tell whether it is text in which nothing has the name of the checksum, which the codec takes out anywhere."""
    if CRC_NAME in data:
        return False
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _texts(data: bytes, begin: Longs, end: Longs, missing: Mask | None = None) -> pa.Array:
    """Return the texts between pairs of places, null where missing."""
    edges = np.empty(len(begin) * 2 + 1, np.int32)
    edges[0:-1:2], edges[1::2], edges[-1] = begin, end, len(data)
    every = pa.StringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(data))
    return every.take(pa.array(np.arange(0, len(begin) * 2, 2), mask=missing))


# recognising names


def can_tell_apart(names: Sequence[str]) -> bool:
    """Tell whether all of these can be looked for at once; see ``_hash_table``."""
    try:
        _hash_table(tuple(dict.fromkeys(names)))
    except ValueError:
        return False
    return True


def _recognise(data: bytes, starts: Longs, ends: Longs, wanted: tuple[str, ...]) -> tuple[Longs, Octets]:
    """Return which properties have a name in ``wanted``, and the number of that name, counted from 1."""
    padded = data + PADDING
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    sizes = ends - starts
    masks = np.take(_MASKS, sizes, mode="clip")
    heads = words[starts]
    heads &= masks
    multiplier, table, first, lengths, by_tails = _hash_table(wanted)
    keys = heads + sizes.view(np.uint64)
    if by_tails:
        keys += (words[np.maximum(starts, ends - _FIRST)] & masks) * _TAIL
    keys *= multiplier
    keys >>= np.uint64(54)
    codes: Octets = table[keys]
    found = np.flatnonzero(codes)
    codes = codes[found]
    same = (first[codes] == heads[found]) & (lengths[codes] == sizes[found])
    found, codes = found[same], codes[same]
    octets = np.frombuffer(padded, np.uint8)
    for number, name in enumerate((name.encode() for name in wanted), 1):
        if len(name) > _FIRST:
            candidates = np.flatnonzero(codes == number)
            begin = starts[found[candidates]]
            wrong = np.zeros(len(candidates), np.bool_)
            for at, octet in enumerate(name[_FIRST:], _FIRST):
                wrong |= octets[begin + at] != octet
            codes[candidates[wrong]] = 0
    kept = codes > 0
    return found[kept], codes[kept]


#: Any odd number far from a power of two; it keeps first and last bytes apart in the sum.
_TAIL = np.uint64(0xC2B2AE3D27D4EB4F)
_WORD = (1 << 64) - 1
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_FIRST + 1)], np.uint64)


@cache
def _hash_table(
    wanted: tuple[str, ...],
) -> tuple[np.uint64, Octets, np.ndarray[tuple[int], np.dtype[np.uint64]], Longs, bool]:
    """Return a multiplier that sends every wanted name to a slot of its own, the slots, what a name begins with, its
    length, and whether the last eight bytes are needed to tell the names apart.

    Names that share their first and their last eight bytes and the length cannot stand in one table: raises ValueError.
    """
    names = [name.encode() for name in wanted]
    heads = [int.from_bytes(name[:_FIRST], "little") for name in names]
    tails = [int.from_bytes(name[-_FIRST:], "little") for name in names]
    keys = [head + len(name) & _WORD for head, name in zip(heads, names, strict=True)]
    by_tails = len(set(keys)) != len(keys)
    if by_tails:
        keys = [key + tail * int(_TAIL) & _WORD for key, tail in zip(keys, tails, strict=True)]
    if len(set(keys)) != len(keys):
        raise ValueError(f"Two of the names {wanted} begin alike and are equally long.")
    multiplier = 0x9E3779B97F4A7C15
    while len({((key * multiplier) & _WORD) >> 54 for key in keys}) != len(keys):
        multiplier = (multiplier * 6364136223846793005 + 1442695040888963407) & _WORD | 1
    table = np.zeros(1024, np.uint8)
    for number, key in enumerate(keys, 1):
        table[((key * multiplier) & _WORD) >> 54] = number
    first = np.array([0, *heads], np.uint64)
    lengths = np.array([-1, *map(len, names)], np.int64)
    return np.uint64(multiplier), table, first, lengths, by_tails
