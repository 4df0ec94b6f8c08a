"""One scan of the log for all jobs, kept in columns.

On this machine the processes that decode the log write what they find as Parquet, and Java reads the columns that a job
asks for: no row goes through a socket, and what is kept is page cache, not memory of Java. On a cluster there is no
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

from .options import LogOptions, parse_options
from .source import LogPartition, LogReader, read_partition

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
    """Read a log once; the frame that is given can be asked often.

    ``scratch``: where the copy lies meanwhile. Raises StoreUnreadable, OptionInvalid, OSError, PySparkException.
    """
    log = session.read.format("rocketmq_log").options(**options).load(store)
    if not (session.sparkContext.master or "").startswith("local"):
        log.persist()
        try:
            yield log
        finally:
            log.unpersist()
        return
    clear(scratch)
    directory = scratch / f"{_PREFIX}{os.getpid()}"
    directory.mkdir(parents=True)
    try:
        _copy(session, parse_options({**options, "path": store}), directory)
        yield session.read.schema(log.schema).parquet(str(directory))
    finally:
        shutil.rmtree(directory)


def clear(scratch: Path) -> None:
    """Remove the copies of processes that are gone."""
    for left in scratch.glob(f"{_PREFIX}*"):
        number = left.name.removeprefix(_PREFIX)
        if number == str(os.getpid()) or not number.isdigit() or not Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Copier:
    """Writes one stretch of the log; sent to the processes that do it."""

    options: LogOptions
    directory: str

    def __call__(self, partition: InputPartition) -> int:
        assert isinstance(partition, LogPartition)
        schema = self.options.selection.schema
        name = f"{partition.stretch.begin:020d}.parquet"
        few = [column for column in _FEW if column in schema.names]
        rows = held = 0
        batches: list[pa.RecordBatch] = []
        with pq.ParquetWriter(
            Path(self.directory, name), schema, compression="snappy", use_dictionary=few, write_statistics=few
        ) as writer:
            for batch in read_partition(self.options, partition, self.options.wanted):
                batches.append(batch)
                held, rows = held + batch.num_rows, rows + batch.num_rows
                if held >= GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(batches, schema))
                    batches, held = [], 0
            writer.write_table(pa.Table.from_batches(batches, schema))
        # this process waits from now on while Java computes, and both count
        pa.default_memory_pool().release_unused()
        return rows


def _copy(session: SparkSession, options: LogOptions, directory: Path) -> None:
    partitions = LogReader(options).partitions()
    if partitions:
        tasks = session.sparkContext.parallelize(partitions, len(partitions))
        tasks.map(_Copier(options, str(directory))).sum()
