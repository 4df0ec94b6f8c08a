"""The one seam to the file system: every byte the engine reads or writes goes through ``Files``.

Writes are ``pwrite`` into files opened once; ``sync`` is ``fdatasync`` (macOS: ``F_FULLFSYNC``). A new file is durable
only after ``sync`` of the file and ``sync_directory`` of its folder, a renamed one only after the latter. The twin in
``engine/testing/disk.py`` loses, tears and reorders exactly what is not synced yet.

Small files are left whole by a crash: tables that are replaced (``save_file``), and snapshots of services that are
written in turn. After any crash a replaced file has the old content or the new one. RocketMQ's form is kept: ``name``
is the current version, ``name.bak`` the one before. Its own writer renames the current file away first and so has a
moment without one; here the order is

    write name.tmp, sync it -> the current content to name.bak (the same way) -> rename tmp to name -> sync folder

A snapshot holds what a service had at one moment; a checkpoint names it by its sequence. Two files are written in turn,
so that the one a durable checkpoint names is never being written. Numbers are big-endian:

    0  8 magic   8  8 sequence   16  8 length   24  4 CRC32 of all the rest   28  4 zero   32  content
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar
from zlib import crc32

from ..rocketmq.compiled import FAST
from .errors import StoreLocked

#: The process, or the machine, has as many files open as it may: what needed one was not begun, and is done later.
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})

#: struct flock of Linux on 64-bit: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")
#: F_OFD_SETLK of Linux (fcntl.h); the fcntl module names it from Python 3.9 on Linux, and nowhere else.
_F_OFD_SETLK = getattr(fcntl, "F_OFD_SETLK", 37)
_IS_LINUX = sys.platform == "linux"
#: Written to reserve room where the system has no call for that (macOS).
_ZEROS = bytes(1 << 20)


class File(Protocol):
    """An open file, addressed by byte offsets from its start."""

    path: str

    def read(self, size: int, at: int) -> bytes:
        """Return up to ``size`` bytes from ``at``; fewer at the end of the file."""

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write all of ``data`` at ``at``; raises OSError, and then some of it may be there."""

    def write_many(self, parts: list[bytes], at: int) -> None:
        """Write the parts one after another from ``at``, in as few calls as possible."""

    def allocate(self, size: int) -> None:
        """Reserve ``size`` bytes on disk, read as zero; raises OSError (ENOSPC) and keeps the old size then."""

    def truncate(self, size: int) -> None:
        """Cut or extend (sparse, zero) to ``size``."""

    def size(self) -> int:
        """Return the length of the file in bytes."""

    def sync(self) -> None:
        """Make written data and size durable (fdatasync)."""

    def drop_cache(self) -> None:
        """Let later reads come from the device, so that bytes which never became durable are not trusted."""

    def close(self) -> None:
        """Close the file; closing twice is fine."""


#: A path, a place in the file, and what belongs there.
Write = tuple[str, int, bytes]


class Files(Protocol):
    """The file system under one store."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError unless ``create``."""

    def list(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; [] where there is none."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""

    def make_directory(self, path: str) -> None:
        """Make a folder with its parents, each durable in its parent; fine if it is there."""

    def rename(self, source: str, target: str) -> None:
        """Rename, replacing the target atomically."""

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is gone."""

    def remove_directory(self, path: str) -> None:
        """Remove a folder with the files in it; fine if it is gone."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a folder durable."""

    def write_durably(self, writes: Sequence[Write]) -> None:
        """Write into files that are there, and make each durable; raises OSError, and then some of it may be."""

    def used_ratio(self, path: str) -> float:
        """Return how full the disk of ``path`` is, 0 to 1."""

    def lock(self, path: str) -> File:
        """Take the one-writer lock on ``path`` (held until the file is closed); raises StoreLocked."""


def _fdatasync(descriptor: int) -> None:
    """Make what was written durable by the strongest call that the system has."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    elif (full := getattr(fcntl, "F_FULLFSYNC", None)) is not None:  # macOS: fsync leaves it in the drive's cache
        fcntl.fcntl(descriptor, full)
    else:
        os.fsync(descriptor)


class OsFile:
    """A File of the operating system."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def read(self, size: int, at: int) -> bytes:
        """Read up to so many bytes from a place, as ``File`` says."""
        data = os.pread(self._descriptor, size, at)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (more := os.pread(self._descriptor, size - got, at + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write bytes at a place, as ``File`` says."""
        written = os.pwrite(self._descriptor, data, at)
        if written == len(data):
            return
        view = memoryview(data)
        while written < len(view):
            step = os.pwrite(self._descriptor, view[written:], at + written)
            if step == 0:
                raise OSError(errno.EIO, "the disk took no bytes", self.path)
            written += step

    def write_many(self, parts: list[bytes], at: int) -> None:
        """Write several pieces one after the other, as ``File`` says."""
        self.write(parts[0] if len(parts) == 1 else b"".join(parts), at)

    def allocate(self, size: int) -> None:
        """Reserve room on the disk, as ``File`` says."""
        before = self.size()
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._descriptor, 0, size)
            else:
                self._fill(before, size)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def _fill(self, begin: int, end: int) -> None:
        for at in range(begin, end, len(_ZEROS)):
            self.write(_ZEROS[: end - at], at)

    def truncate(self, size: int) -> None:
        """Change the length of the file, as ``File`` says."""
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        """Return the length in bytes, as ``File`` says."""
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        """Make all that was written durable, as ``File`` says."""
        _fdatasync(self._descriptor)

    def drop_cache(self) -> None:
        """Let the system forget what it keeps of the file, as ``File`` says."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        elif (no_cache := getattr(fcntl, "F_NOCACHE", None)) is not None:  # macOS: reads go past its cache from now on
            fcntl.fcntl(self._descriptor, no_cache, 1)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OsFiles:
    """The Files of the operating system."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file, as ``Files`` says."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(path, os.open(path, flags, 0o640))

    def list(self, path: str) -> list[str]:
        """List the names in a directory, as ``Files`` says."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        """Tell whether a path exists, as ``Files`` says."""
        return os.path.exists(path)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, as ``Files`` says."""
        missing: list[str] = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            os.mkdir(folder, 0o750)
            self.sync_directory(os.path.dirname(folder) or ".")

    def rename(self, source: str, target: str) -> None:
        """Rename a file atomically, as ``Files`` says."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file, as ``Files`` says."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all in it, as ``Files`` says."""
        for name in self.list(path):
            inner = os.path.join(path, name)
            if os.path.isdir(inner):
                self.remove_directory(inner)
            else:
                self.remove(inner)
        if os.path.isdir(path):
            os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable, as ``Files`` says."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write_durably(self, writes: Sequence[Write]) -> None:
        """Write into many files and make each durable, as ``Files`` says."""
        if FAST is None or not FAST.write_durably(writes):
            write_each(self, writes)

    def used_ratio(self, path: str) -> float:
        """Return how full the disk is, as ``Files`` says."""
        disk = os.statvfs(path)
        usable = disk.f_blocks - disk.f_bfree + disk.f_bavail
        return 1 - disk.f_bavail / usable if usable else 1.0

    def lock(self, path: str) -> File:
        """Take an open-file-description lock: Java's FileChannel.tryLock conflicts with it, and closing another
        descriptor of the file does not lose it (a POSIX lock would be lost, a flock would not stop Java)."""
        file = OsFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))
        try:
            if _IS_LINUX:
                fcntl.fcntl(file._descriptor, _F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            else:  # keeps out our own; Java's lock there is a POSIX one, which this does not meet
                fcntl.flock(file._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise StoreLocked(path) from None
            raise
        if file.size() == 0:
            file.write(b"lock", 0)
        return file


def write_each(files: Files, writes: Sequence[Write]) -> None:
    """Write into files that are there, one after the other, and make each durable. Raises OSError."""
    for path, at, data in writes:
        file = files.open(path)
        try:
            file.write(data, at)
            file.sync()
        finally:
            file.close()


def join(*parts: str) -> str:
    """Join parts of a path with slashes."""
    return os.path.join(*parts)


def directory_of(path: str) -> str:
    """Return the folder of a path."""
    return os.path.dirname(path)


# A bounded number of open files: thousands of queues must not cost thousands of descriptors.


class Handles:
    """The most recently used files of a store, open for reading.

    Used by one thread. Jobs that run beside it open and close what they need themselves.
    """

    def __init__(self, files: Files, limit: int = 96) -> None:
        self._files = files
        self._limit = limit
        self._open: OrderedDict[str, File] = OrderedDict()

    def get(self, path: str) -> File:
        """Return the file, opened now or before; raises FileNotFoundError.

        Where no descriptor is left, files that were used before are closed for it."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        while True:
            try:
                file = self._files.open(path)
                break
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._open:
                    raise
                self._open.popitem(last=False)[1].close()
        self._open[path] = file
        if len(self._open) > self._limit:
            self._open.popitem(last=False)[1].close()
        return file

    def forget(self, path: str) -> None:
        """Close a file that is about to be removed or replaced."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all; closing twice is fine."""
        while self._open:
            self._open.popitem()[1].close()


# Small files that a crash leaves whole.

T = TypeVar("T")


def save_file(files: Files, path: str, content: bytes) -> None:
    """Replace the file at ``path``, keeping its current content as ``path.bak``. Durable on return.

    Raises OSError; then the file is put back as it was, if the disk lets it be.
    """
    previous = load_file(files, path)
    if previous == content:
        return
    if previous is not None:
        replace_file(files, path + ".bak", previous)
    replace_file(files, path, content)
    try:
        files.sync_directory(directory_of(path))
    except OSError:
        with suppress(OSError):
            files.remove(path) if previous is None else replace_file(files, path, previous)
        raise


def load_file(files: Files, path: str) -> bytes | None:
    """Return the whole content of a file, None where there is none."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()


def load_valid_file(files: Files, path: str, parse: Callable[[bytes], T]) -> T | None:
    """Return the parsed content of ``path``, or of ``path.bak`` where there is none or ``parse`` raises ValueError.

    What ``path.bak`` saved is put back at once, so that the next ``save_file`` does not keep the unreadable version.
    """
    for candidate in (path, path + ".bak"):
        content = load_file(files, candidate)
        if not content:
            continue
        try:
            value = parse(content)
        except ValueError:
            continue
        if candidate != path:
            replace_file(files, path, content)
            files.sync_directory(directory_of(path))
        return value
    return None


def replace_file(files: Files, path: str, content: bytes) -> None:
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
