"""The files of the archive. A name says everything by which a file is chosen:

    <archive>/<broker>/<start>-<end>-<first ms>-<last ms>-<CRC32>.parquet
                        20 digits    13 digits           8 hex digits

``start`` and ``end`` are positions in the log of this broker, [start, end); the moments are those between which its
records were stored; the checksum is that of the file. Inside each is a table with a row a record, by position, in the
columns of the data source ``rocketmq_log`` (docs/SPARK.md) with all groups, compressed by zstd. Its metadata has one
key beside Arrow's, ``escapement.archive``: a JSON object with ``version`` (1), ``bodies`` (whether all bodies are
there, or only those of the broker's own notes) and ``levels`` (the delays by which ``due_ms`` was computed).

A log that was begun anew has the same positions again, and other moments: both stay.

One process writes at a time; it holds the lock of the file ``lock``. What it has not finished begins with a dot.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from spark.store import DashboardError

#: The key of a file's metadata under which the archive's own words stand, and the version of the layout.
ABOUT, VERSION = b"escapement.archive", 1
_NAME = re.compile(
    r"(?P<start>\d{20})-(?P<end>\d{20})-(?P<first_ms>\d{13})-(?P<last_ms>\d{13})-(?P<crc>[0-9a-f]{8})\.parquet"
)
_LOCK = "lock"
_READ_BYTES = 1 << 20
#: Letters of a broker's name that stand in a directory's as they are; others as % and their bytes in hex.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
#: The largest moment that has its place in a name.
MOST_MS = 10**13 - 1


class ArchiveBusy(DashboardError):
    """Another process writes to the archive."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file of the archive: records [start, end) of a log, stored between two moments (both inclusive)."""

    start: int
    end: int
    first_ms: int
    last_ms: int
    crc: str
    path: Path

    @classmethod
    def of(cls, path: Path) -> Entry | None:
        """Return what the name of a file says, None for a name that is none of the archive's."""
        found = _NAME.fullmatch(path.name)
        if found is None:
            return None
        start, end, first_ms, last_ms = (int(found[name]) for name in ("start", "end", "first_ms", "last_ms"))
        return cls(start, end, first_ms, last_ms, found["crc"], path) if start < end else None

    @property
    def is_sound(self) -> bool:
        """Whether the file has the checksum that its name has. Reads it whole; raises OSError."""
        return f"{checksum(self.path):08x}" == self.crc


@dataclass(frozen=True, slots=True)
class Gap:
    """Positions [start, end) of a log that the archive does not have, between two files that it has."""

    start: int
    end: int


class Archive:
    """A directory with what was archived of each broker."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def brokers(self) -> list[str]:
        """Return the names of the brokers of which there is something."""
        with suppress(FileNotFoundError):
            names = sorted(broker_of(each.name) for each in self.root.iterdir() if each.is_dir())
            return [name for name in names if self.entries(name)]
        return []

    def directory(self, broker: str) -> Path:
        """Return where the files of a broker are."""
        return self.root / directory_name(broker)

    def entries(self, broker: str) -> list[Entry]:
        """Return the files of a broker, by position and then by time."""
        with suppress(FileNotFoundError):
            return sorted(found for path in self.directory(broker).iterdir() if (found := Entry.of(path)) is not None)
        return []

    def before(self, broker: str, position: int) -> list[Entry]:
        """Return the files that continue a log backwards from its first position, without a gap, in their order.

        Where two logs had the same positions, one after the other, the later one is continued.
        """
        by_end: dict[int, list[Entry]] = {}
        for entry in self.entries(broker):
            by_end.setdefault(entry.end, []).append(entry)
        found: list[Entry] = []
        while of_end := by_end.get(position):
            found.append(max(of_end, key=lambda entry: (entry.last_ms, entry.start)))
            position = found[-1].start
        return found[::-1]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one that writes. Raises ArchiveBusy, OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ArchiveBusy(
                    f"Another process writes to the archive {self.root}: wait until it is done."
                ) from None
            yield
        finally:
            os.close(lock)

    def remove_older(self, before_ms: int, logs: Mapping[str, Collection[tuple[int, int]]]) -> int:
        """Remove files all of whose records were stored before a moment; return how many.

        ``logs``: the segments that brokers still have, [start, end). They stay: otherwise they were archived again.
        """
        count = 0
        for broker in self.brokers():
            for entry in self.entries(broker):
                if entry.last_ms < before_ms and (entry.start, entry.end) not in logs.get(broker, ()):
                    entry.path.unlink(missing_ok=True)
                    count += 1
        return count


def gaps(entries: Sequence[Entry]) -> list[Gap]:
    """Return what is missing between files, in the order of positions."""
    found, reached = [], None
    for entry in sorted(entries):
        if reached is not None and entry.start > reached:
            found.append(Gap(reached, entry.start))
        reached = entry.end if reached is None else max(reached, entry.end)
    return found


def between(entries: Iterable[Entry], from_ms: int | None, to_ms: int | None) -> list[Entry]:
    """Return files that can have records stored in [from_ms, to_ms); None: without that bound."""
    return [
        entry
        for entry in entries
        if (from_ms is None or entry.last_ms >= from_ms) and (to_ms is None or entry.first_ms < to_ms)
    ]


def directory_name(broker: str) -> str:
    """Return the name of a broker's directory: a name that a file system has no use for is written in another way."""
    if _PLAIN.fullmatch(broker):
        return broker
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in broker.encode() or b"\0"
    )


def broker_of(directory: str) -> str:
    """Return the broker whose directory has this name."""
    found = re.sub(rb"%([0-9A-F]{2})", lambda match: bytes.fromhex(match[1].decode()), os.fsencode(directory))
    return "" if found == b"\0" else found.decode(errors="replace")


def checksum(path: Path) -> int:
    """Return the CRC32 of a file. Raises OSError."""
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            crc = crc32(chunk, crc)
    return crc
