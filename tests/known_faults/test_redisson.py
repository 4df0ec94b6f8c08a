"""Faults that Redisson's delayed queue had, where Java writes and this service moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from broker.redisson import DelayedQueue
from broker.redisson.queue import move_all_due
from tests.redisson.java import ScriptedJava
from tests.redisson.servers import RealServer


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A client of an empty server."""
    server = RealServer("valkey", tmp_path_factory.mktemp("valkey"))
    client = server.client()
    yield client
    client.close()
    server.kill()


def test_a_value_whose_moment_is_long_past_comes_at_once_and_holds_up_nothing(client: redis.Redis) -> None:
    """https://github.com/redisson/redisson/issues/1744"""
    queue, java = DelayedQueue("orders", client), ScriptedJava(client, "orders")
    now_ms = queue.server.now_ms()[0]
    java.offer(b"far", now_ms + 3_600_000)
    java.offer(b"42 minutes ago", now_ms - 2_515_194)
    java.offer(b"29 days ago", now_ms - 2_515_194_000)
    java.offer(b"a moment ago", now_ms - 1)
    assert move_all_due(queue) == 3
    assert client.lrange("orders", 0, -1) == [b"29 days ago", b"42 minutes ago", b"a moment ago"]
    assert queue.size() == 1
