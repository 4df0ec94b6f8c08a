"""Cancel, reschedule, deliver now, pause; list, wheel, forecast, life: each with a definite answer."""

from __future__ import annotations

import pytest

from broker.engine.testing.disk import PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.steer import Action, Outcome, Target
from broker.rocketmq.message import decode
from broker.rocketmq.topics import TIMER_TOPIC

HOUR_MS = 3_600_000


def timers(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure("orders", 4)
    return driver


def park(driver: Driver, body: bytes, delay_ms: int, **properties: str) -> int:
    due = str(driver.clock.now_ms + delay_ms)
    return driver.send("orders", body, TIMER_DELIVER_MS=due, **properties).position


def steer(driver: Driver, action: Action, target: Target, due_ms: int | None = None) -> Outcome:
    outcome = driver.engine.steer_timer(action, target, due_ms=due_ms, reason="late", now_ms=driver.clock.now_ms)
    durable = driver.settle()
    assert all(ticket in durable for ticket in outcome.tickets)
    return outcome


@pytest.mark.parametrize(
    "target",
    [
        Target(topic="orders", schedule_key="order-1"),
        Target(topic="orders", unique_key="U1"),
        Target(unique_key="U1"),
        Target(position=-1),
    ],
)
def test_what_is_cancelled_never_comes_and_says_so_again(target: Target) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    position = park(driver, b"x", 7_000, UNIQ_KEY="U1", ESC_SCHEDULE_KEY="order-1")
    if target.position is not None:
        target = Target(position=position)
    outcome = steer(driver, "cancel", target)
    assert (outcome.outcome, outcome.position, outcome.due_ms) == ("cancelled", position, driver.clock.now_ms + 7_000)
    assert steer(driver, "cancel", target).outcome == "already_cancelled"
    assert driver.engine.timers.status(driver.clock.now_ms)["pending"] == 0
    again = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    for one in (driver, again):
        one.advance(20_000)
        assert one.bodies("orders") == []
        assert steer(one, "cancel", target).outcome == "already_cancelled"
        life = one.engine.timers.life.of(Target(position=position), one.clock.now_ms)
        assert (life["state"], [event["kind"] for event in life["events"]]) == ("cancelled", ["accepted", "cancelled"])
        assert life["events"][1]["reason"] == "late"


def test_what_has_gone_is_answered_with_when() -> None:
    driver = timers()
    position = park(driver, b"x", 1_500, UNIQ_KEY="U1")
    due_ms = driver.clock.now_ms + 1_500
    driver.advance(2_000)
    for action in ("cancel", "reschedule", "deliver_now"):
        outcome = steer(driver, action, Target(position=position), due_ms + 9_000)
        assert (outcome.outcome, outcome.delivered_ms) == ("already_delivered", due_ms)
    assert steer(driver, "cancel", Target(topic="orders", unique_key="U2")).outcome == "unknown"
    assert steer(driver, "cancel", Target(position=77)).outcome == "unknown"
    life = driver.engine.timers.life.of(Target(unique_key="U1"), driver.clock.now_ms)
    assert (life["state"], life["events"][-1]["lateMs"]) == ("released", 0)


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_cancel_and_a_release_of_the_same_ms_have_one_winner(cancel_first: bool) -> None:
    driver = timers()
    position = park(driver, b"x", 1_500, UNIQ_KEY="U1")
    driver.tick()
    driver.clock.advance(1_500)
    now_ms = driver.clock.now_ms
    if not cancel_first:
        driver.engine.tick(now_ms)
    outcome = driver.engine.steer_timer("cancel", Target(position=position), now_ms=now_ms)
    if cancel_first:
        driver.engine.tick(now_ms)
    assert outcome.tickets, "the answer must wait until the winner is durable"
    assert all(ticket in driver.settle() for ticket in outcome.tickets)
    driver.advance(5_000)
    assert outcome.outcome == ("cancelled" if cancel_first else "already_delivered")
    assert driver.bodies("orders") == ([] if cancel_first else [b"x"])


@pytest.mark.parametrize("delays", [(5_000, 60_000), (60_000, 5_000), (5_000, 5_300), (200_000, 400_000)])
def test_a_timer_that_is_moved_leaves_at_the_new_moment_only(delays: tuple[int, int]) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    old_ms, new_ms = (driver.clock.now_ms + delay_ms for delay_ms in delays)
    position = park(driver, b"x", delays[0], UNIQ_KEY="U1", KEYS="k", TAGS="t", ESC_SCHEDULE_KEY="order-1")
    outcome = steer(driver, "reschedule", Target(topic="orders", schedule_key="order-1"), new_ms)
    assert (outcome.outcome, outcome.position) == ("rescheduled", position)
    assert (outcome.previous_due_ms, outcome.due_ms) == (old_ms, new_ms)
    assert outcome.new_position is not None and outcome.new_position > position
    again = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    again.advance(new_ms - again.clock.now_ms - 1)
    assert again.bodies("orders") == []
    again.advance(1)
    assert again.bodies("orders") == [b"x"]
    (message,) = again.readable("orders").values()
    assert (message.keys, message.tags, message.unique_key) == (["k"], "t", "U1")
    again.advance(500_000)
    assert again.bodies("orders") == [b"x"]
    life = again.engine.timers.life.of(Target(position=position), again.clock.now_ms)
    kinds = [event["kind"] for event in life["events"] if event["kind"] != "rolled"]
    assert kinds == ["accepted", "rescheduled", "released"]
    assert steer(again, "cancel", Target(position=position)).outcome == "already_delivered"


def test_a_timer_moved_too_far_or_without_a_moment_stays_as_it_was() -> None:
    driver = timers(timer_max_delay_ms=HOUR_MS)
    position = park(driver, b"x", 3_000)
    far = steer(driver, "reschedule", Target(position=position), driver.clock.now_ms + HOUR_MS + 1)
    none = steer(driver, "reschedule", Target(position=position))
    assert (far.outcome, none.outcome) == ("refused", "refused")
    assert far.error and none.error
    driver.advance(3_000)
    assert driver.bodies("orders") == [b"x"]


def test_deliver_now_is_at_once_and_only_once() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    position = park(driver, b"x", 60_000, UNIQ_KEY="U1")
    outcome = steer(driver, "deliver_now", Target(position=position))
    assert (outcome.outcome, outcome.delivered_ms) == ("delivered_now", driver.clock.now_ms)
    assert driver.bodies("orders") == [b"x"]
    again = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    again.advance(100_000)
    assert again.bodies("orders") == [b"x"]
    assert again.engine.timers.status(again.clock.now_ms)["earlyTotal"] == 0


def test_deletes_of_apache_rocketmq_work_at_once_in_both_forms() -> None:
    driver = timers()
    due = str(driver.clock.now_ms + 5_500)
    for number, delete in enumerate(("U0", "orders+U1")):
        driver.send("orders", b"x", UNIQ_KEY=f"U{number}", TIMER_DELIVER_MS=due)
        driver.send("orders", b"", TIMER_DEL_UNIQKEY=delete, TIMER_DELIVER_MS=due)
    driver.send("orders", b"stays", UNIQ_KEY="U9", TIMER_DELIVER_MS=due)
    driver.send("orders", b"", TIMER_DEL_UNIQKEY="U9", TIMER_DELIVER_MS=str(int(due) + 1_000))
    assert driver.engine.timers.status(driver.clock.now_ms)["pending"] == 1
    driver.advance(20_000)
    assert driver.bodies("orders") == [b"stays"]


def test_a_retried_send_is_cancelled_as_a_whole() -> None:
    driver = timers()
    for _ in range(3):
        park(driver, b"x", 5_000, UNIQ_KEY="U1")
    assert steer(driver, "cancel", Target(topic="orders", unique_key="U1")).outcome == "cancelled"
    driver.advance(10_000)
    assert driver.bodies("orders") == []


def test_paused_nothing_goes_and_then_the_oldest_first() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    for number in (3, 1, 2):
        park(driver, b"%d" % number, number * 1_000)
    assert driver.engine.pause_timers(True, driver.clock.now_ms)["paused"]
    driver.advance(8_000)
    driver = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    driver.advance(2_000)
    assert driver.bodies("orders") == []
    status = driver.engine.timers.status(driver.clock.now_ms)
    assert (status["paused"], status["pending"], status["backlog"]) == (True, 3, 3)
    driver.engine.pause_timers(False, driver.clock.now_ms)
    driver.advance(100)
    assert driver.bodies("orders") == [b"1", b"2", b"3"]


def pages(driver: Driver, limit: int, **filters: object) -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    cursor = None
    for _ in range(10_000):
        page = driver.engine.timers.listing.page(
            0, 1 << 50, limit=limit, cursor=cursor, now_ms=driver.clock.now_ms, **filters
        )
        assert len(page["items"]) <= limit
        items += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return items
    raise AssertionError("the list has no end")


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_the_list_is_complete_and_in_order_near_and_far(limit: int) -> None:
    driver = timers(segment_size_bytes=1 << 20, timer_max_delay_ms=60 * HOUR_MS)
    start_ms = driver.clock.now_ms
    driver.engine.topics.ensure("seats", 1)
    expected = []
    for number in range(120):
        delay_ms = (number * number * 7_919_111) % (6 * HOUR_MS) + 1 if number % 3 else (number * 733) % 80_000 + 1
        topic = "seats" if number % 5 == 0 else "orders"
        ticket = driver.send(
            topic, b"x", TIMER_DELIVER_MS=str(start_ms + delay_ms), UNIQ_KEY=f"U{number}", KEYS=f"w{number % 2}"
        )
        expected.append((start_ms + delay_ms, ticket.queue_offset, topic))
    for number in (7, 12, 60):
        steer(driver, "cancel", Target(unique_key=f"U{number}"))
        expected[number] = (0, 0, "")
    expected = sorted(entry for entry in expected if entry[2])
    items = pages(driver, limit)
    assert [(item["dueMs"], item["offset"], item["topic"]) for item in items] == expected
    seats = pages(driver, limit, topic="seats")
    assert [(item["dueMs"], item["offset"]) for item in seats] == [e[:2] for e in expected if e[2] == "seats"]
    if limit == 100:
        assert [item["uniqueKey"] for item in pages(driver, limit, key="U3")] == ["U3"]
        assert len(pages(driver, limit, key="w1")) == 59
        for _ in range(7):
            driver.advance(HOUR_MS)
        assert pages(driver, limit) == []


def test_numbers_of_wheel_and_forecast_are_those_of_what_waits() -> None:
    driver = timers(segment_size_bytes=1 << 20, timer_max_delay_ms=60 * HOUR_MS)
    now_ms = driver.clock.now_ms
    for number in range(60):
        park(driver, b"x", number * 1_000 + 500)
    for hours in (5, 5, 9, 11):
        park(driver, b"x", hours * HOUR_MS + 77)
    park(driver, b"x", 3_500, UNIQ_KEY="gone")
    steer(driver, "cancel", Target(unique_key="gone"))
    wheel = driver.engine.timers.views.wheel(now_ms, now_ms + 60_000, 1_000, now_ms)
    assert [count for _, count, _ in wheel["buckets"]] == [1] * 59
    assert (wheel["pending"], wheel["far"]) == (64, 5)
    by_hour = driver.engine.timers.views.wheel(now_ms, now_ms + 40 * HOUR_MS, HOUR_MS, now_ms)
    assert {(start - now_ms) // HOUR_MS: count for start, count, _ in by_hour["buckets"]} == {0: 60, 5: 2, 9: 1, 11: 1}
    assert by_hour["far"] == 0
    driver.engine.self_tested(2.0, now_ms)
    due = str(now_ms + 20_700)
    for _ in range(9):
        driver.send("orders", b"x", TIMER_DELIVER_MS=due)
    forecast = driver.engine.timers.views.forecast(now_ms, now_ms + HOUR_MS, 60_000, now_ms)
    herd = {"dueMs": now_ms + 21_000, "count": 10, "topics": [["orders", 10]], "lastLateMs": 5_000}
    assert forecast["herds"] == [herd]
    with pytest.raises(ValueError):
        driver.engine.timers.views.wheel(0, HOUR_MS, 999, now_ms)


def test_bytes_of_a_slot_are_those_of_the_records_that_wait_in_it() -> None:
    driver = timers(segment_size_bytes=1 << 20, timer_max_delay_ms=60 * HOUR_MS)
    now_ms = driver.clock.now_ms
    size = {}
    for name, delay_ms in (("a", 2_000), ("b", 2_000), ("gone", 2_000), ("c", 2_001), ("far", 9 * HOUR_MS)):
        position = park(driver, b"x" * 100 * len(size), delay_ms, UNIQ_KEY=name)
        size[name] = len(driver.engine.record_at(position))
    steer(driver, "cancel", Target(unique_key="gone"))
    by_second = driver.engine.timers.views.wheel(now_ms, now_ms + 60_000, 1_000, now_ms)
    slots = {start - now_ms: (count, size_bytes) for start, count, size_bytes in by_second["buckets"]}
    assert slots == {2_000: (2, size["a"] + size["b"]), 3_000: (1, size["c"])}
    by_hour = driver.engine.timers.views.wheel(now_ms, now_ms + 40 * HOUR_MS, HOUR_MS, now_ms)
    near, far = by_hour["buckets"]
    assert near[1:] == [3, size["a"] + size["b"] + size["c"]]
    assert far[1:] == [1, None], "it stands in another second, on its way"
    for _ in range(1_000):
        driver.append("orders", b"x", TIMER_DELIVER_MS=str(now_ms + 30_000))
    driver.settle()
    crowded = driver.engine.timers.views.wheel(now_ms, now_ms + 60_000, 1_000, now_ms)
    assert [bucket[2] for bucket in crowded["buckets"]] == [None] * 3, "too many to be added up"
    moved = driver.engine.timers.views.wheel(now_ms, now_ms + 29_000, 1_000, now_ms)
    assert [bucket[2] for bucket in moved["buckets"]] == [size["a"] + size["b"], size["c"]]


def test_checkpoint_and_metrics_speak_rocketmqs_language() -> None:
    driver = timers()
    park(driver, b"x", 9_000)
    raw = driver.engine.timers.check_point(driver.clock.now_ms)
    assert len(raw) == 56
    assert int.from_bytes(raw[16:24], "big") == 1
    assert driver.engine.timers.metrics()["timingCount"]["orders"]["count"] == 1
    parked = decode(driver.engine.record_at(driver.engine.entries(TIMER_TOPIC, 0, 0, 1)[0].position))
    assert parked.body == b"x"


@pytest.mark.parametrize("action", ["cancel", "reschedule", "deliver_now"])
def test_only_what_is_due_as_expected_is_touched(action: Action) -> None:
    driver = timers()
    position = park(driver, b"x", HOUR_MS, UNIQ_KEY="U1")
    seen_ms = driver.clock.now_ms + HOUR_MS
    moved = steer(driver, "reschedule", Target(position=position), seen_ms + 5)
    assert moved.new_position is not None
    for place in (position, moved.new_position):
        late = steer(driver, action, Target(position=place, expected_ms=seen_ms), seen_ms)
        assert (late.outcome, late.due_ms, late.tickets) == ("changed", seen_ms + 5, [])
    now = Target(position=position, expected_ms=seen_ms + 5)
    assert steer(driver, action, now, seen_ms).outcome not in ("changed", "unknown", "refused")


def test_what_its_sender_deletes_is_answered_as_cancelled_before_that_is_durable() -> None:
    driver = timers()
    position = park(driver, b"x", 7_000, UNIQ_KEY="U1")
    due = str(driver.clock.now_ms + 7_000)
    driver.append("orders", b"", TIMER_DEL_UNIQKEY="U1", TIMER_DELIVER_MS=due)
    outcome = steer(driver, "cancel", Target(position=position))
    assert (outcome.outcome, outcome.delivered_ms) == ("already_cancelled", None)


def test_a_timer_whose_keys_name_its_unique_key_is_cancelled_once() -> None:
    driver = timers()
    park(driver, b"x", 7_000, UNIQ_KEY="U1", KEYS="U1")
    outcome = steer(driver, "cancel", Target(topic="orders", unique_key="U1"))
    assert (outcome.outcome, len(outcome.tickets)) == ("cancelled", 1)
    assert driver.engine.queue_end(TIMER_TOPIC, 0) == 2, "the timer, and one record that ends it"
