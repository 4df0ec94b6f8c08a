"""A count of what waits for a topic is true of the moment at which it ends, whatever came while it went on."""

from __future__ import annotations

from broker.engine.testing import Driver, open_engine
from broker.engine.topic_backlog import Waiting
from tests.engine.transacting import GROUP, TIMES, ask, begin, transacting

MANY = 300
#: A little more than the interval between two checks.
SOON_MS = 30_100


def ended(found: Waiting, at_once: int = 50) -> tuple[int, int, int, int]:
    while found.look(at_once):
        continue
    assert found.complete
    counts = found.timers, found.delayed, len(found.open_halves), len(found.parked_halves)
    assert found.total == sum(counts)
    return counts


def begin_other(driver: Driver, key: str = "B0") -> None:
    """A half of another topic."""
    driver.engine.topics.ensure("others", 1)
    driver.append("others", b"pay", UNIQ_KEY=key, TRAN_MSG="true", PGROUP=GROUP)
    driver.settle()


def asked_as_often_as_allowed(driver: Driver) -> None:
    for _ in range(3):
        driver.clock.advance(SOON_MS)
        assert ask(driver) == [0]


def parked_half(driver: Driver) -> int:
    """A half of orders that was parked after the last check; its position."""
    position = begin(driver).position
    asked_as_often_as_allowed(driver)
    driver.clock.advance(SOON_MS)
    driver.tick()
    assert len(driver.engine.transactions.table.parked) == 1
    return position


def test_what_is_parked_on_a_level_that_was_passed_is_counted() -> None:
    driver = open_engine(delay_levels="1s 5s 10s 30s 1m", segment_size_bytes=1 << 20)
    for topic in ("orders", "others"):
        driver.engine.topics.ensure(topic, 1)
    for _ in range(MANY):
        driver.append("others", b"x", DELAY="5")
    driver.settle()
    found = driver.engine.waiting_for("orders")
    assert found.look(50)
    driver.send("orders", b"late", DELAY="1")
    assert ended(found) == (0, 1, 0, 0)


def test_what_comes_with_each_look_is_counted_once() -> None:
    driver = open_engine(segment_size_bytes=1 << 20)
    driver.engine.topics.ensure("orders", 1)
    for _ in range(MANY):
        driver.append("orders", b"x", DELAY="3")
    driver.settle()
    found = driver.engine.waiting_for("orders")
    looks = 0
    while found.look(50):
        looks += 1
        driver.send("orders", b"late", DELAY=str(1 + looks % 3))
    assert found.complete
    assert found.delayed == MANY + looks


def test_what_is_on_its_way_to_the_disk_is_counted() -> None:
    driver = transacting()
    driver.engine.topics.ensure("others", 1)
    driver.append("orders", b"plain")
    driver.append("orders", b"level", DELAY="2")
    driver.append("orders", b"timer", TIMER_DELAY_MS="5000")
    driver.append("orders", b"half", UNIQ_KEY="A0", TRAN_MSG="true", PGROUP=GROUP)
    now_ms = driver.clock.now_ms

    def is_counted() -> bool:
        counts = [ended(driver.engine.waiting_for(topic)) for topic in ("orders", "others")]
        return counts == [(1, 1, 1, 0), (0, 0, 0, 0)]

    assert is_counted()
    job = driver.engine.take_sync(now_ms)
    assert job is not None
    assert is_counted(), "while it is written"
    job.run()
    driver.engine.synced(job, None, now_ms)
    assert is_counted()


def test_what_is_cancelled_on_its_way_to_the_disk_is_not_counted() -> None:
    driver = transacting()
    driver.append("orders", b"level", DELAY="2")
    driver.append("orders", b"half", UNIQ_KEY="A0", TRAN_MSG="true", PGROUP=GROUP)
    driver.engine.delete_topic("orders", "cancel")
    assert ended(driver.engine.waiting_for("orders")) == (0, 0, 0, 0)


def test_a_half_that_is_begun_behind_the_count_is_counted() -> None:
    driver = transacting(**TIMES)
    parked_half(driver)
    found = driver.engine.waiting_for("others")
    assert found.look(1), "it looks at what is parked"
    begin_other(driver)
    assert ended(found) == (0, 0, 1, 0)


def test_a_half_on_its_way_to_the_parked_ones_is_counted() -> None:
    driver = transacting(**TIMES)
    begin(driver)
    asked_as_often_as_allowed(driver)
    driver.clock.advance(SOON_MS)
    driver.engine.tick(driver.clock.now_ms)
    assert ended(driver.engine.waiting_for("orders")) == (0, 0, 1, 0)
    driver.settle()
    assert ended(driver.engine.waiting_for("orders")) == (0, 0, 0, 1)


def test_a_half_that_is_parked_meanwhile_is_counted_once() -> None:
    driver = transacting(**TIMES)
    begin(driver)
    asked_as_often_as_allowed(driver)
    found = driver.engine.waiting_for("orders")
    assert found.look(1)
    driver.clock.advance(SOON_MS)
    driver.tick()
    assert len(driver.engine.transactions.table.parked) == 1
    assert ended(found) == (0, 0, 1, 0)


def test_a_half_that_is_opened_again_behind_the_count_is_counted() -> None:
    driver = transacting(**TIMES)
    position = parked_half(driver)
    begin_other(driver)
    found = driver.engine.waiting_for("orders")
    assert found.look(1), "it looks at the other half"
    assert driver.engine.transactions.resume_checks(0, position, "boss", "again", driver.clock.now_ms)
    driver.settle()
    assert len(driver.engine.transactions.table.parked) == 0
    assert ended(found) == (0, 0, 1, 0)
