"""What was handed out and acknowledged, after stops and crashes of every kind."""

from __future__ import annotations

import struct

import pytest

from broker.engine.pop.records import Page, read_page
from broker.engine.testing import Driver, PowerLoss, SimulatedFiles
from broker.rocketmq.topics import POP_TOPIC
from tests.engine.pop.popping import (
    DLQ,
    GROUP,
    INVISIBLE_MS,
    KILLED,
    TOPIC,
    ack,
    ask,
    bodies,
    change,
    crashed,
    eventually,
    files_of,
    offset_of,
    pop,
    popping,
    reopened,
)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_what_is_out_stays_out_and_what_is_done_stays_done(checkpoint: bool, clean: bool) -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=6)
    held = pop(driver, most_messages=4)
    longer = change(driver, held[1], 5 * INVISIBLE_MS)
    assert longer is not None
    ack(driver, held[0])
    if checkpoint:
        driver.clock.advance(6_000)
        driver.upkeep()
    ack(driver, held[2])
    if clean:
        driver.close()
    driver = reopened(files, driver.clock) if clean else crashed(files, driver)
    assert bodies(pop(driver)) == [b"m4", b"m5"], "the rest is out or done"
    assert offset_of(driver) == 1
    driver.advance(INVISIBLE_MS)
    assert sorted(bodies(pop(driver))) == [b"m3", b"m4", b"m5"]
    assert ack(driver, longer), "a handle of before is good"
    assert b"m1" not in eventually(driver)


def test_a_pop_whose_entry_was_lost_is_given_out_again() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=2)
    assert ask(driver).messages == 2
    driver = crashed(files, driver)
    assert bodies(pop(driver)) == [b"m0", b"m1"]


def test_a_copy_is_made_once_whatever_is_lost() -> None:
    """The power goes while the copy is on its way: it is there or not, and the message comes exactly once."""
    for seed in range(60):
        files = SimulatedFiles()
        driver = popping(files, messages=3)
        pop(driver)
        driver.clock.advance(INVISIBLE_MS)
        driver.engine.tick(driver.clock.now_ms)
        caught: list[SimulatedFiles] = []

        def cut(files: SimulatedFiles = files, caught: list[SimulatedFiles] = caught, seed: int = seed) -> None:
            if not caught:
                caught.append(files.crash(PowerLoss("random", seed)))

        files.on_change = cut
        driver.flush()
        driver = reopened(caught[0], driver.clock)
        driver.tick()
        assert eventually(driver) == [b"m0", b"m1", b"m2"], seed


def test_a_checkpoint_taken_while_a_copy_is_on_its_way_loses_nothing() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=2)
    held = pop(driver)
    change(driver, held[1], 1)
    driver.clock.advance(INVISIBLE_MS)
    driver.engine.tick(driver.clock.now_ms)
    driver.upkeep()
    driver = crashed(files, driver)
    driver.tick()
    assert eventually(driver) == [b"m0", b"m1"]


def test_a_copy_heard_of_after_a_crash_is_known_after_a_clean_stop() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=1)
    pop(driver)
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.advance(INVISIBLE_MS)
    driver = crashed(files, driver)
    files = files_of(driver)
    driver = reopened(files, driver.clock)
    assert eventually(driver) == [b"m0"]


def test_tries_are_counted_across_crashes() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=1)
    group = driver.engine.groups.ensure(GROUP)
    driver.engine.groups.put(type(group)(GROUP, retry_max_times=2))
    for times in range(3):
        (held,) = pop(driver)
        assert held.message.reconsume_times == times
        driver.advance(INVISIBLE_MS)
        driver = crashed(files, driver)
        files = driver.engine._files  # type: ignore[assignment]  # the disk after the crash
    assert pop(driver) == []
    assert len(driver.readable(DLQ)) == 1


def test_everything_follows_from_the_log_alone() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=8)
    held = pop(driver, most_messages=5)
    ack(driver, held[0], held[3])
    longer = change(driver, held[1], 20 * INVISIBLE_MS)
    assert longer is not None
    driver.advance(INVISIBLE_MS)
    (second, fifth) = pop(driver, most_messages=3)[:2]
    driver.settle()
    expected = state_of(driver)
    driver.close()
    for damage in ("escapement.pops.0", "escapement.pops.1", "escapement.checkpoint"):
        files.remove(f"/store/{damage}")
        driver = reopened(files, driver.clock)
        assert state_of(driver) == expected, damage
        driver.close()
    assert second.offset != fifth.offset


def state_of(driver: Driver) -> dict[object, object]:
    """What is out: by queue the next offset, and by offset the moment at which it is due."""
    return {
        queue.key: (
            queue.next_offset,
            queue.base_offset,
            {offset: (point.pop_ms, point.due_ms) for point in queue.points.values() for offset in point.offsets()},
            queue.orderly and queue.orderly.to_json(),
        )
        for queue in driver.engine.pops.table.queues.values()
    }


def test_an_orderly_queue_after_a_crash() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=5)
    pop(driver, in_order=True, most_messages=3, attempt="a0")
    driver.advance(INVISIBLE_MS)
    held = pop(driver, in_order=True, most_messages=3)
    ack(driver, held[1])
    longer = change(driver, held[2], 2 * INVISIBLE_MS)
    expected = state_of(driver)
    driver = crashed(files, driver)
    assert state_of(driver) == expected
    assert pop(driver, in_order=True) == []
    assert longer is not None
    assert ack(driver, held[0], longer)
    assert bodies(pop(driver, in_order=True)) == [b"m3", b"m4"]


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_what_was_done_behind_an_open_message_after_a_crash(has_snapshot: bool) -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=4)
    held = pop(driver, in_order=True, most_messages=3)
    ack(driver, held[0], held[2])
    if has_snapshot:
        driver.clock.advance(6_000)
        driver.upkeep()
    change(driver, held[1], 3_000)
    expected = state_of(driver)
    files = files.crash(KILLED)
    driver = reopened(files, driver.clock)
    assert state_of(driver) == expected
    assert pop(driver, in_order=True) == []
    driver.advance(3_000)
    again = pop(driver, in_order=True, most_messages=3)
    assert [(each.body, each.count) for each in again] == [(b"m1", 1), (b"m2", 1), (b"m3", 0)]
    assert not ack(driver, held[1])
    assert ack(driver, again[2], again[0])
    files = files.crash(KILLED)
    driver = reopened(files, driver.clock)
    assert offset_of(driver) == 2
    assert ack(driver, again[1])
    files = files.crash(KILLED)
    driver = reopened(files, driver.clock)
    assert offset_of(driver) == 4


def test_a_snapshot_newer_than_its_log_with_less_taken_in_order() -> None:
    """An orderly pop of less than the one before, then pops in no order: the log is read again over their snapshot."""
    files = SimulatedFiles()
    driver = popping(files, messages=5)
    driver.clock.advance(6_000)
    driver.upkeep()
    pop(driver, in_order=True, most_messages=4)
    driver.advance(INVISIBLE_MS)
    (first,) = pop(driver, in_order=True, most_messages=1)
    ack(driver, first)
    held = pop(driver, most_messages=2)
    ack(driver, held[0])
    entries = list(driver.readable(POP_TOPIC).values())
    expected = state_of(driver)
    for entry in entries:
        driver.engine.pops.walked(entry)
    assert state_of(driver) == expected
    assert driver.engine.pops.table.queues[GROUP, TOPIC, 0].in_flight == 1
    ack(driver, *held[1:])
    driver = crashed(files, driver)
    assert offset_of(driver) == 3
    assert bodies(pop(driver)) == [b"m3", b"m4"]


def test_a_reset_survives_a_crash() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=4)
    ack(driver, *pop(driver))
    driver.engine.offsets.commit(GROUP, TOPIC, 0, 2)
    driver.settle()
    driver = crashed(files, driver)
    assert bodies(pop(driver)) == [b"m2", b"m3"]


def test_offsets_on_disk_that_lag_behind_bring_nothing_back() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=4)
    driver.engine.offsets.commit(GROUP, TOPIC, 0, 0)
    driver.clock.advance(2_000)
    driver.upkeep()
    ack(driver, *pop(driver))
    driver = crashed(files, driver)
    assert offset_of(driver) == 4
    assert eventually(driver) == []


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("ended", ["killed", "killed behind a snapshot", "stopped"])
def test_no_handle_from_before_a_reset_fits_after_a_start(ended: str, in_order: bool) -> None:
    """Though the clock says the same: what is popped after it is another pop."""
    files = SimulatedFiles()
    driver = popping(files, messages=1)
    (old,) = pop(driver, in_order=in_order)
    driver.engine.offsets.reset(GROUP, TOPIC, 0, 0)
    driver.settle()
    now_ms = driver.clock.now_ms
    if ended == "killed behind a snapshot":
        driver.clock.advance(6_000)
        driver.upkeep()
    elif ended == "stopped":
        driver.close()
    driver.clock.now_ms = now_ms
    driver = reopened(files, driver.clock) if ended == "stopped" else crashed(files, driver)
    (new,) = pop(driver, in_order=in_order)
    assert not ack(driver, old)
    assert offset_of(driver) == 0
    assert ack(driver, new)
    assert offset_of(driver) == 1


def test_what_is_out_in_an_orderly_queue_may_not_be_nested_too_deeply() -> None:
    deep = b"[" * 70_000
    entry = struct.pack(">BH", ord("O"), 0) + struct.pack(">qI", 0, len(deep)) + deep
    page = Page()
    page.ordered(b"g\0t\x000", 0, {})
    sound = page.body()
    with pytest.raises(ValueError, match="nested"):
        list(read_page(sound + entry))
