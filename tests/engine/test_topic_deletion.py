"""What waits for a topic that is deleted: counted, and cancelled for good or kept as it was, also after a kill."""

from __future__ import annotations

import pytest

from broker.engine.errors import StoreBusy, TransactionDecided
from broker.engine.tables.topics import Topic
from broker.engine.testing import Driver, Fault, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.engine.timer.steer import Target
from tests.engine.transacting import begin, end

HOUR_MS = 3_600_000


def waiting(files: SimulatedFiles, clock: ManualClock | None = None) -> Driver:
    """A broker on which two timers, one at once and one far, a delayed message and a half wait for one topic of six
    queues, and the same for another."""
    driver = open_engine(files, clock=clock)
    for topic in ("orders", "others"):
        driver.engine.topics.put(Topic(topic, 6, 6, order=True))
        for delay_ms in (2_000, HOUR_MS):
            driver.send(topic, b"timer", queue_id=5, TIMER_DELAY_MS=str(delay_ms), UNIQ_KEY=f"{topic}{delay_ms}")
        driver.send(topic, b"level", queue_id=5, DELAY="3")
    begin(driver)
    return driver


def counts(driver: Driver, topic: str = "orders") -> tuple[int, int, int, int]:
    found = driver.engine.waiting_for(topic)
    while found.look(1):
        continue
    assert found.complete
    assert found.total == found.timers + found.delayed + len(found.open_halves) + len(found.parked_halves)
    return found.timers, found.delayed, len(found.open_halves), len(found.parked_halves)


def came_out(driver: Driver, topic: str) -> list[bytes]:
    if driver.engine.topics.get(topic) is None:
        return []
    return sorted(body for queue_id in range(8) for body in driver.bodies(topic, queue_id))


def test_what_waits_is_counted_by_topic() -> None:
    driver = waiting(SimulatedFiles())
    assert counts(driver) == (2, 1, 1, 0)
    assert counts(driver, "others") == (2, 1, 0, 0)
    assert counts(driver, "nobody") == (0, 0, 0, 0)
    driver.advance(20_000)
    assert counts(driver, "others") == (1, 0, 0, 0)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("encoded", [False, True])
def test_what_is_cancelled_never_comes_out(killed: bool, encoded: bool) -> None:
    files = SimulatedFiles()
    driver = waiting(files)
    if encoded:
        driver.advance(1_500)
        driver.tick()
    driver.engine.delete_topic("orders", "cancel")
    if killed:
        driver = open_engine(files.crash(PowerLoss("all")), clock=driver.clock)
    driver.advance(2 * HOUR_MS)
    assert driver.engine.topics.get("orders") is None
    assert came_out(driver, "orders") == []
    assert came_out(driver, "others") == [b"level", b"timer", b"timer"]
    assert counts(driver)[:2] == (0, 0)
    assert all(level.offset == level.max_offset for level in driver.engine.schedule.status(driver.clock.now_ms))


def test_nothing_is_removed_while_an_upkeep_job_writes_it() -> None:
    driver = waiting(SimulatedFiles())
    driver.advance(10_000)
    job = driver.engine.take_upkeep(driver.clock.now_ms)
    assert job is not None
    with pytest.raises(StoreBusy):
        driver.engine.delete_topic("orders", "cancel")
    assert driver.engine.topics.get("orders") is not None
    job.run()
    driver.engine.upkept(job, None, driver.clock.now_ms)
    driver.engine.delete_topic("orders", "cancel")
    assert driver.engine.topics.get("orders") is None


def test_what_comes_after_is_not_cancelled() -> None:
    driver = waiting(SimulatedFiles())
    driver.engine.delete_topic("orders", "cancel")
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"new timer", TIMER_DELAY_MS="2000")
    driver.send("orders", b"new level", DELAY="3")
    driver.advance(2 * HOUR_MS)
    assert came_out(driver, "orders") == [b"new level", b"new timer"]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_half_of_a_topic_deleted_with_all_is_not_committed(fresh: bool) -> None:
    driver = open_engine()
    driver.engine.topics.ensure("orders", 4)
    half = begin(driver)
    if not fresh:
        driver.engine.transactions.table.recent.drop(half.queue_offset)
    driver.engine.delete_topic("orders", "cancel")
    for _ in range(2):
        with pytest.raises(TransactionDecided, match="rolled back by the deletion of its topic"):
            end(driver, half, commit=True)
        driver.settle()
    assert driver.engine.topics.get("orders") is None
    assert len(driver.engine.transactions.table.halves) == 0


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_kept_makes_the_topic_as_it_was(killed: bool) -> None:
    files = SimulatedFiles()
    driver = waiting(files)
    driver.engine.delete_topic("orders", "keep")
    assert counts(driver) == (2, 1, 1, 0)
    if killed:
        driver = open_engine(files.crash(PowerLoss("all")), clock=driver.clock)
    driver.advance(2 * HOUR_MS)
    assert driver.engine.topics.get("orders") == Topic("orders", 6, 6, order=True)
    assert driver.bodies("orders", 5) == [b"timer", b"level", b"timer"]


def test_what_was_kept_can_be_cancelled_when_the_topic_is_gone() -> None:
    driver = waiting(SimulatedFiles())
    driver.engine.delete_topic("orders", "keep")
    driver.engine.cancel_waiting("orders")
    driver.advance(2 * HOUR_MS)
    assert driver.engine.topics.get("orders") is None
    assert driver.engine.topics.ensure("orders", 3).read_queues == 3


def test_a_cancelled_timer_can_neither_be_moved_nor_hold_its_key() -> None:
    driver = open_engine()
    driver.engine.topics.ensure("orders", 4)
    ticket = driver.send("orders", b"old", TIMER_DELAY_MS="5000", ESC_SCHEDULE_KEY="k", UNIQ_KEY="A")
    driver.engine.delete_topic("orders", "cancel")
    driver.engine.topics.ensure("orders", 4)
    now_ms = driver.clock.now_ms
    target = Target(position=ticket.position)
    for action in ("reschedule", "deliver_now"):
        outcome = driver.engine.steer_timer(action, target, due_ms=now_ms + 9_000, now_ms=now_ms)
        assert outcome.outcome == "already_cancelled"
    driver.send("orders", b"new", TIMER_DELAY_MS="6000", ESC_SCHEDULE_KEY="k", UNIQ_KEY="B")
    driver.advance(20_000)
    assert came_out(driver, "orders") == [b"new"]


def test_a_cancelled_timer_keeps_no_old_segment() -> None:
    driver = open_engine(timer_slots=10_800)
    driver.engine.topics.ensure("orders", 4)
    driver.send("orders", b"far", TIMER_DELAY_MS=str(200 * 24 * HOUR_MS), UNIQ_KEY="A")
    for number in range(40):
        driver.send("orders", b"x" * 900, UNIQ_KEY=f"{number}")
    driver.engine.delete_topic("orders", "cancel")
    driver.clock.advance(100 * HOUR_MS)
    for _ in range(3):
        driver.clock.advance(HOUR_MS)
        driver.tick()
        driver.upkeep()
    assert counts(driver) == (0, 0, 0, 0)
    assert driver.engine.health().log_min_position > 0


def test_a_delete_that_cannot_be_saved_changes_nothing() -> None:
    files = SimulatedFiles()
    driver = waiting(files)
    files.fail(Fault("write", path_part="topics.json"))
    with pytest.raises(OSError):
        driver.engine.delete_topic("orders", "cancel")
    driver.advance(2 * HOUR_MS)
    assert came_out(driver, "orders") == [b"level", b"timer", b"timer"]
