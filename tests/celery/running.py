"""Workers of the project in shop.py, as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.house.sources import ROOT
from tests.waiting import until

PATIENCE_S = 60


class Shop:
    """A project: its settings, and the notes of its tasks."""

    def __init__(self, namesrv: str, notes: Path, *, results: str = "rpc://", visibility_s: float = 60) -> None:
        self.path = notes
        self.environment = {
            "SHOP_NAMESRV": namesrv,
            "SHOP_NOTES": str(notes),
            "SHOP_RESULTS": results,
            "SHOP_VISIBILITY_S": str(visibility_s),
        }

    def lines(self, name: str) -> list[str]:
        """What tasks noted."""
        file = self.path / name
        return file.read_text().split() if file.exists() else []

    def go(self, name: str) -> None:
        """Let a task that holds end."""
        (self.path / f"{name}.go").touch()

    def worker(self, *options: str) -> Worker:
        return Worker(self, options)

    def run(self, program: str) -> str:
        """What a program of the project prints, in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", "from tests.celery.shop import *\n" + program],
            cwd=ROOT, env=os.environ | self.environment, capture_output=True, text=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


class Worker:
    """A worker from when it is ready until the end of the block."""

    def __init__(self, shop: Shop, options: tuple[str, ...]) -> None:
        self.log = shop.path / f"worker-{len(list(shop.path.glob('worker-*')))}.log"
        self._shop = shop
        self._options = options

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "tests.celery.shop", "worker", "-l", "info",
                 "-n", f"{self.log.stem}@tests", *self._options],
                cwd=ROOT, env=os.environ | self._shop.environment, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        until(lambda: " ready." in self.log.read_text() or self.process.poll() is not None, PATIENCE_S)
        assert self.process.poll() is None, self.log.read_text()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def stop(self) -> int:
        """End as a supervisor ends it; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """End it and its children at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    @property
    def memory_kib(self) -> int:
        """The anonymous memory of the worker's main process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
