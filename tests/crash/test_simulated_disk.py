"""The simulated disk loses exactly what a real one may lose."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest

from broker.engine.testing import SECTOR_BYTES, Fault, PowerLoss, SimulatedFiles

KILLED = PowerLoss("kill")
ALL_LOST = PowerLoss("all")


def disk_with(path: str = "/store/a") -> tuple[SimulatedFiles, object]:
    """A disk with one durable empty file."""
    files = SimulatedFiles()
    files.make_directory("/store")
    file = files.open(path, create=True)
    files.sync_directory("/store")
    return files, file


def test_synced_bytes_survive_and_unsynced_ones_are_lost():
    files, file = disk_with()
    file.write(b"kept", 0)
    file.sync()
    file.write(b"gone", 4)
    assert files.crash(ALL_LOST).contents() == {"/store/a": b"kept"}
    assert files.crash(KILLED).contents() == {"/store/a": b"keptgone"}
    assert files.contents() == {"/store/a": b"keptgone"}, "the disk itself goes on unharmed"


def test_a_new_name_needs_its_folder_synced_even_if_the_file_was():
    files, _ = disk_with()
    other = files.open("/store/b", create=True)
    other.write(b"x", 0)
    other.sync()
    assert list(files.crash(ALL_LOST).contents()) == ["/store/a"]
    files.sync_directory("/store")
    assert files.crash(ALL_LOST).contents()["/store/b"] == b"x"


def test_a_rename_may_come_before_the_data():
    files, _ = disk_with()
    fresh = files.open("/store/a.tmp", create=True)
    fresh.write(b"new", 0)
    files.rename("/store/a.tmp", "/store/a")
    files.sync_directory("/store")
    assert files.crash(ALL_LOST).contents() == {"/store/a": b""}, "the classic empty file after rename without sync"


def test_a_rename_or_removal_without_folder_sync_may_be_undone():
    files, file = disk_with()
    file.write(b"old", 0)
    file.sync()
    files.rename("/store/a", "/store/b")
    assert files.crash(ALL_LOST).contents() == {"/store/a": b"old"}
    files.sync_directory("/store")
    files.remove("/store/b")
    assert files.crash(ALL_LOST).contents() == {"/store/b": b"old"}
    assert files.crash(KILLED).contents() == {}


def test_a_folder_made_again_after_removal_is_not_swept_away():
    files, _ = disk_with()
    files.remove_directory("/store")
    files.make_directory("/store")
    file = files.open("/store/c", create=True)
    file.write(b"x", 0)
    file.sync()
    files.sync_directory("/store")
    assert files.crash(ALL_LOST).contents() == {"/store/c": b"x"}


def test_random_losses_tear_at_sectors_and_nowhere_else():
    files, file = disk_with()
    file.allocate(8 * SECTOR_BYTES)
    file.sync()
    file.write(b"\xff" * (4 * SECTOR_BYTES), 100)
    torn = 0
    for seed in range(200):
        content = files.crash(PowerLoss("random", seed)).contents()["/store/a"]
        assert len(content) == 8 * SECTOR_BYTES
        assert content[:100] == bytes(100)
        assert content[100 + 4 * SECTOR_BYTES :] == bytes(len(content) - 100 - 4 * SECTOR_BYTES)
        sectors = {content[max(100, at) : min(at + SECTOR_BYTES, 2148)] for at in range(0, 2148, SECTOR_BYTES)}
        garbled = [sector for sector in sectors if len(set(sector)) > 1]
        assert all(sector.count(255) < 20 and sector.count(0) < 20 for sector in garbled), (
            "a sector is whole or garbage"
        )
        torn += len({sector[0] for sector in sectors}) > 1
    assert torn > 30


def test_the_size_of_a_file_may_survive_without_the_bytes_and_the_bytes_without_the_size():
    files, file = disk_with()
    file.write(b"x" * 10, 0)
    seen = {files.crash(PowerLoss("random", seed)).contents()["/store/a"] for seed in range(300)}
    assert {b"", bytes(10), b"x" * 10} <= seen


def test_a_prefix_keeps_operations_in_their_order():
    files, file = disk_with()
    before = files.sequence
    for letter in (b"a", b"b", b"c"):
        file.write(letter, file.size())
    states = [files.crash(PowerLoss("prefix", until=before + kept)).contents()["/store/a"] for kept in range(4)]
    assert states[0] in (b"", b"a")
    assert states[3] == b"abc"
    assert all(later.startswith(earlier) for earlier, later in pairwise(states))


def test_the_same_loss_of_the_same_history_is_the_same_disk():
    def history() -> SimulatedFiles:
        files, file = disk_with()
        for number in range(20):
            file.write(bytes([number]) * 700, number * 700)
        return files

    for seed in range(20):
        loss = PowerLoss("random", seed)
        assert history().crash(loss).contents() == history().crash(loss).contents()


def test_after_a_failed_sync_the_bytes_are_seen_but_never_become_durable():
    files, file = disk_with()
    file.write(b"lost", 0)
    files.fail(Fault("sync"))
    with pytest.raises(OSError):
        file.sync()
    assert file.read(4, 0) == b"lost"
    file.sync()
    assert files.crash(ALL_LOST).contents() == {"/store/a": b""}
    file.drop_cache()
    assert file.read(4, 0) == b""


def test_a_fault_strikes_the_nth_call_once_or_from_then_on():
    files, file = disk_with()
    files.fail(Fault("write", nth=2, error=errno.ENOSPC, partial_bytes=1))
    file.write(b"11", 0)
    with pytest.raises(OSError) as caught:
        file.write(b"22", 2)
    assert caught.value.errno == errno.ENOSPC
    assert file.read(10, 0) == b"112"
    file.write(b"33", 2)
    files.fail(Fault("write", nth=1, forever=True, path_part="/a"))
    for _ in range(3):
        with pytest.raises(OSError):
            file.write(b"x", 0)


def test_a_full_disk_takes_no_more_until_something_is_removed():
    files = SimulatedFiles(capacity_bytes=1000)
    files.make_directory("/store")
    first, second = files.open("/store/a", create=True), files.open("/store/b", create=True)
    first.allocate(900)
    assert files.used_ratio("/store") == 0.9
    with pytest.raises(OSError) as caught:
        second.allocate(101)
    assert caught.value.errno == errno.ENOSPC
    assert second.size() == 0
    files.remove("/store/a")
    second.allocate(101)


def test_every_change_reaches_the_observer():
    boundaries: list[int] = []
    files = SimulatedFiles(on_change=lambda: boundaries.append(files.sequence))
    files.make_directory("/store")
    file = files.open("/store/a", create=True)
    file.write(b"x", 0)
    file.sync()
    files.rename("/store/a", "/store/b")
    files.sync_directory("/store")
    files.remove("/store/b")
    assert len(boundaries) == 7


def test_flipping_a_bit_changes_exactly_it():
    files = SimulatedFiles()
    files.load({"/store/a": b"\0\0"})
    files.flip("/store/a", 9)
    assert files.contents() == {"/store/a": b"\0\x02"}
    assert files.crash(ALL_LOST).contents() == {"/store/a": b"\0\x02"}
