"""Limits of timers: what counts against them, and what a legal message may grow to."""

from __future__ import annotations

import pytest

from broker.engine.errors import PropertiesTooLarge, TimerFlowControl
from broker.engine.log.ticket import Ticket
from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.steer import Target
from tests.engine.test_timer_steering import steer, timers

KEY = {"ESC_SCHEDULE_KEY": "order-1"}


def park(driver: Driver, body: bytes, delay_ms: int, **properties: str) -> Ticket:
    return driver.send("orders", body, TIMER_DELIVER_MS=str(driver.clock.now_ms + delay_ms), **properties)


def test_a_full_second_takes_no_timer_that_is_moved_there() -> None:
    driver = timers(timer_max_per_slot=2)
    second_ms = driver.clock.now_ms // 1000 * 1000 + 20_500
    for number in (1, 2):
        driver.send("orders", b"there", TIMER_DELIVER_MS=str(second_ms + number))
    moved = driver.send("orders", b"moved", TIMER_DELIVER_MS=str(second_ms + 5_000))
    with pytest.raises(TimerFlowControl) as caught:
        steer(driver, "reschedule", Target(position=moved.position), second_ms)
    assert "max num limit is 2" in str(caught.value)
    assert steer(driver, "reschedule", Target(position=moved.position), second_ms + 5_100).outcome == "rescheduled"
    driver.advance(30_000)
    assert driver.bodies("orders") == [b"there", b"there", b"moved"]


@pytest.mark.parametrize("limit", [{"timer_max_pending": 1}, {"timer_max_per_slot": 1}])
def test_what_replaces_or_keeps_a_timer_is_none_more(limit: dict[str, int]) -> None:
    driver = timers(**limit)
    first = park(driver, b"1", 7_000, **KEY)
    assert park(driver, b"2", 7_000, ESC_ON_CONFLICT="keep", **KEY).position == first.position
    assert park(driver, b"3", 7_000, ESC_ON_CONFLICT="replace", **KEY).conflict == "replaced"
    with pytest.raises(TimerFlowControl):
        park(driver, b"4", 7_000)
    driver.advance(8_000)
    assert driver.bodies("orders") == [b"3"]


def largest(driver: Driver, **properties: str) -> tuple[int, int]:
    """Send as much in one property as is taken; return the size of all properties and the position."""
    low, high, position = 1, 40_000, -1
    while low < high:
        middle = (low + high + 1) // 2
        try:
            position = driver.send("orders", b"x", a="b" * middle, **properties).position
        except PropertiesTooLarge:
            high = middle - 1
        else:
            low = middle
    with pytest.raises(PropertiesTooLarge) as caught:
        driver.send("orders", b"x", a="b" * (low + 1), **properties)
    assert caught.value.size_bytes == caught.value.limit_bytes + 1
    return low, position


def test_the_largest_timer_can_be_moved_again_and_again_and_is_delivered_whole() -> None:
    """https://github.com/apache/rocketmq/issues/9654"""
    driver = open_engine(segment_size_bytes=1 << 22, max_properties_bytes=32_767)
    driver.engine.topics.ensure("orders", 4)
    size, position = largest(driver, TIMER_DELAY_MS="70000", UNIQ_KEY="U1")
    for step in (90_000, 80_000):
        assert (
            steer(driver, "reschedule", Target(position=position), driver.clock.now_ms + step).outcome == "rescheduled"
        )
    driver.advance(100_000)
    assert max(len(message.properties["a"]) for message in driver.readable("orders").values()) == size


def test_the_largest_half_with_a_delay_can_be_committed() -> None:
    driver = open_engine(segment_size_bytes=1 << 22, max_properties_bytes=32_767)
    driver.engine.topics.ensure("orders", 4)
    _, position = largest(driver, TIMER_DELAY_SEC="7", UNIQ_KEY="U1", PGROUP="g", TRAN_MSG="true")
    half = driver.engine.timers.keys.message_at(position)
    assert half is not None
    ticket = driver.engine._intake.commit_half(half, driver.clock.now_ms)
    assert ticket.due_ms == driver.clock.now_ms + 7_000
