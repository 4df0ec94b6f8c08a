"""The transfer service against a real server that is slow, gone, read-only, full of poison, or fine."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from broker.redisson import DelayedQueue
from broker.redisson.codecs import Packing, pack
from broker.redisson.transfer import Agenda, Reason, TransferService
from broker.redisson.transfer_status import QueueStatus, TransferStatus, running_services
from tests.redisson.java import ScriptedJava
from tests.redisson.servers import RealServer
from tests.waiting import until

FAR = 10**13


@contextlib.contextmanager
def running(client: redis.Redis, **options: object) -> Iterator[TransferService]:
    service = TransferService(client, **options)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def status_of(service: TransferService, name: str) -> QueueStatus:
    return next(each for each in service.status().queues if each.name == name)


def drained(client: redis.Redis, name: str) -> list[bytes]:
    found: list[bytes] = client.lrange(name, 0, -1)
    return found


def test_what_is_due_comes_soon_and_never_early(client: redis.Redis) -> None:
    """https://github.com/redisson/redisson/issues/5172"""
    queue = DelayedQueue("orders", client)
    with running(client) as service:
        until(lambda: service.status().listening)
        queue.offer("far", at=FAR)
        until(lambda: service.status().queues and status_of(service, "orders").waiting == 1)
        receipts = [queue.offer(f"v{number}", delay=40 * number) for number in range(10)]
        taken = []
        for receipt in receipts:
            assert queue.take(timeout_s=20) is not None
            taken.append((queue.server.now_ms()[0], receipt.due_ms))
        assert all(at >= due for at, due in taken)
        # a value can be taken before the service has the answer to its own script
        until(lambda: status_of(service, "orders").moved == 10)
        assert status_of(service, "orders").reasons[Reason.CHANNEL] >= 1


def test_queues_that_are_there_already_are_found(client: redis.Redis) -> None:
    """https://github.com/redisson/redisson/issues/3720"""
    for name in ("orders", "{shop}:refunds"):
        ScriptedJava(client, name).offer(b"x", 5)
    with running(client) as service:
        until(lambda: client.llen("orders") == client.llen("{shop}:refunds") == 1)
        assert [each.name for each in service.status().queues] == ["orders", "{shop}:refunds"]


def test_a_lost_notification_stops_nothing(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://github.com/redisson/redisson/issues/5575"""
    monkeypatch.setattr("broker.redisson.transfer.SWEEP_S", 0.1)
    java = ScriptedJava(client, "orders")
    java.offer(b"far", FAR)
    with running(client) as service:
        until(lambda: service.status().listening and service.status().queues)
        # The same as an offer of Java's whose message got lost.
        java.client.eval(
            "redis.call('ZADD', KEYS[1], 5, ARGV[1]) redis.call('RPUSH', KEYS[2], ARGV[1])",
            2, *java.keys[1:3], b"\x08randombb" + (1).to_bytes(8, "little") + b"x",
        )  # fmt: skip
        until(lambda: drained(client, "orders") == [b"x"])


def test_only_allowed_queues_are_touched(client: redis.Redis) -> None:
    for name in ("orders", "order-2", "payments", "secret"):
        ScriptedJava(client, name).offer(b"x", 5)
    with running(client, queues=["order*", "payments", "absent"]) as service:
        until(lambda: all(client.llen(name) for name in ("orders", "order-2", "payments")))
        assert {each.name for each in service.status().queues} == {"orders", "order-2", "payments", "absent"}
    assert client.llen("secret") == 0


def test_read_only_watches_and_writes_nothing(client: redis.Redis) -> None:
    ScriptedJava(client, "orders").offer(b"x", 5)
    before = client.keys()
    with running(client, read_only=True) as service:
        until(lambda: service.status().queues and status_of(service, "orders").still_due == 1)
        assert service.status().state == "watching"
        assert status_of(service, "orders").late_ms > 10**9
    assert client.keys() == before
    assert client.llen("orders") == 0


def test_a_key_of_the_wrong_type_stops_one_queue_only(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://github.com/redisson/redisson/issues/3520"""
    monkeypatch.setattr("broker.redisson.transfer.SWEEP_S", 0.05)
    client.set("broken", "mine")
    for name in ("broken", "orders"):
        ScriptedJava(client, name).offer(b"x", 5)
    with running(client) as service:
        until(lambda: client.llen("orders") == 1)
        until(lambda: status_of(service, "broken").errors > 1)
        assert "'broken' is a string" in status_of(service, "broken").problem
        assert client.get("broken") == b"mine"
        client.delete("broken")
        until(lambda: drained(client, "broken") == [b"x"])
        until(lambda: status_of(service, "broken").problem == "")


def test_poison_is_counted_and_what_is_behind_comes(client: redis.Redis) -> None:
    client.zadd("redisson_delay_queue_timeout:{orders}", {b"poison": 1})
    client.rpush("redisson_delay_queue:{orders}", b"poison")
    ScriptedJava(client, "orders").offer(b"behind", 2)
    with running(client) as service:
        until(lambda: drained(client, "orders") == [b"behind"])
        until(lambda: status_of(service, "orders").poison == 1)
    assert client.llen("redisson_delay_queue:{orders}") == 1


def test_java_and_two_services_move_each_value_once(client: redis.Redis) -> None:
    """https://github.com/redisson/redisson/issues/5653"""
    names = [f"q{number}" for number in range(4)]
    javas = [ScriptedJava(client, name) for name in names]
    stop = threading.Event()

    def java_transfers() -> None:
        while not stop.is_set():
            for java in javas:
                java.transfer(FAR - 1, 7)

    task = threading.Thread(target=java_transfers)
    task.start()
    try:
        with running(client), running(client):
            queues = [DelayedQueue(name, client) for name in names]
            for number in range(300):
                for queue, java in zip(queues, javas, strict=True):
                    if number % 2:
                        queue.offer(f"v{number}", delay=number % 50)
                    else:
                        java.offer(b"v%d" % number, 1)
            until(lambda: all(client.llen(name) == 300 for name in names))
    finally:
        stop.set()
        task.join()
    expected = sorted(b"v%d" % number for number in range(300))
    for name in names:
        assert sorted(drained(client, name)) == expected
        assert client.exists(f"redisson_delay_queue:{{{name}}}", f"redisson_delay_queue_timeout:{{{name}}}") == 0


def test_a_long_list_is_moved_in_due_order(client: redis.Redis) -> None:
    queue = DelayedQueue("orders", client)
    dues = [(number * 7919) % 5000 for number in range(5000)]
    for first in range(0, 5000, 500):
        pipe = client.pipeline(transaction=False)
        for due in dues[first : first + 500]:
            ScriptedJava(pipe, "orders").offer(b"%d" % due, due)
        pipe.execute()
    queue.offer("stays", at=FAR)
    with running(client):
        until(lambda: client.llen("orders") == 5000)
    assert [int(value) for value in drained(client, "orders")] == sorted(dues)
    assert queue.read_all() == ["stays"]


def test_the_status_is_published_and_withdrawn(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.redisson.transfer.STATUS_S", 0.02)
    queue = DelayedQueue("orders", client)
    with running(client, status_to=client) as service:
        queue.offer("x", delay=0)
        until(lambda: any(each.moved for service in running_services(queue.server) for each in service.queues))
        found = next(running_services(queue.server))
        assert (found.state, found.read_only, found.instance) == ("moving", False, service.status().instance)
        assert found.skew_ms is not None and abs(found.skew_ms) < 1000
        assert found.queues[0].last_count == 1
        assert TransferStatus.from_json(found.as_json()) == found
    assert list(running_services(queue.server)) == []


def test_a_server_that_dies_is_waited_for(tmp_path: Path) -> None:
    """https://github.com/redisson/redisson/issues/4088"""
    server = RealServer("valkey", tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    client = server.client()
    queue = DelayedQueue("orders", client)
    with running(client) as service:
        until(lambda: service.status().listening)
        queue.offer("before", delay=0)
        until(lambda: client.llen("orders") == 1)
        queue.offer("across", delay=300)
        server.kill()
        until(lambda: service.status().state == "waiting")
        assert service.status().problem
        server.start()
        until(lambda: service.status().state == "moving" and service.status().listening)
        until(lambda: client.llen("orders") == 2)
        queue.offer("after", delay=0)
        until(lambda: client.llen("orders") == 3)
        assert service.status().outages >= 1
    assert drained(client, "orders") == [b"before", b"across", b"after"]
    client.close()
    server.kill()


def test_a_server_that_fails_over_is_waited_for(client: redis.Redis, free_port: int) -> None:
    """As a replica it answers and listens, and takes no writes until it is promoted."""
    queue = DelayedQueue("orders", client)
    with running(client) as service:
        until(lambda: service.status().listening)
        queue.offer("across", delay=200)
        client.replicaof("127.0.0.1", free_port)
        try:
            until(lambda: service.status().state == "waiting")
            assert "replica" in service.status().problem
        finally:
            client.replicaof("NO", "ONE")
        until(lambda: client.llen("orders") == 1)
        until(lambda: service.status().state == "moving")
        assert (status_of(service, "orders").problem, service.status().outages) == ("", 1)
    assert queue.poll() == "across"


def test_a_service_starts_before_its_server(tmp_path: Path) -> None:
    server = RealServer("valkey", tmp_path)
    server.kill()
    client = server.client()
    with running(client) as service:
        until(lambda: service.status().state == "waiting")
        server.start()
        DelayedQueue("orders", client).offer("x", delay=0)
        until(lambda: client.llen("orders") == 1)
        until(lambda: service.status().state == "moving")
    client.close()
    server.kill()


def test_large_values_do_not_stop_other_queues(client: redis.Redis) -> None:
    large = DelayedQueue("large", client)
    small = DelayedQueue("small", client)
    text = "x" * 10_000_000
    with running(client):
        for _ in range(3):
            large.offer(text, delay=0)
        small.offer("x", delay=0)
        assert small.take(timeout_s=10) == "x"
        until(lambda: client.llen("large") == 3)


def test_an_agenda_gives_each_queue_to_one_worker_at_a_time() -> None:
    agenda = Agenda()
    agenda.wake("a", 0.0, Reason.CHANNEL)
    agenda.wake("a", 5.0, Reason.DUE)
    assert agenda.take() == ("a", Reason.CHANNEL)
    agenda.wake("a", 0.0, Reason.CHANNEL)
    agenda.wake("b", time.monotonic() + 0.05, Reason.DUE)
    assert agenda.take() == ("b", Reason.DUE)
    agenda.done("a")
    assert agenda.take() == ("a", Reason.CHANNEL)
    agenda.done("a")
    agenda.wake("a", 0.0, Reason.SWEEP)
    agenda.forget("a")
    threading.Timer(0.05, agenda.close).start()
    assert agenda.take() is None


def test_a_queue_that_was_made_while_nobody_listened_is_found_at_once(client: redis.Redis) -> None:
    """https://github.com/redisson/redisson/issues/4481"""
    with running(client) as service:
        until(lambda: service.status().listening)
        # not the head of its queue, as far as it knows: Java would say nothing
        quiet = DelayedQueue("quiet", client)
        member = pack(b"late", b"12345678", Packing.NEW)
        client.zadd(quiet.keys.timeout, {member: 1})
        client.rpush(quiet.keys.waiting, member)
        client.client_kill_filter(_type="pubsub")
        until(lambda: drained(client, "quiet") == [b"late"], timeout_s=10)
