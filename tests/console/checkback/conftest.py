"""A broker that asks soon, who sends halves as REST does, and an address that agrees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.client import AsyncAdmin, AsyncProducer
from broker.server.broker import BrokerService
from broker.testing import small_store
from tests.console.checkback.answers import agree
from tests.console.checkback.server import Server


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[BrokerService]:
    """A broker that asks about what is some moments old, and again soon."""
    config = replace(
        small_store(tmp_path), transaction_timeout_ms=200, transaction_interval_ms=300, transaction_checks=4
    )
    running = BrokerService(config, broker_port=0, namesrv_port=0)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def admin(service: BrokerService) -> AsyncIterator[AsyncAdmin]:
    made = AsyncAdmin(service.namesrv_address)
    yield made
    await made.close()


@pytest.fixture
async def rest(service: BrokerService) -> AsyncIterator[AsyncProducer]:
    """Sends halves as the REST interface does: it is no producer of their group."""
    made = AsyncProducer("rest", service.namesrv_address)
    yield made
    await made.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(agree("COMMIT")) as running:
        yield running
