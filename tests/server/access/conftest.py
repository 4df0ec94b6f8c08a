"""A broker with access control, and clients that sign."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.engine.config import EngineConfig
from broker.server.broker import BrokerService, Protection
from tests.server.access.clients import ACCESS, People

MEBIBYTE = 1 << 20


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    """A small store in a directory of this test."""
    return EngineConfig(
        root=str(tmp_path / "store"),
        segment_size_bytes=16 * MEBIBYTE,
        queue_file_entries=1000,
        index_slots=1000,
        index_entries=4000,
        delay_levels="1s 1h",
    )


@pytest.fixture
async def service(config: EngineConfig) -> AsyncIterator[BrokerService]:
    """A running broker that takes signed requests only."""
    running = BrokerService(config, broker_port=0, namesrv_port=0, protection=Protection(access=ACCESS))
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def people(service: BrokerService) -> AsyncIterator[People]:
    """Its users and their clients."""
    everybody = People(service.address, service.namesrv_address)
    yield everybody
    await everybody.close()
