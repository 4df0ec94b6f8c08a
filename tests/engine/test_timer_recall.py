"""What is recalled never comes out: what waits, its copies, and what arrives only after its recall; also after a stop
or a power loss."""

from __future__ import annotations

import pytest

from broker.engine.testing import Driver, PowerLoss, SimulatedFiles, open_engine
from broker.engine.timer import state
from broker.engine.timer.state import Recalled

KEY = "A0"


def timers(files: SimulatedFiles | None = None, **config: object) -> Driver:
    driver = open_engine(files, checkpoint_interval_ms=1, **config)
    driver.engine.topics.ensure("orders", 4)
    return driver


def park(driver: Driver, delay_ms: int = 5_000, *, key: str = KEY, topic: str = "orders", **properties: str) -> None:
    driver.send(topic, b"pay?", TIMER_DELAY_MS=str(delay_ms), UNIQ_KEY=key, **properties)


def recall(driver: Driver, in_ms: int = 5_000, *, key: str = KEY, topic: str = "orders") -> str:
    now_ms = driver.clock.now_ms
    outcome = driver.engine.recall_timer(topic, key, now_ms + in_ms, now_ms=now_ms)
    driver.settle()
    return outcome.outcome


def ended(driver: Driver, files: SimulatedFiles, how: str) -> Driver:
    """The broker after a stop, a loss of power, or a checkpoint and a loss of power."""
    if how == "stopped":
        driver.close()
        return open_engine(files, clock=driver.clock)
    if how == "checkpoint":
        driver.clock.advance(100)
        driver.upkeep()
    return open_engine(files.crash(PowerLoss("all")), clock=driver.clock, checkpoint_interval_ms=1)


@pytest.mark.parametrize("how", ["running", "stopped", "power loss", "checkpoint"])
def test_what_arrives_after_its_recall_never_comes_out(how: str) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    assert recall(driver) == "unknown"
    if how != "running":
        driver = ended(driver, files, how)
    park(driver)
    park(driver, 4_000)
    park(driver, key="B0")
    driver.advance(60_000)
    assert [message.unique_key for message in driver.readable("orders").values()] == ["B0"]
    assert driver.engine.timers.states.pending == 0


@pytest.mark.parametrize("how", ["stopped", "power loss", "checkpoint"])
def test_what_was_ended_as_it_came_stays_so(how: str) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    recall(driver)
    park(driver)
    driver = ended(driver, files, how)
    driver.advance(60_000)
    assert driver.bodies("orders") == []
    assert driver.engine.timers.states.pending == 0


def test_a_message_whose_end_was_lost_with_the_power_does_not_come_out() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    recall(driver)
    park(driver)
    end = driver.readable("rmq_sys_wheel_timer")[2]
    assert end.properties["TIMER_DEL_UNIQKEY"] == KEY
    files.flip("/store/commitlog/00000000000000000000", (end.position + 100) * 8)
    driver = open_engine(files.crash(PowerLoss("all")), clock=driver.clock)
    assert len(driver.readable("rmq_sys_wheel_timer")) == 2
    driver.advance(60_000)
    assert driver.bodies("orders") == []
    assert driver.engine.timers.states.pending == 0


def test_a_copy_that_a_retry_sends_after_the_recall_does_not_come_out() -> None:
    driver = timers()
    park(driver)
    assert recall(driver) == "cancelled"
    park(driver)
    driver.advance(60_000)
    assert driver.bodies("orders") == []


def test_all_that_waits_with_the_key_goes_whenever_it_is_due() -> None:
    driver = timers()
    for delay_ms in (2_000, 9_000, 300_000):
        park(driver, delay_ms)
    assert [recall(driver), recall(driver)] == ["cancelled", "already_cancelled"]
    driver.advance(400_000)
    assert driver.bodies("orders") == []


@pytest.mark.parametrize("how", ["running", "stopped", "power loss", "checkpoint"])
def test_another_topic_loses_nothing(how: str) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    driver.engine.topics.ensure("others", 1)
    park(driver, topic="others")
    assert recall(driver) == "unknown"
    park(driver, topic="others")
    if how != "running":
        driver = ended(driver, files, how)
    driver.advance(10_000)
    assert len(driver.bodies("others")) == 2


@pytest.mark.parametrize("how", ["running", "stopped", "power loss", "checkpoint"])
def test_a_delete_that_ended_nothing_ends_nothing_when_all_is_read_again(how: str) -> None:
    files = SimulatedFiles()
    driver = timers(files)
    driver.engine.topics.ensure("others", 1)
    park(driver, topic="others")
    driver.send("orders", b"0", TIMER_DELAY_MS="5000", TIMER_DEL_UNIQKEY=KEY)
    park(driver)
    if how != "running":
        driver = ended(driver, files, how)
    driver.advance(10_000)
    assert (len(driver.bodies("others")), len(driver.bodies("orders"))) == (1, 1)


def test_a_recall_counts_until_its_moment_is_over() -> None:
    driver = timers()
    recall(driver, 5_000)
    driver.advance(7_000)
    park(driver)
    driver.advance(10_000)
    assert len(driver.bodies("orders")) == 1


@pytest.mark.parametrize("in_ms", [0, -1, -(10**12), 10**14])
def test_what_cannot_be_recalled_is_not_written_nor_remembered(in_ms: int) -> None:
    driver = timers()
    assert recall(driver, in_ms) == "unknown"
    assert driver.engine.take_sync(driver.clock.now_ms) is None
    park(driver)
    driver.advance(10_000)
    assert len(driver.bodies("orders")) == 1


def test_a_moment_that_is_over_still_takes_what_waits() -> None:
    driver = timers()
    park(driver)
    assert recall(driver, -1_000) == "cancelled"
    driver.advance(10_000)
    assert driver.bodies("orders") == []


def test_the_same_recall_is_written_once() -> None:
    driver = timers()
    for _ in range(5):
        recall(driver)
    assert len(driver.readable("rmq_sys_wheel_timer")) == 1


def test_a_schedule_key_is_free_again_when_its_message_was_ended_as_it_came() -> None:
    driver = timers()
    recall(driver)
    park(driver, ESC_SCHEDULE_KEY="k")
    park(driver, key="B0", ESC_SCHEDULE_KEY="k")
    driver.advance(10_000)
    assert [message.unique_key for message in driver.readable("orders").values()] == ["B0"]


def test_a_client_cannot_say_that_something_was_recalled() -> None:
    files = SimulatedFiles()
    driver = timers(files)
    park(driver, key="B0", ESC_RECALLED=str(1 << 60), TIMER_DEL_UNIQKEY=KEY)
    driver = ended(driver, files, "power loss")
    park(driver, key="B0")
    driver.advance(10_000)
    assert len(driver.bodies("orders")) == 1


def test_only_so_many_are_remembered_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_REMEMBERED", 3)
    known = Recalled()
    for number in range(5):
        known.add("orders", str(number), 10 + number)
    assert [known.holds("orders", str(number), 10) for number in range(5)] == [False, False, True, True, True]
    assert not known.holds("orders", None, 10)
    assert [row[2] for row in known.kept(13)] == [13, 14]
    assert len(known) == 2
