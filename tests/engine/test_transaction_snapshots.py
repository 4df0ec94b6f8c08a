"""A snapshot of open halves is written while they go on changing: it holds them as they were when it was taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, SimulatedFiles
from broker.engine.transaction import recovery
from broker.engine.transaction.halves import Half, OpenHalves, ParkedHalves
from tests.engine.transacting import TIMES, ask, begin, end, end_soon, transacting

SEQUENCE = 7
PATH = "/store/written"


def begin_another(driver: Driver, _: list[Ticket]) -> None:
    begin(driver, key="late")


def begin_many(driver: Driver, _: list[Ticket]) -> None:
    for number in range(5):
        driver.append("orders", b"pay", UNIQ_KEY=f"many{number}", TRAN_MSG="true", PGROUP="others")
    driver.settle()


def commit_one(driver: Driver, halves: list[Ticket]) -> None:
    end(driver, halves[7], commit=True)


def roll_all_back(driver: Driver, halves: list[Ticket]) -> None:
    for half in halves:
        end_soon(driver, half, commit=False)
    driver.settle()


def ask_about_all(driver: Driver, halves: list[Ticket]) -> None:
    driver.clock.advance(30_100)
    assert len(ask(driver)) == len(halves)


def ask_about_one_now(driver: Driver, halves: list[Ticket]) -> None:
    driver.engine.transactions.check_now(halves[3].queue_offset, halves[3].position, driver.clock.now_ms)


def count_anew(driver: Driver, halves: list[Ticket]) -> None:
    half = halves[3]
    driver.engine.transactions.resume_checks(half.queue_offset, half.position, "anna", "again", driver.clock.now_ms)


def rows_of(halves: Iterable[Half]) -> list[Half]:
    return [half._replace(flags=0) for half in halves]


@pytest.mark.parametrize(
    "change",
    [begin_another, begin_many, commit_one, roll_all_back, ask_about_all, ask_about_one_now, count_anew],
)
def test_what_changes_while_a_snapshot_is_written_is_not_in_it(change: Callable[[Driver, list[Ticket]], None]) -> None:
    driver = transacting(**TIMES)
    halves = [begin(driver, key=f"K{number}") for number in range(20)]
    driver.clock.advance(6_100)
    ask(driver)
    files, table = SimulatedFiles(), driver.engine.transactions.table
    files.make_directory("/store")
    before = rows_of(table.halves.since(0))
    dumped = recovery.dump(table.halves, table.parked, table.calendar)
    change(driver, halves)
    assert rows_of(table.halves.since(0)) != before
    recovery.save(files, PATH, SEQUENCE, dumped)
    content = recovery.load(files, PATH, SEQUENCE)
    assert content is not None
    written = OpenHalves()
    recovery.parse(content, written, ParkedHalves())
    assert rows_of(written.since(0)) == before
