"""The one seam to the file system: every byte the engine reads or writes goes through ``Files``.

Writes are ``pwrite`` into files opened once; ``sync`` is ``fdatasync``. A new file is durable only after
``sync`` of the file and ``sync_directory`` of its folder, a renamed one only after the latter. The twin in
``engine/testing/disk.py`` loses, tears and reorders exactly what is not synced yet.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterable
from typing import Protocol

from ..errors import StoreLocked

#: The process, or the machine, has as many files open as it may: what needed one was not begun, and is done later.
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})

#: struct flock of Linux on 64-bit: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")
#: F_OFD_SETLK of Linux (fcntl.h); the fcntl module names it from Python 3.9 on Linux.
_F_OFD_SETLK = getattr(fcntl, "F_OFD_SETLK", 37)


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

    def used_ratio(self, path: str) -> float:
        """Return how full the disk of ``path`` is, 0 to 1."""

    def lock(self, path: str) -> File:
        """Take the one-writer lock on ``path`` (held until the file is closed); raises StoreLocked."""


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
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def truncate(self, size: int) -> None:
        """Change the length of the file, as ``File`` says."""
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        """Return the length in bytes, as ``File`` says."""
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        """Make all that was written durable, as ``File`` says."""
        os.fdatasync(self._descriptor)

    def drop_cache(self) -> None:
        """Let the system forget what it keeps of the file, as ``File`` says."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

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
            fcntl.fcntl(file._descriptor, _F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            file.close()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise StoreLocked(path) from None
            raise
        if file.size() == 0:
            file.write(b"lock", 0)
        return file


def join(*parts: str) -> str:
    """Join parts of a path with slashes."""
    return os.path.join(*parts)


def directory_of(path: str) -> str:
    """Return the folder of a path."""
    return os.path.dirname(path)


def sync_directories(files: Files, paths: Iterable[str]) -> None:
    """Make the names in each of the folders durable, each once."""
    for path in sorted(set(paths)):
        files.sync_directory(path)
