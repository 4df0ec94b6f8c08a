"""One process that the supervisor keeps: what to run, and the running of it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from broker.log_lines import escaped

LOG_LIMIT_BYTES = 10 << 20
#: prctl(2): the signal that a process gets when its parent dies, so that a killed supervisor leaves no orphans.
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def always_ready() -> bool:
    """The probe of a child that is ready as soon as it runs."""
    return True


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run and how to treat it.

    `ready` is asked again and again after the start until it says yes or `ready_timeout_s` is over. A child with
    `runs_once` must end with 0 before the next one starts, and is not restarted. `quiet` keeps even its warnings off
    the terminal (servers that are not ours and warn about the machine); its log has everything.
    """

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool] = always_ready
    ready_timeout_s: float = 30.0
    stop_timeout_s: float = 10.0
    runs_once: bool = False
    quiet: bool = False
    environment: dict[str, str] = field(default_factory=dict)


class Child:
    """A spec and, while it runs, its process. Output goes to `<logs>/<name>.log`, one older log is kept."""

    def __init__(self, spec: ChildSpec, logs: Path) -> None:
        self.spec = spec
        self.log_path = logs / f"{spec.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.failures = 0
        self.restarts = 0
        self.started_s = 0.0
        self.restart_at_s: float | None = None
        self.partial_line = b""
        self.output_ended = False

    @property
    def running(self) -> bool:
        """Whether its process has not ended, as far as is known."""
        return self.process is not None

    def start(self, now_s: float) -> None:
        """Start it in a session of its own: Ctrl-C in the terminal reaches the supervisor only."""
        self.process = subprocess.Popen(
            self.spec.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | self.spec.environment,
        )
        self.started_s = now_s
        self.restart_at_s = None
        self.partial_line = b""
        self.output_ended = False
        os.set_blocking(self.output, False)

    @property
    def output(self) -> int:
        """The descriptor that its output comes from."""
        assert self.process is not None and self.process.stdout is not None
        return self.process.stdout.fileno()

    def read_lines(self) -> list[bytes]:
        """Complete lines that arrived, without waiting; sets `output_ended` at the end of its output."""
        lines: list[bytes] = []
        while not self.output_ended:
            try:
                arrived = os.read(self.output, 1 << 16)
            except BlockingIOError:
                break
            if not arrived:
                self.output_ended = True
                arrived = b"\n" if self.partial_line else b""
            *complete, self.partial_line = (self.partial_line + arrived).split(b"\n")
            lines += complete
        return lines

    def log(self, lines: list[bytes]) -> None:
        """Append to its log, without what a terminal would obey; past the limit the log becomes `<name>.log.1` and a
        new one begins."""
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_LIMIT_BYTES:
            self.log_path.rename(self.log_path.with_suffix(".log.1"))
        with self.log_path.open("ab") as file:
            file.writelines(shown(line).encode() + b"\n" for line in lines)

    def last_lines(self, count: int) -> list[str]:
        """The end of its log, for a message about its death."""
        if not self.log_path.exists():
            return []
        return self.log_path.read_bytes()[-8192:].decode(errors="replace").splitlines()[-count:]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; none when it has just ended."""
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End it and everything it started, now."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def reap(self) -> int | None:
        """The exit code once it has ended (negative: the signal that ended it), None before."""
        if self.process is None:
            return None
        code = self.process.poll()
        if code is not None:
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None
        return code


def shown(line: bytes) -> str:
    """A line of a child's output as it may be shown: tabs as spaces, everything else that cannot be printed escaped."""
    return escaped(line.decode(errors="backslashreplace").expandtabs(4))


def _die_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
