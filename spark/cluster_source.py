"""A cluster as a Spark data source: ``spark.read.format("rocketmq").option("namesrv", …).option("topics", …).load()``.

One row a message, in Arrow batches; a task pulls ranges of the queues of one broker. What a query reads is settled when
it is planned: offsets from where to where, by topic, broker and queue. ``readStream`` keeps them in Spark's checkpoint,
so that a batch run again pulls the same messages; nothing is committed to the cluster.

Queues that appear later, on a broker that joined too, are read from their beginning. While a broker is away its queues
stand still, and a stream goes on with the others; a batch that would lack them is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from .asking import ClusterUnreachable
from .cluster import Bounds, Cluster
from .cluster_options import EARLIEST, LATEST, ClusterOptions, Edge, parse_cluster_options
from .offsets import Offsets, Queue, Range, limited, ranges_of, read_offsets, tasks_of, written
from .options import LEAST, MOST, Wanted
from .pulling import MessagesGone, Puller
from .records import decode_pulled
from .source import BATCH_ROWS, check_schema


class ClusterDataSource(DataSource):
    """The data source ``rocketmq``. Its options are listed in docs/SPARK.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq"

    @cached_property
    def _parsed(self) -> ClusterOptions:
        return parse_cluster_options(self.options)

    def schema(self) -> StructType:
        """Return the columns that were chosen."""
        return from_arrow_schema(self._parsed.selection.schema)

    def reader(self, schema: StructType) -> ClusterReader:
        """Return a reader of what is there now. Raises OptionInvalid."""
        check_schema(schema, self._parsed.selection)
        return ClusterReader(self._parsed)

    def streamReader(self, schema: StructType) -> ClusterStreamReader:  # noqa: N802 (Spark's name)
        """Return a reader that follows the queues. Raises OptionInvalid."""
        check_schema(schema, self._parsed.selection)
        return ClusterStreamReader(self._parsed)


@dataclass
class ClusterPartition(InputPartition):
    """Ranges of the queues of one broker, and its addresses, the master's first."""

    addresses: tuple[str, ...]
    ranges: tuple[Range, ...]

    def __init__(self, addresses: tuple[str, ...], ranges: tuple[Range, ...]) -> None:
        super().__init__((addresses, ranges))
        self.addresses = addresses
        self.ranges = ranges


class ClusterReader(DataSourceReader):
    """Reads what lies between two edges when the query is planned."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        return self._options.selection.schema

    def partitions(self) -> list[ClusterPartition]:
        """Return the ranges to read. Raises DashboardError."""
        cluster = cluster_of(self._options)
        try:
            queues = cluster.queues(self._options.topics)
            bounds = cluster.bounds(queues)
            start = edge_offsets(cluster, bounds, self._options.start, default=EARLIEST)
            end = edge_offsets(cluster, bounds, self._options.end, default=LATEST)
            cluster.require(queues, named=True)
        finally:
            cluster.close()
        if isinstance(self._options.end, int):
            # older brokers name the last message for a moment behind it; the rows are compared with the moment
            end = {queue: bounds[queue].end if at >= bounds[queue].end - 1 else at for queue, at in end.items()}
        return _partitions(self._options, cluster, _inside(start, bounds, self._options), end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the wanted messages of some ranges."""
        if not isinstance(partition, ClusterPartition):
            return iter(())  # Spark makes one of its own where nothing has to be read
        edges = (self._options.start, self._options.end)
        low, high = (edge if isinstance(edge, int) else None for edge in edges)
        times_ms = (LEAST if low is None else low, MOST if high is None else high - 1)
        end_position = self._options.end_position
        positions = (LEAST, MOST) if end_position is None else (0, end_position - 1)
        return read_ranges(self._options, partition, Wanted(times_ms=times_ms, positions=positions))


class ClusterStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the queues; an offset is the next message of each (``offsets.py``)."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._kept: Cluster | None = None
        self._queues: list[Queue] = []
        self._final: Offsets | None = None

    @property
    def _cluster(self) -> Cluster:
        if self._kept is None:
            self._kept = cluster_of(self._options)
        return self._kept

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Return how many messages a batch has at most."""
        most = self._options.most_per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return where a new query begins. Raises DashboardError."""
        cluster = self._cluster
        queues = cluster.queues(self._options.topics)
        bounds = cluster.bounds(queues)
        start = edge_offsets(cluster, bounds, self._options.start, default=EARLIEST)
        cluster.require(queues, named=True)
        return written(_inside(start, bounds, self._options))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return how far to read now: all that is there, or the share of each queue. Raises DashboardError."""
        begun = read_offsets(start)
        latest = self._latest(begun)
        if self._final is not None:
            latest = {queue: min(end, self._final[queue]) for queue, end in latest.items() if queue in self._final}
            latest = {**begun, **{queue: max(end, begun.get(queue, 0)) for queue, end in latest.items()}}
        if isinstance(limit, ReadMaxRows):
            latest = limited(begun, latest, limit.max_rows)
        return written(latest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Note what there is now: the query ends there."""
        self._final = self._latest({})

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's name)
        """Return nothing: it would be asked of every broker once more."""
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of a batch. Raises DashboardError."""
        begun, reached = read_offsets(start), read_offsets(end)
        moved = {queue: offset for queue, offset in reached.items() if begun.get(queue) != offset}
        cluster = self._cluster
        if moved.keys() - begun.keys() or any(queue.broker not in cluster.addresses for queue in moved):
            cluster.queues({queue.topic for queue in moved}, missing_ok=True)
            new = cluster.bounds(queue for queue in moved if queue not in begun)
            begun |= {queue: min(bounds.first, moved[queue]) for queue, bounds in new.items()}
        return _partitions(self._options, cluster, begun, moved)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of some ranges."""
        assert isinstance(partition, ClusterPartition)
        return read_ranges(self._options, partition, Wanted())

    def stop(self) -> None:
        """End the connections to the cluster."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _latest(self, begun: Offsets) -> Offsets:
        """Return the ends of all queues, those known before and not to be asked now where they were."""
        cluster = self._cluster
        try:
            self._queues = cluster.queues(self._options.topics, missing_ok=True)
        except ClusterUnreachable:
            if not self._queues:
                raise  # else the name servers come again, and brokers have news without them
        bounds = cluster.bounds(self._queues)
        for queue, offset in begun.items():
            if queue in bounds and bounds[queue].end < offset and self._options.wish.is_strict:
                raise MessagesGone(
                    f"{queue} was read to offset {offset}, and ends before, at {bounds[queue].end}: another store "
                    "lies in its place, or the topic was created anew. To read it from the beginning give the query "
                    "another checkpointLocation; to wait until it is as long again: fail_on_data_loss=false."
                )
        ends = {queue: max(found.end, begun.get(queue, 0)) for queue, found in bounds.items()}
        return {**begun, **ends}


def edge_offsets(cluster: Cluster, bounds: dict[Queue, Bounds], edge: Edge, *, default: str) -> Offsets:
    """Return the offsets that an edge means; ``default``: what counts for queues that offsets do not name."""
    if isinstance(edge, int):
        return cluster.offsets_at(bounds, edge)
    said = edge if isinstance(edge, dict) else {}
    is_first = (default if isinstance(edge, dict) else edge) == EARLIEST
    return {queue: said.get(queue, found.first if is_first else found.end) for queue, found in bounds.items()}


def read_ranges(options: ClusterOptions, partition: ClusterPartition, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of some ranges. Raises DashboardError."""
    names = options.selection.schema.names
    selection = options.selection.having(*wanted.columns)
    pulled = Puller(partition.addresses, options.access, options.wish).read(partition.ranges)
    for batch in decode_pulled(pulled, selection, is_filtered=options.wish.is_filtered):
        chosen = wanted.choose(batch).select(names)
        for at in range(0, chosen.num_rows, BATCH_ROWS):
            yield chosen.slice(at, BATCH_ROWS)


def cluster_of(options: ClusterOptions) -> Cluster:
    """Return the cluster that options name; nothing is asked yet."""
    return Cluster(options.namesrv, options.access, brokers=options.brokers, system_topics=options.system_topics)


def _inside(start: Offsets, bounds: dict[Queue, Bounds], options: ClusterOptions) -> Offsets:
    """Return a start that queues have. Raises MessagesGone where offsets were asked for that were deleted."""
    found: Offsets = {}
    for queue, offset in start.items():
        first, end = bounds[queue].first, bounds[queue].end
        if offset < first and isinstance(options.start, dict) and options.wish.is_strict:
            raise MessagesGone(
                f"start asks for offset {offset} of {queue}, and it begins at {first}: those before were deleted. "
                "To begin there instead: fail_on_data_loss=false."
            )
        found[queue] = min(max(offset, first), end)
    return found


def _partitions(options: ClusterOptions, cluster: Cluster, start: Offsets, end: Offsets) -> list[ClusterPartition]:
    tasks = tasks_of(ranges_of(start, end), options.split_messages)
    cluster.require(one.queue for task in tasks for one in task)
    return [ClusterPartition(cluster.addresses[task[0].queue.broker], tuple(task)) for task in tasks]
