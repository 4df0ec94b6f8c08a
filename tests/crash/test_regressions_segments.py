"""Faults of whole segments that the campaigns found once, each in its smallest form."""

from __future__ import annotations

import pytest

from broker.engine.log.commit_log import Chain
from broker.engine.testing import ManualClock, PowerLoss, SimulatedFiles, open_engine


def test_a_power_loss_while_segments_behind_the_end_are_removed_leaves_no_gap_between_them():
    files = SimulatedFiles()
    chain = Chain(files, "/store/commitlog", 1024)
    for number in range(5):
        chain.add(number * 1024)
    seen: set[tuple[int, ...]] = set()

    def at_boundary() -> None:
        for seed in range(40):
            disk = files.crash(PowerLoss("random", seed))
            seen.add(tuple(Chain(disk, "/store/commitlog", 1024).segments()))

    files.on_change = at_boundary
    chain.clear_from(100)
    assert seen == {tuple(range(0, count * 1024, 1024)) for count in range(1, 6)}


@pytest.mark.parametrize("lost", [(1,), (2,), (1, 3), (4,)])
@pytest.mark.parametrize("clean", [False, True])
def test_queue_files_that_are_missing_between_others_are_made_again(clean: bool, lost: tuple[int, ...]) -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    for number in range(48):
        driver.send("orders", b"%d" % number)
        driver.send("orders", b"later %d" % number, TIMER_DELAY_MS="60000")
    driver.clock.advance(6_000)
    driver.upkeep()
    if clean:
        driver.close()
    disk = files.crash(PowerLoss("kill"))
    for topic in ("orders", "rmq_sys_wheel_timer"):
        for number in lost:
            disk.remove(f"/store/consumequeue/{topic}/0/{number * 160:020d}")
    for _ in range(3):
        # killed before anything is written again, and after
        again = open_engine(disk, clock=ManualClock(driver.clock.now_ms))
        assert again.bodies("orders") == [b"%d" % number for number in range(48)]
        assert again.engine.timers.status(driver.clock.now_ms)["pending"] == 48
        disk = disk.crash(PowerLoss("kill"))
    again.close()
    again = open_engine(disk, clock=ManualClock(driver.clock.now_ms))
    again.advance(60_000)
    assert again.bodies("orders")[48:] == [b"later %d" % number for number in range(48)]


@pytest.mark.parametrize("field_at", [12, 60], ids=["queue", "body"])
def test_in_place_of_a_damaged_message_none_of_a_deleted_topic_of_that_name_is_served(field_at: int) -> None:
    """Seed 0 of the flipped bits: the entry was looked for in the whole log, and found in what had been deleted."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"of the deleted one")
    driver.engine.delete_topic("orders", "keep")
    driver.engine.topics.ensure("orders", 1)
    position = driver.send("orders", b"of the new one").position
    files.flip("/store/commitlog/00000000000000000000", 8 * (position + field_at))
    pulled = driver.engine.pull("orders", 0, 0, 32, 1 << 20, None)
    assert pulled.records == []
    assert [damage.start for damage in driver.engine.health().damaged] == [position]
