"""A real broker and more connections than it has descriptors, or more unfinished frames than it has memory for."""

from __future__ import annotations

import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.client import Producer
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command, FrameBuffer, decode, encode
from tests.waiting import until

from .killing import PATIENCE_S, TOPIC, BrokerProcess

IDLE = 1_100
MEBIBYTE = 1 << 20
ASK = encode(Command(Request.GET_BROKER_CONFIG, opaque=6))


@pytest.fixture
def roomy() -> Iterator[None]:
    """The test's own process may have as many sockets as it needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * IDLE
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.fail(f"the hard limit of open files is {hard}, this test needs {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def asked(address: str) -> Command:
    """What the broker answers to somebody new."""
    with socket.create_connection(place(address), PATIENCE_S) as connected:
        connected.sendall(ASK)
        frames: list[bytes] = []
        buffer = FrameBuffer()
        while not frames:
            data = connected.recv(65_536)
            assert data, "the broker closed the connection of one who asks"
            frames = buffer.feed(data)
        return decode(frames[0])


def checkpoint(root: Path) -> bytes:
    """The file as it is: every checkpoint changes it."""
    path = root / "escapement.checkpoint"
    return path.read_bytes() if path.exists() else b""


@pytest.mark.parametrize("descriptors", [1_024, 256])
def test_idle_connections_beyond_the_descriptors_stop_nobody(tmp_path: Path, roomy: None, descriptors: int) -> None:
    broker = BrokerProcess(tmp_path / "store", descriptors=descriptors)
    address = broker.greeting.split()[1]
    try:
        with ExitStack() as idle, Producer(group="others", namesrv=broker.namesrv) as producer:
            producer.send(TOPIC, b"before")
            for number in range(IDLE):
                idle.enter_context(socket.create_connection(place(address if number % 2 else broker.namesrv)))
            before = checkpoint(tmp_path / "store")
            for number in range(200):
                producer.send(TOPIC, b"%d" % number)
            until(lambda: producer.send(TOPIC, b"more") and checkpoint(tmp_path / "store") != before, PATIENCE_S)
            assert asked(address).code == 0, "somebody new is answered"
            assert broker.process.poll() is None
    finally:
        assert broker.end(signal.SIGTERM) == 0
    log = broker.log.read_text()
    assert "FAILED" not in log
    assert "Traceback" not in log
    assert not (tmp_path / "store" / "abort").exists(), "it stopped cleanly"


def test_connections_that_have_spoken_are_kept_and_further_ones_closed(tmp_path: Path, roomy: None) -> None:
    broker = BrokerProcess(tmp_path / "store", descriptors=256)
    address = broker.greeting.split()[1]
    try:
        with ExitStack() as crowd, Producer(group="others", namesrv=broker.namesrv) as producer:
            producer.send(TOPIC, b"before")
            kept = []
            for _ in range(300):
                connected = crowd.enter_context(socket.create_connection(place(address)))
                try:
                    connected.sendall(ASK)
                    if connected.recv(65_536):
                        kept.append(connected)
                except ConnectionError:
                    continue
            assert 60 < len(kept) < 250
            producer.send(TOPIC, b"after")
            for connected in kept:
                connected.sendall(ASK)
                assert connected.recv(65_536)
    finally:
        assert broker.end(signal.SIGTERM) == 0
    assert broker.log.read_text().count("further ones are refused") == 1


def anonymous_mebibytes(process_id: int) -> float:
    status = Path(f"/proc/{process_id}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(line.split()[1]) / 1024


def crowd_with_unfinished_frames(address: str, count: int) -> ExitStack:
    """So many connections, each of which says 15 of 16 MiB as far as it is let."""
    crowd = ExitStack()
    beginning = (16 * MEBIBYTE - 100).to_bytes(4, "big") + b"\0\0\0\x02{}"
    piece = b"x" * MEBIBYTE
    for _ in range(count):
        connected = crowd.enter_context(socket.create_connection(place(address), PATIENCE_S))
        try:
            connected.sendall(beginning)
            for _ in range(15):
                connected.sendall(piece)
        except (ConnectionError, TimeoutError):
            continue
    return crowd


@pytest.mark.parametrize("guarded", [False, True], ids=["open to all", "with access control"])
def test_unfinished_frames_take_little_memory_and_give_it_back(
    tmp_path: Path, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESCAPEMENT_SECRET_KEY", "secret")
    broker = BrokerProcess(tmp_path / "store", *(["--access-key", "root"] if guarded else []))
    address = broker.greeting.split()[1]
    process_id = broker.process.pid
    try:
        asked(address)
        before = anonymous_mebibytes(process_id)
        with crowd_with_unfinished_frames(address, 40):
            held = anonymous_mebibytes(process_id) - before
        assert held < (8 if guarded else 160), f"{held:.0f} MiB for 600 MiB said"
        until(lambda: asked(address) and anonymous_mebibytes(process_id) - before <= 24, PATIENCE_S)
    finally:
        assert broker.end(signal.SIGTERM) == 0
