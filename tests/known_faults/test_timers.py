"""Faults that others had with timers: what was lost, late, early, twice, or never to be cancelled.

docs/KNOWN-FAULTS.md tells them all; each test here carries the thread in which its fault was reported.
"""

from __future__ import annotations

import random

import pytest

from broker.engine.errors import TimerIllegal, TimerTooFar
from broker.engine.testing import Fault, ManualClock, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.steer import Target
from broker.rocketmq.topics import TIMER_TOPIC

DAY_MS = 86_400_000


def timers(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure("orders", 1)
    return driver


def numbers(driver: Driver) -> list[int]:
    return [int(body) for body in driver.bodies("orders")]


def pending(driver: Driver) -> int:
    return int(driver.engine.timers.status(driver.clock.now_ms)["pending"])


@pytest.mark.parametrize(
    ("kind", "part"),
    [("write", "timerlog/"), ("sync", "timerlog/"), ("open", "timerlog/"), ("rename", "escapement.timers")],
)
def test_a_failure_in_the_middle_of_taking_timers_in_takes_none_in_twice(kind: str, part: str) -> None:
    """https://github.com/apache/rocketmq/issues/11047"""
    failed = 0
    for nth in (1, 2):
        files = SimulatedFiles()
        driver = timers(files, timer_wheel_interval_ms=1)
        for number in range(60):
            driver.append("orders", b"%d" % number, TIMER_DELAY_MS=str(20_000 + number // 20))
            if number % 20 == 19:
                driver.settle()
                files.fail(Fault(kind, nth=nth, path_part=part))  # type: ignore[arg-type]  # one of the kinds
                driver.clock.advance(6_000)
                driver.upkeep()
                files.fail()
            if not driver.engine.is_open:  # a failed write is final: the next start looks at the log
                failed += 1
                files = files.crash(PowerLoss("all"))
                driver = timers(files, clock=driver.clock, timer_wheel_interval_ms=1)
        driver.advance(60_000)
        assert sorted(numbers(driver)) == list(range(60))
        assert pending(driver) == 0
    assert failed, "nothing went wrong"


def test_timers_are_taken_in_although_what_is_derived_is_further_than_their_queue() -> None:
    """https://github.com/apache/rocketmq/issues/7480"""
    files = SimulatedFiles()
    driver = timers(files, timer_wheel_interval_ms=1)
    driver.clock.advance(6_000)
    driver.upkeep()
    cut = files.crash(PowerLoss("kill"))
    for number in range(40):
        driver.send("orders", b"9%d" % number, TIMER_DELAY_MS="90000")
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.close()
    # the log ends where it ended before them; wheel, timer log and their checkpoints are those of afterwards
    for path, content in files.contents().items():
        if "timer" in path.removeprefix("/store/"):
            if not cut.exists(path):
                cut.load({path: b""})
            cut.replace(path, content)
    again = timers(cut, clock=driver.clock)
    assert again.engine.queue_bounds(TIMER_TOPIC, 0) == (0, 0), "the queue is shorter than what was taken in once"
    for number in range(40):
        again.send("orders", b"%d" % number, TIMER_DELAY_MS="5000")
    again.advance(5_000)
    assert numbers(again) == list(range(40))
    again.advance(200_000)
    assert len(numbers(again)) == 40
    assert pending(again) == 0


@pytest.mark.parametrize("days", [25, 30, 50, 366])
def test_a_limit_of_many_days_is_that_many_days(days: int) -> None:
    """https://github.com/apache/rocketmq/issues/5376"""
    driver = timers(timer_max_delay_ms=days * DAY_MS, timer_slots=604_800)
    due_ms = driver.clock.now_ms + days * DAY_MS
    ticket = driver.send("orders", b"1", TIMER_DELIVER_MS=str(due_ms))
    assert ticket.due_ms == due_ms
    with pytest.raises(TimerTooFar):
        driver.append("orders", b"2", TIMER_DELIVER_MS=str(due_ms + 1_000))


def test_thousands_that_are_due_in_the_same_second_are_all_on_time() -> None:
    """https://github.com/apache/rocketmq/issues/6566"""
    # what is late may be spread over seconds, what is on time not
    driver = timers(segment_size_bytes=1 << 20, timer_log_file_bytes=1 << 20, timer_overdue_per_s=10)
    second_ms = driver.clock.now_ms - driver.clock.now_ms % 1_000 + 20_000
    dues = sorted(second_ms + number * 7 % 300 for number in range(2_500))
    for number, due_ms in enumerate(dues):
        driver.append("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms))
    driver.settle()
    driver.advance(30_000)
    released = driver.readable("orders").values()
    assert [message.store_ms for message in released] == dues, "late by no ms as the broker's clock has it"


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
@pytest.mark.parametrize("value", [2**63 - 1, 2**63, 2**64 + 5, 9_223_372_036_854_775, 2**63 // 1_000 + 1])
def test_a_delay_that_no_clock_can_hold_is_refused_and_not_delivered_at_once(name: str, value: int) -> None:
    """https://github.com/apache/rocketmq/issues/10872"""
    driver = timers()
    with pytest.raises((TimerTooFar, TimerIllegal)):
        driver.append("orders", b"1", **{name: str(value)})
    driver.advance(1_000)
    assert driver.bodies("orders") == []


def waits_to_the_ms(delay_ms: int) -> None:
    driver = timers(timer_slots=604_800)
    due_ms = driver.clock.now_ms + delay_ms
    driver.send("orders", b"1", TIMER_DELIVER_MS=str(due_ms))
    while driver.clock.now_ms < due_ms - 1:
        driver.advance(min(7 * DAY_MS, due_ms - 1 - driver.clock.now_ms))
        assert driver.bodies("orders") == []
    driver.advance(1)
    assert [message.store_ms for message in driver.readable("orders").values()] == [due_ms]


@pytest.mark.parametrize("delay_ms", [2**32 - 1, 2**32, 2**32 + 1, 180 * DAY_MS])
def test_a_delay_beyond_32_bits_is_a_delay(delay_ms: int) -> None:
    """https://github.com/rabbitmq/rabbitmq-delayed-message-exchange/issues/71"""
    waits_to_the_ms(delay_ms)


@pytest.mark.parametrize("delay_ms", [2**31 - 1, 2**31, 2**31 + 1, 2**33])
def test_a_large_delay_does_not_turn_into_none(delay_ms: int) -> None:
    """https://github.com/cloudamqp/lavinmq/issues/1781"""
    waits_to_the_ms(delay_ms)


def test_those_that_wait_long_do_not_hide_one_that_is_due() -> None:
    """https://github.com/Automattic/kue/issues/312"""
    driver = timers(segment_size_bytes=1 << 20)
    for number in range(600):
        driver.append("orders", b"%d" % number, TIMER_DELAY_MS=str(600_000 + number))
    driver.settle()
    driver.advance(1_000)
    driver.send("orders", b"1001", TIMER_DELAY_MS="3000")
    driver.advance(2_999)
    assert numbers(driver) == []
    driver.advance(1)
    assert numbers(driver) == [1001]


def test_looks_before_the_moment_do_not_lose_the_alarm() -> None:
    """https://github.com/apache/pulsar/issues/25996"""
    driver = timers()
    start_ms = driver.clock.now_ms
    dues = sorted(start_ms + delay for delay in (700, 1_201, 1_202, 1_713, 2_500, 2_500, 4_444, 9_001))
    for number, due_ms in enumerate(dues):
        driver.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms))
    draws = random.Random(25_996)
    while (wants_ms := driver.tick()) is not None:
        following = min(due_ms for due_ms in [*dues, 1 << 60] if due_ms > driver.clock.now_ms)
        assert driver.clock.now_ms < wants_ms <= following
        # a look for some other reason, a little before what it asked for; then the alarm
        driver.clock.now_ms = max(driver.clock.now_ms, wants_ms - draws.randrange(1, 40))
        again_ms = driver.tick()
        assert again_ms is not None and again_ms <= following
        driver.clock.now_ms = max(driver.clock.now_ms, again_ms)
    assert [message.store_ms for message in driver.readable("orders").values()] == dues


@pytest.mark.parametrize("stop", ["clean", "kill", "power"])
def test_what_waits_leaves_after_a_start_although_nothing_new_is_sent(stop: str) -> None:
    """https://github.com/taskforcesh/bullmq/issues/168"""
    files = SimulatedFiles()
    driver = timers(files)
    due_ms = driver.clock.now_ms + 10_000
    driver.send("orders", b"1", TIMER_DELIVER_MS=str(due_ms))
    driver.clock.advance(6_000)
    if stop == "clean":
        driver.close()
    disk = files.crash(PowerLoss("all" if stop == "power" else "kill"))
    again = timers(disk, clock=driver.clock)
    wants_ms = again.tick()
    assert wants_ms is not None and wants_ms <= due_ms
    while (wants_ms := again.tick()) is not None:
        again.clock.now_ms = wants_ms
    assert [message.store_ms for message in again.readable("orders").values()] == [due_ms]


def test_after_days_without_traffic_the_next_one_needs_no_push() -> None:
    """https://github.com/taskforcesh/bullmq/issues/2534"""
    driver = timers(timer_slots=604_800)
    for day in range(1, 12):
        driver.send("orders", b"%d" % day, TIMER_DELAY_MS=str(day * DAY_MS + day))
    steps = 0
    while (wants_ms := driver.tick()) is not None:
        assert wants_ms > driver.clock.now_ms
        driver.clock.now_ms = wants_ms
        steps += 1
        assert steps < 20_000, "it asks to be looked at again and again, and delivers nothing"
    assert numbers(driver) == list(range(1, 12))


@pytest.mark.parametrize("crashes", [False, True])
def test_one_that_is_put_into_a_second_that_is_just_emptied_is_not_thrown_away_with_it(crashes: bool) -> None:
    """https://github.com/resque/resque-scheduler/issues/46"""
    files = SimulatedFiles()
    driver = timers(files)
    due_ms = driver.clock.now_ms - driver.clock.now_ms % 1_000 + 9_000
    driver.send("orders", b"1", TIMER_DELIVER_MS=str(due_ms))
    driver.advance(due_ms - driver.clock.now_ms - 1)
    driver.clock.advance(1)
    driver.engine.tick(driver.clock.now_ms)
    job = driver.engine.take_sync(driver.clock.now_ms)
    assert job is not None, "the one in this second is on its way out"
    for number in range(2, 6):
        driver.append("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms + number // 4))
    job.run()
    driver.engine.synced(job, None, driver.clock.now_ms)
    driver.settle()
    if crashes:
        driver = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    driver.advance(5_000)
    assert sorted(numbers(driver)) == [1, 2, 3, 4, 5]
    assert pending(driver) == 0


@pytest.mark.parametrize("crashes", [False, True])
def test_one_that_is_sent_last_and_due_first_takes_no_other_away(crashes: bool) -> None:
    """https://github.com/nats-io/nats-server/issues/8423"""
    files = SimulatedFiles()
    driver = timers(files)
    for number in range(4):
        driver.send("orders", b"%d" % number, TIMER_DELAY_MS=str(8_000 - 2_000 * number), KEYS="same", TAGS="same")
    driver.advance(2_500)
    assert numbers(driver) == [3]
    if crashes:
        driver = timers(files.crash(PowerLoss("kill")), clock=driver.clock)
    driver.advance(10_000)
    assert numbers(driver) == [3, 2, 1, 0]


def test_a_start_forgets_nothing_that_a_waiting_message_says() -> None:
    """https://github.com/apache/artemis/pull/4929"""
    said: list[object] = []
    for restarts in (False, True):
        files = SimulatedFiles()
        driver = timers(files)
        due_ms = driver.clock.now_ms + 30_000
        driver.send("orders", b"1", TIMER_DELIVER_MS=str(due_ms), KEYS="a b", TAGS="t", UNIQ_KEY="U1", colour="red")
        driver.clock.advance(7_000)
        if restarts:
            driver = timers(files.crash(PowerLoss("all")), clock=driver.clock)
        now_ms = driver.clock.now_ms
        (item,) = driver.engine.timers.listing.page(0, 1 << 50, now_ms=now_ms)["items"]
        driver.advance(23_000)
        (message,) = driver.readable("orders").values()
        said.append((item["dueMs"], message.properties, message.store_ms, message.flag, message.born_ms))
    assert said[0] == said[1]
    assert "TIMER_OUT_MS" in said[1][1]  # type: ignore[index]  # the second of five


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_start_in_the_middle_does_not_begin_the_waiting_anew(stop: str) -> None:
    """https://github.com/nats-io/nats-server/pull/2665"""
    files = SimulatedFiles()
    driver = timers(files, delay_levels="1s 5s 10s")
    start_ms = driver.clock.now_ms
    driver.send("orders", b"1", TIMER_DELAY_MS="10000")
    driver.send("orders", b"2", DELAY="3")
    for _ in range(3):
        driver.advance(3_000)
        if stop == "clean":
            driver.close()
        files = files.crash(PowerLoss("kill"))
        driver = timers(files, clock=driver.clock)
    assert numbers(driver) == []
    driver.advance(1_000)
    assert {message.store_ms for message in driver.readable("orders").values()} == {start_ms + 10_000}
    assert len(numbers(driver)) == 2


def test_nothing_is_delivered_before_the_moment_at_which_it_says_that_it_was_stored() -> None:
    """https://github.com/apache/rocketmq/issues/9406"""
    driver = timers()
    seen: set[int] = set()
    draws = random.Random(9_406)
    for number in range(40):
        if number % 2:
            driver.send("orders", b"%d" % number, DELAY=str(1 + number % 3))
        else:
            driver.send("orders", b"%d" % number, TIMER_DELAY_MS=str(draws.randrange(1, 9_000)))
        driver.clock.advance(draws.randrange(400))
    for _ in range(150):
        driver.clock.advance(draws.randrange(180))
        driver.tick()
        for offset, message in driver.readable("orders").items():
            assert offset in seen or message.store_ms <= driver.clock.now_ms
            assert message.store_ms >= message.born_ms
            seen.add(offset)
    driver.advance(10_000)
    assert sorted(numbers(driver)) == list(range(40))


def test_a_delete_that_comes_too_late_leaves_no_number_below_nought() -> None:
    """https://github.com/apache/rocketmq/issues/7979"""
    driver = timers()
    for number in range(3):
        driver.send("orders", b"%d" % number, TIMER_DELAY_MS="1000", UNIQ_KEY=f"U{number}")
    driver.advance(1_000)
    for number in range(3):
        due = str(driver.clock.now_ms + 2_000)
        driver.send("orders", b"", TIMER_DEL_UNIQKEY=f"U{number}", TIMER_DELIVER_MS=due)
        driver.engine.steer_timer("cancel", Target(unique_key=f"U{number}"), now_ms=driver.clock.now_ms)
        driver.settle()
    status = driver.engine.timers.status(driver.clock.now_ms)
    assert (status["pending"], status["byTopic"]) == (0, [])
    assert all(value >= 0 for value in status.values() if isinstance(value, int))
    driver.advance(5_000)
    assert driver.engine.timers.metrics()["timingCount"] == {}
    assert numbers(driver) == [0, 1, 2]


@pytest.mark.parametrize("back_ms", [60_000, 3_600_000, 400 * DAY_MS])
def test_a_clock_that_was_set_back_does_not_stop_what_is_sent_afterwards(back_ms: int) -> None:
    """https://github.com/agronholm/apscheduler/issues/351"""
    driver = timers()
    driver.send("orders", b"1", TIMER_DELAY_MS="1000")
    driver.advance(1_000)
    driver.clock.advance(-back_ms)
    for number in range(2, 5):
        driver.send("orders", b"%d" % number, TIMER_DELAY_MS="1000")
        driver.send("orders", b"%d" % (number + 10), DELAY="1")
        driver.advance(1_000)
    assert sorted(numbers(driver)) == [1, 2, 3, 4, 12, 13, 14]


def test_a_clock_that_runs_ahead_does_not_release_what_is_sent_for_later() -> None:
    """https://github.com/sidekiq-scheduler/sidekiq-scheduler/issues/283"""
    driver = timers(clock=ManualClock())
    driver.send("orders", b"1", TIMER_DELAY_MS="5000")
    driver.clock.advance(DAY_MS)
    driver.advance(10)
    assert numbers(driver) == [1], "what is over is delivered once"
    driver.send("orders", b"2", TIMER_DELAY_MS="5000")
    driver.advance(4_999)
    assert numbers(driver) == [1]
    driver.advance(1)
    assert numbers(driver) == [1, 2]
