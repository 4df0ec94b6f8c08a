"""Entries on their way into the files of queues: laid out once, then handed over as a whole, and durable."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.engine.disk import Files, Handles, OsFiles, Write, write_each
from broker.engine.queues.queues import ENTRY, ENTRY_SIZE, ConsumeQueue, QueueWrite, write_all_entries
from broker.engine.testing import Fault, PowerLoss, SimulatedFiles, open_engine

FILE_ENTRIES = 100


def queue_of(files: Files, queue_id: int = 0, root: str = "/store/consumequeue") -> ConsumeQueue:
    return ConsumeQueue(Handles(files), f"{root}/T/{queue_id}", "T", queue_id, FILE_ENTRIES)


def entries(first: int, count: int) -> bytes:
    return b"".join(ENTRY.pack(100 * number, 100, number) for number in range(first, first + count))


def write(queue: ConsumeQueue, first: int, count: int) -> QueueWrite:
    return QueueWrite(queue, first * ENTRY_SIZE, entries(first, count))


def content(files: Files, queue: ConsumeQueue, first: int, count: int) -> bytes:
    """What is in the files of a queue from an entry on."""
    found = b""
    while count:
        inside = first % FILE_ENTRIES
        step = min(count, FILE_ENTRIES - inside)
        file = files.open(queue.path_of(first))
        found += file.read(step * ENTRY_SIZE, inside * ENTRY_SIZE)
        file.close()
        first, count = first + step, count - step
    return found


@pytest.fixture(params=["disk", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """Files, and where queues lie in them."""
    if request.param == "disk":
        return OsFiles(), str(tmp_path / "consumequeue")
    return SimulatedFiles(), "/store/consumequeue"


def test_what_is_written_is_there_across_files_and_gaps(place: tuple[Files, str]) -> None:
    files, root = place
    queues = [queue_of(files, number, root) for number in range(3)]
    done = [0, 0, 0]
    for counts in ((5, 99, 250), (3, 1, 40), (95, 0, 60), (1, 2, 100)):
        write_all_entries(files, [write(*each) for each in zip(queues, done, counts, strict=True)])
        done = [before + count for before, count in zip(done, counts, strict=True)]
    for queue, count in zip(queues, done, strict=True):
        assert content(files, queue, 0, count) == entries(0, count)
        sizes = [files.open(queue.path_of(first)).size() for first in range(0, count, FILE_ENTRIES)]
        assert set(sizes) == {FILE_ENTRIES * ENTRY_SIZE}


def test_a_file_that_is_laid_out_is_opened_once_and_is_durable() -> None:
    files = SimulatedFiles()
    queues = [queue_of(files, number) for number in range(20)]
    write_all_entries(files, [write(queue, 0, 1) for queue in queues])
    before = files.calls.copy()
    write_all_entries(files, [write(queue, 1, 2) for queue in queues])
    made = files.calls - before
    assert (made["open"], made["write"], made["sync"]) == (20, 20, 20)
    assert made.keys() == {"open", "write", "sync"}
    left = files.crash(PowerLoss("all"))
    assert all(content(left, queue, 0, 3) == entries(0, 3) for queue in queues)


def test_a_file_that_retention_took_is_made_again(place: tuple[Files, str]) -> None:
    files, root = place
    queues = [queue_of(files, number, root) for number in range(3)]
    write_all_entries(files, [write(queue, 0, 10) for queue in queues])
    files.remove(queues[1].path_of(0))
    write_all_entries(files, [write(queue, 10, 5) for queue in queues])
    assert content(files, queues[1], 0, 15) == bytes(10 * ENTRY_SIZE) + entries(10, 5)
    assert content(files, queues[0], 0, 15) == content(files, queues[2], 0, 15) == entries(0, 15)


def test_a_disk_that_fails_is_told_and_the_next_time_all_of_it_is_written() -> None:
    files = SimulatedFiles()
    queues = [queue_of(files, number) for number in range(3)]
    write_all_entries(files, [write(queue, 0, 1) for queue in queues])
    files.fail(Fault("sync", 2, errno.EIO))
    with pytest.raises(OSError, match="simulated EIO of sync"):
        write_all_entries(files, [write(queue, 1, 1) for queue in queues])
    files.fail()
    write_all_entries(files, [write(queue, 1, 1) for queue in queues])
    assert all(content(files, queue, 0, 2) == entries(0, 2) for queue in queues)


def test_many_writes_are_what_each_would_be(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.write_bytes(bytes(64))

    def writes(path: Path) -> list[Write]:
        return [(str(path), 3, b"abc"), (str(path), 60, b"beyond the end"), (str(path), 4, b""), (str(path), 0, b"x")]

    OsFiles().write_durably(writes(one))
    write_each(OsFiles(), writes(other))
    assert one.read_bytes() == other.read_bytes() != bytes(64)
    with pytest.raises(FileNotFoundError) as raised:
        OsFiles().write_durably([(str(one), 0, b"y"), (str(tmp_path / "nobody"), 0, b"z")])
    assert raised.value.filename == str(tmp_path / "nobody") and one.read_bytes()[:1] == b"y"


def test_a_checkpoint_after_the_first_lays_nothing_out_anew() -> None:
    files = SimulatedFiles()
    driver = open_engine(files, queue_file_entries=100)
    for turn in range(2):
        for number in range(12):
            driver.engine.topics.ensure(f"T{number}", 1)
            driver.send(f"T{number}", b"body")
        before = files.calls.copy()
        driver.clock.advance(60_000)
        driver.upkeep()
        made = files.calls - before
        assert made["sync"] >= 12 and bool(made["truncate"]) is (turn == 0)
