"""A store of which Apache RocketMQ keeps a part in another form is refused by the name of that part, unchanged."""

from __future__ import annotations

import pytest

from broker.engine.errors import StoreUnsupported
from broker.engine.fsck.store import check_store
from broker.engine.tables.topics import Topic
from broker.engine.testing.disk import SimulatedFiles
from broker.engine.testing.driver import open_engine

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
