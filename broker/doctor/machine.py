"""Checks of the machine: its clock, limits of the process, memory, and the programs that are needed."""

from __future__ import annotations

import ctypes
import resource
import sys
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


def overcommit(proc: Path = Path("/proc")) -> Finding:
    """Look whether memory is promised that is not there: Redis and Valkey fork to save, which needs it."""
    said = _text(proc / "sys/vm/overcommit_memory").strip()
    if said == "2":
        return change(
            "memory is not overcommitted: Redis, Valkey and Java fail when they fork or reserve",
            "sudo sysctl vm.overcommit_memory=1   (and the line in /etc/sysctl.d/)",
        )
    return ok(f"vm.overcommit_memory={said}") if said else cannot_tell("the kernel does not report its overcommit mode")


def python(found: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Look whether Python is new enough, and what a broker needs is installed."""
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
    return ok(f"Python {text}, {', '.join(packages)}")


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
        "memory": memory,
        "memory.overcommit": overcommit,
        "version.python": python,
        "clock.steps": steps,
    }
