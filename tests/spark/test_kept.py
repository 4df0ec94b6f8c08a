"""Closed segments are decoded once: their columns are read again by the next run, as long as nothing changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from broker.engine.disk import OsFiles
from broker.engine.testing import open_engine
from spark.engines import DUCKDB, Engine
from spark.kept import Keep
from spark.options import parse_options
from spark.places import place_of
from spark.queries import NAMES
from spark.question import HOUR_MS, Question
from spark.scan import Planned, Source, scan_of
from spark.source import LogPartition
from spark.store import LogStore
from spark.view import OPTIONS
from tests.spark.conftest import Make
from tests.spark.randomlog import SIZE, RandomLog

Write = Callable[[dict[int, bytes]], Path]
Rows = list[dict[str, Any]]
LEVELS = OPTIONS | {"levels": "1s 2h"}


class Run:
    """What a scan of a store read and found."""

    def __init__(self, path: Path, keep: Path | None, scratch: Path, options: dict[str, str] = OPTIONS) -> None:
        planned = Planned(Source(str(path), options), keep)
        try:
            with scan_of([planned], scratch) as scan:
                for task in scan.tasks:
                    task()
                scan.keep()
                ((_, files),) = scan.files()
                found = [row for file in files for row in pq.read_table(file).to_pylist()]
        finally:
            planned.close()
        self.rows: Rows = sorted(found, key=lambda row: row["position"])
        #: where the segments begin that were decoded, and how many files were read instead of others
        self.decoded = [one.segment_start for one in planned.partitions if isinstance(one, LogPartition)]
        self.kept = len(planned.kept)


Scan = Callable[..., Run]


@pytest.fixture
def log(store: Write) -> Path:
    """A store with four closed segments and one that is written."""
    random = RandomLog(3).fill(1_450)
    assert len(random.segments) == 5
    return store(random.segments)


@pytest.fixture
def keep(tmp_path: Path) -> Path:
    """Where segments are kept."""
    return tmp_path / "kept"


@pytest.fixture
def scan(tmp_path: Path, log: Path, keep: Path) -> Scan:
    """Reads the store."""

    def read(options: dict[str, str] = OPTIONS, keep: Path | None = keep) -> Run:
        return Run(log, keep, tmp_path / "scratch", options)

    return read


def files_of(keep: Path) -> list[Path]:
    return sorted(keep.glob("*/*.parquet"))


def segment(log: Path, start: int) -> Path:
    return log / "commitlog" / f"{start:020d}"


def test_the_next_run_reads_what_is_new_and_finds_the_same(scan: Scan, keep: Path) -> None:
    plain, first, second = scan(keep=None), scan(), scan()
    assert len(plain.rows) > 1_000
    assert plain.decoded == first.decoded == [SIZE * number for number in range(5)]
    assert (second.decoded, second.kept) == ([4 * SIZE], 4)
    assert plain.rows == first.rows == second.rows
    kept = files_of(keep)
    assert [int(path.name[:20]) for path in kept] == [SIZE * number for number in range(4)]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert kept[0].parent.stat().st_mode & 0o777 == 0o700
    assert all(pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD" for path in kept)


def touched(log: Path) -> None:
    os.utime(segment(log, SIZE), ns=(1, 1))


def replaced(log: Path) -> None:
    """Another file with the same bytes and the same time."""
    shutil.copy2(segment(log, SIZE), log / "copy")
    (log / "copy").rename(segment(log, SIZE))


def enlarged(log: Path) -> None:
    """The same time, but another size: bytes that belong to the next segment's address."""
    file = segment(log, SIZE)
    before = file.stat()
    with file.open("ab") as end:
        end.write(b"\0")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [touched, replaced, enlarged])
def test_a_segment_whose_file_is_another_is_decoded_anew(
    change: Callable[[Path], None], scan: Scan, log: Path, keep: Path
) -> None:
    scan()
    before = files_of(keep)
    change(log)
    again = scan()
    assert set(again.decoded) == {SIZE, 4 * SIZE}
    assert again.rows == scan(keep=None).rows
    left = files_of(keep)
    assert before[1] not in left and {before[0], *before[2:]} <= set(left)


@pytest.mark.parametrize("options", [LEVELS, OPTIONS | {"columns": "names"}], ids=["levels", "columns"])
def test_other_levels_and_columns_are_decoded_anew(options: dict[str, str], scan: Scan, keep: Path) -> None:
    scan()
    before = files_of(keep)
    other = scan(options)
    assert len(other.decoded) == 5 and other.rows == scan(options, keep=None).rows
    assert len(files_of(keep)) == 4 and not set(before) & set(files_of(keep))
    assert scan(options).decoded == [4 * SIZE]


@contextmanager
def opened(log: Path, keep: Path, code: str = "") -> Iterator[Keep]:
    found = Keep.opened(keep, parse_options(OPTIONS | {"path": str(log)}), code)
    assert found is not None
    yield found
    found.close()


def test_what_another_version_decoded_is_not_used_and_removed(scan: Scan, log: Path, keep: Path) -> None:
    scan()
    with opened(log, keep) as same:
        assert len(same.found()) == 4
    with opened(log, keep, "another version") as other:
        assert other.found() == {}
    assert files_of(keep) == []


@pytest.mark.parametrize("at", [0, 4, 300, -300, -4, None], ids=str)
def test_a_damaged_file_is_noticed_and_made_anew(at: int | None, scan: Scan, keep: Path) -> None:
    """One bit of it, or its end."""
    rows = scan().rows
    damaged = files_of(keep)[2]
    data = bytearray(damaged.read_bytes())
    if at is not None:
        data[at] ^= 4
    damaged.write_bytes(data if at is not None else data[:-100])
    again = scan()
    assert again.decoded == [2 * SIZE, 4 * SIZE] and again.rows == rows
    assert len(files_of(keep)) == 4 and scan().decoded == [4 * SIZE]


def test_a_file_of_another_segment_under_this_name_is_noticed(scan: Scan, keep: Path) -> None:
    rows = scan().rows
    first, second = files_of(keep)[:2]
    (crc,) = first.stem.split("-")[-1:]
    second.unlink()
    first.rename(second.with_name(f"{second.name.rpartition('-')[0]}-{crc}.parquet"))
    assert scan().rows == rows and len(files_of(keep)) == 4


def test_what_is_kept_of_a_segment_goes_with_it(scan: Scan, log: Path, keep: Path) -> None:
    scan()
    segment(log, 0).unlink()
    after = scan()
    assert [int(path.name[:20]) for path in files_of(keep)] == [SIZE, 2 * SIZE, 3 * SIZE]
    assert after.rows == scan(keep=None).rows and after.rows[0]["position"] >= SIZE


def test_what_is_kept_of_a_store_goes_with_it(scan: Scan, log: Path, keep: Path, tmp_path: Path) -> None:
    scan()
    moved = log.rename(tmp_path / "moved")
    Run(moved, keep, tmp_path / "scratch")
    assert len(list(keep.iterdir())) == 1 and len(files_of(keep)) == 4


def test_nothing_is_removed_that_another_run_reads(scan: Scan, log: Path, keep: Path) -> None:
    scan()
    before = files_of(keep)
    with opened(log, keep) as reading:
        (oldest,) = reading.found()[0]
        segment(log, 0).unlink()
        scan()
        assert oldest.exists()
    scan()
    assert files_of(keep) == before[1:]


def test_what_a_killed_run_left_is_removed(scan: Scan, keep: Path) -> None:
    scan()
    left = files_of(keep)[0].with_name(".half of a file")
    left.write_bytes(b"PAR1")
    scan()
    assert not left.exists()


def test_a_segment_that_is_not_full_is_not_kept(scan: Scan, log: Path, keep: Path) -> None:
    """Apache RocketMQ allocates the next file before the one that it writes is full."""
    segment(log, 5 * SIZE).write_bytes(bytes(SIZE))
    rows = scan().rows
    assert [int(path.name[:20]) for path in files_of(keep)] == [SIZE * number for number in range(4)]
    assert rows == scan().rows == scan(keep=None).rows


def test_a_segment_that_lost_its_end_is_not_kept(scan: Scan, log: Path, keep: Path) -> None:
    """The log goes on behind it, but neither a record nor a BLANK is at its end."""
    file = segment(log, SIZE)
    data = file.read_bytes()
    blank = data.rindex(b"\xcb\xd4\x31\x94") - 4
    file.write_bytes(data[:blank] + bytes(SIZE - blank))
    assert scan().rows == scan(keep=None).rows
    assert [int(path.name[:20]) for path in files_of(keep)] == [0, 2 * SIZE, 3 * SIZE]


def test_a_segment_that_an_end_cuts_is_neither_kept_nor_taken_whole(scan: Scan, keep: Path) -> None:
    cut = next(row["position"] for row in scan(keep=None).rows if row["position"] > 2 * SIZE + 1_000)
    options = OPTIONS | {"end_position": str(cut)}
    first = scan(options)
    assert [int(path.name[:20]) for path in files_of(keep)] == [0, SIZE]
    scan()
    again = scan(options)
    assert again.decoded == [2 * SIZE] and again.rows == first.rows == scan(options, keep=None).rows
    assert first.rows[-1]["position"] + first.rows[-1]["size"] == cut


def test_of_a_window_nothing_is_kept(scan: Scan, keep: Path) -> None:
    rows = scan().rows
    middle = str(sorted(row["store_ms"] for row in rows if row["store_ms"])[len(rows) // 2])
    shutil.rmtree(keep)
    run = scan(OPTIONS | {"since_ms": middle})
    assert 0 < len(run.rows) < len(rows) and not keep.exists()


def test_nothing_is_kept_on_a_disk_that_is_nearly_full(log: Path, keep: Path) -> None:
    os.truncate(segment(log, 4 * SIZE), 1 << 43)
    planned = Planned(Source(str(log), OPTIONS), keep)
    assert planned.new == {}
    planned.close()


def test_where_nothing_can_be_written_the_log_is_read(scan: Scan, keep: Path) -> None:
    keep.write_text("not a directory")
    assert scan().rows == scan(keep=None).rows


def test_a_segment_in_parts_is_kept_in_parts(tmp_path: Path, keep: Path) -> None:
    """All of them, or it is decoded anew: of a store of our engine, whose checkpoint says where its log ends."""
    size = 4 << 20
    driver = open_engine(OsFiles(), root=str(tmp_path / "store"), segment_size_bytes=size)
    driver.engine.topics.ensure("orders", 1)
    for number in range(3_000):
        driver.send("orders", bytes(2_000), UNIQ_KEY=f"{number}")
    driver.close()

    def read(keep: Path | None = keep) -> Run:
        return Run(tmp_path / "store", keep, tmp_path / "scratch", OPTIONS | {"split_bytes": str(1 << 20)})

    rows, first = read(None).rows, read()
    assert len(rows) == 3_000 and first.rows == rows
    parts = files_of(keep)
    assert first.decoded.count(0) == len(parts) > 2
    second = read()
    assert set(second.decoded) == {size} and second.kept == len(parts) and second.rows == rows
    parts[1].unlink()
    assert read().rows == rows and len(files_of(keep)) == len(parts)


def asked_of(engine: Engine) -> Sequence[str]:
    """DuckDB is asked all dashboards, Spark two of them: planning nine takes it minutes."""
    return NAMES if engine.name == DUCKDB else ("flow", "pending")


def figures(engine: Engine, stores: list[Path], keep: Path | None, scratch: Path) -> dict[str, list[str]]:
    """All points over these logs."""
    several = len(stores) > 1
    logs = [Planned(Source(str(path), OPTIONS, log if several else None), keep) for log, path in enumerate(stores)]
    segments = [(log, one) for log, path in enumerate(stores) for one in LogStore(str(path)).segments()]
    question = Question(
        RandomLog(0).now_ms + 90 * 24 * HOUR_MS,
        segments=[(place_of(log, one.start) if several else one.start, one.size) for log, one in segments],
        brokers=[path.name for path in stores] if several else (),
        retentions_ms=dict.fromkeys(range(len(stores)), HOUR_MS) if several else {},
    )
    with scan_of(logs, scratch) as scan:
        engine.scan(scan)
        extents = engine.extents(several=several)
        assert sorted(extents) == list(range(len(stores))) and all(one.rows for one in extents.values())
        engine.begin(question)
        found = {name: sorted(map(str, map(tuple, engine.ask(name)))) for name in asked_of(engine)}
        engine.close()
    for planned in logs:
        planned.close()
    return found


@pytest.mark.parametrize("count", [1, 2], ids=["one log", "two logs"])
def test_figures_are_the_same_with_what_is_kept(make: Make, count: int, tmp_path: Path) -> None:
    stores = [tmp_path / f"broker-{number}" for number in range(count)]
    for number, path in enumerate(stores):
        (path / "commitlog").mkdir(parents=True)
        for start, data in RandomLog(number + 1).fill(500).segments.items():
            segment(path, start).write_bytes(data)
    plain = figures(make(), stores, None, tmp_path / "scratch")
    first = figures(make(), stores, tmp_path / "kept", tmp_path / "scratch")
    assert files_of(tmp_path / "kept")
    second = figures(make(), stores, tmp_path / "kept", tmp_path / "scratch")
    assert all(plain.values())
    assert plain == first == second
