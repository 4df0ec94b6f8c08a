"""While timers are paused, for however long: what waits is listed, counted as overdue, and not foretold for later."""

from __future__ import annotations

import pytest

from broker.engine.testing import ManualClock, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine

HOUR, DAY = 3_600_000, 86_400_000
SIZES = {"timer_slots": 604_800, "timer_log_file_bytes": 104_000}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("days", [1, 6, 7, 40, 400])
def test_a_pause_hides_nothing_that_waits(days: int, restarts: bool) -> None:
    files = SimulatedFiles()
    driver = open_engine(files, **SIZES)
    driver.engine.topics.ensure("orders", 1)
    dues = [driver.clock.now_ms + number * 7 * HOUR + 300_123 for number in range(60)]
    for number, due_ms in enumerate(dues):
        driver.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms))
    driver.engine.pause_timers(True, driver.clock.now_ms)
    # to an hour in which none is due: those in roll slots are counted by hours
    driver.clock.now_ms += days * DAY + 3 * HOUR // 2
    driver.tick()
    if restarts:
        driver = open_engine(files.crash(PowerLoss("kill")), clock=ManualClock(driver.clock.now_ms), **SIZES)
        driver.tick()
    now_ms = driver.clock.now_ms
    page = driver.engine.timers.listing.page(0, 1 << 50, limit=1_000, now_ms=now_ms)
    assert [item["dueMs"] for item in page["items"]] == dues
    overdue = sum(due_ms <= now_ms for due_ms in dues)
    status = driver.engine.timers.status(now_ms)
    assert (status["pending"], status["backlog"], status["nextDueMs"]) == (60, overdue, dues[0])
    assert _foretold(driver) == 60 - overdue
    driver.engine.pause_timers(False, now_ms)
    driver.tick()
    driver.advance(5_000)
    assert len(driver.bodies("orders")) == overdue


def _foretold(driver: Driver) -> int:
    """How many are due in ten years from now, and later."""
    now_ms = driver.clock.now_ms
    wheel = driver.engine.timers.views.wheel(now_ms, now_ms + 3_653 * DAY, 2 * DAY, now_ms)
    forecast = driver.engine.timers.views.forecast(now_ms, now_ms + 3_653 * DAY, 2 * DAY, now_ms)
    assert sum(bucket[1] for bucket in wheel["buckets"]) == sum(bucket[1] for bucket in forecast["buckets"])
    return sum(bucket[1] for bucket in wheel["buckets"]) + wheel["far"]
