"""A store that is there is opened with the sizes it was made with, whoever made it; a new one gets the usual ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from broker.engine.config import EngineConfig
from broker.engine.disk import OsFiles
from broker.engine.engine import Engine
from broker.engine.testing.driver import TINY, open_engine
from broker.hosting.servers import engine_config

FIXTURES = Path(__file__).parents[1] / "data" / "rocketmq-5.5.0"
LATER_MS = 1_800_000_000_000


def sizes(config: EngineConfig) -> tuple[int, int, int, int]:
    return config.segment_size_bytes, config.queue_file_entries, config.index_slots, config.index_entries


def test_a_store_of_ours_keeps_its_sizes(settings: Any, tmp_path: Path) -> None:
    settings.BROKER_STORE = tmp_path
    assert sizes(engine_config("broker-a")) == sizes(EngineConfig(root="new"))
    open_engine(OsFiles(), root=str(tmp_path)).close()
    assert sizes(engine_config("broker-a")) == sizes(TINY)


def test_a_store_of_apache_opens_with_what_is_configured(settings: Any, tmp_path: Path) -> None:
    settings.BROKER_STORE = tmp_path / "store"
    shutil.unpack_archive(FIXTURES / "plain" / "store.tar.xz", tmp_path)
    config = engine_config("broker-a")
    assert sizes(config) == (16_384, 10, 50, 100)
    engine = Engine.open(config, OsFiles(), LATER_MS)
    assert engine.queue_end("GoldenEventsB", 0) > 0
    engine.close(LATER_MS)


def test_the_bare_broker_opens_it_without_being_told(tmp_path: Path) -> None:
    open_engine(OsFiles(), root=str(tmp_path)).close()
    command = [sys.executable, "-m", "broker.server", "--root", str(tmp_path), "--port", "0", "--namesrv-port", "0"]
    with subprocess.Popen([*command, "--no-vip"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            assert "name service" in server.stdout.readline()
        finally:
            server.terminate()
    assert server.returncode == 0
