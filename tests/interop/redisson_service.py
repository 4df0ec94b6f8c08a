"""Our transfer service as a process of its own, to be killed: `python -m tests.interop.redisson_service URL`."""

from __future__ import annotations

import sys
from pathlib import Path

from broker.redisson.server import connect
from broker.redisson.transfer import TransferService
from tests.interop.jars import REPOSITORY
from tests.interop.process import Child

START_TIMEOUT_S = 30


class ServiceProcess:
    """Serves every queue of one server until it is killed."""

    def __init__(self, url: str, work: Path) -> None:
        self._url, self._work = url, work
        self._child: Child | None = None

    def start(self) -> ServiceProcess:
        """Start the process and wait until it serves."""
        command = [sys.executable, "-m", "tests.interop.redisson_service", self._url]
        self._child = Child(command, log=self._work / "service.err", env={"PYTHONPATH": str(REPOSITORY)})
        self._child.wait_for(lambda lines: lines or None, START_TIMEOUT_S, "the transfer service")
        return self

    def kill(self) -> None:
        """KILL."""
        if self._child:
            self._child.kill()


def main(url: str) -> int:
    """Serve until the input ends."""
    service = TransferService(connect(url))
    service.start()
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    sys.stdin.read()
    service.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
