"""The way in which reading yields to the broker: processors and disk serve everybody else first.

``give_way`` lowers priorities. ``join`` enters a group of processes that Linux lets run only where nobody else wants to
(cgroups(7), ``cpu.idle``). Niceness, even of a whole session, is a share: a process with the least of it still keeps a
processor to the next tick (4 ms at 250 Hz) while somebody wakes up who is owed it, and one synced send wakes up half a
dozen threads, the kernel's among them. A member of an idle group gives the processor up to whoever is woken, at once.
Nothing else does that across sessions: SCHED_IDLE counts within its own. The group lies below the one that this process
is in already, so whatever limits that has go on to hold. What it is worth stands in docs/BENCHMARKS.md.

``chosen`` says which processors a scan takes; why one is left alone stands at SPARED.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

#: Of 19, which is the lowest priority there is.
NICENESS = 15
#: Linux shares processors among sessions first, and within each by the niceness of processes (sched(7), autogroup).
AUTOGROUP = Path("/proc/self/autogroup")
GROUP_NICENESS = 19
#: Of what follows the log: little work that has to be in time (docs/BENCHMARKS.md: behind 5.9 s, with the least 9.7 s).
FOLLOWER_NICENESS = 0
#: Whoever is not root may change it ten times a second, all together.
_TRIES, _PAUSE_S = 20, 0.1
#: prctl(2): the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1


def give_way(cores: Collection[int] = (), session_niceness: int = GROUP_NICENESS) -> None:
    """Lower the priority of this process and of all that it starts; what is not allowed here stays as it is.

    ``cores``: those that it may use from now on; none: as before. ``session_niceness``: 0 to 19.

    The process gets a session of its own: the niceness of a process counts among those of its session only, and the
    broker is in another. Whoever ends processes by their group does not reach it any more, so it ends with its parent.

    With the least share of all a group of idle ones is joined too (``join``).

    The policy for idle times (SCHED_IDLE) is not used: it counts within the session as well, and what such a process
    has locked stays locked while it gets no processor.
    """
    end_with_parent()
    with contextlib.suppress(OSError):
        os.setsid()  # fails where it leads a session already, or a job of a shell
    if os.getsid(0) == os.getpid():
        _nice_session(session_niceness)
    if session_niceness == GROUP_NICENESS:
        join()
    mine = psutil.Process()
    for thread in _threads():
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
        with contextlib.suppress(OSError, AttributeError):
            if cores:
                os.sched_setaffinity(thread, cores)
    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        mine.ionice(psutil.IOPRIO_CLASS_IDLE)


def _nice_session(niceness: int) -> None:
    for _ in range(_TRIES):
        try:
            AUTOGROUP.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        except OSError:
            return  # another system, or a kernel without it
        else:
            return


def _threads() -> Iterator[int]:
    """Yield this thread and those that libraries started already; 0 is this one."""
    yield 0
    with contextlib.suppress(OSError):
        yield from map(int, os.listdir("/proc/self/task"))


def end_with_parent() -> None:
    """Let this process end when the one that started it does, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


# The idle group of all scans.

#: All scans of a machine share one; it stays when they end, empty.
NAME = "escapement-scan"
PROC = Path("/proc/self")


def join(proc: Path = PROC) -> bool:
    """Move this process, and so all that it will start, into an idle group; False where that cannot be had.

    It can be had by whoever may write to the own group: root, and a user to whom systemd delegates it. Linux 5.15 or
    newer. ``proc``: what the kernel tells about this process.
    """
    try:
        own, is_unified = own_group(proc)
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
            share_processors(own, group)
        (group / "cpu.idle").write_text("1")
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()  # somebody else's scan may be in it
        return False
    return True


def share_processors(own: Path, group: Path) -> None:
    """Make ``group`` one that processors are counted for. Raises OSError.

    Threaded: only such a one may lie below a group that has processes itself. Memory stays that of ``own``.
    """
    kind = group / "cgroup.type"
    if not kind.exists() or kind.read_text().strip() != "threaded":
        kind.write_text("threaded")
    (own / "cgroup.subtree_control").write_text("+cpu")


def own_group(proc: Path) -> tuple[Path, bool]:
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


# The processors of a scan.

#: As many at most without a word: each takes a Python process and its memory.
MOST = 4
#: As many are left alone by a scan without a word. With an idle group on every processor none ever looks for work of
#: another one, and whoever is woken may wait for the next tick: beside scans of all of two the p99 of sends was 2.5
#: times that of sends alone, beside scans of one 1.1 (flush async) to 2.0 times (docs/BENCHMARKS.md).
SPARED = 1


def available() -> set[int]:
    """Return the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def chosen(among: Collection[int], wanted: int, spared: int) -> list[int]:
    """Return the processors of a scan, at least one.

    ``wanted``: how many; 0: all but ``spared``, and never more than MOST. The last ones are taken: the first ones
    serve devices too.
    """
    there = sorted(among)
    count = min(wanted, len(there)) if wanted else min(MOST, len(there) - spared)
    return there[-max(1, count) :]
