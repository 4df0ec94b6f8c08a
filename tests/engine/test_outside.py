"""A store of which Apache RocketMQ keeps a part in another form is refused by the name of that part, unchanged."""

from __future__ import annotations

import pytest

from broker.engine.errors import StoreUnsupported
from broker.engine.fsck.store import check_store
from broker.engine.tables.topics import Topic
from broker.engine.testing.disk import SimulatedFiles
from broker.engine.testing.driver import TINY, open_engine
from broker.engine.timer.wheel import SLOT

ROCKSDB = [
    "consumequeue",
    "consumequeue_rocksdb",
    "kvStore",
    "config/topics",
    "config/subscriptionGroups",
    "config/consumerOffsets",
    "config/metadata",
    "config/rdb",
]


def put(files: SimulatedFiles, path: str, content: bytes = b"") -> None:
    files.make_directory(path.rpartition("/")[0])
    file = files.open(path, create=True)
    file.write(content, 0)
    file.close()


def stopped_store() -> SimulatedFiles:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.put(Topic("orders", 1, 1))
    driver.send("orders", b"kept")
    driver.settle()
    driver.close()
    return files


def assert_is_refused(files: SimulatedFiles, named: str) -> None:
    before = files.contents()
    with pytest.raises(StoreUnsupported, match=named):
        open_engine(files)
    with pytest.raises(StoreUnsupported, match=named):
        check_store(files, "/store")
    assert files.contents() == before


@pytest.mark.parametrize("name", ROCKSDB)
def test_what_is_in_rocksdb_is_named(name: str) -> None:
    files = stopped_store()
    put(files, f"/store/{name}/CURRENT", b"MANIFEST-000005\n")
    assert_is_refused(files, f"RocksDB: {name} holds")


@pytest.mark.parametrize(("table", "content"), [("000013.sst", b"table"), ("000004.log", b"written ahead")])
def test_the_one_that_is_always_there_is_named_if_it_holds_something(table: str, content: bytes) -> None:
    files = stopped_store()
    put(files, "/store/rocksdbstore/CURRENT", b"MANIFEST-000005\n")
    put(files, f"/store/rocksdbstore/{table}", content)
    assert_is_refused(files, "RocksDB: rocksdbstore holds")


def test_empty_it_is_no_hindrance() -> None:
    files = stopped_store()
    put(files, "/store/rocksdbstore/CURRENT", b"MANIFEST-000005\n")
    put(files, "/store/rocksdbstore/000004.log")
    assert open_engine(files).readable("orders", 0)


@pytest.mark.parametrize("name", ["consumequeue_ext", "batchconsumequeue"])
def test_queues_of_another_form_are_named(name: str) -> None:
    files = stopped_store()
    put(files, f"/store/{name}/orders/0/00000000000000000000", bytes(20))
    assert_is_refused(files, name)


def test_empty_directories_of_them_are_no_hindrance() -> None:
    files = stopped_store()
    for name in ("consumequeue_ext", "batchconsumequeue"):
        files.make_directory(f"/store/{name}/orders/0")
    assert open_engine(files).readable("orders", 0)


#: What else is refused: the file that says it, with content, and the same without.
OTHERS = [
    ("dledger-n0", "dledger-n0/data/00000000000000000000", bytes(64), None),
    ("epochFileCheckpoint", "epochFileCheckpoint", b"1\n7-0\n", b"0\n0\n"),
    ("compaction", "compaction/compactionLog/orders/0/00000000000000000000", bytes(64), None),
    (
        "tieredStoreMetadata.json",
        "config/tieredStoreMetadata.json",
        b'{"topicMetadataTable":{},"queueMetadataTable":{"orders":{}}}',
        b'{"topicMetadataTable":{},"queueMetadataTable":{}}',
    ),
    ("tieredStoreMetadata.json", "config/tieredStoreMetadata.json", b"{", b""),
]


@pytest.mark.parametrize(("named", "path", "content", "_empty"), OTHERS, ids=range(len(OTHERS)))
def test_what_is_not_in_the_log_is_named(named: str, path: str, content: bytes, _empty: bytes | None) -> None:
    files = stopped_store()
    put(files, f"/store/{path}", content)
    assert_is_refused(files, named)


@pytest.mark.parametrize(("_named", "path", "_content", "empty"), OTHERS, ids=range(len(OTHERS)))
def test_left_over_and_empty_it_is_no_hindrance(_named: str, path: str, _content: bytes, empty: bytes | None) -> None:
    files = stopped_store()
    if empty is None:
        files.make_directory(f"/store/{path}".rpartition("/")[0])
    else:
        put(files, f"/store/{path}", empty)
    assert open_engine(files).readable("orders", 0)


READ_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


def with_wheel(precision_ms: int, due_ms: int) -> SimulatedFiles:
    """A store whose wheel and ``timercheck`` Apache RocketMQ wrote last, with one timer in the wheel."""
    files = stopped_store()
    slots = 2 * TINY.timer_slots
    number = due_ms // precision_ms
    wheel = bytearray(slots * SLOT.size)
    SLOT.pack_into(wheel, number % slots * SLOT.size, number, 0, 0, 1, 0)
    put(files, "/store/timerwheel", bytes(wheel))
    put(files, "/store/config/timercheck", READ_MS.to_bytes(8, "big").ljust(4096, b"\0"))
    return files


@pytest.mark.parametrize("precision_ms", [100, 200, 500])
@pytest.mark.parametrize("ahead_ms", [-12 * HOUR_MS, HOUR_MS, 24 * HOUR_MS])
def test_a_wheel_of_another_precision_is_named(precision_ms: int, ahead_ms: int) -> None:
    files = with_wheel(precision_ms, READ_MS + ahead_ms)
    assert_is_refused(files, f"timerwheel of {precision_ms} ms a slot")


@pytest.mark.parametrize("ahead_ms", [-9 * 365 * 24 * HOUR_MS, HOUR_MS, 7 * 24 * HOUR_MS])
def test_a_wheel_of_seconds_is_taken(ahead_ms: int) -> None:
    assert open_engine(with_wheel(1000, READ_MS + ahead_ms)).readable("orders", 0)


@pytest.mark.parametrize("written", [b"2\n", b"99", b"", b"two"])
def test_a_store_of_a_newer_version_is_refused_by_its_format_and_stays_as_it_is(written: bytes) -> None:
    files = SimulatedFiles()
    open_engine(files).close()
    files.load({"/store/escapement.format": written})
    before = files.contents()
    with pytest.raises(StoreUnsupported, match=r"(?s)newer Escapement.*Start that version again.*restore a backup"):
        open_engine(files)
    assert files.contents() == before


def test_a_store_of_this_version_may_say_so() -> None:
    files = SimulatedFiles()
    files.load({"/store/escapement.format": b"1\n"})
    open_engine(files).close()
