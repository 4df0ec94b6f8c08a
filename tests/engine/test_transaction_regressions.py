"""Bugs that Apache RocketMQ had with transactions, by the number of its issue.

    #544    lost where its immunity ends in the very moment of the look      #8158   checked on after a late commit
    #615    immunity uses up the checks                                      #8311   parked although it was never asked
    #2694   rolled back by a check, then committed by its producer           #9500   one error holds up all behind it
    #7240   an op record of several halves is done with after the first

"A late abort hits the next transaction", of Kafka, is in test_transaction_intake.py.
"""

from __future__ import annotations

import pytest

from broker.engine.errors import TransactionDecided
from broker.engine.testing import PowerLoss, SimulatedFiles
from broker.rocketmq.topics import OP_TOPIC, PARKED_HALF_TOPIC
from tests.engine.transacting import GROUP, TIMES, ask, begin, checks_of, copies, end, end_soon, questions, transacting

#: An entry of the calendar is looked at up to so much late, never early.
GRAIN_MS = 100


def test_rmq_544_a_half_whose_immunity_ends_this_very_moment_is_checked() -> None:
    """https://github.com/apache/rocketmq/issues/544"""
    driver = transacting(**TIMES)
    half = begin(driver, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    driver.clock.now_ms = half.store_ms + 1_000
    driver.tick()
    driver.clock.advance(GRAIN_MS)
    assert ask(driver) == [half.queue_offset]


def test_rmq_615_and_8311_immunity_uses_up_no_check() -> None:
    """https://github.com/apache/rocketmq/issues/615"""
    driver = transacting(**TIMES)
    half = begin(driver, CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    for _ in range(119):
        driver.clock.advance(30_000)
        assert ask(driver) == []
    for _ in range(3):
        driver.clock.advance(30_100)
        assert ask(driver) == [half.queue_offset]
    driver.clock.advance(30_100)
    driver.tick()
    assert len(driver.readable(PARKED_HALF_TOPIC)) == 1


def test_rmq_2694_what_a_check_rolled_back_the_producer_cannot_commit() -> None:
    """https://github.com/apache/rocketmq/issues/2694"""
    driver = transacting(**TIMES)
    half = begin(driver)
    driver.clock.advance(6_100)
    assert ask(driver) == [half.queue_offset]
    assert end(driver, half, commit=False, by="check 10.0.0.7:5000")
    with pytest.raises(TransactionDecided):
        end(driver, half, commit=True, by="producer 10.0.0.7:5000")
    assert copies(driver) == []


@pytest.mark.parametrize("stop", ["checkpoint", "kill", "snapshot lost"])
def test_rmq_7240_an_op_record_is_not_done_with_while_it_names_halves_behind_an_open_one(stop: str) -> None:
    """One op record names halves on both sides of an open one; a start believes all that it says, each time.

    https://github.com/apache/rocketmq/issues/7240
    """
    files = SimulatedFiles()
    driver = transacting(files, **TIMES)
    halves = [begin(driver, key=f"K{number}") for number in range(5)]
    for number, commit in ((0, True), (1, False), (3, True)):
        end_soon(driver, halves[number], commit=commit)
    driver.settle()
    assert [record.body for record in driver.readable(OP_TOPIC).values()] == [b"0,1,3,"]
    for still_open in ([2, 4], [4]):
        for _ in range(2):
            if stop != "kill":
                driver.clock.advance(11_000)
                driver.upkeep()
            files = files.crash(PowerLoss("kill"))
            if stop == "snapshot lost":
                for name in set(files.list("/store")) & {"escapement.halves.0", "escapement.halves.1"}:
                    files.remove(f"/store/{name}")
            driver = transacting(files, clock=driver.clock, **TIMES)
            assert [row.offset for row in driver.engine.transactions.table.halves.since(0)] == still_open
            with pytest.raises(TransactionDecided):
                end(driver, halves[3], commit=False)
            assert end(driver, halves[1], commit=False) is False
        driver.clock.advance(31_000)
        assert ask(driver) == still_open
        if 2 in still_open:
            assert end(driver, halves[2], commit=False)
    assert len(copies(driver)) == 2


def test_rmq_8158_a_late_commit_ends_the_checks() -> None:
    """https://github.com/apache/rocketmq/issues/8158"""
    driver = transacting(**TIMES)
    half = begin(driver)
    for _ in range(2):
        driver.clock.advance(30_100)
        assert ask(driver) == [half.queue_offset]
    assert end(driver, half, commit=True)
    for _ in range(5):
        driver.clock.advance(30_100)
        assert ask(driver) == []
    assert len(copies(driver)) == 1
    assert driver.readable(PARKED_HALF_TOPIC) == {}


def test_rmq_8311_a_decision_in_the_last_interval_keeps_a_half_from_being_parked() -> None:
    """https://github.com/apache/rocketmq/issues/8311"""
    driver = transacting(**TIMES)
    half = begin(driver)
    for _ in range(3):
        driver.clock.advance(30_100)
        ask(driver)
    driver.clock.advance(29_900)
    assert end(driver, half, commit=True)
    driver.clock.advance(60_000)
    driver.tick()
    assert driver.readable(PARKED_HALF_TOPIC) == {}


def test_rmq_9500_a_half_that_cannot_be_read_holds_up_nobody() -> None:
    """https://github.com/apache/rocketmq/issues/9500"""
    files = SimulatedFiles()
    driver = transacting(files, **TIMES)
    damaged, half = begin(driver, key="A0"), begin(driver, key="B1")
    file = files.open("/store/commitlog/00000000000000000000")
    byte = file.read(1, damaged.position + 100)[0]
    file.write(bytes([byte ^ 0xFF]), damaged.position + 100)
    for _ in range(2):
        driver.clock.advance(30_100)
        assert ask(driver) == [half.queue_offset]
    assert driver.engine.health().state == "DEGRADED"
    assert checks_of(driver, damaged) == 0, "it is there and shown, nobody was asked"


@pytest.mark.parametrize("where", [100, -3, 4, 30], ids=["body", "checksum", "magic", "position"])
def test_rmq_9500_one_that_cannot_be_read_among_many_alike_holds_up_nobody(where: int) -> None:
    files = SimulatedFiles()
    driver = transacting(files, **TIMES)
    halves = [driver.append("orders", b"pay", UNIQ_KEY=f"A{n}", TRAN_MSG="true", PGROUP=GROUP) for n in range(10, 26)]
    driver.settle()
    size = halves[1].position - halves[0].position
    assert [half.position for half in halves] == [halves[0].position + size * n for n in range(16)], "back to back"
    file = files.open("/store/commitlog/00000000000000000000")
    at = halves[9].position + where % size
    file.write(bytes([file.read(1, at)[0] ^ 0x01]), at)
    driver.clock.advance(30_100)
    assert ask(driver) == [half.queue_offset for half in halves if half is not halves[9]]
    assert driver.engine.health().state == "DEGRADED"


def test_halves_of_many_sizes_are_asked_about_each_with_its_own_record() -> None:
    driver = transacting(**TIMES)
    bodies = [b"x" * (50 if number % 7 else number) for number in range(60)]
    for number, body in enumerate(bodies):
        driver.append("orders", body, UNIQ_KEY=f"A{number}", TRAN_MSG="true", PGROUP=GROUP)
        if number % 20 == 19:
            driver.append("orders", b"something else")
    driver.settle()
    driver.clock.advance(30_100)
    driver.tick()
    checks = questions(driver)
    assert [(check.half.queue_offset, check.half.body) for check in checks] == list(enumerate(bodies))
