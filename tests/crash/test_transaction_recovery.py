"""Transactions after a start: open ones are open, decided ones decided, and a commit has one copy whatever was lost."""

from __future__ import annotations

import pytest

from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.engine.transaction.decision import Ending
from broker.rocketmq.topics import HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC
from tests.crash import golden
from tests.engine.transacting import questions

GROUP = "payers"
TIMES = {"transaction_timeout_ms": 6_000, "transaction_interval_ms": 30_000, "transaction_checks": 3}
LOG = "/store/commitlog/00000000000000000000"


def opened(files: SimulatedFiles, clock: ManualClock, **config: object) -> Driver:
    driver = open_engine(files, clock=clock, **TIMES, **config)
    driver.engine.topics.ensure("orders", 4)
    return driver


def begin(driver: Driver, key: str, **properties: str) -> Ticket:
    ticket = driver.append("orders", key.encode(), UNIQ_KEY=key, TRAN_MSG="true", PGROUP=GROUP, **properties)
    driver.settle()
    return ticket


def end(driver: Driver, half: Ticket, *, commit: bool, by: str = "producer") -> bool:
    asked = Ending(half.queue_offset, half.position, commit, by, group=GROUP)
    return driver.engine.transactions.end(asked, driver.clock.now_ms)


def ask(driver: Driver) -> list[int]:
    driver.tick()
    asked = [check.half.queue_offset for check in questions(driver, 999)]
    driver.engine.transactions.checked(asked, [], driver.clock.now_ms)
    driver.settle()
    return asked


def state(driver: Driver) -> tuple[dict[int, int], list[int]]:
    """Open halves with their checks, and parked ones."""
    table = driver.engine.transactions.table
    return {row.offset: row.checks for row in table.halves.since(0)}, [row.offset for row in table.parked.since(0)]


def story(driver: Driver) -> list[Ticket]:
    """0 committed, 1 rolled back, 2 asked twice, 3 parked, 4 resumed and asked once, 5 fresh."""
    halves = [begin(driver, f"K{number}") for number in range(5)]
    end(driver, halves[0], commit=True)
    end(driver, halves[1], commit=False)
    driver.settle()
    for _ in range(3):
        driver.clock.advance(30_100)
        assert ask(driver) == [2, 3, 4]
    driver.clock.advance(30_100)
    driver.tick()
    assert state(driver) == ({}, [2, 3, 4])
    for offset in (2, 4):
        position = halves[offset].position
        driver.engine.transactions.resume_checks(offset, position, "ann", "", driver.clock.now_ms)
    driver.settle()
    driver.clock.advance(200)
    assert ask(driver) == [2, 4]
    driver.clock.advance(30_100)
    driver.tick()
    assert [check.half.queue_offset for check in questions(driver, 1)] == [2]
    driver.engine.transactions.checked([2], [], driver.clock.now_ms)
    halves.append(begin(driver, "K5"))
    assert state(driver) == ({2: 2, 4: 1, 5: 0}, [3])
    return halves


@pytest.mark.parametrize("stop", ["clean", "kill", "checkpoint and kill", "checkpoint lost", "snapshot lost"])
def test_every_state_survives_a_start(stop: str) -> None:
    files, clock = SimulatedFiles(), ManualClock()
    driver = opened(files, clock)
    halves = story(driver)
    if "checkpoint" in stop:
        clock.advance(11_000)
        driver.upkeep()
    if stop in ("clean", "snapshot lost"):
        driver.close()
    else:
        files = files.crash(PowerLoss("kill"))
    if stop == "checkpoint lost":
        files.remove("/store/escapement.checkpoint")
    if stop == "snapshot lost":
        for name in ("escapement.halves.0", "escapement.halves.1"):
            files.remove(f"/store/{name}")
    driver = opened(files, clock)
    assert state(driver) == ({2: 2, 4: 1, 5: 0}, [3])
    driver.tick()
    assert driver.bodies("orders") == [b"K0"]
    assert len(driver.readable(OP_TOPIC)) == 1
    clock.advance(31_000)
    assert sorted(ask(driver)) == [2, 4, 5]
    for half, commit in ((halves[0], False), (halves[1], True)):
        with pytest.raises(Exception, match="a decision is final"):
            end(driver, half, commit=commit)
    for half in halves[2:]:
        assert end(driver, half, commit=True)
    driver.settle()
    assert driver.bodies("orders") == [b"K0", b"K2", b"K3", b"K4", b"K5"]
    assert state(driver) == ({}, [])


def test_a_second_start_reads_no_more_than_what_is_new() -> None:
    files, clock = SimulatedFiles(), ManualClock()
    driver = opened(files, clock)
    story(driver)
    driver.close()
    driver = opened(files, clock)
    assert driver.engine.health().records_recovered == 0
    assert state(driver) == ({2: 2, 4: 1, 5: 0}, [3])


def committed_and_cut(files: SimulatedFiles, lost: str, **properties: str) -> tuple[SimulatedFiles, Ticket]:
    """A commit whose copy or op record a power failure took (both are in one batch)."""
    driver = opened(files, ManualClock())
    half = begin(driver, "K0", **properties)
    begin(driver, "K1")
    assert end(driver, half, commit=True)
    driver.settle()
    (op,) = driver.readable(OP_TOPIC).values()
    last = driver.readable(HALF_TOPIC)[1]
    copy_position = last.position + last.size
    place, size = (copy_position, op.position - copy_position) if lost == "copy" else (op.position, op.size)
    files = files.crash(PowerLoss("kill"))
    file = files.open(LOG)
    file.write(bytes(size), place)
    file.sync()
    return files, half


@pytest.mark.parametrize("properties", [{}, {"DELAY": "1"}], ids=["plain", "delayed"])
@pytest.mark.parametrize("lost", ["copy", "op"])
def test_a_commit_torn_in_two_is_made_whole_once(lost: str, properties: dict[str, str]) -> None:
    files, half = committed_and_cut(SimulatedFiles(), lost, **properties)
    clock = ManualClock()
    clock.advance(5_000)
    driver = opened(files, clock)
    for _ in range(3):
        driver.tick()
        driver.settle()
        clock.advance(2_000)
        driver.tick()
        assert driver.bodies("orders") == [b"K0"], f"the {lost} was lost"
        assert state(driver)[0].keys() == {1}
        assert end(driver, half, commit=True) is False
        clock.advance(11_000)
        driver.upkeep()
        files = files.crash(PowerLoss("kill"))
        driver = opened(files, clock)
    assert driver.bodies("orders") == [b"K0"]


def test_no_checkpoint_passes_a_copy_without_its_op_record() -> None:
    files, clock = SimulatedFiles(), ManualClock()
    driver = opened(files, clock)
    half = begin(driver, "K0")
    driver.engine.transactions.table.recent.drop(half.queue_offset)  # so that the copy is appended at once
    end(driver, half, commit=True)
    job = driver.engine._store.take_sync()  # the batch is closed before the op record is appended
    assert job is not None
    job.run()
    driver.engine.synced(job, None, clock.now_ms)
    assert driver.bodies("orders") == [b"K0"]
    clock.advance(11_000)
    driver.upkeep()
    files = files.crash(PowerLoss("kill"))
    driver = opened(files, clock)
    driver.tick()
    driver.settle()
    assert driver.bodies("orders") == [b"K0"]
    assert state(driver) == ({}, [])
    (op,) = driver.readable(OP_TOPIC).values()
    assert op.properties["ESC_DECISIONS"] == "c0"


# what Apache RocketMQ wrote


def keys(driver: Driver, offsets: list[int]) -> set[str]:
    return {driver.readable(HALF_TOPIC)[offset].properties["KEYS"].split()[0] for offset in offsets}


@pytest.mark.parametrize(
    ("name", "open_keys", "parked_keys"),
    [
        ("transactions", {"tx-open-0", "tx-open-1"}, {"tx-4", "tx-10", "tx-immune"}),
        ("transactions_race", set(), {"tx-4", "tx-10", "tx-immune", "tx-open-0", "tx-open-1"}),
    ],
)
def test_of_rocketmqs_halves_exactly_those_are_open_that_are(name, open_keys, parked_keys) -> None:
    store = golden.load(name)
    files = store.disk()
    clock = ManualClock(1_800_000_000_000)
    before = open_engine(files, clock=clock, **store.config)
    delivered = {queue: before.bodies("GoldenTransTopic", queue) for queue in range(4)}
    for _ in range(2):
        driver = before
        found_open, found_parked = state(driver)
        assert keys(driver, list(found_open)) == open_keys
        assert len(found_open) == len(open_keys)
        assert keys(driver, found_parked) == parked_keys
        driver.close()
        before = open_engine(files, clock=clock, **store.config)
    assert {queue: before.bodies("GoldenTransTopic", queue) for queue in range(4)} == delivered
    for row in list(before.engine.transactions.table.halves.since(0)):
        asked = Ending(row.offset, row.position, True, "ann")
        assert before.engine.transactions.end(asked, clock.now_ms)
    before.settle()
    counts = sum(len(before.bodies("GoldenTransTopic", queue)) for queue in range(4))
    assert counts == sum(map(len, delivered.values())) + len(open_keys)


@pytest.mark.parametrize("cut", [8_212, 11_813, 12_490, 16_285, 20_497])
def test_a_store_of_rocketmq_cut_anywhere_opens_with_the_newest_of_each(cut: int) -> None:
    """The log of the golden store ends at a record in the middle of its checks."""
    store = golden.load("transactions")
    path = next(path for path in store.files if "/commitlog/" in path)
    content = store.files[path]
    disk = SimulatedFiles()
    disk.load({path: content[:cut] + bytes(len(content) - cut)})
    driver = open_engine(disk, clock=ManualClock(1_800_000_000_000), **store.config)
    halves = driver.readable(HALF_TOPIC)
    named = {int(word) for op in driver.readable(OP_TOPIC).values() for word in op.body.split(b",") if word}
    committed = {m.prepared_position for q in range(4) for m in driver.readable("GoldenTransTopic", q).values()}
    parked = {m.unique_key for m in driver.readable(PARKED_HALF_TOPIC).values()}
    decided = {m.unique_key for o, m in halves.items() if o in named or m.position in committed}
    newest = {message.unique_key: offset for offset, message in halves.items()}
    expected = {offset for key, offset in newest.items() if key not in decided and key not in parked}
    driver.tick()
    assert set(state(driver)[0]) == expected
