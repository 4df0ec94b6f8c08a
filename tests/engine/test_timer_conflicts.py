"""Timers that share a schedule key or follow each other: which one is left, and what is said of those before it."""

from __future__ import annotations

import pytest

from broker.engine.errors import ScheduleKeyTaken, TimerInThePast
from broker.engine.log.ticket import Ticket
from broker.engine.testing.disk import PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.steer import Target
from broker.rocketmq.topics import TIMER_TOPIC
from tests.engine.test_timer_steering import steer, timers

KEY = "order-1"
MANY = 150


def park(driver: Driver, body: bytes, delay_ms: int, **properties: str) -> Ticket:
    return driver.send("orders", body, TIMER_DELIVER_MS=str(driver.clock.now_ms + delay_ms), **properties)


@pytest.mark.parametrize("paused", [False, True])
def test_a_moment_that_is_over_replaces_the_one_that_waits(paused: bool) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    park(driver, b"old", 7_000, UNIQ_KEY="U1", ESC_SCHEDULE_KEY=KEY)
    driver.engine.pause_timers(paused, driver.clock.now_ms)
    now_ms = driver.clock.now_ms
    ticket = park(driver, b"new", -5, UNIQ_KEY="U2", ESC_SCHEDULE_KEY=KEY, ESC_ON_CONFLICT="replace")
    assert (ticket.conflict, ticket.due_ms) == ("replaced", now_ms)
    for one in (driver, timers(files.crash(PowerLoss("all")), clock=driver.clock)):
        one.engine.pause_timers(False, one.clock.now_ms)
        one.advance(1)
        assert one.bodies("orders") == [b"new"]
        one.advance(20_000)
        assert one.bodies("orders") == [b"new"]


def test_a_moment_that_is_over_takes_no_key_from_the_one_that_waits() -> None:
    driver = timers()
    first = park(driver, b"old", 7_000, UNIQ_KEY="U1", ESC_SCHEDULE_KEY=KEY)
    with pytest.raises(ScheduleKeyTaken):
        park(driver, b"new", -5, UNIQ_KEY="U2", ESC_SCHEDULE_KEY=KEY)
    with pytest.raises(TimerInThePast):
        park(driver, b"new", -5, ESC_SCHEDULE_KEY=KEY, ESC_ON_CONFLICT="replace", ESC_REJECT_PAST="true")
    kept = park(driver, b"new", -5, UNIQ_KEY="U3", ESC_SCHEDULE_KEY=KEY, ESC_ON_CONFLICT="keep")
    assert (kept.conflict, kept.position) == ("kept", first.position)
    driver.advance(20_000)
    assert driver.bodies("orders") == [b"old"]
    park(driver, b"at once", -5, ESC_SCHEDULE_KEY=KEY)
    assert driver.bodies("orders") == [b"old", b"at once"]


def test_a_timer_that_is_being_replaced_is_not_told_as_delivered() -> None:
    driver = timers()
    park(driver, b"old", 7_000, UNIQ_KEY="U1", ESC_SCHEDULE_KEY=KEY)
    due = str(driver.clock.now_ms + 9_000)
    driver.append(
        "orders", b"new", UNIQ_KEY="U2", TIMER_DELIVER_MS=due, ESC_SCHEDULE_KEY=KEY, ESC_ON_CONFLICT="replace"
    )
    during = steer(driver, "cancel", Target(topic="orders", unique_key="U1"))
    after = steer(driver, "cancel", Target(topic="orders", unique_key="U1"))
    assert (during.outcome, after.outcome) == ("already_cancelled", "already_cancelled")


def roomy() -> Driver:
    driver = open_engine(segment_size_bytes=1 << 20, index_slots=500, index_entries=4_000)
    driver.engine.topics.ensure("orders", 4)
    return driver


def test_a_timer_is_found_by_its_first_position_however_often_it_was_moved() -> None:
    driver = roomy()
    first = Target(position=park(driver, b"x", 70_000, UNIQ_KEY="U1").position)
    for number in range(MANY):
        due_ms = driver.clock.now_ms + 100_000 + number * 1_500
        assert steer(driver, "reschedule", Target(unique_key="U1"), due_ms).outcome == "rescheduled"
    assert steer(driver, "cancel", first).outcome == "cancelled"
    assert steer(driver, "cancel", first).outcome == "already_cancelled"


def test_a_timer_is_found_by_its_first_position_however_often_it_was_replaced() -> None:
    driver = roomy()
    first = Target(position=park(driver, b"x", 70_000, UNIQ_KEY="U", ESC_SCHEDULE_KEY=KEY).position)
    for number in range(MANY):
        key = {"ESC_SCHEDULE_KEY": KEY, "ESC_ON_CONFLICT": "replace", "UNIQ_KEY": f"U{number}"}
        park(driver, b"x", 100_000 + number * 1_500, **key)
    assert steer(driver, "cancel", Target(unique_key="U")).outcome == "already_cancelled"
    assert driver.engine.timers.life.of(Target(unique_key="U"), driver.clock.now_ms)["state"] == "rescheduled"
    driver.advance(400_000)
    outcome = steer(driver, "cancel", first)
    assert (outcome.outcome, outcome.delivered_ms) == ("already_delivered", outcome.due_ms)


def test_a_delete_takes_back_nothing_of_another_topic() -> None:
    driver = timers()
    driver.engine.topics.ensure("others", 4)
    due = str(driver.clock.now_ms + 5_000)
    driver.send("orders", b"mine", UNIQ_KEY="U1", TIMER_DELIVER_MS=due)
    for key in ("U1", "orders+U1"):
        driver.send("others", b"", TIMER_DELIVER_MS=due, TIMER_DEL_UNIQKEY=key)
    driver.advance(6_000)
    assert driver.bodies("orders") == [b"mine"]
    assert driver.engine.queue_bounds(TIMER_TOPIC, 0)[1] == 3


def test_a_timer_that_was_delivered_and_is_sent_on_with_all_it_says_replaces_nothing() -> None:
    driver = timers()
    key = {"ESC_SCHEDULE_KEY": KEY, "ESC_ON_CONFLICT": "replace"}
    park(driver, b"first", 1_000, **key)
    driver.advance(2_000)
    delivered = driver.readable("orders")[0]
    park(driver, b"second", 7_000, **key)
    driver.send("orders", b"sent on", **{k: v for k, v in delivered.properties.items() if not k.startswith("__")})
    assert driver.bodies("orders") == [b"first", b"sent on"]
    driver.advance(8_000)
    assert driver.bodies("orders") == [b"first", b"sent on", b"second"]


@pytest.mark.parametrize("moment", ["TIMER_DELIVER_MS", "TIMER_DELAY_MS"])
def test_a_send_that_is_tried_again_is_no_conflict_with_itself(moment: str) -> None:
    """https://github.com/redpanda-data/redpanda/issues/3039"""
    driver = timers()
    value = str(driver.clock.now_ms + 9_000) if moment == "TIMER_DELIVER_MS" else "9000"
    first = driver.send("orders", b"x", UNIQ_KEY="U1", ESC_SCHEDULE_KEY=KEY, **{moment: value})
    driver.advance(3_000)
    again = driver.send("orders", b"x", UNIQ_KEY="U1", ESC_SCHEDULE_KEY=KEY, **{moment: value})
    assert (again.conflict, again.position, again.due_ms) == ("kept", first.position, first.due_ms)
    with pytest.raises(ScheduleKeyTaken):
        driver.send("orders", b"x", UNIQ_KEY="U1", ESC_SCHEDULE_KEY=KEY, **{moment: value[:-1] + "5"})
    with pytest.raises(ScheduleKeyTaken):
        driver.send("orders", b"x", UNIQ_KEY="U2", ESC_SCHEDULE_KEY=KEY, **{moment: value})
    driver.advance(9_000)
    assert driver.bodies("orders") == [b"x"]
