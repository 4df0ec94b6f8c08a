"""Backup and broker take turns: no checkpoint while the files of one are copied, and none is waited for too long."""

from __future__ import annotations

import errno
import itertools

import pytest

from broker.backup.errors import BackupRefused
from broker.backup.reading import checkpoint_of
from broker.backup.restoring import restore_directory
from broker.backup.taking import held
from broker.engine.disk import join
from broker.engine.errors import StoreLocked
from broker.engine.log.upkeep import BACKUP_LOCK
from broker.engine.testing import Driver, Fault, SimulatedFiles, open_engine

from .history import TOPIC, History, Meanwhile, check_equal
from .test_histories import back_up, silent


def begun(files: SimulatedFiles) -> Driver:
    """An engine with one message."""
    driver = open_engine(files)
    driver.engine.topics.ensure(TOPIC, 1)
    driver.send(TOPIC, b"one")
    return driver


def test_a_checkpoint_waits_while_a_backup_has_its_turn() -> None:
    files = SimulatedFiles()
    driver = begun(files)
    driver.upkeep()
    number = checkpoint_of(files, "/store")[0]
    with held(files, "/store", pause=lambda: None):
        driver.send(TOPIC, b"two")
        for _ in range(5):
            driver.clock.advance(10_000)
            driver.upkeep()
        assert checkpoint_of(files, "/store")[0] == number
    driver.upkeep()
    assert checkpoint_of(files, "/store")[0] == number + 1


def test_a_backup_waits_while_a_checkpoint_is_written() -> None:
    files = SimulatedFiles()
    driver = begun(files)
    with held(files, "/store", pause=lambda: None):
        driver.upkeep()
    driver.clock.advance(10_000)
    job = driver.engine.take_upkeep(driver.clock.now_ms)
    assert job is not None
    job.run()
    waited: list[int] = []

    def finish() -> None:
        waited.append(1)
        driver.engine.upkept(job, None, driver.clock.now_ms)

    with held(files, "/store", pause=finish):
        assert waited == [1]


def test_a_backup_that_keeps_its_turn_for_ever_is_not_waited_for() -> None:
    files = SimulatedFiles()
    driver = begun(files)
    with held(files, "/store", pause=lambda: None):
        driver.upkeep()
        assert checkpoint_of(files, "/store")[0] == 0
        driver.clock.advance(700_000)
        driver.upkeep()
        assert checkpoint_of(files, "/store")[0] == 1


def test_a_broker_that_stops_does_not_wait_for_a_backup() -> None:
    files = SimulatedFiles()
    driver = begun(files)
    with held(files, "/store", pause=lambda: None):
        driver.close()
    assert not files.exists("/store/abort")


def test_a_store_of_which_no_backup_was_taken_has_no_lock_for_it() -> None:
    files = SimulatedFiles()
    driver = begun(files)
    driver.upkeep()
    assert not files.exists(join("/store", BACKUP_LOCK))


def test_two_backups_take_turns_at_a_store_and_one_directory_takes_one() -> None:
    files = SimulatedFiles()
    history = History(3, files)
    history.run(20)
    with held(files, "/store", pause=lambda: None), pytest.raises(StoreLocked):
        files.lock(join("/store", BACKUP_LOCK))
    back_up(files, history.clock.now_ms)
    taken = files.lock("/backup/lock")
    with pytest.raises(BackupRefused, match="Another backup is being written"):
        back_up(files, history.clock.now_ms)
    taken.close()
    back_up(files, history.clock.now_ms)


@pytest.mark.parametrize("seed", range(6))
def test_segments_that_retention_removes_meanwhile_are_read_to_their_end_or_left_out(seed: int) -> None:
    files = SimulatedFiles()
    history = History(seed, files, retention_hours=1, keep_unconsumed=False)
    for _ in range(80):
        history.send()
    before = history.driver.engine.health().log_min_position

    calls = itertools.count(seed)

    def act() -> None:
        if next(calls) % 6 == 5:
            history.driver.advance(3_600_000)
            history.send()
            history.driver.engine.expire_soon()
            history.driver.upkeep()

    manifest = back_up(Meanwhile(files, act, "/store/commitlog"), history.clock.now_ms)  # type: ignore[arg-type]  # all
    assert history.driver.engine.health().log_min_position > before
    restore_directory(files, "/backup", "/restored", told=silent)
    restored = open_engine(files, root="/restored", clock=history.clock, retention_hours=1, keep_unconsumed=False)
    for queue_id in range(2):
        end = restored.engine.queue_end(TOPIC, queue_id)
        bodies = {o: m.body for o, m in restored.readable(TOPIC, queue_id).items()}
        still = {
            o: m.body for o, m in history.driver.readable(TOPIC, queue_id).items() if m.position < manifest.position
        }
        assert still.items() <= bodies.items()
        assert end >= max(still, default=-1) + 1
        assert all(m.position >= manifest.min_position for m in restored.readable(TOPIC, queue_id).values())


def test_consumers_of_a_queue_that_has_expired_go_on_behind_it_after_a_cut() -> None:
    files = SimulatedFiles()
    history = History(1, files, retention_hours=1, keep_unconsumed=False)
    driver = history.driver
    driver.engine.topics.ensure("bills", 1)
    for number in range(12):
        driver.send("bills", b"%d" % number)
    driver.engine.offsets.commit("shop", "bills", 0, 12)
    for _ in range(60):
        history.send()
    driver.advance(2 * 3_600_000)
    history.send()
    driver.engine.expire_soon()
    driver.upkeep()
    driver.clock.advance(10_000)
    driver.upkeep()
    assert driver.readable("bills") == {}
    until_ms = driver.clock.advance(5_000)
    driver.clock.advance(5_000)
    history.send()
    driver.clock.advance(10_000)
    driver.upkeep()
    back_up(files, driver.clock.now_ms)
    restored = restore_directory(files, "/backup", "/restored", until_ms=until_ms, told=silent)
    assert restored.cut is not None
    assert restored.cut.is_rebuilt
    after = open_engine(files, root="/restored", clock=driver.clock, retention_hours=1, keep_unconsumed=False)
    assert after.engine.offsets.get("shop", "bills", 0) == 12
    assert after.send("bills", b"next").queue_offset == 12


def test_a_store_without_a_message_is_a_backup_too() -> None:
    files = SimulatedFiles()
    history = History(1, files)
    manifest = back_up(files, history.clock.now_ms)
    assert (manifest.position, manifest.segments) == (0, [])
    restore_directory(files, "/backup", "/restored", told=silent)
    check_equal(files, "/restored", history.expected(0), history.clock.now_ms)


def test_a_lock_that_the_broker_cannot_open_keeps_no_checkpoint_waiting() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure(TOPIC, 1)
    with held(files, "/store", pause=lambda: None):
        pass
    driver.send(TOPIC, b"one")
    files.fail(Fault("open", error=errno.EACCES, forever=True, path_part=BACKUP_LOCK))
    driver.upkeep()
    assert checkpoint_of(files, "/store")[0] == 1
    assert driver.engine.is_open
