"""Which processes the supervisor keeps and how each does, in a file for the console.

The supervisor writes the file, whole, whenever one of its processes starts or ends; it counts as long as that
supervisor runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil

from console.run.secrets import write_private
from console.run.supervisor import Child

FILE = "processes.json"

State = Literal["running", "waiting", "ended"]


@dataclass(frozen=True, slots=True)
class Process:
    """One process: running, waiting to be started (again), or ended. `since_ms`: in this state since then."""

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


def read(path: Path) -> tuple[Process, ...]:
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
