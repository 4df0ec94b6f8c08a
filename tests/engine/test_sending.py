"""Sending: where a message goes, when it is seen, and what is refused before anything is written."""

from __future__ import annotations

import errno

import pytest

from broker.engine.engine import Engine
from broker.engine.errors import (
    BodyTooLarge,
    BrokerError,
    DiskFull,
    InvalidDelayLevel,
    InvalidMessage,
    InvalidProperties,
    InvalidQueue,
    InvalidTopicName,
    PropertiesTooLarge,
    StoreClosed,
    StoreFailed,
    TimerIllegal,
    TopicNotFound,
    TopicNotWritable,
)
from broker.engine.queues.reader import PullStatus
from broker.engine.tables.topics import Topic
from broker.engine.testing.disk import Fault, SimulatedFiles
from broker.engine.testing.driver import BORN_HOST, Driver, open_engine
from broker.rocketmq.message import decode


@pytest.fixture
def driver() -> Driver:
    driver = open_engine()
    driver.engine.topics.ensure("orders", 4)
    return driver


def end_of_log(engine: Engine) -> int:
    return engine.health().log_end_position


def test_a_message_is_seen_when_it_is_durable_and_not_before(driver: Driver) -> None:
    engine = driver.engine
    ticket = driver.append("orders", b"paid", queue_id=2, TAGS="a")
    assert engine.queue_bounds("orders", 2) == (0, 0)
    assert engine.pull("orders", 2, 0, 32, 1 << 20).status is PullStatus.EMPTY_QUEUE
    driver.settle()
    pulled = engine.pull("orders", 2, 0, 32, 1 << 20)
    message = decode(pulled.records[0])
    assert (message.body, message.properties, message.position) == (b"paid", {"TAGS": "a"}, ticket.position)
    assert engine.take_arrivals() == {("orders", 2)}
    assert engine.take_arrivals() == set()


def test_offsets_of_a_queue_are_dense_and_of_their_own(driver: Driver) -> None:
    for number in range(9):
        driver.append("orders", b"%d" % number, queue_id=number % 2)
    driver.settle()
    bodies = [decode(record).body for record in driver.engine.pull("orders", 1, 0, 32, 1 << 20).records]
    assert bodies == [b"1", b"3", b"5", b"7"]
    assert [entry.size > 0 for entry in driver.engine.entries("orders", 0, 0, 10)] == [True] * 5


def test_a_batch_stands_together_or_not_at_all(driver: Driver) -> None:
    engine = driver.engine
    before = end_of_log(engine)
    parts = [(b"one", b"", 0), (b"two" * 1000, b"", 0)]
    with pytest.raises(BodyTooLarge):
        engine.append_batch("orders", 0, parts, born_ms=1, born_host=BORN_HOST, now_ms=1)
    assert engine.take_sync(1) is None
    tickets = driver.append_batch("orders", [b"one", b"two", b"three"])
    driver.settle()
    assert [ticket.queue_offset for ticket in tickets] == [0, 1, 2]
    assert end_of_log(engine) > before


def test_a_batch_that_finds_no_room_leaves_nothing() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 4)
    driver.send("orders", b"first")
    files.fail(Fault("allocate", error=errno.ENOSPC, forever=True))
    with pytest.raises(BrokerError):
        driver.append_batch("orders", [b"x" * 1500] * 4)
    assert driver.engine.take_sync(1) is None
    files.fail()
    driver.send("orders", b"second")
    assert driver.bodies("orders") == [b"first", b"second"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": "unknown"}, TopicNotFound),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, TopicNotWritable),
        ({"topic": "readonly"}, TopicNotWritable),
        ({"queue_id": 4}, InvalidQueue),
        ({"body": b"x" * 2049}, BodyTooLarge),
        ({"properties": b"a\x01" + b"x" * 1200 + b"\x02"}, PropertiesTooLarge),
        ({"properties": b"a\x01\xff\xfe\x02"}, InvalidProperties),
        ({"properties": b"novalue\x02"}, InvalidProperties),
        ({"properties": b"DELAY\x01-1\x02"}, InvalidDelayLevel),
        ({"properties": b"DELAY\x01soon\x02"}, InvalidDelayLevel),
        ({"properties": b"TIMER_DELAY_SEC\x01soon\x02"}, TimerIllegal),
        ({"sys_flag": 4}, InvalidMessage),
        ({"sys_flag": 8}, InvalidMessage),
        ({"flag": 2**31}, InvalidMessage),
        ({"born_ms": -1}, InvalidMessage),
        ({"born_host": b"abc"}, InvalidMessage),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(driver: Driver, arguments, error) -> None:
    driver.engine.topics.put(Topic("readonly", 1, 1, permission=4))
    call = {"topic": "orders", "queue_id": 0, "body": b"x", "properties": b"", "born_ms": 1, "born_host": BORN_HOST}
    call |= arguments
    with pytest.raises(error) as caught:
        driver.engine.append(
            call.pop("topic"), call.pop("queue_id"), call.pop("body"), call.pop("properties"), now_ms=5, **call
        )
    assert str(caught.value)
    assert driver.engine.take_sync(5) is None


@pytest.mark.parametrize("name", ["", "x" * 128, "a b", "../../etc", "täg", "a/b"])
def test_names_that_could_harm_are_refused(driver: Driver, name: str) -> None:
    with pytest.raises(InvalidTopicName):
        driver.engine.topics.put(Topic(name, 1, 1))


def test_after_a_failed_sync_nothing_is_acknowledged_ever(driver: Driver) -> None:
    engine = driver.engine
    driver.append("orders", b"lost")
    job = engine.take_sync(1)
    assert job is not None
    assert engine.synced(job, OSError(errno.EIO, "I/O error"), 1) == []
    assert engine.health().state == "FAILED"
    with pytest.raises(StoreFailed):
        driver.append("orders", b"more")
    assert engine.take_sync(2) is None
    assert engine.tick(2) is None


def test_a_closed_store_says_so(driver: Driver) -> None:
    driver.engine.close(1)
    driver.engine.close(1)
    with pytest.raises(StoreClosed):
        driver.append("orders", b"late")


def test_messages_are_found_by_unique_id_key_and_time(driver: Driver) -> None:
    first = driver.append("orders", b"1", UNIQ_KEY="C0A80001", KEYS="order-1  customer-7")
    driver.clock.advance(60_000)
    second = driver.append("orders", b"2", KEYS="customer-7")
    driver.settle()
    now_ms, engine = driver.clock.now_ms, driver.engine

    def found(key: str, begin_ms: int = 0) -> list[int]:
        return engine.find("orders", key, begin_ms=begin_ms, end_ms=now_ms, max_count=9, now_ms=now_ms)

    assert found("C0A80001") == [first.position]
    assert found("customer-7") == [second.position, first.position]
    assert found("customer-7", now_ms - 5_000) == [second.position]
    assert found("nobody") == []
    assert engine.offset_at_time("orders", 0, now_ms) == 1
    assert engine.offset_at_time("orders", 0, 0) == 0
    assert engine.offset_at_time("orders", 0, now_ms + 1) == 2


def test_a_pull_honours_count_size_and_tags(driver: Driver) -> None:
    for number in range(10):
        driver.append("orders", b"x" * 100, TAGS="even" if number % 2 == 0 else "odd")
    driver.settle()
    engine = driver.engine
    assert len(engine.pull("orders", 0, 0, 4, 1 << 20).records) == 4
    assert len(engine.pull("orders", 0, 0, 32, 10).records) == 1
    even = frozenset({engine.entries("orders", 0, 0, 1)[0].tags_code})
    pulled = engine.pull("orders", 0, 1, 2, 1 << 20, even)
    assert [decode(record).queue_offset for record in pulled.records] == [2, 4]
    assert pulled.next_offset == 6 or pulled.next_offset == 5
    nothing = engine.pull("orders", 0, 0, 32, 1 << 20, frozenset({12345}))
    assert (nothing.status, nothing.next_offset) == (PullStatus.NO_MATCH, 10)
    assert engine.pull("orders", 0, 11, 1, 1).status is PullStatus.OFFSET_OVERFLOW


def test_what_a_failed_store_will_never_write_is_given_back_once(driver: Driver) -> None:
    engine = driver.engine
    driver.append("orders", b"out", owner="first")
    job = engine.take_sync(1)
    assert job is not None
    driver.append("orders", b"behind it", owner="second")
    assert engine.abandoned() == []
    engine.synced(job, OSError(errno.EIO, "I/O error"), 1)
    assert [ticket.owner for ticket in engine.abandoned()] == ["second"]
    assert engine.abandoned() == []


def fill(driver: Driver) -> None:
    for _ in range(20):
        driver.send("orders", b"x" * (1 << 20))


def test_no_room_for_the_next_segment_refuses_nothing_that_fits_this_one() -> None:
    files = SimulatedFiles()
    driver = open_engine(files, segment_size_bytes=16 << 20, max_body_bytes=1 << 20)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"first")
    files.fail(Fault("allocate", error=errno.ENOSPC, forever=True))
    driver.clock.advance(60_000)
    job = driver.engine.take_upkeep(driver.clock.now_ms)
    assert job is not None
    job.run()
    driver.engine.upkept(job, None, driver.clock.now_ms)
    driver.send("orders", b"second")
    assert driver.engine.health().state == "OK"
    with pytest.raises(DiskFull):
        fill(driver)
    files.fail()
    driver.clock.advance(60_000)
    driver.upkeep()
    driver.send("orders", b"third")
    assert driver.bodies("orders")[-1] == b"third"


def test_the_sender_of_a_message_given_back_for_good_is_answered(driver: Driver) -> None:
    ticket = driver.send("orders", b"poison")
    driver.engine.send_back(ticket.position, "billing", -1, 16, driver.clock.now_ms, "asker")
    assert [done.owner for done in driver.settle()] == ["asker"]


def test_a_message_passed_on_with_the_check_sum_it_came_with_gets_its_own(driver: Driver) -> None:
    first = driver.send("orders", b"body", KEYS="k")
    again = driver.send("orders", b"body", **{"KEYS": "k", "__CRC32#": "1234567890"})
    stored = driver.engine.record_at(again.position)
    assert stored.count(b"__CRC32#") == 1
    assert len(stored) == len(driver.engine.record_at(first.position))
