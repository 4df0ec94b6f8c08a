"""File modes of a run: everything below `var/` is for its own user only, also what older runs left open."""

from __future__ import annotations

import os
import stat
from pathlib import Path

FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_private() -> None:
    """Set the umask so that whatever this process and its children create is for their user only."""
    os.umask(FOR_OTHERS)


def is_of_its_own(directory: Path) -> bool:
    """Whether the directory holds nothing but a run's data: not a home, not this project, not a shared /tmp."""
    held = [Path(__file__).resolve(), Path.home(), Path.cwd()]
    if any(each.is_relative_to(directory) for each in held):
        return False
    return not directory.stat().st_mode & stat.S_ISVTX


def narrow(directory: Path) -> int:
    """Remove the rights of others from our own files and directories in there, and from the directory itself.

    Returns how many were changed. Links are not followed.
    """
    if not is_of_its_own(directory):
        return 0
    count = 0
    for _path, directories, files, here in os.fwalk(directory):
        count += _narrow_one(".", here)
        for name in (*directories, *files):
            count += _narrow_one(name, here)
    return count


def _narrow_one(name: str, here: int) -> int:
    try:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid() or not found.st_mode & FOR_OTHERS:
            return 0
        os.chmod(name, stat.S_IMODE(found.st_mode) & ~FOR_OTHERS, dir_fd=here)
    except FileNotFoundError:  # gone meanwhile
        return 0
    return 1
