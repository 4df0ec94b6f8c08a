"""The commit log as a Spark data source: ``spark.read.format("rocketmq_log").load(store)``.

One row a record, in Arrow batches, one task a stretch of a segment. ``readStream`` follows the log by position: what a
batch covered is [start, end) of the log, so that a batch run again reads the same records.

Where the log ends is asked of the broker if one is named, for the checkpoint of a store is some seconds old: request 28
of RocketMQ's remoting protocol (GET_BROKER_RUNTIME_INFO).

    4 bytes after these   4 size of the header (its first byte 0: JSON)   header   body
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from broker.rocketmq.codes import Answer, Request
from spark.columns import Selection
from spark.decode import batch_of, damage, of_broker
from spark.options import LEAST, MOST, LogOptions, OptionInvalid, Wanted, parse_stores, split
from spark.segment import Stretch, read_stretch
from spark.store import LogStore, Segment, StoreUnreadable, stretches

#: Rows a batch for Spark, whatever the window held.
BATCH_ROWS = 32_768
_STORED = Selection(groups=frozenset(), only=frozenset({"store_ms"}))


class LogDataSource(DataSource):
    """The data source ``rocketmq_log``. Its options are listed in docs/SPARK.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq_log"

    @cached_property
    def _stores(self) -> list[LogOptions]:
        return parse_stores(self.options)

    def schema(self) -> StructType:
        """Return the columns that were chosen."""
        return from_arrow_schema(self._stores[0].selection.schema)

    def reader(self, schema: StructType) -> LogReader:
        """Return a reader of what is there now. Raises OptionInvalid."""
        check_schema(schema, self._stores[0].selection)
        return LogReader(*self._stores)

    def streamReader(self, schema: StructType) -> LogStreamReader | StoresStreamReader:  # noqa: N802 (Spark's name)
        """Return a reader that follows the log, or each of several. Raises OptionInvalid."""
        check_schema(schema, self._stores[0].selection)
        if len(self._stores) == 1 and self._stores[0].broker_name is None:
            return LogStreamReader(self._stores[0])
        return StoresStreamReader(self._stores)


def check_schema(schema: StructType, selection: Selection) -> None:
    """Refuse a schema that somebody gave beside the options. Raises OptionInvalid."""
    if schema.names != selection.schema.names:
        raise OptionInvalid(
            f"The schema {', '.join(schema.names)} is not what the options choose; leave it out, and choose "
            f'columns by option("columns", "{",".join(schema.names)}").'
        )


@dataclass
class LogPartition(InputPartition):
    """A stretch of one segment; ``segment_start`` None: of bytes that no segment holds. ``store``: which of several."""

    segment_start: int | None
    stretch: Stretch
    store: int

    def __init__(self, segment_start: int | None, stretch: Stretch, store: int = 0) -> None:
        super().__init__((segment_start, stretch, store))
        self.segment_start = segment_start
        self.stretch = stretch
        self.store = store


class LogReader(DataSourceReader):
    """Reads what is durable when the query is planned, of one store after another."""

    def __init__(self, *stores: LogOptions) -> None:
        self._stores = stores
        self._wanted = stores[0].wanted

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        return self._stores[0].selection.schema

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take topic, time and position if that is safe; leave the rest to Spark."""
        if not self._stores[0].pushdown:
            return filters
        self._wanted, left = split(self._wanted, filters)
        return left

    @property
    def whole(self) -> LogOptions | None:
        """The store of which every row up to its end is wanted; None for several, or where rows are chosen."""
        if len(self._stores) > 1 or self._wanted != Wanted() or self._stores[0].start_position:
            return None
        return self._stores[0]

    def partitions(self, undivided: Collection[int] = ()) -> list[LogPartition]:
        """Return the stretches that can hold a wanted row; ``undivided``: where segments begin that are one each."""
        return [partition for number in range(len(self._stores)) for partition in self._of_store(number, undivided)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a stretch."""
        if not isinstance(partition, LogPartition):
            return iter(())  # Spark makes one of its own where nothing has to be read
        return read_partition(self._stores[partition.store], partition, self._wanted)

    def _of_store(self, number: int, undivided: Collection[int]) -> list[LogPartition]:
        options = self._stores[number]
        store = LogStore(options.path)
        segments = store.segments()
        low, high = self._wanted.positions
        start = max(options.start_position, first_position(segments))
        end = known_end(store, options)
        found = [
            LogPartition(segment_of(segments, stretch.begin), stretch, number)
            for stretch in stretches(store, segments, start, end, options.split_bytes, undivided)
            if stretch.begin <= high and stretch.end > low
        ]
        return self._by_time(store, found)

    def _by_time(self, store: LogStore, found: list[LogPartition]) -> list[LogPartition]:
        if self._wanted.times_ms == (LEAST, MOST):
            return found
        firsts = [first_ms(store, partition) for partition in found]
        lasts = [*firsts[1:], None]
        return [
            partition
            for partition, first, last in zip(found, firsts, lasts, strict=True)
            if self._wanted.may_hold(-(1 << 62) if first is None else first, 1 << 62 if last is None else last)
        ]


class LogStreamReader(DataSourceStreamReader):
    """Follows the log: an offset is ``{"position": n}``, the position of the next record to read."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """Return the first position there is, or the one asked for."""
        store = LogStore(self._options.path)
        return {"position": max(self._options.start_position, first_position(store.segments()))}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """Return the durable end, or a record on the way there if that is far. Raises StoreUnreadable, OSError."""
        store, position = LogStore(self._options.path), start["position"]
        segments = store.segments()
        end = known_end(store, self._options)
        _check_same(store, segments, position, end)
        end = store.end_position(position, segments) if end is None else end
        if end - position > self._options.batch_bytes and not isinstance(limit, ReadAllAvailable):
            planned = stretches(store, segments, position, end, self._options.batch_bytes)
            end = min(end, next((stretch.end for stretch in planned), end))
        return {"position": max(end, position)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[LogPartition]:
        """Return the stretches of a batch."""
        store = LogStore(self._options.path)
        segments = store.segments()
        planned = stretches(store, segments, start["position"], end["position"], self._options.split_bytes)
        return [LogPartition(segment_of(segments, stretch.begin), stretch) for stretch in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stretch."""
        assert isinstance(partition, LogPartition)
        return read_partition(self._options, partition, self._options.wanted)


class StoresStreamReader(DataSourceStreamReader):
    """Follows logs that have names: an offset is ``{"broker-a": n, "broker-b": n}``, a position for each."""

    def __init__(self, stores: Sequence[LogOptions]) -> None:
        self._readers = {options.broker_name or options.path: LogStreamReader(options) for options in stores}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """Return the first position of each that there is, or the one asked for."""
        return {name: reader.initialOffset()["position"] for name, reader in self._readers.items()}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """Return the durable ends, or records on the way there; a store that was added is read from its beginning."""
        return {
            name: reader.latestOffset(self._of(start, name), limit)["position"]
            for name, reader in self._readers.items()
        }

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the stretches of a batch."""
        found: list[InputPartition] = []
        for number, (name, reader) in enumerate(self._readers.items()):
            if name in end:
                parts = reader.partitions(self._of(start, name), {"position": end[name]})
                found += [LogPartition(part.segment_start, part.stretch, number) for part in parts]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stretch."""
        assert isinstance(partition, LogPartition)
        return list(self._readers.values())[partition.store].read(partition)

    def _of(self, offset: dict[str, int], name: str) -> dict[str, int]:
        if offset.keys() == {"position"} and name != "position":
            raise StoreUnreadable(
                "This query followed one store without a name, and now follows stores by name: give it another "
                "checkpointLocation, or the store as before."
            )
        return {"position": offset[name]} if name in offset else self._readers[name].initialOffset()


def _check_same(store: LogStore, segments: list[Segment], position: int, end: int | None) -> None:
    """Refuse a log that does not reach as far as it was read: another one lies in its place. Raises StoreUnreadable.

    A checkpoint may be older than what the broker said; then records stand between the two.
    """
    reached = max((segment.end for segment in segments), default=0)
    if end is not None and end < position <= reached:
        reached = store.end_position(end, segments)
    if reached < position:
        raise StoreUnreadable(
            f"{store.path} was read to position {position}, and its log ends before, at {reached}: another log lies "
            "in its place, or it lost its end. To read it from the beginning give the query another "
            "checkpointLocation; for a dashboard that follows it remove the one below var/dashboards."
        )


def known_end(store: LogStore, options: LogOptions) -> int | None:
    """Return where what is durable ends, None where only the log itself can tell."""
    if options.end_position is not None:
        return options.end_position
    if options.broker and (end := acknowledged_end(options.broker)) is not None:
        return end
    return store.checkpoint_position() if options.end == "checkpoint" else None


def first_position(segments: Sequence[Segment]) -> int:
    """Return where the log begins, as far as it is there."""
    return segments[0].start if segments else 0


def segment_of(segments: list[Segment], position: int) -> int | None:
    """Return where the segment begins that holds a position, None if none does."""
    return next((segment.start for segment in segments if segment.start <= position < segment.end), None)


def first_ms(store: LogStore, partition: LogPartition) -> int | None:
    """Return when the first record of a stretch was stored, None if that cannot be said."""
    stretch, start = partition.stretch, partition.segment_start
    if start is None:
        return None
    head = Stretch(stretch.begin, min(stretch.end, stretch.begin + (1 << 16)), stretch.segment_end, bounded=False)
    try:
        with store.open(start) as segment:
            batch: Any = next(read_stretch(segment.read, head, _STORED), None)
    except FileNotFoundError:
        return None
    return None if batch is None else batch.column("store_ms")[0].as_py()


def read_partition(options: LogOptions, partition: LogPartition, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of a stretch; if retention took its segment meanwhile, one row says so."""
    stretch, names = partition.stretch, options.selection.schema.names
    selection = options.selection.having(*wanted.columns)
    why, segment = "no segment of the log holds these bytes", None
    if partition.segment_start is not None:
        with suppress(FileNotFoundError):
            segment = LogStore(options.path).open(partition.segment_start)
        why = "the segment was deleted before it was read"
    if segment is None:
        gone = damage(stretch.begin, stretch.end - stretch.begin, why)
        row = selection.complete(batch_of([gone], selection.decoded))
        yield of_broker(wanted.choose(row).select(names), options.broker_name)
        return
    with segment:
        for batch in read_stretch(segment.read, stretch, selection):
            chosen = of_broker(wanted.choose(batch).select(names), options.broker_name)
            for at in range(0, chosen.num_rows, BATCH_ROWS):
                yield chosen.slice(at, BATCH_ROWS)


_TIMEOUT_S = 3.0
#: No answer to this question is larger.
_MOST_BYTES = 1 << 20


def acknowledged_end(address: str) -> int | None:
    """Return the position behind the last acknowledged record of the broker at ``host:port``.

    None if it cannot be asked now, or does not tell. Raises OptionInvalid for what is no address.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise OptionInvalid(f"broker={address!r} is no address such as 127.0.0.1:10911.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.sendall(_question())
            (size,) = struct.unpack(">I", _exactly(connection, 4))
            if not 4 <= size <= _MOST_BYTES:
                return None
            return _said(_exactly(connection, size))
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def _question() -> bytes:
    header = json.dumps(
        {
            "code": Request.GET_BROKER_RUNTIME_INFO,
            "flag": 0,
            "language": "PYTHON",
            "opaque": 1,
            "version": 0,
            "extFields": {},
        }
    ).encode()
    return struct.pack(">II", 4 + len(header), len(header)) + header


def _said(frame: bytes) -> int | None:
    """Return the end that an answer names. Raises ValueError, KeyError, TypeError for one that is none."""
    length = struct.unpack_from(">I", frame)[0] & 0xFFFFFF
    if json.loads(frame[4 : 4 + length])["code"] != Answer.SUCCESS:
        return None
    return int(json.loads(frame[4 + length :])["table"]["commitLogMaxOffset"])


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise ConnectionError("the broker closed the connection")
        found += part
    return found
