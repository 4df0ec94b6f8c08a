"""A scan that is asked often: read once, by a log or by a cluster's name servers, and kept in columns.

On this machine the processes that decode write what they find as Parquet, and Java reads the columns that a job asks
for: no row goes through a socket, and what is kept is page cache, not memory of Java. On a cluster of Spark there is no
directory that all machines reach, so Spark keeps the rows.

Several logs are one scan: each has a number, and positions become places (``places.py``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

from .cluster_options import parse_cluster_options
from .cluster_source import ClusterReader
from .options import parse_options
from .places import numbered_batch, numbered_frame, numbered_schema
from .source import LogReader

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

    ``log``: its number among several; None: it is the only one, and its positions stay as they are. ``partitions``: how
    its reading is divided, where that is settled already.
    """

    store: str
    options: dict[str, str] = field(repr=False)
    log: int | None = None
    partitions: Sequence[InputPartition] | None = None

    @property
    def reader(self) -> LogReader | ClusterReader:
        """A reader of it. Raises OptionInvalid."""
        if is_cluster(self.store):
            return ClusterReader(parse_cluster_options({**self.options, "namesrv": self.store.removeprefix(CLUSTER)}))
        return LogReader(parse_options({**self.options, "path": self.store}))

    def frame(self, session: SparkSession) -> DataFrame:
        """Return its records as Spark reads them."""
        if is_cluster(self.store):
            reader, path = session.read.format("rocketmq").option("namesrv", self.store.removeprefix(CLUSTER)), None
        else:
            reader, path = session.read.format("rocketmq_log"), self.store
        found = reader.options(**self.options).load(path)
        return found if self.log is None else numbered_frame(found, self.log)


@contextmanager
def shared_scan(session: SparkSession, sources: Sequence[Source], scratch: Path) -> Iterator[DataFrame]:
    """Read logs, or what brokers give out of theirs, once; the frame that is given can be asked often.

    ``scratch``: where the copy lies meanwhile. Raises DashboardError, OSError, PySparkException.
    """
    frames = [source.frame(session) for source in sources]
    if not (session.sparkContext.master or "").startswith("local"):
        log = reduce(DataFrame.unionAll, frames).persist()
        try:
            yield log
        finally:
            log.unpersist()
        return
    clear_scans(scratch)
    directory = scratch / f"{_PREFIX}{os.getpid()}"
    directory.mkdir(parents=True)
    try:
        _copy(session, sources, directory)
        yield session.read.schema(frames[0].schema).parquet(str(directory))
    finally:
        shutil.rmtree(directory)


def clear_scans(scratch: Path) -> None:
    """Remove the copies of processes that are gone."""
    for left in scratch.glob(f"{_PREFIX}*"):
        number = left.name.removeprefix(_PREFIX)
        if number == str(os.getpid()) or not number.isdigit() or not Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Copier:
    """Writes the rows of one partition; sent to the processes that do it."""

    reader: LogReader | ClusterReader
    log: int | None
    directory: str

    @property
    def schema(self) -> pa.Schema:
        """The columns that are written."""
        return self.reader.schema if self.log is None else numbered_schema(self.reader.schema)

    def __call__(self, number: int, partition: InputPartition) -> int:
        schema = self.schema
        name = f"{number:08d}.parquet"
        few = [column for column in _FEW if column in schema.names]
        rows = held = 0
        batches: list[pa.RecordBatch] = []
        with pq.ParquetWriter(
            Path(self.directory, name), schema, compression="snappy", use_dictionary=few, write_statistics=few
        ) as writer:
            for batch in self.reader.read(partition):
                batches.append(batch if self.log is None else numbered_batch(batch, self.log))
                held, rows = held + batch.num_rows, rows + batch.num_rows
                if held >= GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(batches, schema))
                    batches, held = [], 0
            writer.write_table(pa.Table.from_batches(batches, schema))
        # this process waits from now on while Java computes, and both count
        pa.default_memory_pool().release_unused()
        return rows


def _copy(session: SparkSession, sources: Sequence[Source], directory: Path) -> None:
    copiers = [_Copier(source.reader, source.log, str(directory)) for source in sources]
    partitions = [
        (which, partition)
        for which, (source, copier) in enumerate(zip(sources, copiers, strict=True))
        for partition in (copier.reader.partitions() if source.partitions is None else source.partitions)
    ]

    def copy(numbered: tuple[int, tuple[int, InputPartition]]) -> int:
        number, (which, partition) = numbered
        return copiers[which](number, partition)

    if partitions:
        tasks = session.sparkContext.parallelize(list(enumerate(partitions)), len(partitions))
        tasks.map(copy).sum()
