"""What the Redisson tests share: a real Valkey and a real Redis 7, empty for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import redis

from broker.client import Admin, Producer
from broker.redisson import DelayedQueue
from tests.mirror.running import RunningBroker, running_broker
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


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker that reliable queues send to."""
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="module")
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with Admin(broker.namesrv) as client:
        yield client


@pytest.fixture(scope="module")
def producer(broker: RunningBroker) -> Iterator[Producer]:
    with Producer(group="redisson", namesrv=broker.namesrv) as client:
        yield client


_topics = itertools.count()


@pytest.fixture
def topic(producer: Producer) -> str:
    """A topic of this test's own."""
    return f"orders-{next(_topics)}"
