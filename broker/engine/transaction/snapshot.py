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
from typing import NamedTuple

from ..disk.files import Files
from ..disk.snapshot import load_snapshot, save_snapshot
from .calendar import Calendar
from .halves import OpenHalves
from .parked import Parked, ParkedHalves

_MAGIC = b"ESCHALF1"
_LENGTH = struct.Struct(">I")
#: Columns of an open row, and of a parked one.
_OPEN_TYPES = "qqqqHI"
_NEXT = 3
_PARKED_TYPES = "qqqqqq"


class Dump(NamedTuple):
    """Both tables as they stood in one moment; rows by column."""

    groups: list[str]
    open: list[array[int]]
    parked: list[array[int]]
    #: how far the calendar is ahead of the wall clock
    ahead_ms: int


def dump(halves: OpenHalves, parked: ParkedHalves, calendar: Calendar) -> Dump:
    """Return what a snapshot of now holds: whole columns are copied and nothing else is done, so that a million halves
    keep nobody waiting."""
    columns = [array(kind) for kind in _OPEN_TYPES]
    for chunk in halves.chunks():
        for column, part in zip(columns, chunk.columns()[: len(columns)], strict=True):
            column.extend(part)
    return Dump(halves.groups.names(), columns, [array("q", each) for each in parked.columns()], calendar.planned(0))


def _parts(dumped: Dump) -> list[bytes]:
    """Return the content of a snapshot; moments in it are the wall clock's. May take a while."""
    groups, rows, parked, ahead_ms = dumped
    columns = [column[:] for column in (*rows, *parked)]
    if ahead_ms:
        columns[_NEXT] = array("q", [planned_ms - ahead_ms for planned_ms in columns[_NEXT]])
    head = json.dumps({"groups": groups, "open": len(rows[0]), "parked": len(parked[0])}).encode()
    return [_LENGTH.pack(len(head)), head, *(_swapped(column).tobytes() for column in columns)]


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
    save_snapshot(files, path, _MAGIC, sequence, _parts(dumped))


def load(files: Files, path: str, sequence: int) -> bytes | None:
    """Return the content of the snapshot with this sequence, None if it is not there or damaged."""
    return load_snapshot(files, path, _MAGIC, sequence)
