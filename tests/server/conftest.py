"""A real broker on free ports over a real store, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.server.broker import BrokerService
from tests.server.peer import Peer
from tests.server.popper import TOPIC, Popper

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
    """A broker that is running."""
    running = BrokerService(config, broker_port=0, namesrv_port=0)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture(params=["json", "binary"])
async def peer(request: pytest.FixtureRequest, service: BrokerService) -> AsyncIterator[Peer]:
    """A client of the running broker, with JSON and with binary headers."""
    client = RemotingClient(serialization=int(request.param == "binary"))
    yield Peer(client, service.address)
    await client.close()


@pytest.fixture
async def json_peer(service: BrokerService) -> AsyncIterator[Peer]:
    """A client with JSON headers and a topic to pop from: the codes of popping do not fit binary headers."""
    client = RemotingClient()
    peer = Peer(client, service.address)
    await peer.create_topic(TOPIC)
    yield peer
    await client.close()


@pytest.fixture
def popper(json_peer: Peer) -> Popper:
    """Who pops from that topic."""
    return Popper(json_peer)
