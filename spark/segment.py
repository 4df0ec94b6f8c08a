"""A segment of the log, from its first byte to the end of what is durable, as Arrow batches.

    read a window → follow the sizes from record to record → decode them together → go on behind the last whole one

Bytes that are no sound record become one row that says so, up to the next sound record. The log ends at zeros or at a
torn record, unless the end is known to be further on: then what is missing was durable once, and is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from broker.rocketmq.layout import BLANK_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE, PREFIX
from broker.rocketmq.message import is_sound

from .columns import Selection
from .decode import batch_of, damage, decode_records
from .fields import PADDING, Longs, Window

#: Read at once: few enough that all arrays over it stay in the processor's cache.
WINDOW_BYTES = 2 << 20
#: No record is larger: a body of 4 MiB or what a broker was allowed beyond it, with its properties (engine, commitlog).
LARGEST_BYTES = 64 << 20
#: How far behind bytes that are no record a later one is looked for where the end is unknown (engine, recovery).
LOOK_AHEAD_BYTES = 64 << 20
#: How far before a place the way to it begins: further than a body reaches that a broker takes without being told to
#: take larger ones, so that what a producer put into one is passed on the way.
APPROACH_BYTES = (4 << 20) + (1 << 18)
_PLACES = Selection(groups=frozenset(), only=frozenset({"position", "size"}))
_MARKS = (MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big"))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes [begin, end) of the log, inside the segment that ends at ``segment_end``.

    ``bounded``: the end is known to be durable, or a later segment holds records; so everything before it was there.
    ``opens``: it begins where its segment does, so that a record stands there in any case.
    """

    begin: int
    end: int
    segment_end: int
    bounded: bool
    opens: bool = False


#: (position, count) -> bytes from there, fewer at the end of the segment.
Read = Callable[[int, int], bytes]


def read_stretch(read: Read, stretch: Stretch, selection: Selection) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stretch. Raises OSError."""
    for batch in _decoded(read, stretch, selection.decoded):
        yield selection.complete(batch)


def _decoded(read: Read, stretch: Stretch, selection: Selection) -> Iterator[pa.RecordBatch]:
    position, size, end = stretch.begin, WINDOW_BYTES, stretch.end
    while position < end:
        asked = min(size, end - position)
        window = Window(read(position, asked + len(PADDING)), position, asked)
        size = WINDOW_BYTES
        starts, sizes, missing = _follow(window, stretch.segment_end)
        batches, count = decode_records(window, starts, sizes, selection)
        yield from batches
        if count:
            position += int(starts[count - 1] + sizes[count - 1])
        if position >= end:
            return
        if count == len(starts):
            if missing is not None and position + missing <= end and window.size == asked:
                size = max(missing, WINDOW_BYTES)  # the record goes on behind the window
                continue
            if missing is None and _is_blank(window, position, stretch):
                return
        following = first_sound(read, replace(stretch, begin=position + 1))
        if following is None and not _lost(read, position, stretch):
            return
        gap = (end if following is None else following) - position
        yield batch_of([damage(position, gap, _why(read, position, stretch))], selection)
        position += gap


def last_sound(read: Read, position: int, segment_end: int) -> int | None:
    """Return the position behind the last sound record from there on, the segment's end where a BLANK closes it.

    None if no sound record stands there and the segment is not closed: the log ended before.
    """
    stretch = Stretch(position, segment_end, segment_end, bounded=False)
    found: int | None = None
    for batch in read_stretch(read, stretch, _PLACES):
        last = batch.num_rows - 1
        found = batch.column("position")[last].as_py() + batch.column("size")[last].as_py()
    at = position if found is None else found
    if segment_end - at >= BLANK_SIZE and _is_blank(Window(read(at, BLANK_SIZE), at, BLANK_SIZE), at, stretch):
        return segment_end
    return found


def _follow(window: Window, segment_end: int) -> tuple[Longs, Longs, int | None]:
    """Follow sizes from the window's first byte.

    Returns starts and sizes of whole records, and the bytes needed from the next start on if the window ends before a
    record does; None if no record starts there.
    """
    edges: list[int] = []
    append, at, end, data, unpack = edges.append, 0, window.size, window.data, PREFIX.unpack_from
    while True:
        append(at)
        size, magic = unpack(data, at)
        following = at + size
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or following > end or size < MIN_RECORD_SIZE:
            break
        at = following
    missing: int | None = None
    if end - at < BLANK_SIZE:
        missing = BLANK_SIZE
    elif magic in (MAGIC_V1, MAGIC_V2) and end - at < size <= min(LARGEST_BYTES, segment_end - window.position - at):
        missing = size
    found = np.array(edges, np.int64)
    return found[:-1], np.diff(found), missing


def _is_blank(window: Window, position: int, stretch: Stretch) -> bool:
    """Tell whether the segment ends here with a BLANK."""
    at = position - window.position
    if window.size - at < BLANK_SIZE:
        return False
    size, magic = PREFIX.unpack_from(window.data, at)
    return bool(magic == MAGIC_BLANK and size == stretch.segment_end - position)


def next_record(read: Read, stretch: Stretch, wanted: int) -> int | None:
    """Return where the first record at or behind ``wanted`` begins, None without. ``stretch`` begins at a record.

    Bytes in a body can look like a record of their place, so the way there is gone from record to record.
    """
    at: int | None = stretch.begin
    if wanted - stretch.begin > APPROACH_BYTES:
        at = first_sound(read, replace(stretch, begin=wanted - APPROACH_BYTES))
    while at is not None and at < wanted:
        asked = min(WINDOW_BYTES, stretch.end - at)
        window = Window(read(at, asked + len(PADDING)), at, asked)
        starts, sizes, missing = _follow(window, stretch.segment_end)
        if len(starts):
            ends = at + starts + sizes
            at = int(ends[min(int(np.searchsorted(ends, wanted)), len(ends) - 1)])
        elif missing is not None and not is_sound(read(at, missing), at):
            at += missing  # a record that is larger than the window
        else:
            at = first_sound(read, replace(stretch, begin=at + 1))
    return None if at is None else first_sound(read, replace(stretch, begin=at))


def first_sound(read: Read, stretch: Stretch) -> int | None:
    """Return where the first sound record of a stretch begins, None without."""
    at = stretch.begin
    stop = stretch.end if stretch.bounded else min(stretch.end, at + LOOK_AHEAD_BYTES)
    while at < stop:
        chunk = read(at, min(WINDOW_BYTES, stretch.segment_end - at))
        if not chunk:
            return None
        if chunk.count(0) != len(chunk):
            found = [_sound_in(read, chunk, at, mark, stretch) for mark in _MARKS]
            if candidates := [place for place in found if place is not None]:
                return min(candidates)
        if len(chunk) < WINDOW_BYTES:
            return None
        at += len(chunk) - 2 * PREFIX.size  # a mark may lie across the edge of two chunks
    return None


def _sound_in(read: Read, chunk: bytes, base: int, mark: bytes, stretch: Stretch) -> int | None:
    at = chunk.find(mark, 4)
    while at >= 0:
        candidate = base + at - 4
        size = PREFIX.unpack_from(chunk, at - 4)[0]
        whole = MIN_RECORD_SIZE <= size <= min(LARGEST_BYTES, stretch.end - candidate)
        if whole and not is_sound(read(candidate, size), candidate):
            return candidate
        at = chunk.find(mark, at + 1)
    return None


def _lost(read: Read, position: int, stretch: Stretch) -> bool:
    """Tell whether bytes behind which nothing sound comes were durable once; else the log ends here."""
    if not stretch.bounded:
        return False
    if stretch.end < stretch.segment_end or (stretch.opens and position == stretch.begin):
        return True
    # only zeros up to the next segment: the BLANK got lost, no record did
    at = position
    while at < stretch.end and (chunk := read(at, min(WINDOW_BYTES, stretch.end - at))):
        if chunk.count(0) != len(chunk):
            return True
        at += len(chunk)
    return False


def _why(read: Read, position: int, stretch: Stretch) -> str:
    head = read(position, min(PREFIX.size, stretch.end - position))
    if len(head) < PREFIX.size or head[4:8] not in _MARKS:
        return "no record starts here"
    size = PREFIX.unpack(head)[0]
    if not MIN_RECORD_SIZE <= size <= min(LARGEST_BYTES, stretch.end - position):
        return "its size does not fit"
    return is_sound(read(position, size), position) or "its size does not fit"
