"""Ended anywhere: a backup leaves the one before it, a restore leaves what no broker opens, and both are made good."""

from __future__ import annotations

import errno
import random

import pytest

from broker.backup.directory import manifest_in
from broker.backup.errors import BackupRefused
from broker.backup.manifest import Manifest
from broker.backup.restoring import restore_directory
from broker.engine.errors import StoreUnsupported
from broker.engine.testing import PowerLoss, SimulatedFiles, open_engine

from .history import Expected, History, check_equal
from .test_histories import back_up, silent


def losses(sequence: int, draws: random.Random) -> list[PowerLoss]:
    return [
        PowerLoss("kill"),
        PowerLoss("all"),
        PowerLoss("prefix", draws.randrange(1 << 30), max(0, sequence - draws.randint(1, 8))),
        PowerLoss("random", draws.randrange(1 << 30)),
    ]


def restores(files: SimulatedFiles, expected: dict[int, Expected], now_ms: int, root: str) -> Manifest:
    """Restore what a backup directory holds, and compare it with the model at its position."""
    manifest = manifest_in(files, "/backup")
    restore_directory(files, "/backup", root, told=silent)
    check_equal(files, root, expected[manifest.position], now_ms)
    return manifest


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("had_one", [False, True])
def test_a_backup_that_is_ended_at_any_write_leaves_the_one_before_it(seed: int, had_one: bool) -> None:
    files, draws = SimulatedFiles(), random.Random(seed)
    history = History(seed, files)
    history.run(30)
    history.driver.settle()
    positions = {0: history.driver.engine.health().log_end_position}
    if had_one:
        positions[0] = back_up(files, history.clock.now_ms).position
    history.run(20)
    history.driver.settle()
    left: list[SimulatedFiles] = []
    files.on_change = lambda: left.append(files.crash(draws.choice(losses(files.sequence, draws))))
    positions[1] = back_up(files, history.clock.now_ms).position
    files.on_change = None
    expected = {position: history.expected(position) for position in positions.values()}
    assert len(left) > 50
    refused = 0
    for disk in left:
        try:
            manifest = restores(disk, expected, history.clock.now_ms, "/early")
        except BackupRefused:
            refused += 1
        else:
            assert had_one or manifest.position == positions[1]
        assert back_up(disk, history.clock.now_ms).position == positions[1]
        assert restores(disk, expected, history.clock.now_ms, "/late").position == positions[1]
        named = {part.stored_as for part in manifest_in(disk, "/backup").parts}
        there = {path.removeprefix("/backup/") for path in disk.contents() if path.startswith("/backup/")}
        assert there == named | {"manifest.json", "lock"}
    assert (refused == 0) is had_one


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_restore_that_is_ended_at_any_write_is_opened_by_nobody_and_begins_anew(seed: int, is_cut: bool) -> None:
    files, draws = SimulatedFiles(), random.Random(seed)
    history = History(seed, files)
    history.run(40)
    history.send()
    manifest = back_up(files, history.clock.now_ms)
    moments = history.moments()
    until_ms = moments[len(moments) // 2][1] if is_cut else None
    if until_ms == moments[0][1]:
        until_ms = None
    end = next((position for position, ms in moments if until_ms is not None and ms >= until_ms), manifest.position)
    expected = history.expected(end)
    left: list[SimulatedFiles] = []
    files.on_change = lambda: left.append(files.crash(draws.choice(losses(files.sequence, draws))))
    restore_directory(files, "/backup", "/restored", until_ms=until_ms, told=silent)
    files.on_change = None
    assert len(left) > 50
    refused = 0
    for disk in left:
        try:
            is_whole = bool(disk.list("/restored/config"))
            open_engine(disk.crash(PowerLoss("kill")), root="/restored", clock=history.clock)
        except StoreUnsupported as error:
            refused += "restore the backup again" in str(error)
            restore_directory(disk, "/backup", "/restored", until_ms=until_ms, told=silent)
        else:
            if not is_whole:
                continue
        check_equal(disk, "/restored", expected, history.clock.now_ms)
    assert refused > 40


@pytest.mark.parametrize("line", range(3))
def test_a_backup_that_is_stopped_by_hand_is_completed_by_the_next(line: int) -> None:
    files = SimulatedFiles()
    history = History(1, files)
    history.run(60)
    history.driver.settle()
    heard: list[str] = []

    class Stopping(list[str]):
        def append(self, told: str) -> None:
            super().append(told)
            if len(self) > line:
                raise KeyboardInterrupt

    heard = Stopping()
    from broker.backup.directory import BackupDirectory
    from broker.backup.taking import Origin, take

    target = BackupDirectory(files, "/backup")
    with pytest.raises(KeyboardInterrupt):
        take(files, Origin("/store", "broker-a", "test", heard.append, pause=lambda: None), target, 0)
    target.close()
    with pytest.raises(BackupRefused, match="begun and not finished: take it again"):
        restore_directory(files, "/backup", "/restored", told=silent)
    target = BackupDirectory(files, "/backup")
    take(files, Origin("/store", "broker-a", "test", silent, pause=lambda: None), target, 0)
    target.close()
    assert target.kept_bytes >= line * 4096, "what was copied is not copied again"
    manifest = manifest_in(files, "/backup")
    restores(files, {manifest.position: history.expected(manifest.position)}, history.clock.now_ms, "/restored")


@pytest.mark.parametrize("seed", range(3))
def test_a_disk_that_is_full_leaves_the_backup_before_and_takes_it_when_there_is_room(seed: int) -> None:
    files = SimulatedFiles()
    history = History(seed, files)
    history.run(30)
    first = back_up(files, history.clock.now_ms).position
    history.run(60)
    history.driver.settle()
    used = files.used_bytes()
    errors: list[int | None] = []
    for more in range(0, 60_000, 6_000):
        files.capacity_bytes = used + more
        try:
            back_up(files, history.clock.now_ms)
        except OSError as error:
            errors.append(error.errno)
            assert manifest_in(files, "/backup").position == first
    assert set(errors) == {errno.ENOSPC}
    files.capacity_bytes = 1 << 40
    position = back_up(files, history.clock.now_ms).position
    used = files.used_bytes()
    errors.clear()
    for more in range(4_096, 200_000, 20_000):
        files.capacity_bytes = used + more
        try:
            restore_directory(files, "/backup", "/restored", told=silent)
            break
        except OSError as error:
            errors.append(error.errno)
            with pytest.raises(StoreUnsupported):
                open_engine(files, root="/restored", clock=history.clock)
    assert set(errors) == {errno.ENOSPC}
    files.capacity_bytes = 1 << 40
    check_equal(files, "/restored", history.expected(position), history.clock.now_ms)
