"""R7: the Nth call fails, once or for ever: no acknowledgement that is not kept, no crash, no retried sync."""

from __future__ import annotations

import errno
from collections import Counter
from itertools import count

import pytest

from broker.engine.errors import BrokerError, DiskFull, StoreFailed, StoreRefused
from broker.engine.testing import Driver, Fault, ManualClock, PowerLoss, SimulatedFiles, open_engine

from .oracle import GROUP, Oracle, Sent

KINDS = (
    "open",
    "write",
    "allocate",
    "truncate",
    "sync",
    "rename",
    "remove",
    "make_directory",
    "sync_directory",
    "list",
)


class Script:
    """A fixed course through everything a store does; steps that are refused are counted, not hidden."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.files = files
        self.clock = ManualClock()
        self.oracle = Oracle({"orders": 1, "seats": 1})
        self.driver = open_engine(files, clock=self.clock)
        for topic in self.oracle.queues:
            self.driver.engine.topics.ensure(topic, 1)
        self.outcomes: Counter[str] = Counter()
        self._number = 0

    def run(self) -> None:
        """Take all steps."""
        for round_number in range(3):
            for level in (0, 0, 1, 2):
                self.send(level)
            self.clock.advance(6_000)
            self.attempt(lambda: self.driver.tick())
            self.engine.offsets.commit(GROUP, "orders", 0, round_number + 1)
            self.oracle.committed["orders", 0] = round_number + 1
            self.attempt(lambda: self.driver.upkeep())
            self.attempt(lambda n=round_number: self.engine.topics.ensure(f"new{n}", 1))
            self.send(0, b"x" * 1500)

    @property
    def engine(self):
        """The engine under test."""
        return self.driver.engine

    def send(self, level: int, padding: bytes = b"") -> None:
        """Send one message; note what came of it."""
        self._number += 1
        body = b"%05d" % self._number + padding
        properties = {"DELAY": str(level)} if level else {}

        def step() -> None:
            ticket = self.driver.append("seats", body, **properties)
            self.oracle.append(body, Sent("seats", 0, {}, ticket))
            self.oracle.acknowledge(self.driver.settle())

        self.attempt(step)

    def attempt(self, step) -> None:
        """Take a step that may be refused or meet the error."""
        try:
            step()
            self.outcomes["done"] += 1
        except (BrokerError, OSError) as error:
            self.outcomes[type(error).__name__] += 1


def faults(error: int, *, forever: bool, partial_bytes: int = 0):
    """Yield (kind, a function that makes the Nth fault)."""
    for kind in KINDS:
        yield kind, lambda nth, kind=kind: Fault(kind, nth, error, forever, partial_bytes if kind == "write" else 0)


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize(
    ("error", "partial_bytes"),
    [(errno.EIO, 0), (errno.ENOSPC, 0), (errno.ENOSPC, 700), (errno.EIO, 700)],
    ids=["EIO", "ENOSPC", "ENOSPC-short", "EIO-short"],
)
def test_every_call_may_fail_and_nothing_acknowledged_is_lost(error, partial_bytes, forever, say):
    runs, states = 0, Counter()
    for kind, fault in faults(error, forever=forever, partial_bytes=partial_bytes):
        for nth in count(1):
            files = SimulatedFiles()
            script = Script(files)
            before = files.calls[kind]
            files.fail(fault(nth))
            script.run()
            reached = files.calls[kind] - before
            files.fail()
            health = script.engine.health().state
            for loss in (PowerLoss("all"), PowerLoss("kill"), PowerLoss("random", nth)):
                try:
                    script.oracle.check(files.crash(loss), script.clock.now_ms)
                except Exception as broken:
                    raise AssertionError(f"{kind} {nth}, {loss}: {type(broken).__name__}: {broken}") from broken
            runs += 1
            states[health] += 1
            if reached < nth:
                break
    say(f"R7 ({errno.errorcode[error]}{', short' * bool(partial_bytes)}, {'forever' if forever else 'once'}): "
        f"{runs} calls failed, 0 violations, {dict(states)}")  # fmt: skip


def failed_store(path_part: str = "commitlog") -> tuple[SimulatedFiles, Driver]:
    """A store with one good message whose next sync has failed."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"kept")
    driver.append("orders", b"lost")
    files.fail(Fault("sync", path_part=path_part))
    return files, driver


def test_after_a_failed_sync_nothing_is_acknowledged_and_the_store_says_so():
    _, driver = failed_store()
    assert driver.settle() == []
    assert driver.engine.health().state == "FAILED"
    assert driver.engine.take_sync(driver.clock.now_ms) is None
    with pytest.raises(StoreFailed):
        driver.append("orders", b"more")
    assert driver.engine.tick(driver.clock.now_ms) is None
    assert driver.engine.take_upkeep(driver.clock.now_ms + 10_000) is None
    assert driver.bodies("orders") == [b"kept"], "readers go on, and never see what is not durable"


def test_a_clean_stop_after_a_failed_sync_leaves_no_clean_mark():
    files, driver = failed_store()
    driver.settle()
    files.fail()
    driver.close()
    assert files.exists("/store/abort")
    after = open_engine(files.crash(PowerLoss("all")))
    assert after.bodies("orders") == [b"kept"]


def test_recovery_after_a_failed_sync_makes_what_the_cache_still_shows_durable():
    """The process died, the machine did not: the cache shows bytes of which the disk knows nothing."""
    files, driver = failed_store()
    driver.settle()
    survivor = files
    survivor.unlock("/store/lock")
    survivor.fail()
    after = open_engine(survivor)
    shown = after.bodies("orders")
    assert shown[0] == b"kept"
    later = open_engine(survivor.crash(PowerLoss("all")))
    assert later.bodies("orders") == shown


def test_a_failed_sync_in_upkeep_is_final_too():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"kept")
    files.fail(Fault("sync"))
    driver.clock.advance(10_000)
    driver.upkeep()
    assert driver.engine.health().state == "FAILED"
    assert open_engine(files.crash(PowerLoss("all"))).bodies("orders") == [b"kept"]


def fill(driver: Driver) -> int:
    """Send until the disk takes no more; return how many were taken."""
    for taken in range(100):
        try:
            driver.send("orders", b"%d" % taken + b"x" * 900)
        except DiskFull:
            return taken
    raise AssertionError("the disk never became full")


def test_a_full_disk_refuses_sends_lets_consumers_drain_and_resumes_by_itself():
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"first")
    parked = driver.send("orders", b"parked", DELAY="1")
    files.capacity_bytes = files.used_bytes() + 100
    assert fill(driver) == len(driver.bodies("orders")) - 1
    assert driver.bodies("orders")[0] == b"first"
    driver.clock.advance(2_000)
    driver.upkeep()
    assert driver.engine.health().state == "READONLY"
    with pytest.raises(StoreRefused):
        driver.append("orders", b"refused")
    files.capacity_bytes *= 10
    driver.clock.advance(2_000)
    driver.upkeep()
    assert driver.engine.health().state == "OK"
    driver.send("orders", b"again")
    driver.advance(5_000)
    assert b"parked" in driver.bodies("orders")
    assert driver.bodies("orders").count(b"again") == 1
    assert parked.due_ms is not None


def test_a_disk_above_its_watermark_refuses_before_anything_is_written():
    files = SimulatedFiles()
    driver = open_engine(files, disk_refuse_ratio=0.5)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"x")
    files.capacity_bytes = int(files.used_bytes() * 1.5)
    driver.clock.advance(2_000)
    driver.upkeep()
    before = driver.engine.health().log_end_position
    with pytest.raises(DiskFull, match="full"):
        driver.append("orders", b"refused")
    driver.settle()
    assert driver.engine.health().log_end_position == before
    assert driver.bodies("orders") == [b"x"]
