"""A child process whose standard output is watched line by line, without sleeping: waiting is on a condition."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class ChildFailed(RuntimeError):
    """A child process ended, or did not say in time what was expected of it."""


class Child:
    """One child process in a session of its own; `lines` grows as it prints, `wait_for` watches them."""

    def __init__(
        self, command: list[str], *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.command = command
        self.log = log
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", **(env or {})},
                cwd=cwd,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def say(self, line: str) -> None:
        """Write one line to the standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait_for(self, look: Callable[[list[str]], T | None], timeout_s: float, what: str) -> T:
        """First value other than None that `look` finds in the lines; raises ChildFailed at the deadline or the end."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                found = look(self.lines)
                if found is not None:
                    return found
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    state = "ended" if self._ended else f"said nothing of it in {timeout_s} s"
                    raise ChildFailed(f"waiting for {what}: {self.command[-8:]} {state}; last {self.tail()}")
                self._changed.wait(left)

    def tail(self) -> str:
        """The last lines of both outputs and what the errors' own began with, for an error message."""
        errors = self.log.read_text(errors="replace") if self.log.exists() else ""
        causes = [line for line in errors.splitlines() if "Exception: " in line]
        return "\n".join([*self.lines[-8:], *causes[-5:], errors[-1500:]])

    def stop(self, timeout_s: float = 30) -> int:
        """Ask with TERM, wait for the end, kill at the deadline; returns the exit status."""
        return self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> int:
        """KILL, as a power cut does to a process."""
        return self._end(signal.SIGKILL, 30)

    def hang_up(self, timeout_s: float = 30) -> int:
        """Close the standard input, which our Java programs take as the wish to end."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            return self._wait(timeout_s)
        except BrokenPipeError:
            return self._wait(timeout_s)

    def _end(self, number: signal.Signals, timeout_s: float) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self._wait(timeout_s)

    def _wait(self, timeout_s: float) -> int:
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = self._end_by_force()
        self._reader.join(10)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue
        return status

    def _end_by_force(self) -> int:
        """KILL; Python is asked first, by ABRT, where its threads stand."""
        if "python" in Path(self.command[0]).name:
            self.process.send_signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
            sys.stderr.write(f"{self.command[-8:]} did not end: {self.log.read_text(errors='replace')[-8000:]}\n")
        self.process.kill()
        return self.process.wait(10)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
