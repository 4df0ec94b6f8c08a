"""Columns of closed segments, kept from run to run: a segment that is not the log's last one never changes again.

    <directory>/<of the store>/<segment, 20 digits>-<fingerprint>-<part>-<parts>-<CRC32 of the file>.parquet

The fingerprint is of all that the columns depend on: the segment's file (start, size, inode, time of its last change),
the options with which it was decoded, and the code that decodes. So a kept file is valid as long as its name is one
that would be given today, and its bytes are those of its name. Whatever is not is removed, and read from the log again.

Only what is closed for sure is kept: all of the segment was read, the log goes on behind it, and it ends with its last
record or a BLANK. A file of the log that was allocated and is not full yet is none of that.

Who uses a directory holds its lock in common; files are removed by who gets it alone, and left to the next run else.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from broker import rocketmq

from .options import LogOptions
from .segment import last_sound
from .source import LogPartition
from .store import LogStore, Segment

logger = logging.getLogger(__name__)

#: The key of a file's metadata under which its fingerprint stands.
MARK = b"escapement.segment"
#: The log must fit so often into what is free, or nothing more is kept.
FREE_TIMES = 2
_NAME = re.compile(
    r"(?P<start>\d{20})-(?P<mark>[0-9a-f]{32})-(?P<part>\d+)-(?P<parts>\d+)-(?P<crc>[0-9a-f]{8})\.parquet"
)
#: The file that says which store a directory is of, and the one that is locked.
_STORE, _LOCK = "store", "lock"
_COPIED_BYTES = 1 << 20
#: What says how a record becomes a row: the codec, and of this package the modules from bytes to columns.
_DECODING = ("columns", "decode", "fields", "properties", "segment")


@cache
def decoding() -> str:
    """Return a fingerprint of the code that decodes."""
    found = sha256()
    for file in (*sorted(Path(rocketmq.__file__).parent.glob("*.py")), *map(_module, _DECODING)):
        found.update(file.read_bytes())
    return found.hexdigest()


def _module(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.py")


class Keep:
    """The kept segments of one store, as its files are now. To be closed. Made by `opened`."""

    def __init__(self, directory: Path, options: LogOptions, code: str, lock: int) -> None:
        self._directory = directory
        self._options = options
        self._code = code
        self._lock = lock
        found = [(segment, self._mark(segment)) for segment in LogStore(options.path).segments()]
        self._marks = {segment: mark for segment, mark in found if mark is not None}

    @classmethod
    def opened(cls, root: Path, options: LogOptions, code: str = "") -> Keep | None:
        """Return what is kept of a store below ``root``; None where nothing can be. Raises StoreUnreadable.

        ``code``: a fingerprint of the code that decodes, if it is not this.
        """
        if "://" in options.path:
            return None  # what lies elsewhere has no inode
        directory = root / sha256(os.fsencode(options.path)).hexdigest()[:32]
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            logger.warning("Closed segments are not kept: %s", error)
            return None
        try:
            found = cls(directory, options, code or decoding(), lock)
        except BaseException:
            os.close(lock)
            raise
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (directory / _STORE).write_bytes(os.fsencode(options.path))
            found._remove_others()
            _remove_lost(root)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
        except OSError as error:  # a file system without locks
            logger.warning("Closed segments are not kept: %s", error)
            os.close(lock)
            return None
        return found

    def close(self) -> None:
        """Let others remove what is not valid any more."""
        os.close(self._lock)

    def found(self) -> dict[int, list[Path]]:
        """Return the files of each segment that is kept, by its start; what is damaged is removed."""
        parts: dict[tuple[int, str], dict[int, tuple[int, Path]]] = {}
        for path, name in self._named():
            of_segment = parts.setdefault((int(name["start"]), name["mark"]), {})
            of_segment[int(name["part"])] = int(name["parts"]), path
        kept = {}
        for segment, mark in self._marks.items():
            files = parts.get((segment.start, mark), {})
            count = next((count for count, _ in files.values()), 0)
            if not count or files.keys() != set(range(count)):
                continue
            paths = [files[part][1] for part in range(count)]
            if all(_is_sound(path, mark) for path in paths):
                kept[segment.start] = paths
        return kept

    def worth_keeping(self, partitions: Iterable[LogPartition]) -> dict[int, str]:
        """Return the mark of each segment, by its start, that these partitions read whole, and that is closed."""
        read = list(partitions)
        by_segment: dict[int | None, list[LogPartition]] = {}
        for partition in read:
            by_segment.setdefault(partition.segment_start, []).append(partition)
        last = max((one.stretch.begin for one in read if one.segment_start is not None), default=0)
        log_bytes = sum(segment.size for segment in self._marks)
        if shutil.disk_usage(self._directory).free < FREE_TIMES * log_bytes:
            return {}
        return {
            segment.start: mark
            for segment, mark in self._marks.items()
            if segment.end <= last and is_whole(segment, by_segment.get(segment.start, []))
        }

    def keep(self, start: int, mark: str, files: Sequence[Path]) -> None:
        """Keep the columns of a segment that were written meanwhile, unless it turns out not to be closed."""
        segment = next((one for one, known in self._marks.items() if (one.start, known) == (start, mark)), None)
        if segment is None or self._mark(segment) != mark:
            return
        if not reaches_end(LogStore(self._options.path), segment, _end_of(files[-1])):
            return
        try:
            for part, file in enumerate(files):
                self._copy(file, f"{start:020d}-{mark}-{part}-{len(files)}")
        except OSError as error:
            logger.warning("The columns of a closed segment are not kept: %s", error)

    def _mark(self, segment: Segment) -> str | None:
        """Return the fingerprint of a segment's columns, None without its file."""
        try:
            file = Path(self._options.path, "commitlog", f"{segment.start:020d}").stat()
        except OSError:
            return None
        choice = self._options.selection
        what = [
            self._code, segment.start, segment.size, file.st_size, file.st_mtime_ns, file.st_ino, str(choice.schema),
            choice.delays_ms, choice.extract, sorted(choice.body_topics), choice.inflate, self._options.broker_name,
        ]  # fmt: skip
        return sha256(json.dumps(what).encode()).hexdigest()[:32]

    def _copy(self, file: Path, name: str) -> None:
        """Copy a file under a name with its checksum; whoever looks finds all of it or nothing. Raises OSError."""
        beside, crc = self._directory / f".{name}-{os.getpid()}", 0
        try:
            with file.open("rb") as read, open(os.open(beside, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as written:
                while chunk := read.read(_COPIED_BYTES):
                    crc = crc32(chunk, crc)
                    written.write(chunk)
            beside.rename(self._directory / f"{name}-{crc:08x}.parquet")
        finally:
            beside.unlink(missing_ok=True)

    def _named(self) -> list[tuple[Path, dict[str, str]]]:
        return [
            (path, found.groupdict()) for path in self._directory.iterdir() if (found := _NAME.fullmatch(path.name))
        ]

    def _remove_others(self) -> None:
        """Remove files of other segments, options and versions, and what killed runs left."""
        valid = {(segment.start, mark) for segment, mark in self._marks.items()}
        kept = {path for path, name in self._named() if (int(name["start"]), name["mark"]) in valid}
        for path in self._directory.iterdir():
            if path not in kept and path.name not in (_STORE, _LOCK):
                path.unlink(missing_ok=True)


def _end_of(file: Path) -> int:
    """Return the position behind the rows of a file."""
    rows = pq.read_table(file, columns=["position", "size"])
    return max(
        (at + size for at, size in zip(*(column.to_pylist() for column in rows.columns), strict=True)), default=0
    )


def reaches_end(store: LogStore, segment: Segment, end: int) -> bool:
    """Tell whether rows up to a position are all of a segment: they end with it, or with the BLANK that closes it."""
    if end == segment.end:
        return True
    with suppress(FileNotFoundError), store.open(segment.start) as file:
        return end > segment.start and last_sound(file.read, end, segment.end) == segment.end
    return False


def is_whole(segment: Segment, partitions: Sequence[LogPartition]) -> bool:
    """Tell whether these stretches are all of a segment, and are known to have been durable."""
    stretches = [partition.stretch for partition in partitions]
    edges = [segment.start, *(stretch.end for stretch in stretches)]
    return (
        bool(stretches)
        and [stretch.begin for stretch in stretches] == edges[:-1]
        and edges[-1] == segment.end
        and all(stretch.bounded for stretch in stretches)
    )


def _is_sound(path: Path, mark: str) -> bool:
    """Tell whether a kept file is what its name says; it is removed if not."""
    crc = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_COPIED_BYTES):
                crc = crc32(chunk, crc)
        if path.stem.endswith(f"-{crc:08x}") and (pq.read_schema(path).metadata or {}).get(MARK) == mark.encode():
            return True
    except (OSError, pa.ArrowException) as error:
        logger.warning("The kept columns %s cannot be read: %s", path.name, error)
    path.unlink(missing_ok=True)
    return False


def _remove_lost(root: Path) -> None:
    """Remove what is kept of stores that are not there any more."""
    for directory in root.iterdir():
        with suppress(OSError):
            store = os.fsdecode((directory / _STORE).read_bytes())
            if not Path(store).exists():
                shutil.rmtree(directory, ignore_errors=True)
