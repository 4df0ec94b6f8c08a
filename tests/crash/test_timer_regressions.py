"""Faults of other brokers' timers that cannot happen here, each by its name; stores that Apache RocketMQ wrote."""

from __future__ import annotations

import random

import pytest

from broker.engine.fsck.store import check_store
from broker.engine.testing import ManualClock, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.steer import Target
from broker.rocketmq.topics import TIMER_TOPIC

from . import golden

DAY = 86_400_000


def timers(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure("orders", 1)
    return driver


def park(driver: Driver, body: bytes, delay_ms: int, **properties: str) -> int:
    due = str(driver.clock.now_ms + delay_ms)
    return driver.send("orders", body, TIMER_DELIVER_MS=due, **properties).position


def let_pass(driver: Driver, delta_ms: int, step_ms: int = 20_000) -> None:
    end_ms = driver.clock.now_ms + delta_ms
    while driver.clock.now_ms < end_ms:
        driver.advance(min(step_ms, end_ms - driver.clock.now_ms))


def test_a_timer_is_not_lost_when_the_broker_stops_before_it_was_taken_in() -> None:
    # the wheel's checkpoint was ahead of what stood in the timer log
    files = SimulatedFiles()
    driver = timers(files)
    for number in range(30):
        driver.append("orders", b"%d" % number, TIMER_DELAY_MS=str(1_000 + number * 3_000))
        if number % 7 == 0:
            job = driver.engine.take_sync(driver.clock.now_ms)
            driver.clock.advance(6_000)
            driver.upkeep()
            assert job is not None
            job.run()
            driver.engine.synced(job, None, driver.clock.now_ms)
    driver.settle()
    for loss in ("kill", "all"):
        again = timers(files.crash(PowerLoss(loss)), clock=ManualClock(driver.clock.now_ms))
        let_pass(again, 200_000)
        assert sorted(map(int, again.bodies("orders"))) == list(range(30))


def test_rmq_6984_a_batch_that_was_half_released_is_not_released_again() -> None:
    """https://github.com/apache/rocketmq/issues/6984"""
    files = SimulatedFiles()
    driver = timers(files)
    start_ms = driver.clock.now_ms
    for number in range(60):
        due_ms = start_ms + 90_000 + number // 30
        driver.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms))
    driver.advance(89_999)
    driver.clock.advance(1)
    driver.engine.tick(driver.clock.now_ms)
    driver.settle()
    driver.clock.advance(1)
    driver.engine.tick(driver.clock.now_ms)
    again = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    half = len(again.bodies("orders"))
    assert 0 < half < 60
    let_pass(again, 10_000)
    assert sorted(map(int, again.bodies("orders"))) == list(range(60))


@pytest.mark.parametrize("rolls", [1, 2, 3])
def test_rmq_7991_a_cancel_holds_however_often_the_timer_rolled(rolls: int) -> None:
    """https://github.com/apache/rocketmq/issues/7991"""
    files = SimulatedFiles()
    driver = timers(files)
    park(driver, b"x", 400_000, UNIQ_KEY="U1")
    park(driver, b"y", 400_000, UNIQ_KEY="U2")
    while driver.engine.timers.states.totals.rolled < 2 * rolls:
        driver.advance(10_000)
    driver.engine.steer_timer("cancel", Target(unique_key="U1"), now_ms=driver.clock.now_ms)
    driver.settle()
    driver = timers(files.crash(PowerLoss("all")), clock=driver.clock)
    let_pass(driver, 500_000)
    assert driver.bodies("orders") == [b"y"]


def test_rmq_8979_a_store_that_takes_nothing_for_a_while_loses_no_timer() -> None:
    """https://github.com/apache/rocketmq/issues/8979"""
    driver = timers(pending_limit_bytes=3_000, sync_batch_bytes=1_000)
    for number in range(50):
        park(driver, b"%d" % number + b"x" * 300, 5_000)
    driver.clock.advance(5_000)
    for _ in range(20):
        driver.engine.tick(driver.clock.now_ms)
        driver.clock.advance(1)
    assert len(driver.bodies("orders")) < 50
    let_pass(driver, 10_000, 1_000)
    assert [int(body.rstrip(b"x")) for body in driver.bodies("orders")] == list(range(50))


@pytest.mark.parametrize("lost", ["timerwheel", "timerlog", "escapement.timers", "everything", "wheel is older"])
def test_rmq_9735_the_wheel_is_made_again_from_the_log(lost: str) -> None:
    """https://github.com/apache/rocketmq/issues/9735"""
    files = SimulatedFiles()
    driver = timers(files, timer_wheel_interval_ms=1)
    older = b""
    for number in range(60):
        park(driver, b"%d" % number, 2_000 + number * 5_000, UNIQ_KEY=f"U{number}")
        if number in (20, 40):
            driver.clock.advance(6_000)
            driver.upkeep()
            older = older or files.contents()["/store/timerwheel"]
    driver.engine.steer_timer("cancel", Target(unique_key="U50"), now_ms=driver.clock.now_ms)
    driver.advance(20_000)
    released = len(driver.bodies("orders"))
    assert released
    driver.close()
    disk = files.crash(PowerLoss("kill"))
    for path in list(disk.contents()):
        if path.startswith(f"/store/{lost}") or (lost == "everything" and "timer" in path):
            disk.remove(path)
    if lost == "wheel is older":
        disk.replace("/store/timerwheel", older)
    again = timers(disk, clock=driver.clock)
    assert len(again.bodies("orders")) == released
    let_pass(again, 400_000)
    assert sorted(map(int, again.bodies("orders"))) == [n for n in range(60) if n != 50]
    again.close()
    assert check_store(disk, "/store").is_sound


def test_rmq_10019_a_delete_that_meets_nothing_counts_nowhere() -> None:
    """https://github.com/apache/rocketmq/issues/10019"""
    driver = timers()
    park(driver, b"x", 5_000, UNIQ_KEY="U1")
    for key in ("nobody", "orders+nobody", "U1"):
        delay_ms = 9_000 if key == "U1" else 5_000
        driver.send("orders", b"", TIMER_DEL_UNIQKEY=key, TIMER_DELIVER_MS=str(driver.clock.now_ms + delay_ms))
    status = driver.engine.timers.status(driver.clock.now_ms)
    assert (status["pending"], status["byTopic"]) == (1, [{"topic": "orders", "pending": 1}])
    let_pass(driver, 20_000)
    assert driver.bodies("orders") == [b"x"]
    assert driver.engine.timers.metrics()["timingCount"] == {}


def test_rmq_10668_units_of_records_that_a_crash_took_lead_to_nobody_else() -> None:
    """https://github.com/apache/rocketmq/issues/10668"""
    files = SimulatedFiles()
    driver = timers(files, flush="async")
    park(driver, b"durable", 3_000)
    driver.clock.advance(6_000)
    driver.upkeep()
    for number in range(30):
        park(driver, b"lost%d" % number, 60_000 + number)
    again = timers(files.crash(PowerLoss("all")), clock=driver.clock, flush="async")
    low, high = again.engine.queue_bounds(TIMER_TOPIC, 0)
    assert (low, high) == (0, 1)
    # other messages, and other timers, where the lost ones stood
    for number in range(30):
        again.send("orders", b"plain%d" % number)
        park(again, b"timer%d" % number, 200_000)
    let_pass(again, 100_000)
    bodies = again.bodies("orders")
    assert bodies[0] == b"durable" or b"durable" in bodies
    assert not [body for body in bodies if body.startswith((b"lost", b"timer"))]
    let_pass(again, 200_000)
    assert len([body for body in again.bodies("orders") if body.startswith(b"timer")]) == 30


@pytest.mark.parametrize("delay_ms", [1_000, 60_000, 3_600_000])
def test_rmq_rust_9154_not_early_at_the_exact_second_and_a_late_cancel_of_its_slot_holds(delay_ms: int) -> None:
    """https://github.com/mxsm/rocketmq-rust/issues/9154"""
    driver = timers()
    start_ms = driver.clock.now_ms - driver.clock.now_ms % 1_000
    due_ms = start_ms + delay_ms + 1_000
    for number in range(5):
        driver.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY=f"U{number}")
    let_pass(driver, due_ms - 1 - driver.clock.now_ms)
    assert driver.bodies("orders") == []
    driver.engine.steer_timer("cancel", Target(unique_key="U3"), now_ms=driver.clock.now_ms)
    driver.settle()
    driver.advance(1)
    assert driver.bodies("orders") == [b"0", b"1", b"2", b"4"]


def test_retention_moves_a_timer_that_alone_keeps_a_segment_and_drops_none() -> None:
    files = SimulatedFiles()
    clock = ManualClock()
    driver = timers(files, clock=clock, retention_hours=24, timer_slots=604_800, keep_unconsumed=False)
    due_ms = clock.now_ms + 20 * DAY
    driver.send("orders", b"far", TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY="U1", ESC_SCHEDULE_KEY="k", KEYS="w")
    for _ in range(12):
        for _ in range(10):
            driver.send("orders", b"x" * 900)
        clock.advance(DAY)
        for _ in range(3):
            driver.upkeep()
            driver.tick()
            clock.advance(11_000)
    health = driver.engine.health()
    assert health.log_min_position > 40_000, "the old segments must go"
    status = driver.engine.timers.status(clock.now_ms)
    assert (status["pending"], status["rescheduledTotal"]) == (1, 0)
    driver = timers(files.crash(PowerLoss("all")), clock=clock, timer_slots=604_800)
    page = driver.engine.timers.listing.page(0, 1 << 50, key="k", topic="orders", now_ms=clock.now_ms)
    assert [item["dueMs"] for item in page["items"]] == [due_ms]
    let_pass(driver, due_ms - 1 - clock.now_ms, DAY)
    assert b"far" not in driver.bodies("orders")
    driver.advance(1)
    assert driver.bodies("orders").count(b"far") == 1


@pytest.mark.parametrize("name", [name for name in ("timers", "timers_roll", "crash") if name in golden.folders()])
def test_what_apache_rocketmq_left_pending_leaves_at_its_moment_once(name: str) -> None:
    store = golden.load(name)
    clock = ManualClock(store.manifest["endedMs"])
    driver = open_engine(store.disk(), clock=clock, timer_slots=604_800, keep_unconsumed=False, **store.config)
    sent = [entry for entry in store.sent if _asks(entry) and "TIMER_DEL_UNIQKEY" not in entry["properties"]]
    ended = {entry["properties"]["UNIQ_KEY"] for entry in sent if entry.get("recalled")}
    ended |= {e["properties"]["TIMER_DEL_UNIQKEY"] for e in store.sent if "TIMER_DEL_UNIQKEY" in e["properties"]}
    seen = {entry["msgId"] for entry in store.manifest["seen"]}
    pending = {e["msgId"]: e for e in sent if e["msgId"] not in ended | seen}
    assert driver.engine.timers.status(clock.now_ms)["pending"] == len(pending) > 0
    for _ in range(60):
        next_ms = driver.tick()
        if next_ms is None:
            break
        clock.now_ms = max(clock.now_ms, next_ms)
    for _ in range(40):
        driver.advance(DAY)
    found = [m for topic in driver.engine.topics.all() for q in range(4) for m in _readable(driver, topic.name, q)]
    released = [message for message in found if {"ESC_SOURCE", "TIMER_OUT_MS"} <= message.properties.keys()]
    assert sorted(m.unique_key or "" for m in released) == sorted(pending)
    for message in released:
        want_ms = pending[message.unique_key or ""].get("wantMs") or 0
        assert message.store_ms >= want_ms
    driver.close()


def _asks(entry: dict[str, object]) -> bool:
    properties = entry["properties"]
    return isinstance(properties, dict) and any(name.startswith("TIMER_D") for name in properties)


def _readable(driver: Driver, topic: str, queue_id: int):
    if topic == TIMER_TOPIC or topic.startswith("SCHEDULE") or driver.engine._store.queues.get(topic, queue_id) is None:
        return []
    return driver.readable(topic, queue_id).values()


@pytest.mark.parametrize("kind", ["timerlog/", "timerwheel", "escapement.timers", "config/timercheck"])
@pytest.mark.parametrize("clean", [True, False])
def test_rot_of_what_is_derived_costs_no_timer(kind: str, clean: bool) -> None:
    files = SimulatedFiles()
    driver = timers(files, timer_wheel_interval_ms=1, timer_max_delay_ms=DAY)
    start_ms = driver.clock.now_ms
    delays = [(number * 7_919) % 200_000 + 8_000 for number in range(40)]
    for number, delay_ms in enumerate(delays):
        driver.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(start_ms + delay_ms), UNIQ_KEY=f"U{number}")
    driver.engine.steer_timer("cancel", Target(unique_key="U7"), now_ms=start_ms)
    driver.settle()
    driver.clock.advance(6_000)
    driver.upkeep()
    if clean:
        driver.close()
    draws = random.Random(kind)
    paths = [path for path in files.contents() if path.startswith(f"/store/{kind}")]
    for _ in range(25):
        disk = files.crash(PowerLoss("kill"))
        path = draws.choice(paths)
        used = [at for at, byte in enumerate(disk.contents()[path]) if byte] or [0]
        disk.flip(path, draws.choice(used) * 8 + draws.randrange(8))
        again = timers(disk, clock=ManualClock(driver.clock.now_ms), timer_max_delay_ms=DAY)
        let_pass(again, 230_000)
        found = {int(message.body): message.store_ms for message in again.readable("orders").values()}
        assert len(again.bodies("orders")) == len(found)
        assert sorted(found) == [number for number in range(40) if number != 7]
        for number, store_ms in found.items():
            assert store_ms >= start_ms + delays[number], f"{number} came early"


def test_a_timer_whose_record_is_damaged_is_counted_no_more_when_the_wheel_is_made_anew() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    damaged = park(driver, b"damaged", 60_000)
    park(driver, b"sound", 61_000)
    driver.clock.advance(10_000)
    driver.upkeep()
    files.flip(f"/store/commitlog/{0:020d}", 8 * (damaged + 100))
    unit = next(path for path in files.contents() if path.startswith("/store/timerlog/"))
    files.flip(unit, 8 * 47)
    let_pass(driver, 70_000)
    assert driver.bodies("orders") == [b"sound"]
    assert driver.engine.timers.status(driver.clock.now_ms)["pending"] == 0


@pytest.mark.parametrize("byte", [33, 47, 4])
def test_an_overdue_timer_whose_unit_is_damaged_comes_out_and_takes_no_other_with_it(byte: int) -> None:
    """Seeds 217765526 and 217765527 of the flipped bits: the second counted as read, and nobody read it anew."""
    files = SimulatedFiles()
    driver = timers(files)
    for body in (b"one", b"two"):
        park(driver, body, 900)
    park(driver, b"later", 60_000)
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.close()
    path = next(path for path in files.contents() if path.startswith("/store/timerlog/"))
    files.flip(path, 8 * (52 + byte))
    again = timers(files, clock=driver.clock)
    let_pass(again, 70_000)
    assert sorted(again.bodies("orders")) == [b"later", b"one", b"two"]
    assert again.engine.timers.status(again.clock.now_ms)["pending"] == 0
