"""What a running PostgreSQL says of itself in its data directory, and the end of one whose keeper was killed."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

STOP_S = 30.0
#: of postmaster.pid
_PID_LINE, _STATUS_LINE = 0, 7


class ClusterFailed(Exception):
    """The embedded PostgreSQL cannot run so; the message says why and what to do."""


def is_ready(data: Path, pid: int) -> bool:
    """Whether the server with that number takes connections."""
    lines = _lines(data)
    return len(lines) > _STATUS_LINE and lines[_PID_LINE] == str(pid) and lines[_STATUS_LINE].strip() == "ready"


def end_remaining(data: Path) -> None:
    """Stop a server that still runs there and forget one that does not, whoever has its number by now.

    Raises ClusterFailed when it does not end.
    """
    lines = _lines(data)
    if not lines:
        return
    try:
        process = psutil.Process(int(lines[_PID_LINE]))
        if process.name() == "postgres" and Path(process.cwd()) == data.resolve():
            process.send_signal(signal.SIGINT)
            process.wait(STOP_S)
    except psutil.TimeoutExpired as error:
        raise ClusterFailed(f"PostgreSQL, process {error.pid}, still runs in {data}: end it.") from None
    except (psutil.Error, ValueError):
        pass  # it has ended
    (data / "postmaster.pid").unlink(missing_ok=True)


def _lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []
