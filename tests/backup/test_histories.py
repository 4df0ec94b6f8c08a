"""A backup that is taken while its broker goes on, restored: as a model of the history says, at its very position."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.backup.directory import BackupDirectory
from broker.backup.manifest import Manifest
from broker.backup.restoring import restore_directory
from broker.backup.taking import Origin, take
from broker.engine.disk import Files
from broker.engine.fsck.store import check_store
from broker.engine.testing import SimulatedFiles

from .history import ALL_OF_IT_MS, History, Meanwhile, check_equal

SEEDS = range(12)


def silent(line: str) -> None:
    """Hear how far it is."""


def back_up(files: Files, now_ms: int, root: str = "/store", directory: str = "/backup") -> Manifest:
    target = BackupDirectory(files, directory)
    try:
        return take(files, Origin(root, "broker-a", "test", silent, pause=lambda: None), target, now_ms)
    finally:
        target.close()


def backed_up_meanwhile(history: History, files: SimulatedFiles, share: float) -> Manifest:
    """Take a backup while the history goes on: a step at some of its reads."""
    history.restarts = 2
    draws = random.Random(history.random.random())

    def act() -> None:
        if draws.random() < share:
            history.step()

    return back_up(Meanwhile(files, act, "/store"), history.clock.now_ms)  # type: ignore[arg-type]  # it has them all


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_restored_is_what_the_model_says(seed: int, flush: Any) -> None:
    files = SimulatedFiles()
    history = History(seed, files, flush=flush)
    history.run(history.random.randint(0, 80))
    seen = history.driver.engine.health().log_end_position
    manifest = backed_up_meanwhile(history, files, 0.2)
    assert manifest.position >= seen, "what was acknowledged before the backup began is in it"
    expected = history.expected(manifest.position)
    restore_directory(files, "/backup", "/restored", told=silent)
    report = check_store(files, "/restored")
    assert report.damages == []
    check_equal(files, "/restored", expected, history.clock.now_ms)


@pytest.mark.parametrize("seed", SEEDS)
def test_cut_at_any_moment_it_is_what_the_model_says_of_that_moment(seed: int) -> None:
    files = SimulatedFiles()
    history = History(seed, files)
    history.run(history.random.randint(5, 80))
    history.send()
    history.let_time_pass()
    manifest = backed_up_meanwhile(history, files, 0.1)
    moments = [(position, ms) for position, ms in history.moments() if position < manifest.position]
    until_ms = history.random.randint(moments[0][1] + 1, manifest.taken_ms)
    end = next((position for position, ms in moments if ms >= until_ms), manifest.position)
    expected = history.expected(end)
    restored = restore_directory(files, "/backup", "/restored", until_ms=until_ms, told=silent)
    assert restored.position == end
    before = [ms for position, ms in moments if position < end]
    assert (manifest.last_ms, restored.last_ms) == (moments[-1][1], before[-1])
    driver = check_equal(files, "/restored", expected, max(until_ms, history.clock.now_ms))
    driver.close()
    assert check_store(files, "/restored").damages == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_backup_copies_what_is_new_and_holds_as_well(seed: int) -> None:
    files = SimulatedFiles()
    history = History(seed, files)
    for round_number in range(3):
        history.run(history.random.randint(1, 60))
        manifest = backed_up_meanwhile(history, files, 0.1)
        root = f"/restored{round_number}"
        restore_directory(files, "/backup", root, told=silent)
        check_equal(files, root, history.expected(manifest.position), history.clock.now_ms)
    before = {path: content for path, content in files.contents().items() if path.startswith("/backup/")}
    history.driver.settle()
    history.driver.advance(ALL_OF_IT_MS)
    history.driver.upkeep()
    back_up(files, history.clock.now_ms)
    kept = [path for path, content in before.items() if files.contents().get(path) == content]
    assert len([path for path in kept if path.startswith("/backup/commitlog")]) >= len(manifest.segments) - 1


def test_a_log_is_read_no_faster_than_is_said() -> None:
    files = SimulatedFiles()
    history = History(1, files)
    history.run(60)
    waits: list[float] = []
    origin = Origin("/store", "broker-a", "test", silent, pause=lambda: None, bytes_per_s=1_000, wait=waits.append)
    target = BackupDirectory(files, "/backup")
    manifest = take(files, origin, target, history.clock.now_ms)
    target.close()
    assert sum(waits) == pytest.approx(sum(part.stored_bytes for part in manifest.segments) / 1_000)
    restore_directory(files, "/backup", "/restored", told=silent)
    check_equal(files, "/restored", history.expected(manifest.position), history.clock.now_ms)
