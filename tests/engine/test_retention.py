"""What goes when it is old, and what stays however old it is."""

from __future__ import annotations

from broker.engine.testing.disk import SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine

HOUR_MS = 3_600_000


def filled(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, retention_hours=1, **config)
    driver.engine.topics.ensure("orders", 1)
    for number in range(60):
        driver.append("orders", b"%03d" % number + b"x" * 300)
    driver.settle()
    return driver


def age(driver: Driver) -> None:
    driver.clock.advance(2 * HOUR_MS)
    driver.send("orders", b"young")
    for _ in range(20):
        driver.clock.advance(20_000)
        driver.upkeep()


def test_old_segments_go_and_the_queue_begins_later() -> None:
    driver = filled()
    age(driver)
    low, high = driver.engine.queue_bounds("orders", 0)
    assert high == 61
    assert 0 < low < 61
    assert driver.engine.health().log_min_position > 0
    assert driver.bodies("orders")[-1] == b"young"
    assert all(message for message in driver.readable("orders").values())


def test_what_a_group_has_not_consumed_stays() -> None:
    driver = filled()
    driver.engine.offsets.commit("billing", "orders", 0, 3)
    age(driver)
    assert driver.engine.queue_bounds("orders", 0)[0] <= 3
    assert driver.bodies("orders")[3 - driver.engine.queue_bounds("orders", 0)[0]].startswith(b"003")


def test_what_nobody_waits_for_goes_if_groups_do_not_count() -> None:
    driver = filled(keep_unconsumed=False)
    driver.engine.offsets.commit("billing", "orders", 0, 3)
    age(driver)
    assert driver.engine.queue_bounds("orders", 0)[0] > 3


def test_a_parked_message_outlives_its_segment_s_time() -> None:
    driver = open_engine(retention_hours=1, delay_levels="1s 10h")
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"late", DELAY="2")
    for _ in range(60):
        driver.append("orders", b"x" * 300)
    driver.settle()
    age(driver)
    assert driver.engine.health().log_min_position == 0
    driver.clock.advance(10 * HOUR_MS)
    driver.tick()
    assert b"late" in driver.bodies("orders")


def test_a_queue_whose_messages_are_all_gone_goes_on_counting() -> None:
    files = SimulatedFiles()
    driver = filled(files)
    driver.engine.topics.ensure("other", 1)
    driver.clock.advance(2 * HOUR_MS)
    for _ in range(40):
        driver.append("other", b"y" * 300)
    driver.settle()
    for _ in range(20):
        driver.clock.advance(20_000)
        driver.upkeep()
    assert driver.engine.queue_bounds("orders", 0)[0] >= 50
    high = driver.engine.queue_bounds("orders", 0)[1]
    driver.close()
    again = open_engine(files, retention_hours=1)
    assert again.engine.queue_bounds("orders", 0)[1] == high
    assert again.append("orders", b"next").queue_offset == high


def test_damage_at_the_start_of_a_segment_makes_nothing_before_it_old() -> None:
    """Bytes that are no record say nothing about time: zeros are not the year 1970."""
    for damage in (bytes(400), b"\x01" * 400):
        files = SimulatedFiles()
        driver = filled(files)
        segments = [name for name in files.list("/store/commitlog") if name.isdigit()]
        files.open(f"/store/commitlog/{segments[1]}").write(damage, 0)
        for _ in range(5):
            driver.clock.advance(20_000)
            driver.upkeep()
        assert driver.engine.health().log_min_position == 0
        driver.clock.advance(2 * HOUR_MS)
        driver.send("orders", b"young")
        driver.clock.advance(20_000)
        driver.upkeep()
        assert driver.engine.health().log_min_position > 0, "what is old goes nevertheless"
