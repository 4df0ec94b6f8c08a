"""A timer beyond the reach of the wheel rolls on its way, and its life tells each roll."""

from __future__ import annotations

import pytest

from broker.engine.testing.disk import PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, ManualClock, open_engine
from broker.engine.timer.steer import Target
from broker.engine.timer.wheel import Wheel
from tests.watching import Calls

HOUR_MS = 3_600_000
SLOTS = 600


def timers(files: SimulatedFiles, **config: object) -> Driver:
    driver = open_engine(files, timer_slots=SLOTS, timer_max_delay_ms=HOUR_MS, **config)
    driver.engine.topics.ensure("orders", 1)
    return driver


def rolled_moments(driver: Driver, target: Target) -> list[int]:
    life = driver.engine.timers.life.of(target, driver.clock.now_ms)
    return [event["ms"] for event in life["events"] if event["kind"] == "rolled"]


def test_the_life_of_a_far_timer_tells_each_roll() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    due_ms = driver.clock.now_ms + 4 * SLOTS * 1_000
    ticket = driver.send("orders", b"x", TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY="U1")
    target = Target(position=ticket.position)
    seen: list[int] = []
    while driver.clock.now_ms < due_ms - 5_000:
        before = driver.engine.timers.states.totals.rolled
        driver.advance(60_000 if driver.clock.now_ms < due_ms - 65_000 else 5_000)
        seen += [driver.clock.now_ms] * (driver.engine.timers.states.totals.rolled - before)
    told = rolled_moments(driver, target)
    assert len(told) == len(seen) >= 3
    assert all(at_ms - 60_000 <= ms <= at_ms + 2_000 for ms, at_ms in zip(told, seen, strict=True))
    driver.advance(10_000)
    again = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    life = again.engine.timers.life.of(target, again.clock.now_ms)
    assert life["state"] == "released"
    assert [event["kind"] for event in life["events"]] == ["accepted", *["rolled"] * len(told), "released"]


def test_the_wheel_tells_rolls_behind_thousands_of_seconds_in_use() -> None:
    driver = open_engine(SimulatedFiles(), timer_slots=21_000, timer_max_delay_ms=10 * 24 * HOUR_MS)
    driver.engine.topics.ensure("orders", 1)
    now_ms, wheel = driver.clock.now_ms, driver.engine.timers.index.wheel
    for second in range(now_ms // 1_000 + 10, now_ms // 1_000 + 5_100):
        wheel.add(second, 0)
    for hours in (8, 8, 9, 31):
        driver.send("orders", b"far", TIMER_DELIVER_MS=str(now_ms + hours * HOUR_MS))
    driver.tick()
    placed = [[slot.second * 1_000, slot.rolls] for slot in sorted(wheel.used()) if slot.rolls]
    told = driver.engine.timers.views.wheel(now_ms, now_ms + HOUR_MS, 60_000, now_ms)["rolls"]
    assert told == placed
    assert sum(count for _, count in told) == 4


def test_a_list_from_the_start_of_an_hour_reads_no_other_hour() -> None:
    driver = open_engine(SimulatedFiles(), timer_slots=21_000, timer_max_delay_ms=10 * 24 * HOUR_MS)
    driver.engine.topics.ensure("orders", 1)
    start_ms = (driver.clock.now_ms // HOUR_MS + 30) * HOUR_MS
    dues = [start_ms - 5, start_ms, start_ms + 1, start_ms + 7_000, start_ms + HOUR_MS]
    for due_ms in (*dues, *(start_ms - 1_000 * number for number in range(1, 50))):
        driver.send("orders", b"far", TIMER_DELIVER_MS=str(due_ms))
    page = driver.engine.timers.listing.page(start_ms, start_ms + HOUR_MS - 1, limit=100, now_ms=driver.clock.now_ms)
    assert [item["dueMs"] for item in page["items"]] == dues[1:4]
    assert page["scanned"] == 3


@pytest.mark.parametrize("wait_s", [90, 250])
def test_a_far_timer_that_was_moved_within_its_hour_stays_in_the_list(wait_s: int) -> None:
    driver = timers(SimulatedFiles(), clock=ManualClock(HOUR_MS * 490_000 - 800_000))
    due_ms = driver.clock.now_ms + 1_000_001
    driver.send("orders", b"x", TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY="U1")
    driver.advance(wait_s * 1_000)
    moved_ms = due_ms + 120_000
    target = Target(topic="orders", unique_key="U1")
    driver.engine.steer_timer("reschedule", target, due_ms=moved_ms, now_ms=driver.clock.now_ms)
    driver.settle()
    while driver.clock.now_ms < moved_ms - 10_000:
        driver.advance(10_000)
        page = driver.engine.timers.listing.page(0, 1 << 50, now_ms=driver.clock.now_ms)
        assert [item["dueMs"] for item in page["items"]] == [moved_ms]


def test_a_start_finds_the_place_of_far_timers_that_were_cancelled_without_going_through_all_time() -> None:
    """Each of 2,000 cancels behind the last checkpoint took six milliseconds of a start: all hours since 1970."""
    files = SimulatedFiles()
    driver = timers(files)
    now_ms = driver.clock.now_ms
    for number in range(8):
        due_ms = now_ms + 3 * SLOTS * 1_000 + number
        driver.send("orders", b"far", TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY=f"U{number}")
    driver.clock.advance(11_000)
    driver.upkeep()
    for number in range(6):
        driver.engine.steer_timer("cancel", Target(unique_key=f"U{number}"), now_ms=driver.clock.now_ms)
    driver.settle()
    # not more seconds than there are in the wheel
    with Calls(Wheel.get, most=10 * SLOTS) as looks:
        again = timers(files.crash(PowerLoss("kill")), clock=driver.clock)
        assert again.engine.timers.states.pending == 2
        assert sum(again.engine.timers.index.roll_counts.by_rest.values()) == 2
    assert looks.count > 0
    again.advance(3 * SLOTS * 1_000)
    assert len(again.bodies("orders")) == 2


def read_not_placed(driver: Driver, count: int) -> bool:
    """Whether all far timers of a slot were read, and some were not put further yet."""
    index = driver.engine.timers.index
    waiting = sum(len(due.rolling) for due in (index.due, index.overdue) if due is not None)
    return waiting > 0 and driver.engine.timers.states.totals.rolled + waiting == count


def reading_far_timers(count: int) -> tuple[SimulatedFiles, Driver, int, int]:
    """So many far timers due in one ms, all read where they pass by, not all placed; that second, and their moment."""
    files = SimulatedFiles()
    driver = timers(files)
    due_ms = driver.clock.now_ms + (2 * SLOTS + 50) * 1_000
    for number in range(count):
        driver.append("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms))
    driver.settle()
    second = next(slot.second for slot in driver.engine.timers.index.wheel.used() if slot.rolls)
    driver.clock.now_ms = second * 1_000 - 20_000
    while not read_not_placed(driver, count) and driver.clock.now_ms < second * 1_000 + 5_000:
        driver.clock.now_ms += 100
        driver.engine.tick(driver.clock.now_ms)
    assert read_not_placed(driver, count)
    return files, driver, second, due_ms


def listed(driver: Driver) -> list[int]:
    """Which timers a list shows, by their offsets."""
    page = driver.engine.timers.listing.page(0, 1 << 50, limit=1_000, now_ms=driver.clock.now_ms)
    return sorted(item["offset"] for item in page["items"])


def test_far_timers_that_are_between_two_places_are_listed() -> None:
    _, driver, _, _ = reading_far_timers(450)
    assert listed(driver) == list(range(450))


@pytest.mark.parametrize("end", ["kill", "step back", "none"])
@pytest.mark.parametrize("count", [450, 500])
def test_what_happens_while_far_timers_roll_loses_none_and_delivers_each_once(end: str, count: int) -> None:
    """https://github.com/apache/rocketmq/issues/11156"""
    files, driver, _, due_ms = reading_far_timers(count)
    if end == "kill":
        driver.upkeep()
        driver = timers(files.crash(PowerLoss("kill")), clock=driver.clock)
    elif end == "step back":
        driver.clock.now_ms -= 30_000
    driver.advance(40_000)
    assert listed(driver) == list(range(count))
    while driver.clock.now_ms < due_ms + 5_000:
        driver.advance(5_000)
    assert sorted(map(int, driver.bodies("orders"))) == list(range(count))
    assert not any(slot.number for slot in driver.engine.timers.index.wheel.used() if slot.rolls)


def test_a_timer_due_where_far_ones_pass_by_outlives_a_kill_behind_them() -> None:
    files, driver, second, _ = reading_far_timers(450)
    driver.send("orders", b"near", TIMER_DELIVER_MS=str(second * 1_000 + 500))
    for _ in range(10):
        driver.engine.tick(driver.clock.now_ms)
    assert not driver.engine.timers.index.due.rolling
    driver.upkeep()
    again = timers(files.crash(PowerLoss("kill")), clock=driver.clock)
    again.advance(second * 1_000 + 2_000 - again.clock.now_ms)
    assert again.bodies("orders") == [b"near"]
