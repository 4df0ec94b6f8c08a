"""Segments that are missing, cut short or zeroed, and stores to which nothing was ever sent."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from broker.engine.disk import OsFiles
from broker.engine.testing import open_engine
from spark.jobs.accounts import storage
from spark.options import parse_options
from spark.question import Question
from spark.source import LogReader, LogStreamReader
from spark.store import LogStore, StoreUnreadable
from tests.spark.figures import points_of
from tests.spark.logs import log_of, record
from tests.spark.test_jobs import view
from tests.watching import Calls

Write = Callable[[dict[int, bytes]], Path]
SIZE = 4096
DELETED = "the segment was deleted before it was read"
NOWHERE = "no segment of the log holds these bytes"
ZEROS = "no record starts here"


def segment(number: int, records: int = 3, blank: bool = True) -> bytes:
    data = log_of(*[{}] * records, size=0, start=number * SIZE)
    left = SIZE - len(data)
    end = left.to_bytes(4, "big") + b"\xcb\xd4\x31\x94" if blank else b""
    return (data + end).ljust(SIZE, b"\0")


LENGTH = len(record(0))


def table(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def rows_of(path: Path, **options: str) -> list[dict[str, Any]]:
    reader = LogReader(parse_options({"path": str(path), **options}))
    return [row for partition in reader.partitions() for row in table(reader.read(partition))]


def damage_in(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(row["position"], row["size"], row["corrupt"]) for row in rows if row["corrupt"]]


@pytest.mark.parametrize(
    ("segments", "damage"),
    [
        ({0: segment(0), 2 * SIZE: segment(2)}, [(SIZE, SIZE, NOWHERE)]),
        (
            {0: segment(0)[: 3 * LENGTH], SIZE: segment(1)},
            [(3 * LENGTH, SIZE - 3 * LENGTH, NOWHERE)],
        ),
        ({0: segment(0), SIZE: bytes(SIZE), 2 * SIZE: segment(2)}, [(SIZE, SIZE, ZEROS)]),
        ({0: bytes(SIZE), SIZE: segment(1)}, [(0, SIZE, ZEROS)]),
        ({0: segment(0), SIZE: segment(1, blank=False), 2 * SIZE: bytes(SIZE), 3 * SIZE: bytes(SIZE)}, []),
        ({0: segment(0), SIZE: segment(1), 3 * SIZE: bytes(SIZE)}, []),
    ],
)
def test_what_no_segment_holds_is_a_row_if_a_later_one_has_records(
    store: Write, segments: dict[int, bytes], damage: list[tuple[int, int, str]]
) -> None:
    rows = rows_of(store(segments))
    assert damage_in(rows) == damage
    assert [row["position"] for row in rows if not row["corrupt"]] == [
        start + n * LENGTH for start, data in segments.items() for n in range(3) if data.strip(b"\0")
    ]


def test_the_end_is_found_behind_a_segment_of_zeros(store: Write) -> None:
    path = store({0: segment(0), SIZE: bytes(SIZE), 2 * SIZE: segment(2, blank=False), 3 * SIZE: bytes(SIZE)})
    log = LogStore(str(path))
    assert log.end_position(0, log.segments()) == 2 * SIZE + 3 * LENGTH


def test_a_stream_says_what_retention_took_before_it_came_there(store: Write) -> None:
    path = store({SIZE: segment(1), 2 * SIZE: segment(2, blank=False)})
    reader = LogStreamReader(parse_options({"path": str(path)}))
    partitions = reader.partitions({"position": 2 * LENGTH}, {"position": 2 * SIZE + LENGTH})
    rows = [row for partition in partitions for row in table(reader.read(partition))]
    assert damage_in(rows) == [(2 * LENGTH, SIZE - 2 * LENGTH, NOWHERE)]
    assert len(rows) == 1 + 3 + 1


def test_a_segment_deleted_while_a_read_is_planned_is_a_row(store: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store({0: segment(0), SIZE: segment(1, blank=False)})

    def delete(*_: object) -> None:
        (path / "commitlog" / f"{0:020d}").unlink(missing_ok=True)

    monkeypatch.setattr("spark.options.DEFAULT_SPLIT_BYTES", 1)
    with Calls(LogStore.segments, after=delete):
        rows = rows_of(path)
    assert damage_in(rows) == [(0, SIZE, DELETED)]


def test_a_store_without_messages_has_no_rows(tmp_path: Path) -> None:
    driver = open_engine(OsFiles(), root=str(tmp_path / "store"))
    driver.engine.topics.ensure("orders", 1)
    assert rows_of(tmp_path / "store") == []
    stream = LogStreamReader(parse_options({"path": str(tmp_path / "store")}))
    assert stream.initialOffset() == {"position": 0}
    driver.send("orders", b"first")
    driver.clock.now_ms += 60_000
    driver.upkeep()
    assert len(rows_of(tmp_path / "store")) == 1
    driver.close()
    with pytest.raises(StoreUnreadable, match="one above commitlog"):
        rows_of(tmp_path / "store" / "commitlog")


@pytest.mark.parametrize("address", ["what://is/that", "file:///a place/store", "hdfs://"])
def test_an_address_that_cannot_be_opened_says_what_can(address: str) -> None:
    with pytest.raises(StoreUnreadable, match="Give a directory, or an address"):
        LogStore(address)


def test_a_first_segment_that_was_cut_short_does_not_move_the_others(session: Any) -> None:
    segments = {SIZE: segment(1)[: LENGTH * 3], 2 * SIZE: segment(2, blank=False)}
    frames = view(session, segments)
    asked = Question(1, segments=[(start, len(data)) for start, data in segments.items()])
    found = points_of([tuple(row) for row in storage(frames, asked).collect()])
    frames.drop()
    assert {key[2] for key in found if key[0] == "content"} == {str(SIZE), str(2 * SIZE)}


@pytest.mark.parametrize(
    ("start", "end", "damage"),
    [
        (100, SIZE, [(100, SIZE - 100, NOWHERE)]),
        (0, 2 * SIZE, [(0, 2 * SIZE, NOWHERE)]),
        (SIZE, 2 * SIZE + LENGTH, [(SIZE, SIZE, NOWHERE)]),
        (2 * SIZE, 3 * SIZE, []),
    ],
)
def test_a_batch_that_retention_overtook_says_so(
    start: int, end: int, damage: list[tuple[int, int, str]], store: Write
) -> None:
    reader = LogStreamReader(parse_options({"path": str(store({2 * SIZE: segment(2), 3 * SIZE: segment(3)}))}))
    planned = reader.partitions({"position": start}, {"position": end})
    assert damage_in([row for partition in planned for row in table(reader.read(partition))]) == damage


def checkpoint(path: Path, position: int) -> None:
    content = json.dumps({"position": position}).encode()
    head = struct.pack(">8sQI", b"ESCKPT01", 1, len(content))
    slot = head + crc32(content, crc32(head)).to_bytes(4, "big") + content
    (path / "escapement.checkpoint").write_bytes(slot.ljust(2 << 16, b"\0"))


def test_a_log_that_ends_before_what_was_read_is_another_one(store: Write) -> None:
    path = store({0: segment(0), SIZE: segment(1, blank=False)})
    reader = LogStreamReader(parse_options({"path": str(path)}))
    last = SIZE + 3 * LENGTH
    for position in (0, SIZE, last, 2 * SIZE):
        assert reader.latestOffset({"position": position}, ReadAllAvailable()) == {"position": max(position, last)}
    with pytest.raises(StoreUnreadable, match=f"read to position {2 * SIZE + 1}, .* another log"):
        reader.latestOffset({"position": 2 * SIZE + 1}, ReadAllAvailable())
    # the broker told more than its checkpoint knows, and it is there
    checkpoint(path, LENGTH)
    assert reader.latestOffset({"position": last}, ReadAllAvailable()) == {"position": last}
    with pytest.raises(StoreUnreadable, match="another log"):
        reader.latestOffset({"position": last + 1}, ReadAllAvailable())
