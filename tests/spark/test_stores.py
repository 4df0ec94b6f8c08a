"""Stores of our own engine: read while open, after a power loss and after recovery."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from broker.engine.testing import PowerLoss, SimulatedFiles, open_engine
from spark.store import OpenSegment
from tests.crash.workload import Workload
from tests.spark import plain
from tests.spark.logs import read


def segments_of(files: SimulatedFiles) -> dict[int, bytes]:
    return {int(path[-20:]): data for path, data in files.contents().items() if path.startswith("/store/commitlog/")}


@pytest.mark.parametrize("seed", range(6))
def test_a_busy_store_reads_as_the_codec_reads_it(seed: int) -> None:
    disk = SimulatedFiles()
    Workload(seed, disk).run(120)
    segments = segments_of(disk)
    expected = [plain.row(message) for message in plain.messages(segments)]
    for row in expected:
        if row["topic"] == "SCHEDULE_TOPIC_XXXX":
            assert row["due_ms"] > row["store_ms"]
    assert len(segments) > 1 and expected
    assert read(segments) == expected


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_loss_nothing_acknowledged_is_missing(seed: int) -> None:
    disk = SimulatedFiles()
    driver = open_engine(disk)
    driver.engine.topics.ensure("orders", 1)
    durable = [driver.send("orders", bytes([65 + n]) * (40 + 7 * n % 90), UNIQ_KEY=str(n)).position for n in range(40)]
    for n in range(12):
        driver.append("orders", b"unsynced", UNIQ_KEY=f"u{n}")
    driver.engine.take_sync(driver.clock.now_ms)
    lost = disk.crash(PowerLoss("random", seed, disk.sequence // 2))
    rows = read(segments_of(lost))
    found = {row["position"] for row in rows if row["corrupt"] is None}
    driver = open_engine(lost)
    recovered = segments_of(lost)
    driver.close()
    assert [row["position"] for row in read(recovered) if row["corrupt"] is None] == sorted(found)
    assert found >= set(durable)


@pytest.mark.parametrize("block_bytes", [0, 7, 64])
def test_a_segment_read_in_blocks_is_the_same_bytes(tmp_path: Path, block_bytes: int) -> None:
    data = bytes(range(200))
    (tmp_path / "segment").write_bytes(data)
    with OpenSegment(pa.OSFile(str(tmp_path / "segment")), 1000, block_bytes) as segment:
        for begin, count in ((0, 5), (3, 4), (60, 20), (2, 1), (190, 40), (200, 9), (10, 0)):
            assert segment.read(1000 + begin, count) == data[begin : begin + count]


class Watched:
    """A file that notes how much is asked of it at once."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path))
        self.asked: list[int] = []

    def read_at(self, count: int, at: int) -> bytes:
        self.asked.append(count)
        found: bytes = self._file.read_at(count, at)
        return found

    def close(self) -> None:
        self._file.close()


def test_the_kernel_is_never_asked_for_much_at_once(tmp_path: Path) -> None:
    """Without preemption it keeps the processor until all is copied, whoever is woken up meanwhile."""
    data = os.urandom(1_000_003)
    (tmp_path / "segment").write_bytes(data)
    file = Watched(tmp_path / "segment")
    with OpenSegment(file, 1000, 0) as segment:
        assert segment.read(1000, len(data)) == data
        assert segment.read(1003, 700_000) == data[3:700_003]
        assert segment.read(1_000_900, 300_000) == data[999_900:]
    assert max(file.asked) <= 128 << 10
