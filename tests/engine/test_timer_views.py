"""Counts of what falls due by steps, against a plain count of the same moments."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.steer import Target

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
#: Due within the reach of the wheel, near minutes' and hours' ends as well as anywhere.
delays = st.one_of(
    st.integers(1, 4 * HOUR_MS),
    st.builds(lambda minutes, ms: max(minutes * MINUTE_MS + ms, 1), st.integers(0, 200), st.integers(-2_000, 2_000)),
)


def parked(delays_ms: list[int]) -> Driver:
    driver = open_engine(timer_slots=20_000)  # what is beyond reach is counted where its hour begins
    driver.engine.topics.ensure("orders", 4)
    for number, delay_ms in enumerate(delays_ms):
        driver.append("orders", b"x", TIMER_DELIVER_MS=str(driver.clock.now_ms + delay_ms), UNIQ_KEY=f"U{number}")
    driver.settle()
    return driver


@settings(max_examples=60, deadline=None)
@given(
    st.lists(delays, max_size=60),
    st.integers(-5_000, 3 * HOUR_MS),
    st.sampled_from([1_000, 1_500, 7_000, 60_000, 61_000, 90_000, 600_000, HOUR_MS, 3 * HOUR_MS + 1_000]),
    st.integers(1, 200),
)
def test_each_step_counts_the_seconds_that_end_in_it(delays_ms, ahead_ms, step_ms, steps):
    driver = parked(delays_ms)
    now_ms = driver.clock.now_ms
    from_ms = now_ms + ahead_ms
    told = driver.engine.timers.views.forecast(from_ms, from_ms + steps * step_ms, step_ms, now_ms)["buckets"]
    ends_ms = [-(-(now_ms + delay_ms) // 1_000) * 1_000 for delay_ms in delays_ms]
    expected = Counter((end_ms - from_ms) // step_ms for end_ms in ends_ms if end_ms >= from_ms)
    assert told == [[from_ms + n * step_ms, expected[n]] for n in sorted(expected) if n < steps]


@pytest.mark.parametrize("delay_ms", [2_000, 70_500, 4_000_000])
@pytest.mark.parametrize("is_read_ahead", [False, True])
def test_what_is_due_next_is_what_waits_and_when(delay_ms: int, is_read_ahead: bool) -> None:
    driver = open_engine()
    driver.engine.topics.ensure("orders", 1)
    now_ms = driver.clock.now_ms
    for key, due_ms in (("A", now_ms + 1_500), ("B", now_ms + delay_ms)):
        driver.send("orders", b"x", UNIQ_KEY=key, TIMER_DELIVER_MS=str(due_ms))
    if is_read_ahead:
        driver.tick()
    assert driver.engine.timers.status(now_ms)["nextDueMs"] == now_ms + 1_500
    driver.engine.steer_timer("cancel", Target(unique_key="A"), now_ms=now_ms)
    driver.settle()
    assert driver.engine.timers.status(now_ms)["nextDueMs"] == now_ms + delay_ms
    driver.engine.steer_timer("cancel", Target(unique_key="B"), now_ms=now_ms)
    driver.settle()
    assert driver.engine.timers.status(now_ms)["nextDueMs"] is None
