"""Stores of which Apache RocketMQ 5.5.0 keeps a part in another form: refused by name; without filter data, opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.client import Producer
from broker.engine.config import EngineConfig
from broker.engine.disk import OsFiles
from broker.engine.engine import Engine
from broker.engine.errors import StoreUnsupported
from tests.interop.conftest import ServerFactory
from tests.interop.programs import read_all
from tests.interop.servers import ApacheServer, StoreShape, served

SHAPE = StoreShape(heap="512m")
BODIES = [b"%d" % number for number in range(5)]
IN_ROCKSDB = {
    "timerRocksDBEnable": "rocksdbstore",
    "indexRocksDBEnable": "rocksdbstore",
    "storeType": "consumequeue",
    "configManagerVersion": "config/rdb",
}
VALUES = {"storeType": "defaultRocksDB", "configManagerVersion": "v2", "timerPrecisionMs": "100"}


class Configured(ApacheServer):
    """Apache RocketMQ with one more setting."""

    setting = ""

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), self.setting: VALUES.get(self.setting, "true")}


def written(setting: str, work: Path) -> Path:
    """The store of a broker with this setting that took messages and a timer, and was stopped."""
    server = Configured(work / "store", work / "apache", SHAPE)
    server.setting = setting
    with served(server), Producer("writers", server.namesrv) as producer:
        for body in BODIES:
            producer.send("Kept", body, tag="t", keys=["k"])
        producer.send("Kept", b"later", delay_ms=60_000)
        server.stop()
    return server.root


def refusal(root: Path) -> str:
    with pytest.raises(StoreUnsupported) as refused:
        Engine.open(EngineConfig(root=str(root), segment_size_bytes=SHAPE.segment_size_bytes), OsFiles(), 0)
    return str(refused.value)


@pytest.mark.parametrize(("setting", "place"), IN_ROCKSDB.items())
def test_what_is_in_rocksdb_is_named(setting: str, place: str, tmp_path: Path) -> None:
    assert f"RocksDB: {place} holds" in refusal(written(setting, tmp_path))


def test_a_wheel_of_another_precision_is_named(tmp_path: Path) -> None:
    assert "timerwheel of 100 ms a slot" in refusal(written("timerPrecisionMs", tmp_path))


def test_filter_data_is_named_and_the_store_opens_without(tmp_path: Path, start_server: ServerFactory) -> None:
    root = written("enableConsumeQueueExt", tmp_path)
    assert "consumequeue_ext" in refusal(root)
    shutil.move(root / "consumequeue", tmp_path / "queues")
    shutil.move(root / "consumequeue_ext", tmp_path / "filters")
    server = start_server("escapement", root, SHAPE)
    read = read_all(server.namesrv, ["Kept"], work=tmp_path)
    assert sorted(event["body"] for event in read["Kept"]) == [body.decode() for body in BODIES]
