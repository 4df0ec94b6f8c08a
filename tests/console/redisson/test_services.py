"""Who moves and hears Redisson's queues, as the pages show it; services speak through a server of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.test import Client

from broker.redisson import DelayedQueue
from broker.redisson.server import Server
from broker.redisson.transfer_status import STATUS_PREFIX, QueueStatus, TransferStatus, publish
from console.features.redisson import read as redisson_read
from console.features.redisson.read import hang_up
from console.operations import workflow
from console.operations.actor import Actor
from tests.console.delayed_stage import body_of, done, words


def status(**changes: Any) -> TransferStatus:
    """Of a service that moves `orders`."""
    fields = {
        "instance": "here-1", "started_ms": 1, "now_ms": 2, "state": "moving", "read_only": False, "skew_ms": -1234.5,
        "problem": "", "waiting_since_ms": None, "outages": 0, "listening": True,
        "queues": [QueueStatus("orders", moved=7, last_moved_ms=5)],
    }  # fmt: skip
    return TransferStatus(**(fields | changes))


@pytest.fixture
def spoken(server: redis.Redis, valkey: str, settings: Any) -> Iterator[Server]:
    """The server at REDIS_URL, which is another one than that of the queues."""
    settings.REDIS_URL = valkey.rsplit("/", 1)[0] + "/1"
    client = redis.Redis.from_url(settings.REDIS_URL)
    client.flushdb()
    yield Server(client)
    client.flushdb()
    client.close()


def test_services_are_read_from_their_own_server(orders: DelayedQueue, spoken: Server, operator: Client) -> None:
    publish(spoken, status())
    (row,) = redisson_read.delayed_queues().rows
    assert row.moved is not None and (row.moved.moved, row.ours) == (7, 1)
    text = words(body_of(operator, "/redisson/"))
    assert "here-1" in text and "-1234.5 ms" in text
    assert "on its channel: 0 Java, 1 Escapement" in words(body_of(operator, "/redisson/queue/?name=orders"))


def test_a_service_that_waits_for_redis_says_so_while_it_is_away(
    spoken: Server, settings: Any, operator: Client, free_port: int
) -> None:
    publish(spoken, status(state="waiting", problem="Connection refused", waiting_since_ms=1, outages=3))
    settings.REDISSON_URL = f"redis://127.0.0.1:{free_port}/0"
    text = words(body_of(operator, "/redisson/"))
    assert "the Redis server cannot be reached" in text
    assert "waiting for Redis" in text and "Connection refused" in text
    hang_up()


def test_what_another_version_says_spoils_nothing(orders: DelayedQueue, spoken: Server) -> None:
    for number, text in enumerate(["{", "{}", '{"queues": [{"colour": 5}]}', "[]"]):
        spoken.run("SET", f"{STATUS_PREFIX}odd-{number}", text)
    publish(spoken, status())
    assert [each.instance for each in redisson_read.delayed_queues().services] == ["here-1"]


def test_without_their_server_the_queues_are_shown(orders: DelayedQueue, settings: Any, free_port: int) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port}/0"
    data = redisson_read.delayed_queues()
    assert ([row.name for row in data.rows], data.services) == (["orders"], ())
    assert not data.evidence.stale


def test_one_live_queue_of_java_is_warned_of_before_and_after(
    orders: DelayedQueue, server: redis.Redis, operator: Client, actor: Actor
) -> None:
    warning = "A running Java RDelayedQueue listens on its channel"
    given = {"queue": "orders", "topic": "bills"}
    quiet = workflow.draft("redisson.make_reliable", given, actor)
    assert warning not in words(body_of(operator, f"/operations/{quiet.pk}/"))
    subscription = server.pubsub()
    subscription.subscribe(orders.keys.channel.decode())
    subscription.get_message(timeout=5)
    draft = workflow.draft("redisson.make_reliable", given, actor)
    assert warning in words(body_of(operator, f"/operations/{draft.pk}/"))
    done("redisson.make_reliable", given, actor)
    assert warning in words(body_of(operator, "/redisson/queue/?name=orders"))
    assert "on its channel: 1 Java, 0 Escapement" in words(body_of(operator, "/redisson/queue/?name=orders"))
    subscription.close()


def test_who_hangs_up_leaves_no_connection(spoken: Server, server: redis.Redis) -> None:
    """A client that waited to be collected kept its socket, and whatever ran then was blamed for it."""
    asked = [redisson_read.server().client, redisson_read.status_server().client]
    ours = {str(each.execute_command("CLIENT", "ID")) for each in asked}
    assert len(ours) == 2 and ours <= ids_of_clients(server)
    hang_up()
    assert not ours & ids_of_clients(server)


def ids_of_clients(server: redis.Redis) -> set[str]:
    """Return the ids of all connections of a server."""
    return {each["id"] for each in server.client_list()}
