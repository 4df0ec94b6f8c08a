"""Redis Cluster, where all keys of a queue must share a slot, and TLS with a password."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.cluster import RedisCluster

from broker.redisson import DelayedQueue
from broker.redisson.errors import DifferentSlots
from broker.redisson.queue import move_all_due
from broker.redisson.repair import move_to
from broker.redisson.survey import due_counts, queue_names, survey
from broker.redisson.transfer import TransferService
from tests.redisson.servers import RealServer
from tests.waiting import until


@pytest.fixture(params=["valkey", "redis"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, free_port: int) -> Iterator[RealServer]:
    server = RealServer(request.param, tmp_path, "--cluster-enabled", "yes", "--cluster-port", str(free_port))
    try:
        client = server.client()
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        # What the answer looks like depends on the client's version.
        until(lambda: "ok" in str(client.execute_command("CLUSTER", "INFO")).partition("cluster_state")[2][:12])
        client.close()
        yield server
    finally:
        server.kill()


def test_a_queue_in_a_cluster(cluster: RealServer) -> None:
    url = f"redis+cluster://127.0.0.1:{cluster.port}"
    queue = DelayedQueue("orders", url)
    assert isinstance(queue.server.client, RedisCluster)
    queue.offer_many([f"v{number}" for number in range(1500)], at=5)
    queue.offer("other", at=10**13)
    assert queue.remove("v700") and queue.contains("other")
    assert move_all_due(queue) == 1499
    assert queue.take(timeout_s=1) == "v0"
    assert survey(queue).list_size == 1
    assert queue_names(queue.server) == ["orders"]
    # several queues, whatever their slots
    DelayedQueue("mail", url).offer("x", at=5)
    assert due_counts(queue.server, ["mail", "orders", "none"], [4, 5, 10**13]) == ([0, 1, 2], 0)
    with pytest.raises(DifferentSlots):
        queue.poll_last_and_offer_first_to("elsewhere")
    receipt = queue.offer("x", at=10**13)
    with pytest.raises(DifferentSlots):
        move_to(queue, receipt.member, DelayedQueue("elsewhere", url))
    assert move_to(queue, receipt.member, DelayedQueue("{orders}:later", url))


def test_the_transfer_service_in_a_cluster(cluster: RealServer) -> None:
    url = f"redis+cluster://127.0.0.1:{cluster.port}"
    queue = DelayedQueue("orders", url)
    service = TransferService(DelayedQueue("any", url).server.client)
    service.start()
    try:
        until(lambda: service.status().listening)
        queue.offer("x", delay=100)
        assert queue.take(timeout_s=20) == "x"
        assert service.status().skew_ms is not None
    finally:
        service.stop()


def test_tls_and_a_password(tmp_path: Path, free_port: int) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", *names],
        check=True,
        capture_output=True,
    )
    (tmp_path / "server").mkdir()
    options = ["--tls-port", "0", "--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
    server = RealServer("redis", tmp_path / "server", *options, "--tls-auth-clients", "no", password="secret")
    try:
        plain = server.client()
        plain.config_set("tls-port", free_port)
        url = f"rediss://:secret@localhost:{free_port}/0?ssl_ca_certs={certificate}"
        queue = DelayedQueue("orders", url)
        queue.offer("x", delay=0)
        assert move_all_due(queue) == 1
        assert queue.take(timeout_s=1) == "x"
        assert plain.client_list()
        plain.close()
    finally:
        server.kill()
