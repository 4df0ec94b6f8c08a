"""What was pulled, as Arrow batches: the records of a window are decoded together, as those of a segment are.

The messages of a range come in the order of their offsets, each once: a pull with a filter goes on behind the end of
its piece, and what it finds there is left to the next. Offsets that ought to be there and are not become one row that
says so, and so does a record that is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from broker.rocketmq.layout import LONG, MIN_RECORD_SIZE, POSITION_AT, PREFIX, QUEUE_OFFSET_AT
from broker.rocketmq.message import is_sound

from .columns import Selection
from .decode import batch_of, damage, decode_records, of_broker
from .fields import Longs, PulledWindow
from .offsets import Range

#: Decoded together: few enough that all arrays over it stay in the processor's cache.
WINDOW_BYTES = 1 << 20


def decode_pulled(
    pulled: Iterable[tuple[Range, list[bytes]]], selection: Selection, *, is_filtered: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of pieces of ranges, given in order. ``is_filtered``: offsets may be missing."""
    for covered, data in _windows(pulled):
        for batch in _rows(covered, data, selection.decoded, is_filtered):
            yield of_broker(selection.complete(batch), covered.queue.broker)


def _windows(pulled: Iterable[tuple[Range, list[bytes]]]) -> Iterator[tuple[Range, bytes]]:
    """Put pieces that follow one another together until they are a window."""
    held: list[bytes] = []
    size = 0
    covered: Range | None = None
    for piece, bodies in pulled:
        if covered is not None and (size >= WINDOW_BYTES or (covered.queue, covered.end) != (piece.queue, piece.start)):
            yield covered, b"".join(held)
            covered, held, size = None, [], 0
        covered = piece if covered is None else Range(piece.queue, covered.start, piece.end)
        held += bodies
        size += sum(map(len, bodies))
    if covered is not None:
        yield covered, b"".join(held)


def _rows(covered: Range, data: bytes, selection: Selection, is_filtered: bool) -> Iterator[pa.RecordBatch]:
    window = PulledWindow(data)
    starts, sizes, left = _follow(data)
    offsets = window.longs(starts + QUEUE_OFFSET_AT)
    wanted = (offsets >= covered.start) & (offsets < covered.end)
    wanted[1:] &= offsets[1:] > np.maximum.accumulate(offsets)[:-1]
    starts, sizes, offsets = starts[wanted], sizes[wanted], offsets[wanted]
    at = 0
    while at < len(starts):
        batches, count = decode_records(window, starts[at:], sizes[at:], selection)
        yield from batches
        at += count
        if at < len(starts):
            record = data[int(starts[at]) : int(starts[at] + sizes[at])]
            yield batch_of([_damaged(covered, record, int(offsets[at]))], selection)
            at += 1
    odd = [_row(covered, covered.start, left, "the answer to a pull holds more than whole records")] if left else []
    if not is_filtered:
        odd += _missing(covered, offsets)
    if odd:
        yield batch_of(odd, selection)


def _follow(data: bytes) -> tuple[Longs, Longs, int]:
    """Return where records begin, their sizes, and how many bytes behind them are none."""
    edges: list[int] = []
    append, at, end, unpack = edges.append, 0, len(data), PREFIX.unpack_from
    while end - at >= MIN_RECORD_SIZE:
        size = unpack(data, at)[0]
        if size < MIN_RECORD_SIZE or at + size > end:
            break
        append(at)
        at += size
    found = np.array([*edges, at], np.int64)
    return found[:-1], np.diff(found), end - at


def _missing(covered: Range, offsets: Longs) -> list[dict[str, Any]]:
    """Return a row for each run of offsets that did not come."""
    edges = np.array([covered.start - 1, *offsets.tolist(), covered.end], np.int64)
    found = []
    for number in np.flatnonzero(np.diff(edges) > 1).tolist():
        first, last = int(edges[number]) + 1, int(edges[number + 1]) - 1
        why = f"the broker gave no messages {first} to {last}: they are damaged, compacted or deleted there"
        found.append(_row(covered, first, 0, why))
    return found


def _damaged(covered: Range, record: bytes, offset: int) -> dict[str, Any]:
    position = LONG.unpack_from(record, POSITION_AT)[0]
    why = is_sound(record, position) or "its layout does not hold"
    return {**_row(covered, offset, len(record), why), "position": position}


def _row(covered: Range, offset: int, size: int, why: str) -> dict[str, Any]:
    queue = covered.queue
    place = {"topic": queue.topic, "queue_id": queue.queue_id, "queue_offset": offset}
    return {**damage(0, size, why), **place, "position": None}
