"""Opening a store: clean, crashed, without its derived files, by two at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.engine.config import EngineConfig
from broker.engine.disk import OsFiles
from broker.engine.engine import Engine
from broker.engine.errors import StoreLocked, StoreUnsupported
from broker.engine.tables.topics import Topic
from broker.engine.testing.disk import PowerLoss, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine


def worked(files: SimulatedFiles) -> Driver:
    driver = open_engine(files)
    driver.engine.topics.put(Topic("orders", 2, 2, attributes={"message.type": "DELAY"}))
    for number in range(40):
        driver.append("orders", b"%d" % number, queue_id=number % 2, KEYS=f"k{number}", TAGS="t")
    driver.append("orders", b"later", DELAY="3")
    driver.settle()
    driver.engine.offsets.commit("billing", "orders", 1, 7)
    return driver


def picture(driver: Driver) -> list[object]:
    engine, now_ms = driver.engine, driver.clock.now_ms
    return [
        [driver.readable("orders", queue_id) for queue_id in (0, 1)],
        driver.readable("SCHEDULE_TOPIC_XXXX", 2),
        [engine.find("orders", f"k{n}", begin_ms=0, end_ms=now_ms, max_count=5, now_ms=now_ms) for n in range(40)],
        engine.topics.get("orders"),
        engine.schedule.state(),
    ]


def test_a_clean_stop_leaves_nothing_to_recover() -> None:
    files = SimulatedFiles()
    driver = worked(files)
    before = picture(driver)
    driver.close()
    assert not files.exists("/store/abort")
    again = open_engine(files)
    assert again.engine.health().records_recovered == 0
    assert picture(again) == before
    assert again.engine.offsets.get("billing", "orders", 1) == 7


@pytest.mark.parametrize("kind", ["kill", "all"])
def test_what_was_acknowledged_is_there_after_a_crash(kind: str) -> None:
    files = SimulatedFiles()
    before = picture(worked(files))
    again = open_engine(files.crash(PowerLoss(kind)))
    assert picture(again) == before


@pytest.mark.parametrize(
    "lost", ["consumequeue", "index", "escapement.checkpoint", "checkpoint", "config/delayOffset.json"]
)
def test_derived_files_can_be_deleted(lost: str) -> None:
    files = SimulatedFiles()
    driver = worked(files)
    before = picture(driver)
    driver.close()
    for path in [f"/store/{lost}", f"/store/{lost}.bak"]:
        files.remove_directory(path) if files.list(path) else files.remove(path)
    assert picture(open_engine(files)) == before


def test_what_was_written_behind_a_clean_stop_is_found() -> None:
    """Apache RocketMQ leaves our checkpoint as it is when it writes to our store."""
    files = SimulatedFiles()
    worked(files).close()
    path = "/store/escapement.checkpoint"
    file = files.open(path)
    mark = file.read(file.size(), 0)
    again = open_engine(files)
    again.send("orders", b"since", KEYS="fresh")
    before = picture(again)
    again.close()
    files.load({path: mark})
    once_more = open_engine(files)
    assert once_more.engine.health().records_recovered == 1
    assert picture(once_more) == before
    found = once_more.engine.find(
        "orders", "fresh", begin_ms=0, end_ms=once_more.clock.now_ms, max_count=5, now_ms=once_more.clock.now_ms
    )
    assert len(found) == 1


def test_recovery_starts_at_the_checkpoint() -> None:
    files = SimulatedFiles()
    driver = worked(files)
    driver.clock.advance(60_000)
    driver.upkeep()
    driver.send("orders", b"after")
    again = open_engine(files.crash(PowerLoss("all")))
    assert again.engine.health().records_recovered == 1
    assert again.bodies("orders")[-1] == b"after"


def test_a_deleted_topic_stays_deleted_when_queues_are_built_again() -> None:
    files = SimulatedFiles()
    driver = worked(files)
    driver.engine.delete_topic("orders")
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"new life")
    driver.close()
    files.remove("/store/escapement.checkpoint")
    again = open_engine(files)
    assert again.bodies("orders") == [b"new life"]


def test_one_directory_has_one_writer(tmp_path: Path) -> None:
    config = EngineConfig(str(tmp_path / "store"), segment_size_bytes=65536)
    first = Engine.open(config, OsFiles(), 1)
    with pytest.raises(StoreLocked, match="Another broker"):
        Engine.open(config, OsFiles(), 2)
    first.close(3)
    Engine.open(config, OsFiles(), 4).close(5)


def test_another_segment_size_is_refused_and_changes_nothing() -> None:
    files = SimulatedFiles()
    worked(files).close()
    with pytest.raises(StoreUnsupported, match="segment size"):
        open_engine(files, segment_size_bytes=8192)
    assert len(open_engine(files).bodies("orders")) == 20


def test_changes_are_told_once() -> None:
    driver = worked(SimulatedFiles())
    everything = driver.engine.changes_since("", driver.clock.now_ms)
    assert everything["full"]
    assert {topic["topicName"] for topic in everything["topics"]} >= {"orders", "SCHEDULE_TOPIC_XXXX"}
    nothing = driver.engine.changes_since(everything["token"], driver.clock.now_ms)
    assert (nothing["full"], nothing["topics"], nothing["queues"], nothing["offsets"]) == (False, [], [], [])
    driver.send("orders", b"x")
    driver.engine.delete_topic("BenchmarkTest")
    some = driver.engine.changes_since(nothing["token"], driver.clock.now_ms)
    assert [(queue["topic"], queue["max"]) for queue in some["queues"]] == [("orders", 21)]
    assert some["deletedTopics"] == ["BenchmarkTest"]
    assert driver.engine.changes_since("1-1", driver.clock.now_ms)["full"]


def test_a_checkpoint_comes_with_the_amount_too_so_that_recovery_stays_short() -> None:
    files = SimulatedFiles()
    driver = open_engine(files, checkpoint_interval_ms=3_600_000, checkpoint_bytes=4_000)
    driver.engine.topics.ensure("orders", 1)
    driver.upkeep()
    for _ in range(40):
        driver.append("orders", b"x" * 200)
        driver.settle()
        driver.upkeep()
    again = open_engine(files.crash(PowerLoss("all")))
    assert len(again.bodies("orders")) == 40
    assert 0 < again.engine.health().records_recovered <= 15


def test_a_host_that_is_no_address_is_refused() -> None:
    with pytest.raises(StoreUnsupported, match="no IP address"):
        EngineConfig("/store", host="localhost")
