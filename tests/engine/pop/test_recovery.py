"""What was handed out and acknowledged, after stops and crashes of every kind."""

from __future__ import annotations

import pytest

from broker.engine.store.facts import Facts
from broker.engine.store.topics import POP_TOPIC
from broker.engine.testing import Driver, PowerLoss, SimulatedFiles
from tests.engine.pop.popping import (
    DLQ,
    GROUP,
    INVISIBLE_MS,
    RETRY,
    TOPIC,
    ack,
    ask,
    bodies,
    change,
    offset_of,
    pop,
    popping,
    reopened,
)

KILLED = PowerLoss("kill", 1)


def crashed(files: SimulatedFiles, driver: Driver, loss: PowerLoss = KILLED, **config: object) -> Driver:
    return reopened(files.crash(loss), driver.clock, **config)


def eventually(driver: Driver) -> list[bytes]:
    """Everything that comes in the next hours, acknowledged as it comes."""
    found: list[bytes] = []
    for _ in range(8):
        held = pop(driver)
        ack(driver, *held)
        found += bodies(held)
        driver.advance(10 * INVISIBLE_MS)
    return sorted(found)


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
        for queue in driver.engine.pops.book.queues.values()
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


def test_what_apache_rocketmq_consumed_in_between_is_not_given_out_again() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=5)
    pop(driver, most_messages=3)
    driver.close()
    path = "/store/config/consumerOffset.json"
    file = files.open(path)
    file.truncate(0)
    file.write(
        b'{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1795249187230},'
        b'"offsetTable":{"orders@payers":{0:4}}}',
        0,
    )
    file.sync()
    driver = reopened(files, driver.clock)
    assert eventually(driver) == [b"m4"]


def test_messages_that_a_crash_took_from_the_log_leave_no_hole() -> None:
    """With flush=async the end of the log may go: what comes there afterwards is handed out."""
    files = SimulatedFiles()
    driver = popping(files, messages=2, flush="async", flush_interval_ms=10)
    driver.clock.advance(1_000)
    driver.upkeep()
    held = pop(driver)
    driver.clock.advance(6_000)
    driver.upkeep()
    for number in range(2, 6):
        driver.append(TOPIC, b"lost%d" % number)
    driver.settle()
    assert len(pop(driver)) == 4
    driver = crashed(files, driver, PowerLoss("all", 3), flush="async")
    assert driver.engine.queue_bounds(TOPIC, 0) == (0, 2)
    for number in range(2, 6):
        driver.send(TOPIC, b"new%d" % number)
    assert bodies(pop(driver)) == [b"new2", b"new3", b"new4", b"new5"]
    assert ack(driver, *held)
    driver = reopened(files_of(driver), driver.clock, flush="async")
    driver.advance(INVISIBLE_MS)
    assert sorted(bodies(pop(driver))) == [b"new2", b"new3", b"new4", b"new5"]


def files_of(driver: Driver) -> SimulatedFiles:
    """The disk under a driver, closed cleanly."""
    driver.close()
    files = driver.engine._files
    assert isinstance(files, SimulatedFiles)
    return files


def test_a_deleted_topic_stays_forgotten_after_a_crash() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=3)
    held = pop(driver)
    ack(driver, held[0])
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.engine.delete_topic(TOPIC)
    driver.engine.topics.ensure(TOPIC, 1)
    driver.send(TOPIC, b"new")
    for _ in range(2):
        driver = crashed(files, driver)
        assert bodies(pop(driver)) == [b"new"]


def test_what_is_out_keeps_its_segment() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=1, segment_size_bytes=4096, retention_hours=1, keep_unconsumed=False)
    (held,) = pop(driver, invisible_ms=100 * 3_600_000)
    for number in range(60):
        driver.send(TOPIC, b"%100d" % number)
    driver.engine.offsets.note(GROUP, TOPIC, 0, 61)
    driver.clock.advance(3 * 3_600_000)
    driver.send(TOPIC, b"newest")
    driver.upkeep()
    assert driver.engine.queue_bounds(TOPIC, 0)[0] == 0
    assert ack(driver, held)
    driver.engine.offsets.commit(GROUP, TOPIC, 0, 62)
    driver.clock.advance(20_000)
    driver.upkeep()
    assert driver.engine.queue_bounds(TOPIC, 0)[0] > 0


def test_a_message_that_rotted_while_it_was_out_ends_there() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=2)
    first, _ = pop(driver)
    file = files.open("/store/commitlog/00000000000000000000")
    file.write(b"rot", first.message.position + 60)
    driver.advance(INVISIBLE_MS)
    assert bodies(pop(driver)) == [b"m1"]
    driver.advance(2 * INVISIBLE_MS)
    assert driver.engine.health().state == "DEGRADED"


def test_the_largest_properties_are_tried_again_too() -> None:
    files = SimulatedFiles()
    driver = popping(files, segment_size_bytes=1 << 20, max_properties_bytes=32_767)
    driver.send(TOPIC, b"big", note="x" * 32_700)
    pop(driver)
    driver.advance(INVISIBLE_MS)
    (again,) = pop(driver)
    assert (again.message.topic, again.message.reconsume_times) == (RETRY, 1)
    assert "ESC_POPPED" not in again.message.properties
    assert ack(driver, again)
    driver = crashed(files, driver, segment_size_bytes=1 << 20)
    assert eventually(driver) == []


def test_damage_in_the_ledger_is_reported_and_stepped_over() -> None:
    driver = popping(messages=1)
    now_ms = driver.clock.now_ms
    store = driver.engine._store
    facts = Facts(b"", None, None, None)
    for body in (b"", b"\x02\0\0", b"\x01\0\1\0\3a\0b", b"\x01\0\1\0\5a\0b\0" + b"0PACS"):
        store.append(POP_TOPIC, 0, body, facts, 0, 0, 0, now_ms, store.store_host, now_ms)
    driver.settle()
    driver = crashed(driver.engine._files, driver)  # type: ignore[arg-type]  # a simulated disk
    assert driver.engine.health().state == "DEGRADED"
    assert bodies(pop(driver)) == [b"m0"]
