"""A driver for transactions: begin a half, end it, ask its producers, look at the copies."""

from __future__ import annotations

from collections.abc import Callable

from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, SimulatedFiles, open_engine
from broker.engine.transaction.check import Check
from broker.engine.transaction.decision import Ending
from broker.rocketmq.message import Message

#: Checks as a test wants them: three, with RocketMQ's times.
TIMES = {"transaction_timeout_ms": 6_000, "transaction_interval_ms": 30_000, "transaction_checks": 3}
GROUP = "payers"


def transacting(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure("orders", 4)
    return driver


def begin(driver: Driver, body: bytes = b"pay", *, key: str = "A0", group: str = GROUP, **properties: str) -> Ticket:
    ticket = driver.append("orders", body, UNIQ_KEY=key, TRAN_MSG="true", PGROUP=group, **properties)
    driver.settle()
    return ticket


def end(driver: Driver, half: Ticket, *, commit: bool | None, by: str = "producer", **changed: object) -> bool:
    done = end_soon(driver, half, commit=commit, by=by, **changed)
    driver.settle()
    return done


def end_soon(driver: Driver, half: Ticket, *, commit: bool | None, by: str = "producer", **changed: object) -> bool:
    """Decide; the op record is written with whatever else comes until the driver settles."""
    asked = Ending(half.queue_offset, half.position, commit, by, group=GROUP)
    return driver.engine.transactions.end(asked._replace(**changed), driver.clock.now_ms)


def copies(driver: Driver, queue_id: int = 0) -> list[Message]:
    return list(driver.readable("orders", queue_id).values())


def ask(driver: Driver, *, alive: tuple[str, ...] = (GROUP,), count: int = 99) -> list[int]:
    """Ask producers as the remoting server does; return the offsets asked about."""
    driver.tick()
    asked = [check.half.queue_offset for check in questions(driver, count, alive=alive.__contains__)]
    driver.engine.transactions.checked(asked, [], driver.clock.now_ms)
    driver.settle()
    return asked


def questions(driver: Driver, count: int = 99, *, alive: Callable[[str], bool] = lambda _: True) -> list[Check]:
    """Return what is to be asked now, one by one, by offset."""
    taken = driver.engine.transactions.take_checks(driver.clock.now_ms, alive, count)
    return sorted(check for checks in taken for check in checks)


def checks_of(driver: Driver, half: Ticket) -> int:
    row = driver.engine.transactions.table.halves.get(half.queue_offset)
    assert row is not None
    return row.checks
