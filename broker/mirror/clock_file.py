"""The broker's clock beside the real one, as the mirror heard it, in a file that every process of the console reads.

A broker with a simulated clock says what it showed at which real moment, and how fast it runs; from that each process
knows the time without asking. Without the file (the rule) the broker's clock is the real one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

FILE = "simulated-clock"
#: a line that is off by no more real time than this is the same line
DRIFT_MS = 50
#: how often the file is looked at
LOOK_INTERVAL_S = 0.25


@dataclass(frozen=True, slots=True)
class ClockLine:
    """A note of the clock: it showed `simulated_ms` at `real_ms` (both epoch ms), and runs `speed` times as fast."""

    speed: float
    simulated_ms: int
    real_ms: int

    @classmethod
    def read(cls, facts: Mapping[str, Any] | None) -> ClockLine | None:
        """Read the broker's words; None if it says nothing. Raises KeyError, TypeError, ValueError."""
        if facts is None:
            return None
        return cls(float(facts["speed"]), int(facts["simulatedMs"]), int(facts["realMs"]))

    def at(self, real_ms: int) -> int:
        """Return what the clock shows at a real moment."""
        return self.simulated_ms + int((real_ms - self.real_ms) * self.speed)

    def is_same(self, other: ClockLine) -> bool:
        """Tell whether both show the same, but for what rounding makes."""
        off_ms = abs(self.at(other.real_ms) - other.simulated_ms)
        return self.speed == other.speed and off_ms <= DRIFT_MS * self.speed


class ClockFile:
    """The file of one directory that says how the broker's clock runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line: ClockLine | None = None
        self._stamp: tuple[int, int] | None = None
        self._looked_s = float("-inf")

    def line(self) -> ClockLine | None:
        """Return the line that was written last; None if the clock is real."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_INTERVAL_S:
            self._looked_s = now_s
            self._look()
        return self._line

    def write(self, line: ClockLine | None) -> None:
        """Note what the broker said of its clock, None if nothing: then it is real. Raises OSError."""
        self._look()
        if line is None:
            if self._stamp is not None:
                self._path.unlink(missing_ok=True)
        else:
            if self._line is not None and self._line.is_same(line):
                return
            temporary = self._path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(asdict(line)))
            temporary.replace(self._path)
        self._look()

    def _look(self) -> None:
        try:
            found = self._path.stat()
        except OSError:
            self._line = self._stamp = None
            return
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp != self._stamp:
            try:
                self._line = ClockLine(**json.loads(self._path.read_text()))
                self._stamp = stamp
            except (OSError, ValueError, TypeError):
                self._line = self._stamp = None


_files: dict[Path, ClockFile] = {}


def clock_file() -> ClockFile:
    """Return the file that all processes of this installation share."""
    path = settings.VAR / FILE
    found = _files.get(path)
    return found if found is not None else _files.setdefault(path, ClockFile(path))


def broker_now_ms() -> int:
    """Return the broker's time in epoch ms."""
    real_ms = time.time_ns() // 1_000_000
    line = clock_file().line()
    return real_ms if line is None else line.at(real_ms)
