"""Checks: who is asked when, what counts, and what becomes of halves nobody can tell about."""

from __future__ import annotations

import pytest

from broker.engine.errors import TransactionNotFound
from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver
from broker.rocketmq.message import decode
from broker.rocketmq.topics import CHECKS_TOPIC, HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC
from tests.engine.transacting import GROUP, TIMES, ask, begin, checks_of, copies, end, questions, transacting

#: An entry of the calendar is looked at up to so much late, never early.
GRAIN_MS = 100


def test_a_producer_is_asked_after_the_time_out_then_each_interval_and_never_early() -> None:
    driver = transacting(**TIMES)
    half = begin(driver)
    driver.clock.advance(5_999)
    assert ask(driver) == []
    driver.clock.advance(1 + GRAIN_MS)
    assert ask(driver) == [half.queue_offset]
    assert ask(driver) == []
    driver.clock.advance(29_999)
    assert ask(driver) == []
    driver.clock.advance(1 + GRAIN_MS)
    assert ask(driver) == [half.queue_offset]
    assert checks_of(driver, half) == 2


def test_the_question_carries_the_half() -> None:
    driver = transacting(**TIMES)
    begin(driver, b"paid?")
    driver.clock.advance(6_100)
    driver.tick()
    (check,) = questions(driver)
    assert (check.group, check.half.body, check.half.properties["REAL_TOPIC"]) == (GROUP, b"paid?", "orders")


def test_checks_are_counted_in_one_small_record_and_nothing_is_copied() -> None:
    driver = transacting(**TIMES)
    for number in range(4):
        begin(driver, b"x" * 1_000, key=f"{number}")
    for _ in range(2):
        driver.clock.advance(31_000)
        assert ask(driver) == [0, 1, 2, 3]
    assert len(driver.readable(HALF_TOPIC)) == 4
    first, second = driver.readable(CHECKS_TOPIC).values()
    assert (first.body, second.body) == (b"0:1,1:1,2:1,3:1,", b"0:2,1:2,2:2,3:2,")


def test_no_live_producer_uses_up_nothing_and_is_asked_as_soon_as_one_is_there() -> None:
    driver = transacting(**TIMES)
    half = begin(driver)
    for _ in range(100):
        driver.clock.advance(60_000)
        assert ask(driver, alive=()) == []
    assert checks_of(driver, half) == 0
    assert driver.readable(PARKED_HALF_TOPIC) == {}
    assert ask(driver) == [half.queue_offset]


def test_a_question_that_could_not_be_sent_does_not_count() -> None:
    driver = transacting(**TIMES)
    half = begin(driver)
    driver.clock.advance(6_100)
    driver.tick()
    for _ in range(5):
        (check,) = questions(driver)
        driver.engine.transactions.checked([], [check.half.queue_offset], driver.clock.now_ms)
        assert questions(driver) == [], "not at once again"
        driver.clock.advance(30_100)
        driver.tick()
    assert checks_of(driver, half) == 0
    assert ask(driver) == [half.queue_offset]


def test_others_that_come_are_asked_at_once_about_what_the_first_might_not_see() -> None:
    driver = transacting(**TIMES)
    half = begin(driver)
    driver.clock.advance(6_100)
    driver.tick()
    transactions, now_ms = driver.engine.transactions, driver.clock.now_ms
    questions(driver)
    transactions.checked([], [half.queue_offset], now_ms)
    assert transactions.table.due(GROUP) == 1
    transactions.come("others")
    assert questions(driver) == []
    transactions.come(GROUP)
    (check,) = questions(driver)
    transactions.checked([check.offset], [], now_ms)
    assert checks_of(driver, half) == 1
    assert transactions.table.due(GROUP) == 0


def test_what_stands_in_the_calendar_more_than_once_is_parked_once() -> None:
    driver = transacting(**TIMES)
    half = begin(driver)
    for _ in range(3):
        driver.clock.advance(30_100)
        assert ask(driver) == [half.queue_offset]
    for _ in range(2):
        driver.engine.transactions.check_now(half.queue_offset, half.position, driver.clock.now_ms)
    driver.clock.advance(GRAIN_MS)
    driver.tick()
    assert len(driver.readable(PARKED_HALF_TOPIC)) == 1


def test_what_is_decided_while_nobody_is_there_to_be_asked_is_not_kept_in_memory() -> None:
    driver = transacting(**TIMES)
    waiting = begin(driver, key="waits")
    for _ in range(8):
        halves = [begin(driver, key=f"{number}") for number in range(500)]
        driver.clock.advance(6_100)
        for _ in range(4):
            driver.tick()
        for half in halves:
            end(driver, half, commit=False)
    assert len(driver.engine.transactions.table.asking[GROUP]) < 2_600
    assert ask(driver) == [waiting.queue_offset]


@pytest.mark.parametrize("commit", [True, False])
def test_after_the_last_check_a_half_is_parked_and_may_still_be_decided(commit: bool) -> None:
    driver = transacting(**TIMES)
    half = begin(driver, TAGS="t")
    for _ in range(3):
        driver.clock.advance(30_100)
        assert ask(driver) == [half.queue_offset]
    driver.clock.advance(29_000)
    driver.tick()
    assert driver.readable(PARKED_HALF_TOPIC) == {}, "the last answer has its time too"
    driver.clock.advance(1_100)
    assert ask(driver) == []
    (parked,) = driver.readable(PARKED_HALF_TOPIC).values()
    assert (parked.body, parked.properties["TRANSACTION_CHECK_TIMES"]) == (b"pay", "3")
    assert parked.properties["REAL_TOPIC"] == "orders"
    table = driver.engine.transactions.table
    assert (len(table.halves), len(table.parked)) == (0, 1)
    driver.clock.advance(10 * 30_000)
    assert ask(driver) == []
    assert end(driver, half, commit=commit)
    assert len(table.parked) == 0
    assert len(copies(driver)) == commit


def test_a_parked_half_is_checked_again_after_it_was_resumed() -> None:
    driver = transacting(**TIMES)
    half = park(driver)
    transactions = driver.engine.transactions
    transactions.resume_checks(half.queue_offset, half.position, "ann", "fixed", driver.clock.now_ms)
    assert not transactions.resume_checks(half.queue_offset, half.position, "bob", "", driver.clock.now_ms)
    with pytest.raises(TransactionNotFound):
        transactions.resume_checks(half.queue_offset, half.position + 1, "bob", "", driver.clock.now_ms)
    driver.settle()
    assert (len(transactions.table.halves), len(transactions.table.parked)) == (1, 0)
    driver.clock.advance(GRAIN_MS)
    for _ in range(3):
        assert ask(driver) == [half.queue_offset]
        driver.clock.advance(30_100)
    driver.tick()
    assert len(driver.readable(PARKED_HALF_TOPIC)) == 2
    assert len(transactions.table.parked) == 1


def test_resuming_an_open_half_counts_its_checks_anew() -> None:
    driver = transacting(**TIMES)
    half = begin(driver)
    for _ in range(2):
        driver.clock.advance(30_100)
        ask(driver)
    driver.engine.transactions.resume_checks(half.queue_offset, half.position, "ann", "", driver.clock.now_ms)
    driver.clock.advance(GRAIN_MS)
    assert ask(driver) == [half.queue_offset]
    assert checks_of(driver, half) == 1


def park(driver: Driver) -> Ticket:
    half = begin(driver)
    for _ in range(3):
        driver.clock.advance(30_100)
        ask(driver)
    driver.clock.advance(30_100)
    driver.tick()
    assert len(driver.engine.transactions.table.parked) == 1
    return half


def test_check_now_does_not_wait_for_its_time() -> None:
    driver = transacting(**TIMES)
    half = begin(driver, CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    driver.engine.transactions.check_now(half.queue_offset, half.position, driver.clock.now_ms)
    driver.clock.advance(GRAIN_MS)
    assert ask(driver) == [half.queue_offset]
    driver.clock.advance(29_000)
    assert ask(driver) == []
    driver.clock.advance(1_200)
    assert ask(driver) == [half.queue_offset]
    with pytest.raises(TransactionNotFound):
        driver.engine.transactions.check_now(7, 7, driver.clock.now_ms)


@pytest.mark.parametrize("text", ["-5", "soon", "", "9" * 30, "1e3"])
def test_an_immunity_that_is_no_number_is_none(text: str) -> None:
    driver = transacting(**TIMES)
    half = begin(driver, CHECK_IMMUNITY_TIME_IN_SECONDS=text)
    driver.clock.advance(6_100)
    assert ask(driver) == [half.queue_offset]


def test_a_fresh_or_immune_half_holds_up_nobody_behind_it() -> None:
    driver = transacting(**TIMES)
    immune = begin(driver, key="A0", CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    half = begin(driver, key="B1")
    quick = begin(driver, key="C2", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    driver.clock.advance(1_100)
    assert ask(driver) == [quick.queue_offset]
    driver.clock.advance(5_000)
    assert ask(driver) == [half.queue_offset]
    assert checks_of(driver, immune) == 0


def test_a_clock_set_back_makes_nobody_wait_longer() -> None:
    driver = transacting(**TIMES)
    half = begin(driver)
    driver.clock.advance(3_000)
    driver.tick()
    driver.clock.advance(-24 * 3_600_000)
    driver.tick()
    driver.clock.advance(3_100)
    assert ask(driver) == [half.queue_offset]
    driver.clock.advance(-3_600_000)
    driver.tick()
    driver.clock.advance(30_100)
    assert ask(driver) == [half.queue_offset]


def test_many_halves_are_looked_at_in_slices() -> None:
    driver = transacting(**TIMES)
    for number in range(1_200):
        driver.append("orders", b"x", UNIQ_KEY=f"{number}", TRAN_MSG="true", PGROUP=GROUP)
    driver.settle()
    driver.clock.advance(6_100)
    assert driver.engine.tick(driver.clock.now_ms) is not None
    transactions = driver.engine.transactions
    assert 0 < len(transactions.table.asking[GROUP]) < 1_200
    driver.tick()
    first = questions(driver, 1_000)
    assert len(first) == 1_000
    assert len(questions(driver, 1_000)) == 200


def test_checks_and_decisions_may_cross() -> None:
    """Asked, and decided before the question is counted: nothing is counted, nothing is asked again."""
    driver = transacting(**TIMES)
    half = begin(driver)
    driver.clock.advance(6_100)
    driver.tick()
    (check,) = questions(driver)
    end(driver, half, commit=True)
    driver.engine.transactions.checked([check.half.queue_offset], [], driver.clock.now_ms)
    driver.settle()
    assert driver.readable(CHECKS_TOPIC) == {}
    assert [decode(record).body for record in driver.engine.pull(OP_TOPIC, 0, 0, 9, 1 << 20).records] == [b"0,"]
