"""The whole installation of `make run` without its demonstration, with the face of a broker that is measured."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.installation import Installation, installed
from tests.interop.servers import StoreShape


class House:
    """PostgreSQL, Valkey, mirror, web, jobs and broker; what is asked is the broker."""

    name = "house"

    def __init__(self, root: Path, work: Path, shape: StoreShape) -> None:
        self.root, self.work, self.shape = root, work, shape
        self._runs = ExitStack()
        self._installation: Installation | None = None

    @property
    def _running(self) -> Installation:
        assert self._installation is not None, "it was not started"
        return self._installation

    @property
    def namesrv(self) -> str:
        """The address of its name service."""
        return self._running.namesrv

    @property
    def address(self) -> str:
        """The address of its broker."""
        return f"127.0.0.1:{self._running.env['ESCAPEMENT_BROKER_PORT']}"

    @property
    def pid(self) -> int:
        """The process that runs its broker."""
        return self._running.pid_of("--engine")

    @property
    def pids(self) -> list[int]:
        """All its processes, those that started others first."""
        return sorted(pid for pid, _ in self._running.processes())

    def start(self) -> None:
        """Start all processes and wait until the console serves pages."""
        self.work.mkdir(parents=True, exist_ok=True)
        self._installation = self._runs.enter_context(installed(self.work, flush=self.shape.flush))

    def kill(self) -> None:
        """Stop all processes: databases are not to be left behind."""
        self._runs.close()
