"""Where a backup ends: behind the last sound record, past damage, and not before what was being written just then."""

from __future__ import annotations

import pytest

from broker.backup.directory import BackupDirectory
from broker.backup.manifest import Manifest
from broker.backup.restoring import restore_directory
from broker.backup.taking import Origin, take
from broker.engine.testing import Driver, SimulatedFiles, open_engine

from .history import TOPIC
from .test_histories import silent

SEGMENT = "/store/commitlog/00000000000000000000"


@pytest.fixture
def files() -> SimulatedFiles:
    return SimulatedFiles()


@pytest.fixture
def driver(files: SimulatedFiles) -> Driver:
    """Four messages, of which the last checkpoint knows one."""
    driver = open_engine(files)
    driver.engine.topics.ensure(TOPIC, 1)
    driver.send(TOPIC, b"zero")
    driver.upkeep()
    for body in (b"one", b"two", b"three"):
        driver.send(TOPIC, body)
    return driver


def backed_up(files: SimulatedFiles, pause: object = None) -> Manifest:
    target = BackupDirectory(files, "/backup")
    origin = Origin("/store", "broker-a", "test", silent, pause=pause or (lambda: None))  # type: ignore[arg-type]  # a call
    manifest = take(files, origin, target, 0)
    target.close()
    restore_directory(files, "/backup", "/restored", told=silent)
    return manifest


def restored_bodies(files: SimulatedFiles) -> list[bytes]:
    return open_engine(files, root="/restored").bodies(TOPIC)


def bit_of(driver: Driver, offset: int) -> int:
    """A bit in the middle of a record."""
    entry = driver.engine.entries(TOPIC, 0, offset, 1)[0]
    return 8 * (entry.position + entry.size // 2)


def test_a_record_that_is_being_written_is_waited_for_if_others_stand_behind_it(
    files: SimulatedFiles, driver: Driver
) -> None:
    bit = bit_of(driver, 2)
    files.flip(SEGMENT, bit)
    waits: list[int] = []

    def written() -> None:
        if not waits:
            files.flip(SEGMENT, bit)
        waits.append(1)

    assert backed_up(files, written).position == driver.engine.health().log_end_position
    assert waits
    assert restored_bodies(files) == [b"zero", b"one", b"two", b"three"]


def test_what_stays_damaged_is_stepped_over_as_recovery_does(files: SimulatedFiles, driver: Driver) -> None:
    files.flip(SEGMENT, bit_of(driver, 2))
    assert backed_up(files).position == driver.engine.health().log_end_position
    assert restored_bodies(files) == [b"zero", b"one", b"three"]


def test_a_torn_record_at_the_end_is_not_part_of_it(files: SimulatedFiles, driver: Driver) -> None:
    last = driver.engine.entries(TOPIC, 0, 3, 1)[0]
    files.flip(SEGMENT, bit_of(driver, 3))
    assert backed_up(files).position == last.position
    assert restored_bodies(files) == [b"zero", b"one", b"two"]
