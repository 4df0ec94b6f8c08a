"""What was handed out, when the log itself was changed: by others, by retention, by rot."""

from __future__ import annotations

from broker.engine.message_header import Facts
from broker.engine.testing import PowerLoss, SimulatedFiles
from broker.rocketmq.topics import POP_TOPIC
from tests.engine.pop.popping import (
    GROUP,
    INVISIBLE_MS,
    RETRY,
    TOPIC,
    ack,
    bodies,
    crashed,
    eventually,
    files_of,
    pop,
    popping,
    reopened,
)


def test_what_apache_rocketmq_consumed_in_between_is_not_given_out_again() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=5)
    pop(driver, most_messages=3)
    driver.close()
    path = "/store/config/consumerOffset.json"
    file = files.open(path)
    file.truncate(0)
    file.write(
        b'{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1795249187230},'
        b'"offsetTable":{"orders@payers":{0:4}}}',
        0,
    )
    file.sync()
    driver = reopened(files, driver.clock)
    assert eventually(driver) == [b"m4"]


def test_messages_that_a_crash_took_from_the_log_leave_no_hole() -> None:
    """With flush=async the end of the log may go: what comes there afterwards is handed out."""
    files = SimulatedFiles()
    driver = popping(files, messages=2, flush="async", flush_interval_ms=10)
    driver.clock.advance(1_000)
    driver.upkeep()
    held = pop(driver)
    driver.clock.advance(6_000)
    driver.upkeep()
    for number in range(2, 6):
        driver.append(TOPIC, b"lost%d" % number)
    driver.settle()
    assert len(pop(driver)) == 4
    driver = crashed(files, driver, PowerLoss("all", 3), flush="async")
    assert driver.engine.queue_bounds(TOPIC, 0) == (0, 2)
    for number in range(2, 6):
        driver.send(TOPIC, b"new%d" % number)
    assert bodies(pop(driver)) == [b"new2", b"new3", b"new4", b"new5"]
    assert ack(driver, *held)
    driver = reopened(files_of(driver), driver.clock, flush="async")
    driver.advance(INVISIBLE_MS)
    assert sorted(bodies(pop(driver))) == [b"new2", b"new3", b"new4", b"new5"]


def test_a_deleted_topic_stays_forgotten_after_a_crash() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=3)
    held = pop(driver)
    ack(driver, held[0])
    driver.clock.advance(6_000)
    driver.upkeep()
    driver.engine.delete_topic(TOPIC)
    driver.engine.topics.ensure(TOPIC, 1)
    driver.send(TOPIC, b"new")
    for _ in range(2):
        driver = crashed(files, driver)
        assert bodies(pop(driver)) == [b"new"]


def test_what_is_out_keeps_its_segment() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=1, segment_size_bytes=4096, retention_hours=1, keep_unconsumed=False)
    (held,) = pop(driver, invisible_ms=100 * 3_600_000)
    for number in range(60):
        driver.send(TOPIC, b"%100d" % number)
    driver.engine.offsets.note(GROUP, TOPIC, 0, 61)
    driver.clock.advance(3 * 3_600_000)
    driver.send(TOPIC, b"newest")
    driver.upkeep()
    assert driver.engine.queue_bounds(TOPIC, 0)[0] == 0
    assert ack(driver, held)
    driver.engine.offsets.commit(GROUP, TOPIC, 0, 62)
    driver.clock.advance(20_000)
    driver.upkeep()
    assert driver.engine.queue_bounds(TOPIC, 0)[0] > 0


def test_a_message_that_rotted_while_it_was_out_ends_there() -> None:
    files = SimulatedFiles()
    driver = popping(files, messages=2)
    first, _ = pop(driver)
    file = files.open("/store/commitlog/00000000000000000000")
    file.write(b"rot", first.message.position + 60)
    driver.advance(INVISIBLE_MS)
    assert bodies(pop(driver)) == [b"m1"]
    driver.advance(2 * INVISIBLE_MS)
    assert driver.engine.health().state == "DEGRADED"


def test_the_largest_properties_are_tried_again_too() -> None:
    files = SimulatedFiles()
    driver = popping(files, segment_size_bytes=1 << 20, max_properties_bytes=32_767)
    driver.send(TOPIC, b"big", note="x" * 32_700)
    pop(driver)
    driver.advance(INVISIBLE_MS)
    (again,) = pop(driver)
    assert (again.message.topic, again.message.reconsume_times) == (RETRY, 1)
    assert "ESC_POPPED" not in again.message.properties
    assert ack(driver, again)
    driver = crashed(files, driver, segment_size_bytes=1 << 20)
    assert eventually(driver) == []


def test_damage_in_the_ledger_is_reported_and_stepped_over() -> None:
    driver = popping(messages=1)
    now_ms = driver.clock.now_ms
    store = driver.engine._store
    facts = Facts(b"", None, None, None)
    for body in (b"", b"\x02\0\0", b"\x01\0\1\0\3a\0b", b"\x01\0\1\0\5a\0b\0" + b"0PACS"):
        store.append(POP_TOPIC, 0, body, facts, 0, 0, 0, now_ms, store.store_host, now_ms)
    driver.settle()
    driver = crashed(driver.engine._files, driver)  # type: ignore[arg-type]  # a simulated disk
    assert driver.engine.health().state == "DEGRADED"
    assert bodies(pop(driver)) == [b"m0"]
