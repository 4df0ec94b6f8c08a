"""The two brokers of a measurement, on stores of their own that are removed afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.rows import RESULTS
from tests.interop.servers import SERVERS, Server, StoreShape

#: Both keep RocketMQ's own index sizes; 256 MiB segments are our default.
SIZES = {"segment_size_bytes": 256 << 20, "index_slots": 5_000_000, "index_entries": 20_000_000}


@contextmanager
def work_directory() -> Iterator[Path]:
    """A directory for stores and logs on the disk that the repository is on."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="run-", dir=RESULTS))
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


def make(
    kind: str, base: Path, flush: str, heap: str = "2g", servers: Mapping[str, Callable[..., Server]] = SERVERS
) -> Server:
    """A broker of this kind, not started."""
    directory = base / f"{kind}-{flush}"
    return servers[kind](directory / "store", directory / "work", StoreShape(**SIZES, flush=flush, heap=heap))


@contextmanager
def running(
    kind: str, base: Path, flush: str, servers: Mapping[str, Callable[..., Server]] = SERVERS
) -> Iterator[Server]:
    """A started broker; its store is removed at the end."""
    server = make(kind, base, flush, servers=servers)
    server.start()
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.root, ignore_errors=True)
