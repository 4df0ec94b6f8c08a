"""What a start knows of timers after a kill, with files of theirs lost or older than the rest, and after weeks."""

from __future__ import annotations

import pytest

from broker.engine.testing import ManualClock, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.steer import Action, Target

DAY = 86_400_000
FAR = {"timer_max_delay_ms": DAY, "timer_wheel_interval_ms": 600_000}
NAMES = ("releasedTotal", "cancelledTotal", "rescheduledTotal")


def timers(files: SimulatedFiles, **config: object) -> Driver:
    driver = open_engine(files, **FAR, **config)
    driver.engine.topics.ensure("orders", 1)
    return driver


def play(driver: Driver, begin: int, end: int) -> None:
    """Park some, and do something to every second of them."""
    for number in range(begin, end):
        driver.send("orders", b"%d" % number, TIMER_DELAY_MS=str(3_000 + number * 700), UNIQ_KEY=f"U{number}")
    for number in range(begin, end, 2):
        actions: tuple[Action, ...] = ("cancel", "reschedule", "deliver_now", "reschedule")
        due_ms = driver.clock.now_ms + 100_000 * (number + 2)
        target = Target(topic="orders", unique_key=f"U{number}")
        driver.engine.steer_timer(actions[number // 2 % 4], target, due_ms=due_ms, now_ms=driver.clock.now_ms)
        driver.settle()
    driver.advance(9_000)


def totals(driver: Driver) -> list[int]:
    status = driver.engine.timers.status(driver.clock.now_ms)
    return [status[name] for name in NAMES]


def pending(driver: Driver) -> list[tuple[str, int]]:
    page = driver.engine.timers.listing.page(0, 1 << 50, limit=1_000, now_ms=driver.clock.now_ms)
    assert len(page["items"]) == driver.engine.timers.status(driver.clock.now_ms)["pending"]
    return [(item["uniqueKey"], item["dueMs"]) for item in page["items"]]


@pytest.mark.parametrize("lost", ["nothing", "timerwheel", "timerlog/", "escapement.timers", "escapement.checkpoint"])
@pytest.mark.parametrize("clean", [False, True])
def test_totals_are_those_of_before_whatever_was_lost(lost: str, clean: bool) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    play(driver, 0, 16)
    driver.upkeep()
    play(driver, 16, 32)
    before, waiting = totals(driver), pending(driver)
    assert min(before) > 3
    if clean:
        driver.close()
    disk = files.crash(PowerLoss("kill"))
    for path in disk.contents():
        if path.startswith(f"/store/{lost}"):
            disk.remove(path)
    for _ in range(2):
        again = timers(disk, clock=ManualClock(driver.clock.now_ms))
        assert totals(again) == before
        again.tick()
        assert pending(again) == waiting
        again.close()


@pytest.mark.parametrize("older", ["escapement.timers", "escapement.checkpoint"])
def test_a_state_of_another_time_than_the_checkpoint_costs_no_timer(older: str) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    play(driver, 0, 6)
    driver.upkeep()
    kept = files.contents()[f"/store/{older}"]
    play(driver, 6, 20)
    driver.clock.advance(6_000)
    driver.upkeep()
    play(driver, 20, 32)
    before, waiting = totals(driver), pending(driver)
    disk = files.crash(PowerLoss("kill"))
    disk.replace(f"/store/{older}", kept)
    again = timers(disk, clock=ManualClock(driver.clock.now_ms))
    assert totals(again) == before
    again.tick()
    assert pending(again) == waiting


@pytest.mark.parametrize("lost", ["nothing", "escapement.timers"])
@pytest.mark.parametrize("days", [24, 25, 30, 3_653])
def test_what_is_overdue_for_weeks_is_found_in_the_log(days: int, lost: str) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    for number in range(20):
        driver.send("orders", b"%d" % number, TIMER_DELAY_MS=str(1_000 + number * 5_000))
    disk = files.crash(PowerLoss("kill"))
    for path in disk.contents():
        if path.startswith(f"/store/{lost}"):
            disk.remove(path)
    again = timers(disk, clock=ManualClock(driver.clock.now_ms + days * DAY))
    # not 1970: what looks for something that waits begins there
    assert again.engine.timers.index.lowest_second() == driver.clock.now_ms // 1000
    again.advance(5_000)
    assert [int(body) for body in again.bodies("orders")] == list(range(20))


def test_a_clock_that_jumps_for_years_between_a_send_and_its_sync_stops_nothing() -> None:
    driver = timers(SimulatedFiles())
    driver.append("orders", b"x", TIMER_DELAY_MS="5000")
    driver.clock.advance(3_653 * DAY)
    driver.settle()
    driver.advance(5_000)
    assert driver.bodies("orders") == [b"x"]


def test_a_kill_after_the_timer_log_was_trimmed_makes_nothing_anew() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    log = driver.engine.timers.index.log
    driver.send("orders", b"far", TIMER_DELAY_MS=str(DAY))
    for number in range(400):
        driver.send("orders", b"%d" % number, TIMER_DELAY_MS="1000")
        driver.advance(5_000)
        before = log.min_position
        driver.upkeep()
        if log.min_position > before:
            break
    assert log.min_position > before, "the timer log was never trimmed"
    disk = files.crash(PowerLoss("kill"))
    again = timers(disk, clock=ManualClock(driver.clock.now_ms))
    assert again.engine.timers.index.log.min_position == log.min_position
    assert again.engine.timers.index.log.end_position <= log.end_position
    driver.tick()
    assert (len(pending(again)), totals(again)) == (1, totals(driver))
