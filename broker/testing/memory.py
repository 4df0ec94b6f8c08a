"""Files in memory, for a store that lives as long as one test.

A file that is allocated costs nothing until it is written: what was not reads as zero, as on a disk.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ..engine.disk import File, Write, directory_of, write_each
from ..engine.errors import StoreLocked


class Content:
    """The bytes of one file: those up to the last that was written, and how long the file is."""

    __slots__ = ("data", "size_bytes")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size_bytes = 0


class MemoryFile:
    """A File of MemoryFiles."""

    __slots__ = ("_files", "_inside", "path")

    def __init__(self, files: MemoryFiles, path: str, content: Content) -> None:
        self._files = files
        self.path = path
        self._inside: Content | None = content

    @property
    def _content(self) -> Content:
        if self._inside is None:
            raise OSError(errno.EBADF, "the file was closed", self.path)
        return self._inside

    def read(self, size: int, at: int) -> bytes:
        """Read up to so many bytes from a place, as ``File`` says."""
        content = self._content
        end = min(at + size, content.size_bytes)
        found = bytes(content.data[at:end])
        return found if at + len(found) >= end else found.ljust(end - at, b"\0")

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write bytes at a place, as ``File`` says."""
        content, end = self._content, at + len(data)
        if at > len(content.data):
            content.data.extend(bytes(at - len(content.data)))
        content.data[at:end] = data
        content.size_bytes = max(content.size_bytes, end)

    def write_many(self, parts: list[bytes], at: int) -> None:
        """Write several pieces one after the other, as ``File`` says."""
        self.write(parts[0] if len(parts) == 1 else b"".join(parts), at)

    def allocate(self, size: int) -> None:
        """Have the file be so long at least, as ``File`` says."""
        self._content.size_bytes = max(self._content.size_bytes, size)

    def truncate(self, size: int) -> None:
        """Change the length of the file, as ``File`` says."""
        del self._content.data[size:]
        self._content.size_bytes = size

    def size(self) -> int:
        """Return the length in bytes, as ``File`` says."""
        return self._content.size_bytes

    def sync(self) -> None:
        """Do nothing: nothing here outlives the process."""

    def drop_cache(self) -> None:
        """Do nothing: there is no device below."""

    def close(self) -> None:
        """Close the file, and give back its lock if it has one; closing twice is fine."""
        self._inside = None
        self._files.unlock(self)


class MemoryFiles:
    """The Files of one store in memory."""

    def __init__(self) -> None:
        self._contents: dict[str, Content] = {}
        self._folders = {"/"}
        self._locks: dict[str, File] = {}

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file, as ``Files`` says."""
        content = self._contents.get(path)
        if content is None:
            if not create or directory_of(path) not in self._folders:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            content = self._contents[path] = Content()
        return MemoryFile(self, path, content)

    def list(self, path: str) -> list[str]:
        """List the names in a directory, as ``Files`` says."""
        inside = path.rstrip("/") + "/"
        below = (name[len(inside) :] for name in (*self._contents, *self._folders) if name.startswith(inside))
        return sorted(name for name in below if name and "/" not in name)

    def exists(self, path: str) -> bool:
        """Tell whether a path exists, as ``Files`` says."""
        return path in self._contents or path in self._folders

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, as ``Files`` says."""
        while path not in self._folders:
            if path in self._contents:
                raise FileExistsError(errno.EEXIST, "is a file", path)
            self._folders.add(path)
            path = directory_of(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, as ``Files`` says."""
        if source not in self._contents:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._contents[target] = self._contents.pop(source)

    def remove(self, path: str) -> None:
        """Remove a file, as ``Files`` says."""
        self._contents.pop(path, None)

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all in it, as ``Files`` says."""
        inside = path.rstrip("/") + "/"
        for name in [name for name in self._contents if name.startswith(inside)]:
            del self._contents[name]
        self._folders -= {name for name in self._folders if name == path or name.startswith(inside)}

    def sync_directory(self, path: str) -> None:
        """Only look whether the folder is there: nothing here outlives the process."""
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)

    def write_durably(self, writes: Sequence[Write]) -> None:
        """Write into many files and make each durable, as ``Files`` says."""
        write_each(self, writes)

    def used_ratio(self, path: str) -> float:
        """Return 0: there is room as long as there is memory."""
        return 0.0

    def lock(self, path: str) -> File:
        """Take the one-writer lock, as ``Files`` says."""
        if path in self._locks:
            raise StoreLocked(path)
        file = self._locks[path] = self.open(path, create=True)
        file.write(b"lock", 0)
        return file

    def unlock(self, file: File) -> None:
        """Hear that a file was closed; a lock ends with the file that holds it."""
        if self._locks.get(file.path) is file:
            del self._locks[file.path]
