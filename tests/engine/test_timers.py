"""Timers: parked, released at the right ms, never early, never twice; what a restart or a crash leaves of them."""

from __future__ import annotations

import pytest

from broker.engine.errors import ScheduleKeyTaken, TimerFlowControl, TimerIllegal, TimerInThePast, TimerTooFar
from broker.engine.testing.disk import PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.rocketmq.message import decode
from broker.rocketmq.topics import TIMER_TOPIC


def timers(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure("orders", 4)
    return driver


def test_a_timer_leaves_at_its_ms_and_not_before() -> None:
    """https://github.com/apache/pulsar/issues/10169"""
    driver = timers()
    start_ms = driver.clock.now_ms
    due_ms = start_ms + 12_345
    ticket = driver.send("orders", b"pay?", queue_id=2, TIMER_DELIVER_MS=str(due_ms), TAGS="unpaid", KEYS="a b")
    assert (ticket.topic, ticket.queue_id, ticket.due_ms) == ("orders", 2, due_ms)
    parked = decode(driver.engine.record_at(ticket.position))
    assert (parked.topic, parked.queue_id) == (TIMER_TOPIC, 0)
    assert parked.properties["TIMER_OUT_MS"] == str(due_ms // 1000 * 1000)
    assert (parked.properties["REAL_TOPIC"], parked.properties["REAL_QID"]) == ("orders", "2")
    driver.clock.now_ms = due_ms - 1
    assert driver.tick() == due_ms
    assert driver.bodies("orders", 2) == []
    driver.clock.now_ms = due_ms
    assert driver.tick() is None
    (released,) = driver.readable("orders", 2).values()
    assert released.body == b"pay?"
    assert released.store_ms == due_ms
    assert released.properties["ESC_SOURCE"] == str(ticket.position)
    assert (released.born_ms, released.born_host) == (parked.born_ms, parked.born_host)
    for key in ("a", "b", "T#unpaid"):
        found = driver.engine.find("orders", key, begin_ms=0, end_ms=1 << 60, max_count=4, now_ms=due_ms)
        assert found == [released.position]


def test_a_timer_that_is_named_twice_leaves_once() -> None:
    driver = timers()
    ticket = driver.send("orders", b"once", TIMER_DELAY_MS="500")
    driver.tick()
    due = driver.engine.timers.index.due
    assert due.ready, "it is encoded ahead"
    due.insert(ticket.due_ms or 0, ticket.queue_offset, ticket.position, ticket.size)
    driver.advance(500)
    assert driver.tick() is None
    assert driver.bodies("orders") == [b"once"]


@pytest.mark.parametrize(
    ("name", "value", "delay_ms"),
    [("TIMER_DELAY_SEC", "7", 7_000), ("TIMER_DELAY_MS", "7", 7), ("TIMER_DELAY_MS", "1", 1)],
)
def test_relative_moments_count_from_the_brokers_clock(name: str, value: str, delay_ms: int) -> None:
    driver = timers()
    ticket = driver.send("orders", b"x", **{name: value})
    assert ticket.due_ms == driver.clock.now_ms + delay_ms
    driver.advance(delay_ms)
    assert driver.bodies("orders") == [b"x"]


def test_seconds_come_before_ms_before_a_moment_and_a_level_before_all() -> None:
    driver = timers()
    now_ms = driver.clock.now_ms
    both = {"TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": "5000", "TIMER_DELIVER_MS": str(now_ms + 9_000)}
    assert driver.send("orders", b"x", **both).due_ms == now_ms + 3_000
    del both["TIMER_DELAY_SEC"]
    assert driver.send("orders", b"x", **both).due_ms == now_ms + 5_000
    assert driver.send("orders", b"x", DELAY="3", **both).due_ms == now_ms + 10_000
    assert driver.engine.queue_bounds(TIMER_TOPIC, 0) == (0, 2)


def test_a_whole_second_stands_one_step_before_and_is_still_exact() -> None:
    driver = timers()
    due_ms = driver.clock.now_ms + 5_000
    ticket = driver.send("orders", b"x", TIMER_DELIVER_MS=str(due_ms))
    parked = decode(driver.engine.record_at(ticket.position))
    assert parked.properties["TIMER_OUT_MS"] == str(due_ms - 1000)
    driver.advance(4_999)
    assert driver.bodies("orders") == []
    driver.advance(1)
    assert driver.bodies("orders") == [b"x"]


def test_the_past_is_delivered_at_once_or_refused() -> None:
    driver = timers()
    past = str(driver.clock.now_ms)
    ticket = driver.send("orders", b"x", TIMER_DELIVER_MS=past)
    assert ticket.due_ms is None
    assert driver.bodies("orders") == [b"x"]
    with pytest.raises(TimerInThePast):
        driver.append("orders", b"y", TIMER_DELIVER_MS=past, ESC_REJECT_PAST="true")
    with pytest.raises(TimerInThePast):
        driver.append("orders", b"y", TIMER_DELIVER_MS=past, TIMER_DEL_UNIQKEY="U")


@pytest.mark.parametrize("value", ["", "NaN", "1e3", "٣", "0x10", "9" * 20, str(1 << 63), "1.5", " 1"])
def test_what_is_no_moment_is_refused(value: str) -> None:
    """https://github.com/rabbitmq/rabbitmq-delayed-message-exchange/issues/44"""
    driver = timers()
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
        with pytest.raises(TimerIllegal):
            driver.append("orders", b"x", **{name: value})
    assert driver.flush() is None


def test_beyond_the_limit_is_refused() -> None:
    driver = timers(timer_max_delay_ms=1_000)
    now_ms = driver.clock.now_ms
    assert driver.append("orders", b"x", TIMER_DELIVER_MS=str(now_ms + 1_000)).due_ms == now_ms + 1_000
    with pytest.raises(TimerTooFar) as caught:
        driver.append("orders", b"x", TIMER_DELIVER_MS=str(now_ms + 1_001))
    assert "1,000 ms" in str(caught.value)
    with pytest.raises(TimerTooFar):
        driver.append("orders", b"x", TIMER_DELAY_SEC=str((1 << 63) // 1000 - now_ms))
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS"):
        with pytest.raises(TimerTooFar):
            driver.append("orders", b"x", **{name: str((1 << 63) - 1)})


def test_equal_moments_keep_their_order_and_others_theirs() -> None:
    driver = timers()
    start_ms = driver.clock.now_ms
    for number, delay_ms in enumerate((9_000, 500, 9_000, 500, 8_999, 70_000, 9_000)):
        driver.append("orders", b"%d" % number, TIMER_DELIVER_MS=str(start_ms + delay_ms))
    driver.settle()
    driver.advance(80_000)
    assert driver.bodies("orders") == [b"1", b"3", b"4", b"0", b"2", b"6", b"5"]


def test_a_herd_goes_in_order_and_only_once() -> None:
    driver = timers(segment_size_bytes=1 << 20, timer_log_file_bytes=1 << 20)
    due = str(driver.clock.now_ms + 20_000)
    for number in range(3_000):
        driver.append("orders", b"%d" % number, TIMER_DELIVER_MS=due, UNIQ_KEY=f"K{number}")
    driver.settle()
    driver.advance(30_000)
    assert [int(body) for body in driver.bodies("orders")] == list(range(3_000))


@pytest.mark.parametrize("loss", ["kill", "all"])
@pytest.mark.parametrize("after_ms", [0, 4_000, 9_000, 200_000])
def test_a_crash_loses_no_timer_and_repeats_none(loss: str, after_ms: int) -> None:
    """https://github.com/sidekiq/sidekiq/pull/843"""
    files = SimulatedFiles()
    driver = timers(files)
    start_ms = driver.clock.now_ms
    expected = []
    for number in range(40):
        delay_ms = (number * 7_919) % 400_000 + 1
        expected.append((start_ms + delay_ms, b"%d" % number))
        driver.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(start_ms + delay_ms))
        if number % 13 == 5:
            driver.clock.advance(6_000)
            driver.upkeep()
            driver.tick()
    driver.advance(after_ms)
    again = timers(files.crash(PowerLoss(loss)), clock=driver.clock)
    again.advance(500_000)
    assert sorted(again.bodies("orders")) == sorted(body for _, body in expected)
    for due_ms, body in expected:
        (message,) = (m for m in again.readable("orders").values() if m.body == body)
        assert message.store_ms >= due_ms


def test_a_clean_stop_and_start_keeps_everything() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    start_ms = driver.clock.now_ms
    for number in range(30):
        driver.send("orders", b"%02d" % number, TIMER_DELIVER_MS=str(start_ms + 1 + number * 11_111))
        if number % 4 == 0:
            driver.close()
            driver = timers(files, clock=driver.clock)
    driver.advance(400_000)
    assert driver.bodies("orders") == [b"%02d" % number for number in range(30)]
    driver.close()
    again = timers(files, clock=driver.clock)
    again.advance(400_000)
    assert len(again.bodies("orders")) == 30


def test_a_schedule_key_is_one_timers_until_it_has_gone() -> None:
    """https://github.com/HorizonRepublic/nestjs-jetstream/pull/178"""
    driver = timers()
    now_ms = driver.clock.now_ms
    ask = {"ESC_SCHEDULE_KEY": "order-1", "TIMER_DELIVER_MS": str(now_ms + 5_000)}
    first = driver.send("orders", b"a", UNIQ_KEY="A", **ask)
    with pytest.raises(ScheduleKeyTaken) as caught:
        driver.append("orders", b"b", UNIQ_KEY="B", **ask)
    assert (caught.value.due_ms, caught.value.position) == (now_ms + 5_000, first.position)
    kept = driver.append("orders", b"c", UNIQ_KEY="C", ESC_ON_CONFLICT="keep", **ask)
    assert (kept.conflict, kept.waits, kept.position, kept.unique_key) == ("kept", False, first.position, "A")
    ask["TIMER_DELIVER_MS"] = str(now_ms + 9_000)
    moved = driver.append("orders", b"d", UNIQ_KEY="D", ESC_ON_CONFLICT="replace", **ask)
    waiting = driver.append("orders", b"e", UNIQ_KEY="E", ESC_ON_CONFLICT="keep", **ask)
    assert (moved.conflict, waiting.conflict, waiting.waits) == ("replaced", "kept", True)
    assert waiting in driver.settle()
    driver.advance(8_999)
    assert driver.bodies("orders") == []
    driver.advance(1)
    assert driver.bodies("orders") == [b"d"]
    driver.send("orders", b"f", **ask | {"TIMER_DELIVER_MS": str(now_ms + 10_000)})
    driver.advance(5_000)
    assert driver.bodies("orders") == [b"d", b"f"]


def test_no_more_may_wait_than_the_limit_says() -> None:
    driver = timers(timer_max_pending=2)
    due = str(driver.clock.now_ms + 5_000)
    driver.append("orders", b"1", TIMER_DELIVER_MS=due)
    driver.send("orders", b"2", TIMER_DELIVER_MS=due)
    with pytest.raises(TimerFlowControl) as caught:
        driver.append("orders", b"3", TIMER_DELIVER_MS=due)
    assert "the limit is 2" in str(caught.value)
    driver.advance(5_000)
    driver.send("orders", b"4", TIMER_DELAY_MS="1000")
    assert driver.bodies("orders") == [b"1", b"2"]


def test_no_more_are_due_in_a_second_than_the_limit_says() -> None:
    driver = timers(timer_max_per_slot=3)
    second_ms = driver.clock.now_ms // 1000 * 1000 + 10_000
    driver.send("orders", b"1", TIMER_DELIVER_MS=str(second_ms + 1))
    for number in (2, 3):
        driver.append("orders", b"%d" % number, TIMER_DELIVER_MS=str(second_ms + number))
    for _ in range(50):  # never by chance
        with pytest.raises(TimerFlowControl) as caught:
            driver.append("orders", b"x", TIMER_DELIVER_MS=str(second_ms + 500))
    assert "max num limit is 3" in str(caught.value)
    driver.append("orders", b"4", TIMER_DELIVER_MS=str(second_ms + 1_001))
    driver.settle()
    driver.advance(20_000)
    assert driver.bodies("orders") == [b"1", b"2", b"3", b"4"]
