"""The supervisor: start children in order, restart those that end, stop them in the opposite order.

One thread and one loop: output, deaths and signals all arrive at the same `select`. Restarts back off from half a
second to half a minute and begin anew after a minute of good running, so a child that cannot start neither spins nor is
given up. SIGINT, SIGTERM and SIGHUP stop everything in order; a second one kills what is left. SIGUSR2, which changes
what is logged (broker/log_lines.py), goes on to the children that are ours.

Which processes it keeps, and how each does, stands in a file for the console. It is written, whole, whenever a process
starts or ends, and counts as long as its supervisor runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal

import psutil

from broker.log_lines import escaped
from console.run.private_files import write_private

#: prctl(2): the signal that a process gets when its parent dies, so that a killed supervisor leaves no orphans.
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def ends_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Make a `preexec_fn` that has the kernel send the child this signal when its parent is gone."""

    def ask_kernel() -> None:
        if _libc is not None:
            _libc.prctl(PR_SET_PDEATHSIG, number)
        # until it listens to this one, which would end it
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)

    return ask_kernel


BACK_OFF_FIRST_S = 0.5
BACK_OFF_LONGEST_S = 30.0
GOOD_RUN_S = 60.0
LOOP_LONGEST_S = 1.0
PROBE_INTERVAL_S = 0.1

LOG_LIMIT_BYTES = 10 << 20
#: What the terminal shows of a child's output; its log has everything. What is indented belongs to a line before it.
WORTH_SHOWING = re.compile(rb"(?!\s).*\b(WARNING|ERROR|CRITICAL)\b")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StartFailed(Exception):
    """A child could not be started; the message says which and where its log is."""


def always_ready() -> bool:
    """Probe of a child that is ready as soon as it runs."""
    return True


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A child to run, and how to treat it.

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
        """Tell whether the process runs, as far as is known."""
        return self.process is not None

    def start(self, now_s: float) -> None:
        """Start the process in a session of its own, so that Ctrl-C in the terminal reaches the supervisor only."""
        self.process = subprocess.Popen(
            self.spec.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=ends_with_parent(signal.SIGTERM),
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | self.spec.environment,
        )
        self.started_s = now_s
        self.restart_at_s = None
        self.partial_line = b""
        self.output_ended = False
        os.set_blocking(self.output, False)

    @property
    def output(self) -> int:
        """The file descriptor of the process's output."""
        assert self.process is not None and self.process.stdout is not None
        return self.process.stdout.fileno()

    def read_lines(self) -> list[bytes]:
        """Return the complete lines that have arrived, without waiting; sets `output_ended` at the end of the
        output."""
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
        """Append lines to the log, control characters escaped; a log past its limit becomes `<name>.log.1`."""
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_LIMIT_BYTES:
            self.log_path.rename(self.log_path.with_suffix(".log.1"))
        with self.log_path.open("ab") as file:
            file.writelines(shown(line).encode() + b"\n" for line in lines)

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines of the log, for a message about the end of the process."""
        if not self.log_path.exists():
            return []
        return self.log_path.read_bytes()[-8192:].decode(errors="replace").splitlines()[-count:]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, unless it has just ended."""
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and everything it started."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def reap(self) -> int | None:
        """Return the exit code of an ended process (negative: the signal that ended it), None while it runs."""
        if self.process is None:
            return None
        code = self.process.poll()
        if code is not None:
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None
        return code


class Supervisor:
    """Keeps the children of one run. `say(name, text)` receives one line for the terminal, `on_change` all children
    each time that one of them has started or ended."""

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        logs: Path,
        say: Callable[[str, str], None],
        *,
        verbose: bool = False,
        on_change: Callable[[Sequence[Child]], None] = lambda children: None,
    ) -> None:
        self.children = [Child(spec, logs) for spec in specs]
        self.stop_requests = 0
        self._other_levels = False
        self._say = say
        self._verbose = verbose
        self._on_change = on_change
        self._selector = selectors.DefaultSelector()

    def run(self, on_started: Callable[[], None]) -> int:
        """Start all children, call `on_started`, keep them running until a stop signal, and stop them. Returns the exit
        code."""
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        previous_fd = signal.set_wakeup_fd(wake)
        previous = {number: signal.signal(number, self._note_stop) for number in STOP_SIGNALS}
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        previous[signal.SIGUSR2] = signal.signal(signal.SIGUSR2, self._note_other_levels)
        self._selector.register(woken, selectors.EVENT_READ, None)
        try:
            self._start_all()
            if not self.stop_requests:
                on_started()
            while not self.stop_requests:
                self._turn(LOOP_LONGEST_S)
                self._keep_alive()
            return 0
        except StartFailed as failure:
            self._say("run", str(failure))
            return 1
        finally:
            self._say("run", "stopping")
            self._stop_all()
            self._selector.close()
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(previous_fd)
            os.close(wake)
            os.close(woken)

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop_requests += 1

    def _note_other_levels(self, number: int, frame: FrameType | None) -> None:
        self._other_levels = True

    def _change_levels(self) -> None:
        self._other_levels = False
        for child in self.children:
            if not child.spec.quiet:
                child.signal(signal.SIGUSR2)

    def _start_all(self) -> None:
        for child in self.children:
            if self.stop_requests:
                return
            self._start(child)
            self._await_ready(child)

    def _start(self, child: Child) -> None:
        child.start(time.monotonic())
        self._selector.register(child.output, selectors.EVENT_READ, child)
        self._on_change(self.children)

    def _await_ready(self, child: Child) -> None:
        spec = child.spec
        deadline_s = time.monotonic() + spec.ready_timeout_s
        while not self.stop_requests:
            self._turn(PROBE_INTERVAL_S)
            code = self._reap(child)
            if code is not None and not (spec.runs_once and code == 0):
                raise StartFailed(self._epitaph(child, code))
            if spec.runs_once and not child.running:
                self._say(spec.name, f"done after {time.monotonic() - child.started_s:.1f} s")
                return
            if not spec.runs_once and spec.ready():
                self._say(spec.name, f"ready after {time.monotonic() - child.started_s:.1f} s")
                return
            if time.monotonic() > deadline_s:
                raise StartFailed(f"{spec.name} was not ready in {spec.ready_timeout_s:.0f} s; see {child.log_path}")

    def _turn(self, longest_s: float) -> None:
        """Wait for output, a death or a signal, and write the output where it belongs."""
        if self._other_levels:
            self._change_levels()
        for key, _ in self._selector.select(longest_s):
            if key.data is None:
                os.read(key.fd, 4096)
            else:
                self._copy_output(key.data)

    def _copy_output(self, child: Child) -> None:
        lines = child.read_lines()
        if child.output_ended:
            self._selector.unregister(child.output)
        child.log(lines)
        for line in lines:
            if self._verbose or (not child.spec.quiet and WORTH_SHOWING.match(line)):
                self._say(child.spec.name, shown(line))

    def _reap(self, child: Child) -> int | None:
        """Return the exit code of a child that has ended, once its last output is written."""
        if child.process is None or child.process.poll() is None:
            return None
        if not child.output_ended:
            self._copy_output(child)
        if not child.output_ended:  # something it started still holds the pipe
            self._selector.unregister(child.output)
        child.kill()
        code = child.reap()
        self._on_change(self.children)
        return code

    def _keep_alive(self) -> None:
        now_s = time.monotonic()
        for child in self.children:
            if child.spec.runs_once:
                continue
            code = self._reap(child)
            if code is not None:
                self._plan_restart(child, code, now_s)
            if not child.running and child.restart_at_s is not None and child.restart_at_s <= now_s:
                self._start(child)
                self._say(child.spec.name, "started again")

    def _plan_restart(self, child: Child, code: int, now_s: float) -> None:
        if now_s - child.started_s >= GOOD_RUN_S:
            child.failures = 0
        wait_s = min(BACK_OFF_FIRST_S * 2**child.failures, BACK_OFF_LONGEST_S)
        child.failures = min(child.failures + 1, 16)
        child.restarts += 1
        child.restart_at_s = now_s + wait_s
        self._on_change(self.children)
        self._say(child.spec.name, f"{self._epitaph(child, code)}; starting again in {wait_s:.1f} s")

    def _epitaph(self, child: Child, code: int) -> str:
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with {code}"
        last = "".join(f"\n    {line}" for line in child.last_lines(5))
        return f"{child.spec.name} ended {how}, log {child.log_path}{last}"

    def _stop_all(self) -> None:
        for child in reversed(self.children):
            if child.running:
                self._stop(child)

    def _stop(self, child: Child) -> None:
        deadline_s = time.monotonic() + child.spec.stop_timeout_s
        how = "stopped"
        child.signal(signal.SIGTERM)
        while child.running and self._reap(child) is None:
            if how == "stopped" and (time.monotonic() > deadline_s or self.stop_requests >= 2):
                how = "killed: it did not stop in time" if self.stop_requests < 2 else "killed"
                child.kill()
            self._turn(PROBE_INTERVAL_S)
        self._say(child.spec.name, how)


def shown(line: bytes) -> str:
    """Return a line of output as it may be shown: tabs as spaces, other control characters escaped."""
    return escaped(line.decode(errors="backslashreplace").expandtabs(4))


ROSTER_FILE = "processes.json"

State = Literal["running", "waiting", "ended"]


@dataclass(frozen=True, slots=True)
class Process:
    """A supervised process: running, waiting to be started (again), or ended. `since_ms`: in this state since then."""

    name: str
    state: State
    since_ms: int
    restarts: int


class Roster:
    """Writes the file of one supervisor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[str, Process] = {}

    def write(self, children: Iterable[Child]) -> None:
        """Write the state of the children, if it has changed."""
        now_ms = time.time_ns() // 1_000_000
        found: dict[str, Process] = {}
        for child in children:
            if child.spec.runs_once:
                continue
            state, before = _state(child), self._written.get(child.spec.name)
            is_same = before is not None and (before.state, before.restarts) == (state, child.restarts)
            since_ms = before.since_ms if before is not None and is_same else now_ms
            found[child.spec.name] = Process(child.spec.name, state, since_ms, child.restarts)
        if found == self._written:
            return
        us = psutil.Process()
        rows = [asdict(process) for process in found.values()]
        try:
            write_private(self._path, json.dumps({"pid": us.pid, "created": us.create_time(), "processes": rows}))
        except OSError:
            return  # a full disk must not end what keeps the broker; written with the next change
        self._written = found


def read_roster(path: Path) -> tuple[Process, ...]:
    """Return the processes in the order in which they start; none if no supervisor runs."""
    try:
        told = json.loads(path.read_text())
        if psutil.Process(told["pid"]).create_time() != told["created"]:
            return ()
        return tuple(Process(**each) for each in told["processes"])
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return ()


def _state(child: Child) -> State:
    if child.running:
        return "running"
    return "waiting" if child.restart_at_s is not None or not child.started_s else "ended"
