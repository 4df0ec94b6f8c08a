"""Where a scan keeps its columns while the dashboards are computed: in memory, if there is plenty.

Whoever waits until the log is on disk waits for what else the same disk is given meanwhile: a file system that keeps
its journal in order writes the columns out before it says that the log is safe. With columns in memory a scan writes
nothing.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import psutil

from .errors import StoreUnreadable
from .session import scratch_of
from .shared import clear
from .store import LogStore

#: A file system in memory, on Linux.
MEMORY = Path("/dev/shm")  # noqa: S108 - checked below
#: The log (its columns are a fraction of it) must fit so often into what is free.
TIMES = 2


def scratch_for(store: str, wanted: str, disk: str, memory: Path = MEMORY) -> Path:
    """Return the directory ``wanted``; without a word one in memory if it holds the log, else ``disk``.

    What runs left behind whose process is gone is removed from both.
    """
    if wanted:
        return Path(wanted)
    beside = scratch_of(disk)
    clear(beside)
    own = memory / f"escapement-{os.getuid()}"
    if not _is_ours(own):
        return beside
    clear(own)
    try:
        needed = TIMES * sum(segment.size for segment in LogStore(store).segments())
    except (OSError, StoreUnreadable):
        return beside  # whoever reads it says so
    free = min(psutil.virtual_memory().available, shutil.disk_usage(own).free)
    return own if needed <= free else beside


def _is_ours(directory: Path) -> bool:
    """Make a directory for nobody else; False if that cannot be, or if somebody else made it."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
