"""The transfer service in a Celery worker of its own, as `make run` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.redisson import DelayedQueue
from broker.redisson.transfer_status import running_services
from tests.hosting.workers import Place, Worker
from tests.redisson.servers import RealServer
from tests.waiting import until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    (tmp_path / "valkey").mkdir()
    server = RealServer("valkey", tmp_path / "valkey", password="secret")
    yield server
    server.kill()


def test_a_worker_moves_what_is_due_and_says_so(server: RealServer, tmp_path: Path) -> None:
    url = f"redis://:secret@127.0.0.1:{server.port}/1"
    status_url = f"redis://:secret@127.0.0.1:{server.port}/0"
    place = Place(tmp_path, status_url, 1, 1, {"ESCAPEMENT_REDISSON_URL": url, "ESCAPEMENT_REDISSON_QUEUES": "orders"})
    queue = DelayedQueue("orders", url)
    queue.offer("x", delay=0)
    worker = Worker(place, "-P", "threads", "--transfer")
    try:
        worker.await_line("hosting the transfer")
        assert queue.take(timeout_s=20) == "x"
        console = DelayedQueue("any", status_url)
        found = until(lambda: [each for each in running_services(console.server) if each.queues[0].moved])
        assert [each.name for each in found[0].queues] == ["orders"]
    finally:
        code, _ = worker.stop()
        worker.end()
    assert code == 0
    assert list(running_services(console.server)) == []


def test_a_wrong_address_is_refused(server: RealServer, tmp_path: Path) -> None:
    status_url = f"redis://:secret@127.0.0.1:{server.port}/0"
    place = Place(tmp_path, status_url, 1, 1, {"ESCAPEMENT_REDISSON_URL": "http://127.0.0.1"})
    worker = Worker(place, "-P", "threads", "--transfer")
    worker.await_line("ESCAPEMENT_REDISSON_URL is no address of a Redis")
    assert worker.wait() != 0
    worker.end()
