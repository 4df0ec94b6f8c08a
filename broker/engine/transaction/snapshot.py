"""The open and parked halves on disk, so that a start need not read all half messages.

``escapement.halves.0`` and ``.1``, written in turn; the checkpoint names the one that counts by its sequence.

    0  8 magic "ESCHALF1"   8  8 sequence   16  8 length   24  4 CRC32 of all the rest   28  4 zero   32  content
    content:  4 length of the head   head: JSON {"groups": [...], "open": n, "parked": n}
              open rows by column:    n x 8 offset, position, store_ms, next_ms   n x 2 checks   n x 4 group
              parked rows by column:  n x 8 offset, position, store_ms, copy offset, copy position, parked_ms

Numbers are big-endian. ``group`` is an index into the head's groups. A file that does not match its checksum or the
sequence asked for is as good as none: then the half, op and note queues are read from their beginning.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array

from ..disk.files import Files
from ..disk.snapshot import load_snapshot, save_snapshot
from .calendar import Calendar
from .halves import OpenHalves
from .parked import Parked, ParkedHalves

_MAGIC = b"ESCHALF1"
_LENGTH = struct.Struct(">I")
#: Columns of an open row, and of a parked one.
_OPEN_TYPES = "qqqqHI"
_PARKED_TYPES = "qqqqqq"


def dump(halves: OpenHalves, parked: ParkedHalves, calendar: Calendar) -> list[bytes]:
    """Return the content of a snapshot of now, in parts; moments in it are the wall clock's."""
    chunks = halves.chunks()
    numbers: dict[int, int] = {}
    groups: list[str] = []
    columns = [array(kind) for kind in _OPEN_TYPES]
    for chunk in chunks:
        for column, part in zip(columns[:5], chunk.columns()[:5], strict=True):
            column.extend(part)
        for number in chunk.groups:
            if number not in numbers:
                numbers[number] = len(groups)
                groups.append(halves.groups.name(number))
        columns[5].extend([numbers[number] for number in chunk.groups])
    if calendar.planned(0):
        columns[3] = array("q", [calendar.wall(planned_ms) for planned_ms in columns[3]])
    head = json.dumps({"groups": groups, "open": len(halves), "parked": len(parked)}).encode()
    parts = [_LENGTH.pack(len(head)), head]
    parts += [_swapped(column).tobytes() for column in columns]
    parts += [_swapped(array("q", column)).tobytes() for column in parked.columns()]
    return parts


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


def save(files: Files, path: str, sequence: int, parts: list[bytes]) -> None:
    """Write a snapshot, durable on return. Safe in any thread; raises OSError."""
    save_snapshot(files, path, _MAGIC, sequence, parts)


def load(files: Files, path: str, sequence: int) -> bytes | None:
    """Return the content of the snapshot with this sequence, None if it is not there or damaged."""
    return load_snapshot(files, path, _MAGIC, sequence)
