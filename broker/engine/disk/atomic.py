"""Small files that a crash leaves whole: tables that are replaced, and snapshots of services that are written in turn.

After any crash a replaced file has the old content or the new one. RocketMQ's form is kept: ``name`` is the current
version, ``name.bak`` the one before. Its own writer renames the current file away first and so has a moment without
one; here the order is

    write name.tmp, sync it -> the current content to name.bak (the same way) -> rename tmp to name -> sync folder

A snapshot holds what a service had at one moment; a checkpoint names it by its sequence. Two files are written in turn,
so that the one a durable checkpoint names is never being written. Numbers are big-endian:

    0  8 magic   8  8 sequence   16  8 length   24  4 CRC32 of all the rest   28  4 zero   32  content
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar
from zlib import crc32

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


# Snapshots.

_HEAD = struct.Struct(">8sQQII")


def save_snapshot(files: Files, path: str, magic: bytes, sequence: int, length: int, parts: Iterable[bytes]) -> None:
    """Write a snapshot, durable on return: parts of so many bytes in all, each as it comes, and the head when the
    checksum is known. Safe in any thread; raises OSError."""
    crc = crc32(_HEAD.pack(magic, sequence, length, 0, 0))
    at = _HEAD.size
    file = files.open(path, create=True)
    try:
        for part in parts:
            crc = crc32(part, crc)
            file.write(part, at)
            at += len(part)
        assert at == _HEAD.size + length, "a snapshot is not as long as it was to be"
        file.write(_HEAD.pack(magic, sequence, length, crc, 0), 0)
        file.truncate(_HEAD.size + length)
        file.sync()
    finally:
        file.close()
    files.sync_directory(directory_of(path))


def load_snapshot(files: Files, path: str, magic: bytes, sequence: int) -> bytes | None:
    """Return the content of the snapshot with this sequence, None if it is not there or damaged."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None
    try:
        raw = file.read(file.size(), 0)
    finally:
        file.close()
    if len(raw) < _HEAD.size:
        return None
    found_magic, found, length, crc, _ = _HEAD.unpack_from(raw)
    content = raw[_HEAD.size : _HEAD.size + length]
    if found_magic != magic or found != sequence or len(content) != length:
        return None
    whole = crc32(content, crc32(_HEAD.pack(magic, sequence, length, 0, 0)))
    return content if whole == crc else None
