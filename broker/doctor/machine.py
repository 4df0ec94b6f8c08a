"""Checks of the machine: its clock, limits of the process, memory, and the programs that are needed."""

from __future__ import annotations

import ctypes
import resource
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..rocketmq.compiled import FAST, MODULE
from . import Check, Finding, cannot_tell, change, ok

#: Connections of a broker, the files of its store, and some.
DESCRIPTORS = 12_000
#: Below it a broker with a console and their servers have no room.
AVAILABLE_BYTES = 256 << 20
#: A broker with a console and their servers are so many threads and processes.
TASKS = 200
#: So far the clock may go another way than time does while the checks run.
STEP_MS = 50.0
SWAPPINESS = 10
PYTHON = (3, 11)
_UNSYNCHRONISED = 0x0040
"""STA_UNSYNC of adjtimex(2)."""


class _Timex(ctypes.Structure):
    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    ]


def kernel_clock() -> tuple[int, int] | None:
    """Return the status of the kernel's clock and its largest error in microseconds; None where that is not told."""
    try:
        asked = _Timex()
        code = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(asked))
    except (OSError, AttributeError):
        return None
    return None if code < 0 else (asked.status, asked.maxerror)


def clock_synchronised(kernel: Callable[[], tuple[int, int] | None] = kernel_clock) -> Finding:
    """Look whether something keeps the clock right: timers are due by it, and several brokers have to agree."""
    found = kernel()
    if found is None:
        return cannot_tell("the kernel does not report whether its clock is synchronised")
    status, error_us = found
    if status & _UNSYNCHRONISED:
        return change("the clock is not synchronised", "sudo timedatectl set-ntp true   (or start chrony or ntpd)")
    return ok(f"synchronised, off by at most {error_us / 1000:,.0f} ms")


@dataclass
class ClockSteps:
    """Whether the clock was set while the checks ran: made before the others, asked after them."""

    wall_s: Callable[[], float] = time.time
    steady_s: Callable[[], float] = time.monotonic
    _apart_s: float = field(init=False)
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._began_s = self.steady_s()
        self._apart_s = self.wall_s() - self._began_s

    def __call__(self) -> Finding:
        """Compare both clocks with how they were."""
        moved_ms = (self.wall_s() - self.steady_s() - self._apart_s) * 1000
        took_s = self.steady_s() - self._began_s
        if abs(moved_ms) > STEP_MS:
            return change(
                f"the clock was moved by {moved_ms:+,.0f} ms within {took_s:.1f} s",
                "let it be slewed, not set: chrony with `makestep 1 3`, or one source of time only",
            )
        return ok(f"went steadily for {took_s:.1f} s")


def descriptors(wanted: int = DESCRIPTORS) -> Finding:
    """Look how many files and connections a process may have open."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < wanted:
        return change(
            f"a process may open {hard:,} files, for 10,000 connections it takes {wanted:,}",
            f"LimitNOFILE={max(wanted, 65_536)} in the unit, or `ulimit -Hn {max(wanted, 65_536)}`",
        )
    return ok("any number of files" if hard == resource.RLIM_INFINITY else f"{hard:,} files may be open")


def memory(wanted_bytes: int = AVAILABLE_BYTES, proc: Path = Path("/proc")) -> Finding:
    """Look how much memory is left, and whether what is not used for a while goes to a disk."""
    rows = _memory_rows(proc)
    if "MemAvailable" not in rows:
        return cannot_tell(f"{proc}/meminfo does not report how much memory is left")
    free_bytes = rows["MemAvailable"]
    if free_bytes < wanted_bytes:
        return change(f"{free_bytes >> 20:,} MB are left", f"free {wanted_bytes - free_bytes >> 20:,} MB, or add some")
    swappiness = int(_text(proc / "sys/vm/swappiness") or 0)
    if rows.get("SwapTotal") and swappiness > SWAPPINESS:
        return change(
            f"{free_bytes >> 20:,} MB are left, but with swap and vm.swappiness={swappiness} idle memory goes"
            " to the disk and comes back late",
            f"sudo sysctl vm.swappiness={SWAPPINESS}   (and the line in /etc/sysctl.d/)",
        )
    return ok(f"{free_bytes >> 20:,} MB are left{', no swap' if not rows.get('SwapTotal') else ''}")


Room = tuple[int, int]
"""How much is left, of how much."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the control groups (version 2) of this process allow it, each the one that leaves the least; None where
    none sets a limit. `cores`: a share of processors."""

    memory_bytes: Room | None
    tasks: Room | None
    cores: float | None


def limits_of_groups(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> Limits:
    """Read the limits of this process's control group and of those around it."""
    line = next((each for each in _text(proc / "self/cgroup").splitlines() if each.startswith("0::")), "")
    own = (groups / line.removeprefix("0::").lstrip("/")).resolve()
    around = [each for each in (own, *own.parents) if line and each.is_relative_to(groups.resolve())]
    quotas = [_text(group / "cpu.max").split() for group in around]
    cores = [int(each[0]) / int(each[1]) for each in quotas if len(each) == 2 and each[0].isdigit()]
    memory = [
        # what was read from files and is not in use goes where memory is needed
        (left + _figure(group / "memory.stat", "inactive_file"), most)
        for group in around
        for left, most in _room(group, "memory")
    ]
    tasks = [room for group in around for room in _room(group, "pids")]
    return Limits(min(memory, default=None), min(tasks, default=None), min(cores, default=None))


def _room(group: Path, name: str) -> list[Room]:
    most, used = (_text(group / f"{name}.{which}").strip() for which in ("max", "current"))
    return [(int(most) - int(used), int(most))] if most.isdigit() and used.isdigit() else []


def _figure(path: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in _text(path).splitlines() if line.startswith(f"{name} ")), 0)


def container(
    limits: Callable[[], Limits] = limits_of_groups, wanted_bytes: int = AVAILABLE_BYTES, wanted_tasks: int = TASKS
) -> Finding:
    """Look what a container, or the unit of a service, allows: the machine may have more than this process gets."""
    found = limits()
    said = []
    if found.memory_bytes is not None:
        left, most = found.memory_bytes
        if left < wanted_bytes:
            more = f"{most + wanted_bytes - left >> 20}m"
            return change(
                f"{left >> 20:,} MB are left of the {most >> 20:,} MB of its container",
                f"--memory {more} for the container, or MemoryMax={more.upper()} in the unit",
            )
        said.append(f"{left >> 20:,} of {most >> 20:,} MB are left")
    if found.cores is not None:
        if found.cores < 1:
            return change(
                f"its container gets {found.cores:.2f} of a core: who has used it up stands still for the rest of each"
                " period, and timers are late",
                "--cpus 1 for the container, or CPUQuota=100% in the unit",
            )
        said.append(f"{found.cores:g} cores")
    if found.tasks is not None:
        left, most = found.tasks
        if left < wanted_tasks:
            more = str(most + wanted_tasks - left)
            return change(
                f"{left:,} of the {most:,} threads and processes of its container are left",
                f"--pids-limit {more} for the container, or TasksMax={more} in the unit",
            )
        said.append(f"{left:,} threads and processes are left")
    return ok(", ".join(said) if said else "no limit of a container")


def overcommit(proc: Path = Path("/proc")) -> Finding:
    """Look whether memory is promised that is not there: Redis and Valkey fork to save, which needs it."""
    said = _text(proc / "sys/vm/overcommit_memory").strip()
    if said == "2":
        return change(
            "memory is not overcommitted: Redis, Valkey and Java fail when they fork or reserve",
            "sudo sysctl vm.overcommit_memory=1   (and the line in /etc/sysctl.d/)",
        )
    return ok(f"vm.overcommit_memory={said}") if said else cannot_tell("the kernel does not report its overcommit mode")


def is_optimized() -> bool:
    """Tell whether this Python was compiled with the compiler's optimizations, as distributions and images have it;
    pyenv does so only when told (`PYTHON_CONFIGURE_OPTS=--enable-optimizations`). console/run/which-python asks the
    same."""
    return sys.base_prefix == "/usr" or "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")


def python(found: tuple[int, ...] = sys.version_info[:3], optimized: Callable[[], bool] = is_optimized) -> Finding:
    """Look whether Python is new enough, and what a broker needs is installed; tell what makes it slower."""
    text = ".".join(map(str, found))
    if found[:2] < PYTHON:
        return change(f"Python {text}", f"Python {'.'.join(map(str, PYTHON))} or newer")
    packages = []
    for name in ("msgspec", "uvloop", "prometheus-client"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            return change(f"{name} is not installed", "pip install 'escapement-mq[broker]'")
    packages.append(f"{MODULE} in use" if FAST is not None else "nothing compiled (escapement-mq[fast])")
    how = "" if optimized() else " compiled without optimizations (docs/INSTALL.md)"
    return ok(f"Python {text}{how}, {', '.join(packages)}")


def _memory_rows(proc: Path) -> dict[str, int]:
    """Return the figures of meminfo in bytes, by name."""
    rows = {}
    for line in _text(proc / "meminfo").splitlines():
        name, _colon, figure = line.partition(":")
        if figure.split()[1:] == ["kB"]:
            rows[name] = int(figure.split()[0]) << 10
    return rows


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def checks(steps: ClockSteps) -> dict[str, Check]:
    """Return the checks of the machine by name."""
    return {
        "clock.synchronised": clock_synchronised,
        "limits.descriptors": descriptors,
        "limits.container": container,
        "memory": memory,
        "memory.overcommit": overcommit,
        "version.python": python,
        "clock.steps": steps,
    }
