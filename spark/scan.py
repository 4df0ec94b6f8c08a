"""A scan that is asked often: read once, by a log or by a cluster's name servers, and kept in columns.

On this machine the processes that decode write what they find as Parquet, and Java reads the columns that a job asks
for: no row goes through a socket, and what is kept is page cache, not memory of Java. On a cluster of Spark there is no
directory that all machines reach, so Spark keeps the rows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

from .cluster_options import parse_cluster_options
from .cluster_source import ClusterReader
from .options import parse_options
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


@contextmanager
def shared_scan(session: SparkSession, store: str, options: dict[str, str], scratch: Path) -> Iterator[DataFrame]:
    """Read a log, or what brokers give out of theirs, once; the frame that is given can be asked often.

    ``store``: a path, or ``rocketmq://`` and name servers. ``scratch``: where the copy lies meanwhile. Raises
    DashboardError, OSError, PySparkException.
    """
    if not (session.sparkContext.master or "").startswith("local"):
        log = _frame(session, store, options).persist()
        try:
            yield log
        finally:
            log.unpersist()
        return
    clear_scans(scratch)
    directory = scratch / f"{_PREFIX}{os.getpid()}"
    directory.mkdir(parents=True)
    try:
        frame = _frame(session, store, options)
        _copy(session, _reader(store, options), directory)
        yield session.read.schema(frame.schema).parquet(str(directory))
    finally:
        shutil.rmtree(directory)


def _frame(session: SparkSession, store: str, options: dict[str, str]) -> DataFrame:
    if is_cluster(store):
        return session.read.format("rocketmq").options(**options, namesrv=store.removeprefix(CLUSTER)).load()
    return session.read.format("rocketmq_log").options(**options).load(store)


def _reader(store: str, options: dict[str, str]) -> LogReader | ClusterReader:
    if is_cluster(store):
        return ClusterReader(parse_cluster_options({**options, "namesrv": store.removeprefix(CLUSTER)}))
    return LogReader(parse_options({**options, "path": store}))


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
    schema: pa.Schema
    directory: str

    def __call__(self, numbered: tuple[int, InputPartition]) -> int:
        number, partition = numbered
        schema = self.schema
        name = f"{number:08d}.parquet"
        few = [column for column in _FEW if column in schema.names]
        rows = held = 0
        batches: list[pa.RecordBatch] = []
        with pq.ParquetWriter(
            Path(self.directory, name), schema, compression="snappy", use_dictionary=few, write_statistics=few
        ) as writer:
            for batch in self.reader.read(partition):
                batches.append(batch)
                held, rows = held + batch.num_rows, rows + batch.num_rows
                if held >= GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(batches, schema))
                    batches, held = [], 0
            writer.write_table(pa.Table.from_batches(batches, schema))
        # this process waits from now on while Java computes, and both count
        pa.default_memory_pool().release_unused()
        return rows


def _copy(session: SparkSession, reader: LogReader | ClusterReader, directory: Path) -> None:
    partitions = list(enumerate(reader.partitions()))
    if partitions:
        tasks = session.sparkContext.parallelize(partitions, len(partitions))
        tasks.map(_Copier(reader, reader.schema, str(directory))).sum()
