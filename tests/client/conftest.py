"""A real broker on free ports over a real store: in the loop of the test, or in a thread for the synchronous API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from broker.client import AsyncAdmin, AsyncProducer
from broker.engine.config import EngineConfig
from broker.server.broker import BrokerService
from broker.testing import BrokerThread, small_store
from tests.client.leftovers import no_client_left


@pytest.fixture(scope="module", autouse=True)
def clients() -> Iterator[None]:
    """No client is left open."""
    yield from no_client_left()


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    """A small store in a directory of this test."""
    return small_store(tmp_path)


@pytest.fixture
async def service(config: EngineConfig) -> AsyncIterator[BrokerService]:
    """A running broker in this test's loop, in which nothing is left over when it has stopped."""
    before = asyncio.all_tasks()
    running = BrokerService(config, broker_port=0, namesrv_port=0)
    await running.start()
    yield running
    await running.stop()
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"these tasks are left over: {left}"


@pytest.fixture
async def producer(service: BrokerService) -> AsyncIterator[AsyncProducer]:
    """A producer of the running broker."""
    async with AsyncProducer("tests", service.namesrv_address) as made:
        yield made


@pytest.fixture
async def admin(service: BrokerService) -> AsyncIterator[AsyncAdmin]:
    """An admin of the running broker."""
    made = AsyncAdmin(service.namesrv_address)
    yield made
    await made.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """A running broker in a thread of its own."""
    with BrokerThread(small_store(tmp_path)) as running:
        yield running
