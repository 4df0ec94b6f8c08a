"""Decisions that nobody waits for: their copies go out now, and they are recorded with those of a few more ms."""

from __future__ import annotations

import pytest

from broker.engine.testing import Driver, PowerLoss, SimulatedFiles
from broker.engine.transaction.decision import Ending
from broker.rocketmq.topics import OP_TOPIC
from tests.engine.transacting import begin, copies, end, end_soon, transacting

INTERVAL_MS = 10


@pytest.fixture
def files() -> SimulatedFiles:
    return SimulatedFiles()


@pytest.fixture
def driver(files: SimulatedFiles) -> Driver:
    return transacting(files, transaction_op_interval_ms=INTERVAL_MS)


def records(driver: Driver) -> list[bytes]:
    return [record.body for record in driver.readable(OP_TOPIC).values()]


def test_copies_are_there_now_and_one_record_tells_of_all_that_came_meanwhile(driver: Driver) -> None:
    halves = [begin(driver, key=f"A{number}") for number in range(4)]
    end(driver, halves[0], commit=True)
    driver.clock.advance(INTERVAL_MS // 2)
    end(driver, halves[1], commit=False)
    end(driver, halves[2], commit=True)
    assert [copy.unique_key for copy in copies(driver)] == ["A0", "A2"]
    assert records(driver) == []
    driver.clock.advance(INTERVAL_MS // 2)
    begin(driver, key="B0")
    assert records(driver) == [b"0,1,2,"]
    assert [half.offset for half in driver.engine.transactions.table.halves.since(0)] == [3, 4]
    end(driver, halves[3], commit=True)
    assert records(driver) == [b"0,1,2,"], "they wait anew"


def test_who_waits_does_not_wait_for_others(driver: Driver) -> None:
    first, second = begin(driver), begin(driver, key="A1")
    end(driver, first, commit=True)
    asked = Ending(second.queue_offset, second.position, True, "ann")
    driver.engine.transactions.end(asked, driver.clock.now_ms, object())
    driver.settle()
    assert records(driver) == [b"0,1,"]


def test_who_says_again_what_was_decided_and_waits_does_not_wait_for_others_either(driver: Driver) -> None:
    half = begin(driver)
    end(driver, half, commit=False)
    again = Ending(half.queue_offset, half.position, False, "ann")
    assert driver.engine.transactions.end(again, driver.clock.now_ms, object())
    driver.settle()
    assert records(driver) == [b"0,"]


def test_a_checkpoint_is_taken_although_decisions_come_without_end(driver: Driver) -> None:
    driver.clock.advance(driver.engine.config.checkpoint_interval_ms)
    for number in range(3):
        end(driver, begin(driver, key=f"A{number}"), commit=True)
        job = driver.engine.take_upkeep(driver.clock.now_ms)
        if job is not None:
            job.run()
            driver.engine.upkept(job, None, driver.clock.now_ms)
            if job.checkpointed:
                break
        driver.clock.advance(1)
    else:
        pytest.fail("no checkpoint")
    assert number == 1, "the batch after the first look covered every copy"


def test_a_clock_that_is_set_back_makes_nobody_wait_longer(driver: Driver) -> None:
    first, second = begin(driver), begin(driver, key="A1")
    end(driver, first, commit=True)
    driver.clock.now_ms -= 3_600_000
    end(driver, second, commit=True)
    driver.clock.advance(INTERVAL_MS)
    begin(driver, key="B0")
    assert records(driver) == [b"0,1,"]


def test_a_clean_stop_leaves_nothing_unrecorded(driver: Driver, files: SimulatedFiles) -> None:
    end(driver, begin(driver), commit=False)
    assert records(driver) == []
    driver.close()
    again = transacting(files)
    assert records(again) == [b"0,"]
    assert len(again.engine.transactions.table.halves) == 0


def test_after_a_kill_a_commit_stands_and_a_rollback_is_asked_for_again(driver: Driver, files: SimulatedFiles) -> None:
    committed, rolled_back = begin(driver), begin(driver, key="A1")
    end(driver, committed, commit=True)
    end(driver, rolled_back, commit=False)
    again = transacting(files.crash(PowerLoss("kill")))
    again.settle()
    assert records(again) == [b"0,"]
    assert [copy.unique_key for copy in copies(again)] == ["A0"]
    assert end_soon(again, rolled_back, commit=True), "it is open, and may be decided"
