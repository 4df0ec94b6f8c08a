"""The open and parked halves on disk, so that a start need not read all half messages.

``escapement.halves.0`` and ``.1``, written in turn; the checkpoint names the one that counts by its sequence.

    0  8 magic "ESCHALF1"   8  8 sequence   16  8 length   24  4 CRC32 of all the rest   28  4 zero   32  content
    content:  4 length of the head   head: JSON {"groups": [...], "open": n, "parked": n}
              open rows by column:    n x 8 offset, position, store_ms, next_ms   n x 2 checks   n x 4 group
              parked rows by column:  n x 8 offset, position, store_ms, copy offset, copy position, parked_ms

Numbers are big-endian. ``group`` is an index into the head's groups, some of which may be nobody's. A file that does
not match its checksum or the sequence asked for is as good as none: the half, op and note queues are read from their
beginning.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from ..disk.files import Files
from ..disk.snapshot import load_snapshot, save_snapshot
from .check_times import Calendar
from .chunk import Columns
from .halves import OpenHalves
from .parked import Parked, ParkedHalves

_MAGIC = b"ESCHALF1"
_LENGTH = struct.Struct(">I")
#: Columns of an open row, and of a parked one.
_OPEN_TYPES = "qqqqHI"
_NEXT = 3
_PARKED_TYPES = "qqqqqq"
_OPEN_SIZE, _PARKED_SIZE = (struct.calcsize(">" + kinds) for kinds in (_OPEN_TYPES, _PARKED_TYPES))
#: What is written at a time: some 100 KiB.
_PIECE_CHUNKS, _PIECE_ROWS = 12, 16_384


class Dump(NamedTuple):
    """Both tables as they stood in one moment."""

    groups: list[str]
    #: columns of open rows, by chunk
    open: list[Columns]
    parked: Columns
    #: how far the calendar is ahead of the wall clock
    ahead_ms: int


def dump(halves: OpenHalves, parked: ParkedHalves, calendar: Calendar) -> Dump:
    """Return what a snapshot of now holds. Open rows are not copied, so that a million of them keep nobody waiting."""
    return Dump(
        halves.groups.names(), halves.freeze(), tuple(column[:] for column in parked.columns()), calendar.planned(0)
    )


def _pieces(head: bytes, dumped: Dump) -> Iterator[bytes]:
    """Yield the content of a snapshot; moments in it are the wall clock's. May take a while, in steps that are short
    enough for others to go on between them."""
    yield _LENGTH.pack(len(head)) + head
    for number in range(len(_OPEN_TYPES)):
        back_ms = dumped.ahead_ms if number == _NEXT else 0
        for at in range(0, len(dumped.open), _PIECE_CHUNKS):
            yield b"".join([_big(chunk[number], back_ms) for chunk in dumped.open[at : at + _PIECE_CHUNKS]])
    for column in dumped.parked:
        for at in range(0, len(column), _PIECE_ROWS):
            yield _big(column[at : at + _PIECE_ROWS])


def _big(column: array[int], back_ms: int = 0) -> bytes:
    column = array(column.typecode, [each - back_ms for each in column]) if back_ms else column[:]
    return _swapped(column).tobytes()


def parse(content: bytes, halves: OpenHalves, parked: ParkedHalves) -> None:
    """Fill both tables. Raises ValueError if the content does not hold together."""
    try:
        length = _LENGTH.unpack_from(content)[0]
        at = _LENGTH.size + length
        head = json.loads(content[_LENGTH.size : at])
        groups = [str(name) for name in head["groups"]]
        rows, at = _columns(content, at, _OPEN_TYPES, int(head["open"]))
        halves.load(rows, groups)
        rows, at = _columns(content, at, _PARKED_TYPES, int(head["parked"]))
        for row in zip(*rows, strict=True):
            parked.add(Parked(*row))
    except (struct.error, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"the snapshot does not hold together: {error}") from None


def _columns(content: bytes, at: int, kinds: str, count: int) -> tuple[list[array[int]], int]:
    columns: list[array[int]] = []
    for kind in kinds:
        column = array(kind)
        size = column.itemsize * count
        column.frombytes(content[at : at + size])
        if len(column) != count:
            raise ValueError("the snapshot is too short")
        columns.append(_swapped(column))
        at += size
    return columns, at


def _swapped(column: array[int]) -> array[int]:
    """Turn a column of our own into big-endian numbers, or back."""
    if sys.byteorder == "little":
        column.byteswap()
    return column


def save(files: Files, path: str, sequence: int, dumped: Dump) -> None:
    """Write a snapshot, durable on return. Safe in any thread; raises OSError."""
    open_rows = sum(len(chunk[0]) for chunk in dumped.open)
    head = json.dumps({"groups": dumped.groups, "open": open_rows, "parked": len(dumped.parked[0])}).encode()
    length = _LENGTH.size + len(head) + open_rows * _OPEN_SIZE + len(dumped.parked[0]) * _PARKED_SIZE
    save_snapshot(files, path, _MAGIC, sequence, length, _pieces(head, dumped))


def load(files: Files, path: str, sequence: int) -> bytes | None:
    """Return the content of the snapshot with this sequence, None if it is not there or damaged."""
    return load_snapshot(files, path, _MAGIC, sequence)
