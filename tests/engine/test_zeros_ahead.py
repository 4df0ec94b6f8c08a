"""Zeros ahead of small batches that are synced: most syncs have their own bytes only."""

from __future__ import annotations

from typing import Literal, cast

import pytest

from broker.engine.disk import File
from broker.engine.testing import Driver, PowerLoss, SimulatedFiles, open_engine

AHEAD_BYTES = 64 << 10


class Noted:
    """A file that notes how far each write to it reached."""

    def __init__(self, file: File, ends: list[int]) -> None:
        self._file = file
        self._ends = ends

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def write_many(self, parts: list[bytes], at: int) -> None:
        self._ends.append(at + sum(map(len, parts)))
        self._file.write_many(parts, at)


class NotedFiles(SimulatedFiles):
    """A disk that notes where the writes to the log ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[int] = []

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        return cast(File, Noted(file, self.ends)) if "/commitlog/" in path else file


def opened(
    files: SimulatedFiles, flush: Literal["sync", "async"] = "sync", segment_size_bytes: int = 1 << 20
) -> Driver:
    driver = open_engine(files, flush=flush, segment_size_bytes=segment_size_bytes, max_body_bytes=20_000)
    driver.engine.topics.ensure("T", 1)
    return driver


def ends_of(driver: Driver, files: NotedFiles, *sizes: int) -> tuple[list[int], list[int]]:
    """Send a message of each size; return where the log ended after each, and what was written."""
    ends = []
    for size in sizes:
        driver.send("T", b"x" * size)
        ends.append(driver.engine.health().log_end_position)
    return ends, files.ends


def test_the_first_batch_writes_zeros_for_those_after_it() -> None:
    files = NotedFiles()
    logged, written = ends_of(opened(files), files, *[1_000] * 80)
    assert written[0] == logged[0] + AHEAD_BYTES
    within = [end for end in logged if end <= written[0]]
    assert written[1 : len(within)] == within[1:]
    following = len(within)
    assert written[following] == logged[following] + AHEAD_BYTES
    assert written[following + 1] == logged[following + 1]


def test_a_large_batch_writes_none() -> None:
    files = NotedFiles()
    logged, written = ends_of(opened(files), files, 20_000, 20_000)
    assert written == logged


def test_none_are_written_where_nothing_is_synced() -> None:
    files = NotedFiles()
    logged, written = ends_of(opened(files, "async"), files, 1_000, 1_000)
    assert written == logged


def test_they_end_with_the_segment() -> None:
    files = NotedFiles()
    size = 80 << 10
    driver = opened(files, segment_size_bytes=size)
    ends_of(driver, files, *[1_000] * 200)
    assert max(files.ends) == size
    assert driver.engine.health().log_end_position > 2 * size
    assert len(driver.bodies("T")) == 200


@pytest.mark.parametrize("kind", ["all", "kill"])
def test_a_store_goes_on_behind_its_last_record_after_power_loss(kind: Literal["all", "kill"]) -> None:
    files = SimulatedFiles()
    driver = opened(files)
    for _ in range(3):
        driver.send("T", b"y" * 1_000)
    end = driver.engine.health().log_end_position
    again = open_engine(files.crash(PowerLoss(kind)), segment_size_bytes=1 << 20)
    assert again.engine.health().log_end_position == end
    again.send("T", b"z")
    assert [body[:1] for body in again.bodies("T")] == [b"y"] * 3 + [b"z"]
