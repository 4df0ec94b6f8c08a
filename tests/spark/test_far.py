"""A copied store on HDFS or S3 is read as one on this machine: the reader asks Arrow's file systems alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from broker.engine.disk import OsFiles
from broker.engine.testing import open_engine
from spark.segment import read_stretch
from spark.store import LogStore, StoreUnreadable, stretches
from tests.spark.logs import ALL


def rows_of(store: LogStore, split_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    segments = store.segments()
    rows: list[dict[str, Any]] = []
    for stretch in stretches(store, segments, 0, store.checkpoint_position(), split_bytes):
        holder = next(segment for segment in reversed(segments) if segment.start <= stretch.begin)
        with store.open(holder.start) as file:
            batches = list(read_stretch(file.read, stretch, ALL))
        rows += [row for batch in batches for row in batch.to_pylist()]
    return rows


@pytest.fixture
def near(tmp_path: Path) -> Path:
    """A store of several segments that our engine wrote."""
    driver = open_engine(OsFiles(), root=str(tmp_path / "store"), segment_size_bytes=1 << 16)
    driver.engine.topics.ensure("orders", 1)
    for number in range(400):
        driver.send("orders", bytes(200 + number % 90), UNIQ_KEY=f"{number}", KEYS="k")
    driver.close()
    return tmp_path / "store"


@pytest.fixture
def far(near: Path) -> pa.fs.FileSystem:
    """The same files on a file system of Arrow's that is not this machine's: one in memory."""
    there = pa.fs._MockFileSystem()
    pa.fs.copy_files(str(near), "bucket/copy", destination_filesystem=there)
    return there


def copy_at(address: str, there: pa.fs.FileSystem) -> LogStore:
    return LogStore(address, system=there)


@pytest.mark.parametrize("scheme", ["s3", "hdfs"])
@pytest.mark.parametrize("split_bytes", [10_000, 1 << 20])
def test_a_copy_reads_as_the_store(near: Path, far: pa.fs.FileSystem, scheme: str, split_bytes: int) -> None:
    store = copy_at(f"{scheme}://bucket/copy", far)
    far_rows = rows_of(store, split_bytes)
    assert len(far_rows) == 400 and far_rows[-1]["position"] > 1 << 16
    end = store.checkpoint_position()
    assert end == far_rows[-1]["position"] + far_rows[-1]["size"]
    assert [row["corrupt"] for row in far_rows] == [None] * 400
    assert far_rows == rows_of(LogStore(str(near)))


def test_a_segment_that_is_not_copied_whole_is_read_up_to_there(near: Path, far: pa.fs.FileSystem) -> None:
    whole = rows_of(LogStore(str(near)))
    name = f"bucket/copy/commitlog/{whole[-1]['position'] >> 16 << 16:020d}"
    with far.open_input_file(name) as file:
        part = file.read()[:1000]
    with far.open_output_stream(name) as file:
        file.write(part)
    far.delete_file("bucket/copy/escapement.checkpoint")
    rows = rows_of(copy_at("s3://bucket/copy", far))
    assert 0 < len(rows) < 400 and rows == whole[: len(rows)]


def test_an_address_without_a_log_says_so(far: pa.fs.FileSystem) -> None:
    with pytest.raises(StoreUnreadable, match="s3://bucket/none holds no commit log"):
        copy_at("s3://bucket/none", far).segments()
