"""Timers and a wall clock that jumps, running and while the broker is down; far timers; long absence."""

from __future__ import annotations

import pytest

from broker.engine.queues.index import _stamp
from broker.engine.testing import ManualClock
from broker.engine.testing.disk import PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from tests.watching import Calls

SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000
YEAR = 365 * DAY
STEPS = [-DAY, -HOUR, -30 * SECOND, HOUR, 80 * HOUR, 8 * DAY, 10 * YEAR]


def timers(files: SimulatedFiles, clock: ManualClock, **config: object) -> Driver:
    driver = open_engine(files, clock=clock, timer_slots=604_800, segment_size_bytes=1 << 20, **config)
    driver.engine.topics.ensure("orders", 1)
    return driver


def finish(driver: Driver) -> None:
    """Go on until nothing waits, from one wanted tick to the next."""
    for _ in range(9_000):
        if not driver.engine.timers.states.pending:
            return
        next_ms = driver.tick()
        if next_ms is None:
            assert not driver.engine.timers.states.pending, "something waits and no tick is wanted"
            return
        driver.clock.now_ms = max(driver.clock.now_ms, next_ms)
    raise AssertionError("timers still wait after 9,000 ticks")


def test_a_clock_that_was_set_back_by_years_holds_up_no_index_file() -> None:
    """The moments behind the last name are not gone through one by one."""
    files = SimulatedFiles()
    with Calls(_stamp, most=2_000):
        driver = open_engine(files)
        driver.engine.topics.ensure("orders", 1)
        for number in range(100):
            if number == 30:
                driver.clock.advance(-10 * YEAR)
            driver.send("orders", b"x", UNIQ_KEY=f"U{number}")
        driver.clock.advance(6_000)
        driver.upkeep()
        assert len(files.list("/store/index")) > 3
        again = open_engine(files.crash(PowerLoss("kill")), clock=driver.clock)
    for number in range(100):
        found = again.engine.find("orders", f"U{number}", begin_ms=0, end_ms=1 << 60, max_count=4, now_ms=0)
        assert len(found) == 1


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("step_ms", STEPS)
def test_a_step_of_the_clock_loses_nothing_repeats_nothing_and_is_early_with_nothing(step_ms: int, down: bool) -> None:
    files, clock = SimulatedFiles(), ManualClock()
    driver = timers(files, clock)
    start_ms = clock.now_ms
    delays = [1, 999, 5_000, 20_000, HOUR, 30 * HOUR, 6 * DAY, 9 * DAY, 40 * DAY]
    for delay_ms in delays:
        driver.send("orders", b"%d" % delay_ms, TIMER_DELIVER_MS=str(start_ms + delay_ms))
    driver.advance(6_000)
    driver.upkeep()
    if down:
        driver = timers(files.crash(PowerLoss("kill")), ManualClock(clock.now_ms + step_ms))
    else:
        driver.clock.advance(step_ms)
        driver.tick()
    late = driver.clock.now_ms
    driver.send("orders", b"new", TIMER_DELIVER_MS=str(late + 2_500))
    driver.advance(2_499)
    assert b"new" not in driver.bodies("orders")
    driver.advance(1)
    assert b"new" in driver.bodies("orders"), "a step must hold nothing up"
    finish(driver)
    found = {message.body: message.store_ms for message in driver.readable("orders").values()}
    assert len(driver.bodies("orders")) == len(found) == len(delays) + 1
    for delay_ms in delays:
        assert found[b"%d" % delay_ms] >= start_ms + delay_ms or delay_ms <= 6_000
    status = driver.engine.timers.status(driver.clock.now_ms)
    assert status["earlyTotal"] == 0
    assert status["clockBackMs" if step_ms < 0 else "clockForwardMs"] >= abs(step_ms) - 15_000 or (down and step_ms > 0)


def test_a_forward_step_delivers_oldest_first() -> None:
    driver = timers(SimulatedFiles(), ManualClock())
    delays = [3 * HOUR, HOUR, 50 * HOUR, 2 * HOUR, 79 * HOUR]
    for delay_ms in delays:
        driver.send("orders", b"%d" % delay_ms, TIMER_DELAY_MS=str(delay_ms))
    driver.tick()
    driver.clock.advance(80 * HOUR)
    finish(driver)
    assert [int(body) for body in driver.bodies("orders")] == sorted(delays)
    assert driver.clock.now_ms - 80 * HOUR <= ManualClock().now_ms + 5 * SECOND


@pytest.mark.parametrize("far_ms", [7 * DAY - 1, 7 * DAY, 7 * DAY + 1, 30 * DAY + 77, YEAR, 10 * YEAR])
def test_far_timers_roll_without_new_messages_and_leave_to_the_ms(far_ms: int) -> None:
    files, clock = SimulatedFiles(), ManualClock()
    driver = timers(files, clock, retention_hours=1 << 20)
    due_ms = clock.now_ms + far_ms
    driver.send("orders", b"far", TIMER_DELIVER_MS=str(due_ms))
    restarted = False
    for _ in range(3_000):
        next_ms = driver.tick()
        if next_ms is None or next_ms >= due_ms:
            break
        clock.now_ms = max(clock.now_ms, next_ms)
        if driver.engine.timers.states.totals.rolled == 1 and not restarted:
            restarted = True
            driver.upkeep()
            driver = timers(files.crash(PowerLoss("all")), clock, retention_hours=1 << 20)
    assert clock.now_ms >= due_ms - 6 * SECOND
    clock.now_ms = max(clock.now_ms, due_ms - 1)
    driver.tick()
    assert driver.bodies("orders") == []
    clock.now_ms = due_ms
    driver.tick()
    assert driver.bodies("orders") == [b"far"]
    assert driver.engine.queue_bounds("rmq_sys_wheel_timer", 0) == (0, 1)
    assert driver.engine.timers.states.totals.rolled >= (far_ms - 1) // (7 * DAY)


def test_a_broker_that_was_down_for_a_month_delivers_all_and_holds_up_nothing_new() -> None:
    files, clock = SimulatedFiles(), ManualClock()
    driver = timers(files, clock, timer_overdue_per_s=500, max_body_bytes=100)
    start_ms = clock.now_ms
    count = 2_600
    for number in range(count):
        driver.append("orders", b"%05d" % number, TIMER_DELIVER_MS=str(start_ms + 1 + number * 900_000))
    driver.settle()
    driver.close()
    clock.advance(30 * DAY)
    driver = timers(files, clock, timer_overdue_per_s=500)
    driver.tick()
    driver.send("orders", b"new", TIMER_DELAY_MS="1500")
    for _ in range(15):
        driver.advance(100)
    bodies = driver.bodies("orders")
    assert b"new" in bodies
    assert len(bodies) < count, "what was overdue goes at a limited rate"
    finish(driver)
    bodies = [body for body in driver.bodies("orders") if body != b"new"]
    assert bodies == [b"%05d" % number for number in range(count)]


def test_a_pause_longer_than_the_wheel_loses_nothing() -> None:
    files, clock = SimulatedFiles(), ManualClock()
    driver = timers(files, clock)
    driver.send("orders", b"old", TIMER_DELAY_MS="5000")
    driver.engine.pause_timers(True, clock.now_ms)
    for _ in range(20):
        clock.advance(DAY)
        driver.tick()
        # stands where the old one does, one turn of the wheel later
        driver.send("orders", b"x", TIMER_DELAY_MS=str(6 * DAY + 5_000))
        driver.upkeep()
    driver = timers(files.crash(PowerLoss("all")), clock)
    driver.engine.pause_timers(False, clock.now_ms)
    driver.advance(5_000)
    assert driver.bodies("orders") == [b"old"] + [b"x"] * 14
    driver.advance(10 * DAY)
    driver.advance(DAY)
    assert driver.bodies("orders") == [b"old"] + [b"x"] * 20


def test_a_timer_taken_after_the_clock_was_set_back_is_listed_after_a_crash():
    files = SimulatedFiles()
    driver = open_engine(files, timer_max_delay_ms=3_600_000)
    driver.engine.topics.ensure("orders", 1)
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.clock.advance(-100_000)
    driver.tick()
    now_ms = driver.clock.now_ms
    driver.append("orders", b"x", TIMER_DELIVER_MS=str(now_ms + 84_001))
    driver.settle()
    after = open_engine(files.crash(PowerLoss("kill")), clock=driver.clock, timer_max_delay_ms=3_600_000)
    page = after.engine.timers.listing.page(0, 1 << 50, limit=10, now_ms=now_ms)
    assert [item["dueMs"] for item in page["items"]] == [now_ms + 84_001]
    after.advance(84_001)
    assert after.bodies("orders") == [b"x"]
