"""Our transfer service as a process of its own, to be killed: `-m tests.interop.redisson_service URL [NAMESRV]`."""

from __future__ import annotations

import sys
from pathlib import Path

from broker.redisson.server import connect
from broker.redisson.transfer import TransferService, transfer_service
from tests.interop.jars import REPOSITORY
from tests.interop.process import Child

START_TIMEOUT_S = 30


class ServiceProcess:
    """Serves every queue of one server until it is killed; with a name server, also those that go to a topic."""

    def __init__(self, url: str, work: Path, namesrv: str = "") -> None:
        self._addresses = [url, namesrv] if namesrv else [url]
        self._work = work
        self._child: Child | None = None

    def start(self) -> ServiceProcess:
        """Start the process and wait until it serves."""
        command = [sys.executable, "-m", "tests.interop.redisson_service", *self._addresses]
        self._child = Child(command, log=self._work / "service.err", env={"PYTHONPATH": str(REPOSITORY)})
        self._child.wait_for(lambda lines: lines or None, START_TIMEOUT_S, "the transfer service")
        return self

    def kill(self) -> None:
        """KILL."""
        if self._child:
            self._child.kill()


def main(url: str, namesrv: str = "") -> int:
    """Serve until the input ends."""
    service = transfer_service(url, url, namesrv) if namesrv else TransferService(connect(url))
    service.start()
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    sys.stdin.read()
    service.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
