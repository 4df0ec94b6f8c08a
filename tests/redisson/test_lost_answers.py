"""When an answer is lost, nobody knows whether the command was done: what changes a queue is never sent again."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis

from broker.redisson import DelayedQueue
from broker.redisson.queue import move_all_due
from tests.redisson.lossy import LossyWay
from tests.redisson.servers import RealServer

HOUR_MS = 3_600_000


@pytest.fixture
def way(client: redis.Redis) -> Iterator[LossyWay]:
    """A way to the server that can lose an answer."""
    with LossyWay(client.connection_pool.connection_kwargs["port"]) as one:
        yield one


@pytest.fixture(params=["address", "client"])
def across(request: pytest.FixtureRequest, way: LossyWay) -> Iterator[DelayedQueue]:
    """The queue over that way: by its address, and with redis-py's own client, which tries again by itself."""
    own: redis.Redis | str = (
        redis.Redis(port=way.port) if request.param == "client" else f"redis://127.0.0.1:{way.port}"
    )
    across = DelayedQueue("orders", own)
    across.size()  # from here on the connection stands, and its greeting is over
    yield across
    if isinstance(own, redis.Redis):
        own.close()


def test_an_offer_is_not_doubled(way: LossyWay, across: DelayedQueue, queue: DelayedQueue) -> None:
    way.lose_next()
    with pytest.raises(redis.ConnectionError):
        across.offer("order-1", delay=HOUR_MS)
    assert way.lost == 1
    assert queue.read_all() == ["order-1"]


def test_a_removal_does_not_take_a_second_one(way: LossyWay, across: DelayedQueue, queue: DelayedQueue) -> None:
    queue.offer_many(["order-1", "order-1"], delay=HOUR_MS)
    way.lose_next()
    with pytest.raises(redis.ConnectionError):
        across.remove("order-1")
    assert way.lost == 1
    assert queue.read_all() == ["order-1"]


@pytest.mark.parametrize("call", ["take", "poll", "poll_first_offered"])
def test_a_pop_loses_no_second_value(
    way: LossyWay, across: DelayedQueue, queue: DelayedQueue, client: redis.Redis, call: str
) -> None:
    client.rpush(queue.keys.target, "order-1", "order-2")
    queue.offer_many(["order-1", "order-2"], delay=HOUR_MS)
    way.lose_next()
    with pytest.raises(redis.ConnectionError):
        getattr(across, call)()
    assert way.lost == 1
    assert client.llen(queue.keys.target) + queue.size() == 3


def test_a_take_waits_longer_than_the_clients_socket_does(real_server: RealServer, queue: DelayedQueue) -> None:
    """A socket that gave up first would lose what is popped at that moment."""
    with redis.Redis(port=real_server.port, socket_timeout=2) as own:
        waiting = DelayedQueue("orders", own)
        assert waiting.take(timeout_s=2.5) is None
        queue.offer("order-1", delay=400)
        later = threading.Timer(0.5, move_all_due, [queue])
        later.start()
        assert waiting.take(timeout_s=10) == "order-1"
        later.join()


def test_what_only_reads_may_be_asked_again(way: LossyWay, queue: DelayedQueue) -> None:
    queue.offer("order-1", delay=HOUR_MS)
    with redis.Redis(port=way.port) as own:
        across = DelayedQueue("orders", own)
        across.peek()
        way.lose_next()
        assert across.size() == 1
    assert way.lost == 1
