"""The two brokers of a measurement, on stores of their own that are removed afterwards, and their first answer."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypedDict

from bench.memory import fill
from bench.results import RESULTS
from tests.interop.readiness import answered_code
from tests.interop.servers import SERVERS, Server, StoreShape


class Measured(Protocol):
    """A broker that can be measured, whatever else runs with it."""

    name: str
    root: Path
    shape: StoreShape

    @property
    def namesrv(self) -> str:
        """The address of its name service."""

    @property
    def address(self) -> str:
        """The address of the broker."""

    @property
    def pid(self) -> int:
        """The process whose processor time and memory are read."""

    def start(self) -> None:
        """Start it, and wait until it serves."""

    def kill(self) -> None:
        """End it, whatever it does."""


class StoreSizes(TypedDict):
    """Sizes that brokers must agree on to open one store, in bytes and entries."""

    segment_size_bytes: int
    index_slots: int
    index_entries: int


#: Both keep RocketMQ's own index sizes; 256 MiB segments are our default.
SIZES: StoreSizes = {"segment_size_bytes": 256 << 20, "index_slots": 5_000_000, "index_entries": 20_000_000}


@contextmanager
def work_directory() -> Iterator[Path]:
    """Yield a directory for stores and logs on the disk that the repository is on; meanwhile hardly any memory is
    free."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="run-", dir=RESULTS))
    try:
        fill(base)
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


def make(
    kind: str, base: Path, flush: str, heap: str = "2g", servers: Mapping[str, Callable[..., Server]] = SERVERS
) -> Server:
    """Return a broker of this kind, not started."""
    directory = base / f"{kind}-{flush}"
    return servers[kind](directory / "store", directory / "work", StoreShape(**SIZES, flush=flush, heap=heap))


@contextmanager
def running(
    kind: str, base: Path, flush: str, servers: Mapping[str, Callable[..., Server]] = SERVERS
) -> Iterator[Server]:
    """Yield a started broker; its store is removed at the end."""
    server = make(kind, base, flush, servers=servers)
    server.start()
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.root, ignore_errors=True)


SEND = 10
LOOK_EVERY_S = 0.01


def first_answer_s(address: str, topic: str, *, begin_s: float, timeout_s: float) -> float:
    """Return the seconds from `begin_s` (a monotonic time) until a send to queue 0 is answered with success."""
    pause = threading.Event()
    while not is_stored(address, topic):
        if time.monotonic() - begin_s > timeout_s:
            raise TimeoutError(f"{address} answered no send in {timeout_s} s")
        pause.wait(LOOK_EVERY_S)
    return time.monotonic() - begin_s


def is_stored(address: str, topic: str) -> bool:
    """Tell whether one message is accepted and on disk."""
    host, port = address.split(":")
    fields = {
        "producerGroup": "probe",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(time.time_ns() // 1_000_000),
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    header = {"code": SEND, "language": "OTHER", "version": 513, "opaque": 1, "flag": 0, "extFields": fields}
    encoded = json.dumps(header).encode()
    body = b"probe"
    frame = struct.pack(">ii", 4 + len(encoded) + len(body), len(encoded)) + encoded + body
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(frame)
            return answered_code(connection) == 0
    except (OSError, struct.error):
        return False
