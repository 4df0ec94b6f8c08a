"""The audit as a file of lines of JSON, for a collector of logs: it grows by each new entry, in the order of the chain.

The file itself says how far it goes, by its last line. One that was moved away is begun anew with what was not written
yet: beside it stands `FILE.written` with the last number. A line may come twice after a crash, never be left out.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from console.operations.chain import links
from console.operations.models import AuditEnd

#: of the end of the file, where its last line is looked for
_TAIL_BYTES = 1 << 20
#: lines that are written before they are made durable
_BATCH = 1_000


class ExportFailed(Exception):
    """The audit could not be written to its file; the message says why and what to do."""


def export_to(file: Path) -> int:
    """Add the entries that the file does not have; returns how many. Raises ExportFailed."""
    try:
        with _alone(file):
            return _append(file)
    except (OSError, ValueError) as error:
        raise ExportFailed(
            f"The audit could not be written to {file}: {error}. It has to be a file that the jobs worker may write."
        ) from error


def _append(file: Path) -> int:
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as out:
        after = max(_last(out), _written(file))
        end = AuditEnd.objects.first()
        if after > (0 if end is None else end.number):
            raise ValueError(f"it goes up to entry {after}, which this database does not have")
        out.seek(0, os.SEEK_END)
        count = 0
        number = after
        for link in links(after):
            out.write(link.line().encode() + b"\n")
            count, number = count + 1, link.number
            if count % _BATCH == 0:
                _settle(out, file, number)
        if count:
            _settle(out, file, number)
    return count


def _last(stream: BinaryIO) -> int:
    """Return the number of the last whole line, 0 for none; half a line behind it is cut off."""
    size = stream.seek(0, os.SEEK_END)
    begin = max(0, size - _TAIL_BYTES)
    stream.seek(begin)
    tail = stream.read()
    whole = tail.rfind(b"\n") + 1
    if whole != len(tail):
        if not whole and begin:
            raise ValueError("its last line is longer than any entry")
        stream.truncate(begin + whole)
    if not whole:
        return 0
    line = tail[:whole].rstrip(b"\n").rpartition(b"\n")[2]
    try:
        return int(json.loads(line)["number"])
    except (ValueError, KeyError, TypeError):
        raise ValueError("its last line is no entry of the audit") from None


def _settle(stream: BinaryIO, file: Path, number: int) -> None:
    stream.flush()
    os.fsync(stream.fileno())
    beside = _beside(file)
    new = beside.with_name(beside.name + ".new")
    new.write_text(f"{number}\n")
    new.replace(beside)


def _written(file: Path) -> int:
    try:
        return int(_beside(file).read_text())
    except FileNotFoundError:
        return 0


def _beside(file: Path) -> Path:
    return file.with_name(file.name + ".written")


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Let one process write at a time."""
    descriptor = os.open(file.with_name(file.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
