"""Faults that others had with transactions: asked again though decided, unreadable after a check, too large."""

from __future__ import annotations

import zlib

import pytest

from broker.engine.errors import InvalidMessage
from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, PowerLoss, SimulatedFiles
from broker.rocketmq.message import pack_host
from broker.rocketmq.properties import format_properties
from broker.rocketmq.topics import PARKED_HALF_TOPIC
from tests.engine.transacting import GROUP, TIMES, ask, begin, copies, end, end_soon, questions, transacting

#: the bit of a record's system flag that says its body is compressed (MessageSysFlag.COMPRESSED_FLAG)
COMPRESSED = 1


def begin_compressed(driver: Driver, body: bytes) -> Ticket:
    """Append a half as Java's client sends a body of more than 4 KiB."""
    now_ms = driver.clock.now_ms
    stored = format_properties({"UNIQ_KEY": "A0", "TRAN_MSG": "true", "PGROUP": GROUP})
    ticket = driver.engine.append(
        "orders", 0, zlib.compress(body), stored, sys_flag=COMPRESSED, born_ms=now_ms,
        born_host=pack_host("127.0.0.1", 40_000), now_ms=now_ms,
    )  # fmt: skip
    driver.settle()
    return ticket


def until_parked(driver: Driver) -> None:
    for _ in range(TIMES["transaction_checks"] + 1):
        driver.clock.advance(30_100)
        ask(driver)
    driver.tick()
    assert len(driver.readable(PARKED_HALF_TOPIC)) == 1


def test_a_compressed_half_is_asked_about_again_and_again_as_it_was_sent() -> None:
    """https://github.com/apache/rocketmq/issues/1375"""
    driver = transacting(**TIMES)
    body = b"pay " * 2_000
    half = begin_compressed(driver, body)
    behind = begin(driver, key="B1")
    for _ in range(TIMES["transaction_checks"]):
        driver.clock.advance(30_100)
        driver.tick()
        first, second = questions(driver)
        assert (first.half.sys_flag & COMPRESSED, zlib.decompress(first.half.body)) == (COMPRESSED, body)
        assert second.half.queue_offset == behind.queue_offset, "the one behind it is asked about as well"
        driver.engine.transactions.checked([half.queue_offset, behind.queue_offset], [], driver.clock.now_ms)
        driver.settle()
    assert end(driver, half, commit=True)
    (copy,) = copies(driver)
    assert (copy.sys_flag & COMPRESSED, zlib.decompress(copy.body)) == (COMPRESSED, body)


def test_a_compressed_half_can_be_read_after_its_checks_were_resumed() -> None:
    """https://github.com/apache/rocketmq/issues/9953"""
    files = SimulatedFiles()
    driver = transacting(files, **TIMES)
    body = b"pay " * 2_000
    half = begin_compressed(driver, body)
    until_parked(driver)
    (parked,) = driver.readable(PARKED_HALF_TOPIC).values()
    assert (parked.sys_flag & COMPRESSED, zlib.decompress(parked.body)) == (COMPRESSED, body)
    driver.engine.transactions.resume_checks(half.queue_offset, half.position, "ops", "why", driver.clock.now_ms)
    driver.settle()
    driver = transacting(files.crash(PowerLoss("all")), clock=driver.clock, **TIMES)
    driver.clock.advance(30_100)
    driver.tick()
    (check,) = questions(driver)
    assert (check.half.sys_flag & COMPRESSED, zlib.decompress(check.half.body)) == (COMPRESSED, body)
    assert end(driver, half, commit=True, by="check 10.0.0.7:5000")
    (copy,) = copies(driver)
    assert (copy.sys_flag & COMPRESSED, zlib.decompress(copy.body)) == (COMPRESSED, body)


def test_the_largest_half_that_is_taken_can_be_checked_parked_resumed_and_committed() -> None:
    """https://github.com/apache/rocketmq/issues/6655"""
    driver = transacting(max_body_bytes=2_048, max_properties_bytes=1_024, **TIMES)
    taken = None
    for size in range(2_048, 1_500, -16):  # the largest that finds room, to the step
        try:
            taken = driver.append("orders", b"x" * size, UNIQ_KEY="A0", TRAN_MSG="true", PGROUP=GROUP, note="n" * 800)
        except InvalidMessage:
            continue
        break
    assert taken is not None
    driver.settle()
    behind = begin(driver, key="B1")
    assert end(driver, behind, commit=True)
    until_parked(driver)
    transactions = driver.engine.transactions
    transactions.resume_checks(taken.queue_offset, taken.position, "ops", "why", driver.clock.now_ms)
    driver.settle()
    driver.clock.advance(100)
    assert ask(driver) == [taken.queue_offset]
    assert end(driver, taken, commit=True)
    assert [len(copy.body) for copy in copies(driver)][-1] == size


def test_what_was_decided_since_it_came_due_is_not_asked_about() -> None:
    """https://github.com/apache/rocketmq/issues/1517"""
    driver = transacting(**TIMES)
    halves = [begin(driver, key=f"A{number}") for number in range(6)]
    driver.clock.advance(6_100)
    driver.tick()  # all of them are due
    for half in halves[:4]:
        # the record that says so is not on disk yet
        assert end_soon(driver, half, commit=bool(half.queue_offset % 2))
    assert [check.half.queue_offset for check in questions(driver)] == [4, 5]
    driver.engine.transactions.checked([4, 5], [], driver.clock.now_ms)
    driver.settle()
    driver.clock.advance(90_000)
    assert ask(driver) == [4, 5]


@pytest.mark.parametrize("stop", ["clean", "kill", "power", "everything derived is gone"])
def test_a_start_asks_about_nothing_that_was_decided(stop: str) -> None:
    """https://github.com/apache/rocketmq/issues/2117"""
    files = SimulatedFiles()
    driver = transacting(files, **TIMES)
    halves = [begin(driver, key=f"A{number}") for number in range(12)]
    for half in halves:
        if half.queue_offset % 4 == 3:
            continue
        if half.queue_offset % 4 == 2:
            driver.clock.advance(6_100)
            ask(driver)
        assert end(driver, half, commit=half.queue_offset % 4 != 1)
        if half.queue_offset == 5:
            driver.clock.advance(11_000)
            driver.upkeep()
    if stop == "clean":
        driver.close()
    disk = files.crash(PowerLoss("all" if stop == "power" else "kill"))
    if stop == "everything derived is gone":
        for path in list(disk.contents()):
            if not path.startswith(("/store/commitlog/", "/store/config/")) and path != "/store/lock":
                disk.remove(path)
    again = transacting(disk, clock=driver.clock, **TIMES)
    for _ in range(2):
        again.clock.advance(30_100)
        assert ask(again) == [3, 7, 11]
    assert len(copies(again)) == 6
