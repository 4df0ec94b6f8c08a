"""Delay levels: parked, released at the right ms, never early, never twice."""

from __future__ import annotations

import pytest

from broker.engine.testing.disk import PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.rocketmq.message import decode
from broker.rocketmq.topics import SCHEDULE_TOPIC


def delayed(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure("orders", 4)
    return driver


def bodies(driver: Driver, queue_id: int = 0) -> list[bytes]:
    return [decode(record).body for record in driver.engine.pull("orders", queue_id, 0, 99, 1 << 20).records]


def test_a_parked_message_waits_on_its_level_and_leaves_to_the_ms() -> None:
    driver = delayed()
    start_ms = driver.clock.now_ms
    ticket = driver.append("orders", b"cancel?", queue_id=3, DELAY="2", TAGS="unpaid", KEYS="order-1")
    driver.settle()
    assert (ticket.topic, ticket.queue_id, ticket.due_ms) == ("orders", 3, start_ms + 5_000)
    parked = decode(driver.engine.record_at(ticket.position))
    assert (parked.topic, parked.queue_id) == (SCHEDULE_TOPIC, 1)
    assert parked.properties["REAL_TOPIC"] == "orders"
    assert parked.properties["REAL_QID"] == "3"
    assert driver.engine.entries(SCHEDULE_TOPIC, 1, 0, 1)[0].tags_code == start_ms + 5_000
    assert driver.engine.tick(start_ms + 4_999) == start_ms + 5_000
    assert driver.flush() is None
    assert driver.engine.tick(start_ms + 5_000) is None
    driver.settle()
    released = decode(driver.engine.pull("orders", 3, 0, 1, 1 << 20).records[0])
    assert released.body == b"cancel?"
    assert released.properties["ESC_SOURCE"] == str(ticket.position)
    assert released.born_ms == parked.born_ms
    code = driver.engine.entries("orders", 3, 0, 1)[0].tags_code
    assert driver.engine.pull("orders", 3, 0, 1, 1 << 20, frozenset({code})).records


def test_a_level_above_the_highest_is_the_highest() -> None:
    driver = delayed()
    ticket = driver.append("orders", b"x", DELAY="99")
    driver.settle()
    assert ticket.due_ms == driver.clock.now_ms + 10_000
    assert decode(driver.engine.record_at(ticket.position)).properties["DELAY"] == "3"


def test_level_nought_is_no_delay() -> None:
    driver = delayed()
    driver.append("orders", b"now", DELAY="0")
    driver.settle()
    assert bodies(driver) == [b"now"]


def test_a_clock_set_back_delays_nothing_longer_than_its_level() -> None:
    """https://github.com/quartz-scheduler/quartz/issues/410"""
    driver = delayed()
    driver.append("orders", b"x", DELAY="1")
    driver.settle()
    driver.engine.tick(driver.clock.now_ms - 3_600_000)
    driver.settle()
    assert bodies(driver) == [b"x"]


def test_order_within_a_level_is_kept() -> None:
    driver = delayed()
    for number in range(700):
        driver.append("orders", b"%d" % number, DELAY="1")
    driver.settle()
    now_ms = driver.clock.now_ms + 1_000
    following = driver.engine.tick(now_ms)
    assert following is not None and following <= now_ms
    driver.settle()
    assert driver.engine.tick(now_ms) is None
    driver.settle()
    offset, seen = 0, []
    while records := (pulled := driver.engine.pull("orders", 0, offset, 99, 1 << 20)).records:
        seen += [int(decode(record).body) for record in records]
        offset = pulled.next_offset
    assert seen == list(range(700))


def test_a_crash_after_the_release_repeats_nothing() -> None:
    """https://github.com/Bogdanp/dramatiq/issues/431"""
    files = SimulatedFiles()
    driver = delayed(files)
    driver.append("orders", b"once", DELAY="1")
    driver.settle()
    driver.engine.tick(driver.clock.now_ms + 1_000)
    driver.settle()
    again = delayed(files.crash(PowerLoss("kill")))
    again.engine.tick(driver.clock.now_ms + 9_000)
    again.settle()
    assert bodies(again) == [b"once"]


def test_progress_is_durable_after_upkeep_and_shown() -> None:
    driver = delayed(checkpoint_interval_ms=100)
    driver.append("orders", b"x", DELAY="1")
    driver.append("orders", b"y", DELAY="1")
    driver.settle()
    driver.clock.advance(1_000)
    driver.engine.tick(driver.clock.now_ms)
    driver.clock.advance(3)
    driver.settle()
    status = driver.engine.schedule.status(driver.clock.now_ms)[0]
    assert (status.offset, status.max_offset, status.persisted_offset) == (2, 2, 0)
    assert status.released_total == 2
    assert status.lateness_p99_ms is not None and 2.5 <= status.lateness_p99_ms <= 3.5
    assert status.early_total == 0
    driver.upkeep()
    status = driver.engine.schedule.status(driver.clock.now_ms)[0]
    assert (status.persisted_offset, status.persisted_ms) == (2, driver.clock.now_ms)


def test_a_level_never_used_says_nothing() -> None:
    status = delayed().engine.schedule.status(1)[2]
    assert (status.next_due_ms, status.oldest_store_ms, status.lateness_p50_ms, status.max_offset) == (
        None,
        None,
        None,
        0,
    )


def test_a_message_given_back_comes_again_and_then_goes_to_the_dead_letters() -> None:
    driver = delayed()
    ticket = driver.append("orders", b"poison", UNIQ_KEY="U1")
    driver.settle()
    driver.engine.send_back(ticket.position, "billing", 1, 2, driver.clock.now_ms)
    driver.settle()
    driver.clock.advance(1_000)
    driver.engine.tick(driver.clock.now_ms)
    driver.settle()
    retry = decode(driver.engine.pull("%RETRY%billing", 0, 0, 1, 1 << 20).records[0])
    assert (retry.reconsume_times, retry.body) == (1, b"poison")
    assert retry.properties["RETRY_TOPIC"] == "orders"
    assert retry.properties["ORIGIN_MESSAGE_ID"] == ticket.offset_message_id
    driver.engine.send_back(retry.position, "billing", 1, 1, driver.clock.now_ms)
    driver.settle()
    dead = decode(driver.engine.pull("%DLQ%billing", 0, 0, 1, 1 << 20).records[0])
    assert (dead.reconsume_times, dead.unique_key) == (2, "U1")


def spoil(files: SimulatedFiles, offsets: range, *, record: bool) -> None:
    """Make messages of level 1 unreadable: their records, or where their queue says that they are."""
    queue = "/store/consumequeue/SCHEDULE_TOPIC_XXXX/0/00000000000000000000"
    entries = files.contents()[queue]
    for offset in offsets:
        position = int.from_bytes(entries[20 * offset : 20 * offset + 8], "big")
        files.flip("/store/commitlog/00000000000000000000", 8 * (position + 100))
        if not record:
            files.flip(queue, 8 * (20 * offset) + 1)


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("spoilt", [range(1), range(1, 3), range(3, 4), range(4)])
def test_a_head_that_cannot_be_read_is_passed_over_and_said_to_be(record: bool, spoilt: range) -> None:
    files = SimulatedFiles()
    driver = delayed(files)
    for number in range(4):
        driver.send("orders", b"%d" % number, DELAY="1")
    due_ms = driver.clock.now_ms + 1_000
    driver.upkeep()
    spoil(files, spoilt, record=record)
    driver.clock.now_ms = due_ms
    driver.tick()
    driver.settle()
    assert bodies(driver) == [b"%d" % number for number in range(4) if number not in spoilt]
    health = driver.engine.health()
    assert health.state == "DEGRADED"
    assert any(f"{len(spoilt)} of delay level 1" in reason for reason in health.reasons), health.reasons
    level = driver.engine.schedule.status(driver.clock.now_ms)[0]
    assert (level.offset, level.next_due_ms) == (4, None), "nothing waits any more"
    assert level.released_total == 4 - len(spoilt)
