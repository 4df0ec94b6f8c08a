"""A timer beyond the reach of the wheel rolls on its way, and its life tells each roll."""

from __future__ import annotations

from broker.engine.testing.driver import Driver, open_engine
from broker.engine.testing.powerloss import PowerLoss
from broker.engine.testing.simulated import SimulatedFiles
from broker.engine.timer.steering import Target

HOUR_MS = 3_600_000
SLOTS = 600


def timers(files: SimulatedFiles, **config: object) -> Driver:
    driver = open_engine(files, timer_slots=SLOTS, timer_max_delay_ms=HOUR_MS, **config)
    driver.engine.topics.ensure("orders", 1)
    return driver


def rolled_moments(driver: Driver, target: Target) -> list[int]:
    life = driver.engine.timer_events(target, driver.clock.now_ms)
    return [event["ms"] for event in life["events"] if event["kind"] == "rolled"]


def test_the_life_of_a_far_timer_tells_each_roll() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    due_ms = driver.clock.now_ms + 4 * SLOTS * 1_000
    ticket = driver.send("orders", b"x", TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY="U1")
    target = Target(position=ticket.position)
    seen: list[int] = []
    while driver.clock.now_ms < due_ms - 5_000:
        before = driver.engine.timers.core.totals.rolled
        driver.advance(60_000 if driver.clock.now_ms < due_ms - 65_000 else 5_000)
        seen += [driver.clock.now_ms] * (driver.engine.timers.core.totals.rolled - before)
    told = rolled_moments(driver, target)
    assert len(told) == len(seen) >= 3
    assert all(at_ms - 60_000 <= ms <= at_ms + 2_000 for ms, at_ms in zip(told, seen, strict=True))
    driver.advance(10_000)
    again = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    life = again.engine.timer_events(target, again.clock.now_ms)
    assert life["state"] == "released"
    assert [event["kind"] for event in life["events"]] == ["accepted", *["rolled"] * len(told), "released"]
