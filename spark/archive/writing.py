"""From closed segments to files of the archive: each is decoded once, whole, and stays as it was written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from broker.rocketmq.topics import DELAY_LEVELS
from spark.columns import GROUPS
from spark.kept import is_whole, reaches_end
from spark.options import LogOptions, parse_options
from spark.scan import ScanEnded, write_columns
from spark.source import LogPartition, LogReader, first_ms
from spark.store import DashboardError, LogStore, Segment
from spark.view import NOTED_TOPICS

from .files import ABOUT, MOST_MS, VERSION, Archive, checksum, gaps

#: A segment must fit so often into what the disk has free, or it is left for later: the broker's log goes first.
FREE_TIMES = 2


@dataclass(frozen=True, slots=True)
class Log:
    """A log to archive: the store of a broker on this machine, and what that was told of its levels."""

    broker: str
    store: str
    levels: str = DELAY_LEVELS
    broker_address: str = ""

    def options(self, *, bodies: bool) -> LogOptions:
        """Return how its records are read: with all columns. Raises OptionInvalid."""
        noted = {} if bodies else {"body_topics": ",".join(NOTED_TOPICS)}
        given = {"columns": ",".join(GROUPS), "levels": self.levels, "broker": self.broker_address, **noted}
        return replace(parse_options({**given, "path": self.store}), broker_name=self.broker)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one log: how many segments were written and how many wait for room on the disk, or why none was."""

    broker: str
    written: int = 0
    left: int = 0
    error: str = ""
    lost: Sequence[tuple[int, int]] = field(default_factory=tuple)


def archive_log(
    archive: Archive,
    log: Log,
    *,
    bodies: bool,
    is_wanted: Callable[[], bool] = lambda: True,
    tell: Callable[[Path], None] = lambda _path: None,
) -> Outcome:
    """Write the closed segments of a log that are not there yet; the caller holds the archive's lock.

    ``tell`` is called with each file. Raises ScanEnded when it is not wanted any more.
    """
    written = left = 0
    try:
        options = log.options(bodies=bodies)
        _clear(archive.directory(log.broker))
        for segment, partition in _closed(archive, log, options):
            if shutil.disk_usage(archive.root).free < FREE_TIMES * segment.size:
                left += 1
                continue
            path = _write(archive.directory(log.broker), options, segment, partition, _about(log, bodies), is_wanted)
            if path is not None:
                written += 1
                tell(path)
    except ScanEnded:
        raise
    except (DashboardError, OSError) as error:
        return Outcome(log.broker, written, left, str(error))
    lost = [(gap.start, gap.end) for gap in gaps(archive.entries(log.broker))]
    return Outcome(log.broker, written, left, lost=lost)


def segments_of(log: Log) -> list[tuple[int, int]]:
    """Return the segments that a log has, [start, end); none where it cannot be read now."""
    with suppress(DashboardError, OSError):
        return [(segment.start, segment.end) for segment in LogStore(log.store).segments()]
    return []


def _closed(archive: Archive, log: Log, options: LogOptions) -> Iterator[tuple[Segment, LogPartition]]:
    """Yield the segments that never change again and are not archived, each as one stretch."""
    store = LogStore(options.path)
    segments = store.segments()
    found = LogReader(options).partitions([segment.start for segment in segments])
    last = max((one.stretch.begin for one in found if one.segment_start is not None), default=0)
    known = {(entry.start, entry.end): entry for entry in archive.entries(log.broker)}
    for segment in segments:
        mine = [one for one in found if one.segment_start == segment.start]
        if segment.end > last or not is_whole(segment, mine):
            continue
        entry = known.get((segment.start, segment.end))
        # a log that was begun anew has another segment at the same place
        begun_ms = None if entry is None else first_ms(store, mine[0])
        if entry is None or not (begun_ms is None or entry.first_ms <= begun_ms <= entry.last_ms):
            yield segment, mine[0]


@dataclass(slots=True)
class _Moments:
    """Between which moments records were stored, and where they end."""

    first_ms: int | None = None
    last_ms: int | None = None
    end: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows into account; those that stand for damage have a place and no time."""
        self.end = max(self.end, pc.max(pc.add(batch.column("position"), batch.column("size"))).as_py() or 0)
        sound = batch.filter(pc.is_null(batch.column("corrupt"))).column("store_ms")
        found: Mapping[str, Any] = pc.min_max(sound).as_py()
        if found["min"] is not None:
            first_ms, last_ms = (min(max(found[name], 0), MOST_MS) for name in ("min", "max"))
            self.first_ms = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
            self.last_ms = last_ms if self.last_ms is None else max(self.last_ms, last_ms)


def _write(
    directory: Path,
    options: LogOptions,
    segment: Segment,
    partition: LogPartition,
    about: Mapping[bytes, bytes],
    is_wanted: Callable[[], bool],
) -> Path | None:
    """Write one segment; return its file, None where it was deleted meanwhile or is not closed after all.

    The file and its name are on disk when this returns: soon it is the only copy. Raises ScanEnded, OSError.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    beside = directory / f".{segment.start:020d}-{os.getpid()}"
    identity, moments, reader = _identity(options, segment), _Moments(), LogReader(options)

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in reader.read(partition):
            if not is_wanted():
                raise ScanEnded("Somebody ended the archiving.")
            moments.add(batch)
            yield batch

    try:
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        write_columns(str(beside), reader.schema.with_metadata(about), rows(), compression="zstd")
        if identity is None or _identity(options, segment) != identity:
            return None
        if not reaches_end(LogStore(options.path), segment, moments.end):
            return None
        first_ms, last_ms = moments.first_ms or 0, moments.last_ms or 0
        _sync(beside)
        path = directory / (
            f"{segment.start:020d}-{segment.end:020d}-{first_ms:013d}-{last_ms:013d}-{checksum(beside):08x}.parquet"
        )
        beside.rename(path)
        _sync(directory)
    finally:
        beside.unlink(missing_ok=True)
    return path


def _about(log: Log, bodies: bool) -> dict[bytes, bytes]:
    """Return what a file says of itself."""
    return {ABOUT: json.dumps({"version": VERSION, "bodies": bodies, "levels": log.levels}).encode()}


def _identity(options: LogOptions, segment: Segment) -> tuple[int, int, int] | None:
    """Return what tells a segment's file from another one, None where it is gone."""
    with suppress(FileNotFoundError):
        file = Path(options.path, "commitlog", f"{segment.start:020d}").stat()
        return file.st_ino, file.st_size, file.st_mtime_ns
    return None


def _clear(directory: Path) -> None:
    """Remove what writers left that were killed."""
    with suppress(FileNotFoundError):
        for path in directory.glob(".*"):
            path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Bring a file, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
