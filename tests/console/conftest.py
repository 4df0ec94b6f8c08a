"""What tests of pages share: a stage (broker, mirror, messages), Redisson's queues, and somebody who is signed in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.contrib.auth import get_user_model
from django.test import Client

from broker.redisson import DelayedQueue
from console.features.redisson.read import hang_up as hang_up_redis
from console.operations.actor import Actor
from tests.client.leftovers import no_client_left
from tests.console.delayed_stage import MINUTE
from tests.console.several import Several, several
from tests.console.stage import Stage, staged


@pytest.fixture(scope="module", autouse=True)
def clients() -> Iterator[None]:
    """No client is left open."""
    yield from no_client_left()


@pytest.fixture
def stage(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Stage]:
    with staged(tmp_path / "store", settings) as made:
        yield made


@pytest.fixture
def brokers(transactional_db: None, settings: Any) -> Iterator[Several]:
    """Two brokers, and the console pointed at their name service."""
    with several(settings) as made:
        yield made


@pytest.fixture
def operator(transactional_db: None) -> Client:
    user = get_user_model().objects.create_superuser("operator", password="a long secret")
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.fixture
def server(valkey: str, settings: Any, transactional_db: None) -> Iterator[redis.Redis]:
    """An empty server that the console is pointed at."""
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    client = redis.Redis.from_url(valkey)
    client.flushall()
    yield client
    hang_up_redis()
    client.flushall()
    client.close()


@pytest.fixture
def orders(server: redis.Redis) -> DelayedQueue:
    """Ten values, a minute apart."""
    queue = DelayedQueue("orders", server)
    for number in range(10):
        queue.offer(f"order-{number}", delay=(number + 1) * MINUTE)
    return queue


@pytest.fixture
def actor(transactional_db: None) -> Actor:
    return Actor.of(get_user_model().objects.create_superuser("operator-2", password="a long secret"))
