"""What a job writes of the index is what was there when it was put together, whatever is added meanwhile."""

from __future__ import annotations

import random

import pytest

from broker.engine.queues.index import IndexFile
from broker.engine.testing import SimulatedFiles

SLOTS, LIMIT = 70_000, 2_000


def filled(hashes: list[int]) -> IndexFile:
    file = IndexFile("/20260101000000000", SLOTS, LIMIT)
    file.begin()
    add(file, hashes, together=True)
    return file


def add(file: IndexFile, hashes: list[int], *, together: bool) -> None:
    positions = [100 * (file.next_number + number) for number in range(len(hashes))]
    if not hashes:
        return
    if together:
        file.add_many(hashes, positions, 1)
    else:
        for key_hash, position in zip(hashes, positions, strict=True):
            file.add(key_hash, position, 1)


@pytest.mark.parametrize("together", [True, False])
def test_what_is_added_meanwhile_is_written_the_next_time(together: bool) -> None:
    chance = random.Random(7)
    first, second = ([chance.randrange(300) * 231 for _ in range(400)] for _ in range(2))
    images: list[list[bytes]] = []
    for is_busy in (False, True):
        disk, file = SimulatedFiles(), filled(first)
        images.append([])
        for more in (second, []):
            write = file.take()
            assert write is not None
            if is_busy:
                add(file, more, together=together)
            write.copy()
            write.run(disk)
            file.wrote(write)
            images[-1].append(disk.contents()[file.path])
            if not is_busy:
                add(file, more, together=together)
    assert images[0] == images[1]
    assert images[0][0] != images[0][1]


@pytest.mark.parametrize("is_written", [True, False])
def test_entries_are_found_while_a_job_writes_some_and_after_it(is_written: bool) -> None:
    disk, file = SimulatedFiles(), filled([11, 22, 11])
    write = file.take()
    assert write is not None and not file.rests
    add(file, [22, 33], together=True)
    expected = {11: [300, 100], 22: [400, 200], 33: [500], 44: []}

    def found() -> dict[int, list[int]]:
        stored = disk.open(file.path) if disk.exists(file.path) else None
        return {key_hash: [position for position, _ in file.find(stored, key_hash, 9)] for key_hash in expected}

    assert found() == expected
    if is_written:
        write.copy()
        write.run(disk)
        file.wrote(write)
    else:
        file.failed(write)
    assert found() == expected
    again = file.take()
    assert again is not None and found() == expected
    again.copy()
    again.run(disk)
    file.wrote(again)
    assert file.rests and found() == expected
    assert file.take() is None
