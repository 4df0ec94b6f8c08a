"""A scan that is asked often: read once, by a log or by a cluster's name servers, and kept in columns meanwhile.

On this machine the processes that decode write what they find as Parquet, and whoever computes reads the columns that a
job asks for: no row goes through a socket, and what is kept is page cache, not memory of a process. What is kept of
closed segments (``kept.py``) is not read again.

Several logs are one scan: each has a number, and positions become places (``places.py``).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from .cluster_options import parse_cluster_options
from .cluster_source import ClusterReader
from .kept import MARK, Keep
from .options import parse_options
from .places import numbered_batch, numbered_schema
from .source import LogPartition, LogReader
from .store import DashboardError

#: What a store begins with that is no store, but the name servers of a cluster.
CLUSTER = "rocketmq://"


def is_cluster(store: str) -> bool:
    """Tell whether a store is read by name servers."""
    return store.startswith(CLUSTER)


#: Rows written together; also what a process holds of them.
GROUP_ROWS = 131_072
#: Columns with few different values, or few values at all.
_FEW = (
    "topic",
    "born_host",
    "corrupt",
    "kind",
    "mode",
    "shown",
    "deletes_key",
    "producer_group",
    "decisions",
    "origin_id",
    "origin_group",
)
_PREFIX = "scan-"


@dataclass(frozen=True, slots=True)
class Source:
    """A log that is read in a scan: a path, or ``rocketmq://`` and name servers.

    ``log``: its number among several; None: it is the only one, and its positions stay as they are.
    """

    store: str
    options: dict[str, str] = field(repr=False)
    log: int | None = None

    @property
    def reader(self) -> LogReader | ClusterReader:
        """A reader of it. Raises OptionInvalid."""
        if is_cluster(self.store):
            return ClusterReader(parse_cluster_options({**self.options, "namesrv": self.store.removeprefix(CLUSTER)}))
        return LogReader(parse_options({**self.options, "path": self.store}))


class Planned:
    """A source whose reading is divided: what is left to read, and the files of what is kept. To be closed."""

    def __init__(self, source: Source, keep: Path | None = None, archived: Sequence[Path] = ()) -> None:
        """``keep``: the directory of kept segments, None: nothing is. ``archived``: files of the archive that stand for
        what the log had before. Raises DashboardError, OSError.
        """
        self.archived = list(archived)
        self.source = source
        self.reader = source.reader
        whole = self.reader.whole if keep is not None and isinstance(self.reader, LogReader) else None
        self.keep = Keep.opened(keep, whole) if keep is not None and whole is not None else None
        try:
            kept = {} if self.keep is None else self.keep.found()
            reader = self.reader
            found = reader.partitions(kept) if isinstance(reader, LogReader) else reader.partitions()
        except BaseException:
            self.close()
            raise
        self.kept = [file for partition in found for file in _kept_of(partition, kept)]
        self.partitions = [partition for partition in found if not _kept_of(partition, kept)]

    @property
    def new(self) -> dict[int, str]:
        """The segments that are read now and are to be kept: their marks by where they begin."""
        read = [one for one in self.partitions if isinstance(one, LogPartition)]
        return {} if self.keep is None else self.keep.worth_keeping(read)

    def close(self) -> None:
        """Let go of what is kept."""
        if self.keep is not None:
            self.keep.close()


def _kept_of(partition: InputPartition, kept: Mapping[int, list[Path]]) -> list[Path]:
    """Return the kept files of a partition, if that is a whole segment and durable to its end."""
    if not isinstance(partition, LogPartition) or partition.segment_start is None:
        return []
    stretch = partition.stretch
    is_whole = partition.segment_start == stretch.begin and stretch.end == stretch.segment_end and stretch.bounded
    return kept.get(partition.segment_start, []) if is_whole else []


class ScanEnded(DashboardError):
    """Somebody wants the scan to end."""


@dataclass(frozen=True, slots=True)
class Task:
    """Writes the rows of one partition; sent to the processes that do it.

    ``log``: the number that positions get; None: they stay. ``mark``: that of the segment, where its columns are to be
    kept.
    """

    reader: LogReader | ClusterReader
    partition: InputPartition
    log: int | None
    file: str
    mark: str = ""

    def __call__(self, is_wanted: Callable[[], bool] = lambda: True) -> int:
        """Return how many rows there were. Raises ScanEnded when it is not wanted any more, DashboardError, OSError."""
        schema = self.reader.schema if self.log is None else numbered_schema(self.reader.schema)
        if self.mark:
            schema = schema.with_metadata({MARK: self.mark})
        rows = write_columns(self.file, schema, self._batches(is_wanted), compression="zstd" if self.mark else "snappy")
        # this process waits from now on while others compute, and both count
        pa.default_memory_pool().release_unused()
        return rows

    def _batches(self, is_wanted: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.read(self.partition):
            if not is_wanted():
                raise ScanEnded("Somebody ended the run.")
            yield batch if self.log is None else numbered_batch(batch, self.log)


def write_columns(file: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, compression: str) -> int:
    """Write rows as Parquet, many together; return how many there were. Raises OSError, and what ``batches`` raises."""
    few = [column for column in _FEW if column in schema.names]
    rows = held = 0
    group: list[pa.RecordBatch] = []
    with pq.ParquetWriter(file, schema, compression=compression, use_dictionary=few, write_statistics=few) as writer:
        for batch in batches:
            group.append(batch)
            held, rows = held + batch.num_rows, rows + batch.num_rows
            if held >= GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(group, schema))
                group, held = [], 0
        writer.write_table(pa.Table.from_batches(group, schema))
    return rows


class Scan:
    """How logs become columns: the tasks that are left, and all files in the end."""

    def __init__(self, logs: Sequence[Planned], directory: Path) -> None:
        """``directory``: what is written goes there."""
        self.logs = logs
        self.directory = directory
        self.tasks: list[Task] = []
        self._new: list[tuple[Planned, int, str, list[Path]]] = []
        for planned in logs:
            new = planned.new
            files: dict[int, list[Path]] = {start: [] for start in new}
            for partition in planned.partitions:
                file = directory / f"{len(self.tasks):08d}.parquet"
                start = partition.segment_start if isinstance(partition, LogPartition) else None
                if start is not None and start in new:
                    files[start].append(file)
                    self.tasks.append(Task(planned.reader, partition, None, str(file), new[start]))
                else:
                    self.tasks.append(Task(planned.reader, partition, planned.source.log, str(file)))
            self._new += [(planned, start, mark, files[start]) for start, mark in new.items()]
        if not self.tasks and not any(planned.kept or planned.archived for planned in logs):
            # columns without a row
            nothing = InputPartition(None)
            file = directory / "nothing.parquet"
            self.tasks += [Task(one.reader, nothing, one.source.log, str(file)) for one in logs[:1]]

    @property
    def schema(self) -> pa.Schema:
        """The columns of a log."""
        return self.logs[0].reader.schema

    def columns_of(self, log: int | None) -> pa.Schema:
        """Return the columns that files have whose rows have yet to get the number of this log (None: none)."""
        return numbered_schema(self.schema) if log is None and self.log is not None else self.schema

    @property
    def log(self) -> int | None:
        """The number of the first log, None where there is only one."""
        return self.logs[0].source.log

    def files(self) -> list[tuple[int | None, list[str]]]:
        """Return files whose columns are alike, with the number of the log that their rows have yet to get.

        Those of the archive have more columns than others.
        """
        whole = [task.file for task in self.tasks if not task.mark or self.log is None]
        found: dict[int | None, list[str]] = {None: whole} if whole else {}
        for planned in self.logs:
            new = [str(file) for owner, _, _, files in self._new if owner is planned for file in files]
            files = [*map(str, planned.kept), *(new if self.log is not None else ())]
            if files:
                found.setdefault(planned.source.log, []).extend(files)
        archived = [(planned.source.log, list(map(str, planned.archived))) for planned in self.logs]
        return [*found.items(), *((log, files) for log, files in archived if files)]

    def keep(self) -> None:
        """Keep what was written of segments that are closed; to be called when all tasks are done."""
        for planned, start, mark, files in self._new:
            if planned.keep is not None:
                planned.keep.keep(start, mark, files)


@contextmanager
def scan_of(logs: Sequence[Planned], scratch: Path) -> Iterator[Scan]:
    """Give the scan of logs, with a directory below ``scratch`` for its files that is removed afterwards."""
    clear_scans(scratch)
    directory = scratch / f"{_PREFIX}{os.getpid()}"
    directory.mkdir(parents=True)
    try:
        yield Scan(logs, directory)
    finally:
        shutil.rmtree(directory)


def clear_scans(scratch: Path) -> None:
    """Remove the copies of processes that are gone."""
    for left in scratch.glob(f"{_PREFIX}*"):
        number = left.name.removeprefix(_PREFIX)
        if number == str(os.getpid()) or not number.isdigit() or not Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)


def scratch_of(directory: str) -> Path:
    """Return the directory for what does not fit into memory."""
    return Path(directory) if directory else Path(tempfile.gettempdir(), "escapement-spark")
