"""A group of processes that Linux lets run only where nobody else wants to (cgroups(7), ``cpu.idle``).

Niceness, even of a whole session, is a share: who has the least of it still keeps a processor to the next tick (4 ms at
250 Hz) while somebody wakes up who is owed it, and one synced send wakes up half a dozen threads, the kernel's among
them. A member of an idle group gives the processor up at once. Nothing else does that across sessions: SCHED_IDLE
counts within its own, and short slices (priority.py) make the wait about half as long.

The group lies below the one that this process is in already, so whatever limits that has go on to hold.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: All scans of a machine share one; it stays when they end, empty.
NAME = "escapement-scan"
PROC = Path("/proc/self")


def join(proc: Path = PROC) -> bool:
    """Move this process, and so all that it will start, into an idle group; False where that cannot be had.

    It can be had by whoever may write to the own group: root, and a user to whom systemd delegates it. Linux 5.15 or
    newer. ``proc``: what the kernel tells about this process.
    """
    try:
        own, is_unified = _own_group(proc)
    except (OSError, LookupError, ValueError):
        return False
    if own.name == NAME:
        return True
    group = own / NAME
    try:
        group.mkdir(exist_ok=True)
    except OSError:
        return False
    try:
        if is_unified:
            _share_processors(own, group)
        (group / "cpu.idle").write_text("1")
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()  # somebody else's scan may be in it
        return False
    return True


def _share_processors(own: Path, group: Path) -> None:
    """Make ``group`` one that processors are counted for. Raises OSError.

    Threaded: only such a one may lie below a group that has processes itself. Memory stays that of ``own``.
    """
    kind = group / "cgroup.type"
    if not kind.exists() or kind.read_text().strip() != "threaded":
        kind.write_text("threaded")
    (own / "cgroup.subtree_control").write_text("+cpu")


def _own_group(proc: Path) -> tuple[Path, bool]:
    """Return the directory of the group that counts this process's processors, and whether it is of version 2.

    Raises OSError, LookupError where there is none, ValueError.
    """
    paths: dict[str, str] = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    name = "cpu" if "cpu" in paths else ""  # version 2 has no names here
    for line in (proc / "mountinfo").read_text().splitlines():
        ours, _, theirs = line.partition(" - ")
        kind, _, options = theirs.split(" ", 2)
        if (kind == "cgroup" and name and name in options.split(",")) or (kind == "cgroup2" and not name):
            root, place = ours.split(" ")[3:5]
            below = Path(paths[name]).relative_to(root)
            if ".." in below.parts:
                break  # outside of what this namespace shows
            return Path(place) / below, not name
    raise LookupError("no groups")
