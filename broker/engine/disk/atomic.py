"""Small files that are replaced as a whole: after any crash there is the old content or the new one.

RocketMQ's form is kept: ``name`` is the current version, ``name.bak`` the one before. Its own writer renames the
current file away first and so has a moment without one; here the order is

    write name.tmp, sync it -> the current content to name.bak (the same way) -> rename tmp to name -> sync folder
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from .files import Files, directory_of

T = TypeVar("T")


def save(files: Files, path: str, content: bytes) -> None:
    """Replace the file at ``path``, keeping its current content as ``path.bak``. Durable on return.

    Raises OSError; then the file is put back as it was, if the disk lets it be.
    """
    previous = load(files, path)
    if previous == content:
        return
    if previous is not None:
        replace(files, path + ".bak", previous)
    replace(files, path, content)
    try:
        files.sync_directory(directory_of(path))
    except OSError:
        with suppress(OSError):
            files.remove(path) if previous is None else replace(files, path, previous)
        raise


def load(files: Files, path: str) -> bytes | None:
    """Return the whole content of a file, None where there is none."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()


def load_valid(files: Files, path: str, parse: Callable[[bytes], T]) -> T | None:
    """Return the parsed content of ``path``, or of ``path.bak`` where there is none or ``parse`` raises ValueError.

    What ``path.bak`` saved is put back at once, so that the next ``save`` does not keep the unreadable version.
    """
    for candidate in (path, path + ".bak"):
        content = load(files, candidate)
        if not content:
            continue
        try:
            value = parse(content)
        except ValueError:
            continue
        if candidate != path:
            replace(files, path, content)
            files.sync_directory(directory_of(path))
        return value
    return None


def replace(files: Files, path: str, content: bytes) -> None:
    """Replace a file as a whole, keeping nothing; durable once the folder is synced. Raises OSError."""
    temporary = path + ".tmp"
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.write(content, 0)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
