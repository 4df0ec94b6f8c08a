"""Real Celery workers in processes of their own, and what they write."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

DEADLINE_S = 30.0
ROOT = Path(__file__).parents[2]


@dataclass
class Place:
    """Where one broker of a test lives."""

    var: Path
    redis_url: str
    broker_port: int
    namesrv_port: int
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def namesrv(self) -> str:
        """The address that clients are given."""
        return f"127.0.0.1:{self.namesrv_port}"

    def environment(self) -> dict[str, str]:
        """The environment of its worker."""
        return {
            **os.environ,
            "ESCAPEMENT_VAR": str(self.var),
            "REDIS_URL": self.redis_url,
            "ESCAPEMENT_BROKER_PORT": str(self.broker_port),
            "ESCAPEMENT_NAMESRV_PORT": str(self.namesrv_port),
            "PYTHONUNBUFFERED": "1",
            **self.settings,
        }


class Worker:
    """One `celery worker` process."""

    def __init__(self, place: Place, *options: str) -> None:
        command = [sys.executable, "-m", "celery", "-A", "console.site", "worker", "-l", "INFO", "-c", "1"]
        self.output: list[str] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [*command, "--without-gossip", "--without-mingle", "-Q", "broker-test", *options],
            cwd=ROOT,
            env=place.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_line(self, part: str) -> str:
        """The next line with `part` in it."""
        end_s = monotonic() + DEADLINE_S
        while True:
            try:
                line = self._lines.get(timeout=max(end_s - monotonic(), 0.001))
            except queue.Empty:
                raise AssertionError(f"no line with {part!r} in:\n" + "\n".join(self.output)) from None
            if part in line:
                return line

    def stop(self) -> tuple[int, float]:
        """SIGTERM; the exit code and how many seconds it took."""
        began_s = monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.wait(), monotonic() - began_s

    def wait(self) -> int:
        """The exit code, when it has ended by itself."""
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def end(self) -> None:
        """Whatever a test did: no process is left."""
        if self.process.poll() is None:
            self.process.kill()
            self.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line.rstrip("\n"))
            self._lines.put(line.rstrip("\n"))
