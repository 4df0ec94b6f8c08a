"""Redisson's delayed queues on a real Valkey, for tests of their pages and operations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
import redis
from django.contrib.auth import get_user_model
from django.test import Client

from broker.redisson import DelayedQueue
from broker.redisson.paging import page
from console.operations import desk
from console.operations.actor import Actor
from console.operations.rows import Operation
from console.queries.redis_asking import hang_up

MINUTE, HOUR = 60_000, 3_600_000
LIMIT_BYTES = 100_000


@pytest.fixture
def server(valkey: str, settings: Any, transactional_db: None) -> Iterator[redis.Redis]:
    """An empty server that the console is pointed at."""
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    client = redis.Redis.from_url(valkey)
    client.flushall()
    yield client
    hang_up()
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


def words(html: str) -> str:
    """What a person reads."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def tags_of(html: str) -> set[str]:
    """The elements of a page."""
    return set(re.findall(r"<([a-zA-Z][\w-]*)", html))


def done(kind: str, parameters: dict[str, Any], actor: Actor) -> Operation:
    """Previewed, confirmed and run."""
    return desk.start(kind, parameters, actor, reason="tidy up")


def handles(queue: DelayedQueue, *, aside: bool = False) -> list[str]:
    return [str(each.handle) for each in page(queue, aside=aside).items]


def body_of(browser: Client, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()
