"""The clock of a process that a run starts, which the run may step: see clock.c."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import struct
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


def library() -> Path:
    """The compiled library, made once."""
    source = SOURCE.read_bytes()
    target = Path(tempfile.gettempdir()) / f"escapement-clock-{hashlib.sha256(source).hexdigest()[:12]}.so"
    if target.exists():
        return target
    with target.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not target.exists():
            fresh = target.with_suffix(".new")
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(fresh), str(SOURCE), "-ldl"], check=True)
            fresh.rename(target)
    return target


class SteppedClock:
    """A file with an offset, and what a process needs to follow it."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.environment = {"LD_PRELOAD": str(library()), "STEPPED_CLOCK": str(path)}
        self.offset_ms = 0
        #: the furthest that it ever was
        self.furthest_ms = 0

    def step(self, offset_ms: int) -> None:
        """Set it to so far from the machine's."""
        struct.pack_into("=q", self._map, 0, offset_ms * 1_000_000)
        self.offset_ms = offset_ms
        self.furthest_ms = max(self.furthest_ms, offset_ms)
