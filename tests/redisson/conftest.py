"""What the Redisson tests share: a real Valkey and a real Redis 7, empty for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from broker.redisson import DelayedQueue
from tests.redisson.java import ScriptedJava
from tests.redisson.servers import RealServer


@pytest.fixture(scope="session", params=["valkey", "redis"])
def real_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """Valkey 9, then Redis 7."""
    server = RealServer(request.param, tmp_path_factory.mktemp(request.param))
    yield server
    server.kill()


@pytest.fixture
def client(real_server: RealServer) -> Iterator[redis.Redis]:
    """A client of an empty server."""
    client = real_server.client()
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def queue(client: redis.Redis) -> DelayedQueue:
    return DelayedQueue("orders", client)


@pytest.fixture
def java(client: redis.Redis) -> ScriptedJava:
    return ScriptedJava(client, "orders")
