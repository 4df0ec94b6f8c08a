"""Files in memory that lose, tear and reorder what is not synced, fill up, fail and rot on request."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping

from ..disk.files import File, directory_of
from ..errors import StoreLocked
from .faults import Fault, Kind
from .inode import Change, Inode
from .names import Names, Tree
from .powerloss import PowerLoss


class SimulatedFiles:
    """The Files of one simulated disk.

    ``on_change`` is called after every operation that changes the disk or what would survive a power loss: each such
    moment is a write boundary. ``calls`` counts operations by kind, failed ones included.
    """

    def __init__(self, *, capacity_bytes: int = 1 << 40, on_change: Callable[[], None] | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.on_change = on_change
        self.calls: Counter[str] = Counter()
        self._struck: Counter[Fault] = Counter()
        self._faults: tuple[Fault, ...] = ()
        self._names = Names(Tree({"/"}))
        self._locked: set[str] = set()
        self._sequence = 0

    # the seam

    def open(self, path: str, *, create: bool = False) -> File:
        """See Files."""
        self.attempt("open", path)
        inode = self._names.current.files.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            inode = self._names.create(self.next_sequence(), path)
            self.changed()
        return SimulatedFile(self, path, inode)

    def list(self, path: str) -> list[str]:
        """See Files."""
        self.attempt("list", path)
        inside = path.rstrip("/") + "/"
        tree = self._names.current
        below = [name[len(inside) :] for name in (*tree.files, *tree.folders) if name.startswith(inside)]
        return sorted(name for name in below if name and "/" not in name)

    def exists(self, path: str) -> bool:
        """See Files."""
        return path in self._names.current.files or path in self._names.current.folders

    def make_directory(self, path: str) -> None:
        """See Files."""
        self.attempt("make_directory", path)
        missing = []
        while path not in self._names.current.folders:
            if path in self._names.current.files:
                raise FileExistsError(errno.EEXIST, "is a file", path)
            missing.append(path)
            path = directory_of(path)
        for folder in reversed(missing):
            self._names.add_folder(folder)
            self.changed()

    def rename(self, source: str, target: str) -> None:
        """See Files."""
        self.attempt("rename", target)
        self._names.rename(self.next_sequence(), source, target)
        self.changed()

    def remove(self, path: str) -> None:
        """See Files."""
        self.attempt("remove", path)
        self._names.remove(self.next_sequence(), path)
        self.changed()

    def remove_directory(self, path: str) -> None:
        """See Files."""
        for name in self.list(path):
            inner = f"{path}/{name}"
            if inner in self._names.current.folders:
                self.remove_directory(inner)
            else:
                self.remove(inner)
        self.remove(path)

    def sync_directory(self, path: str) -> None:
        """See Files."""
        self.attempt("sync_directory", path)
        self._names.sync(path)
        self.changed()

    def used_ratio(self, path: str) -> float:
        """See Files."""
        return min(1.0, self.used_bytes() / self.capacity_bytes)

    def lock(self, path: str) -> File:
        """See Files."""
        if path in self._locked:
            raise StoreLocked(path)
        file = self.open(path, create=True)
        assert isinstance(file, SimulatedFile)
        file.holds_lock = True
        self._locked.add(path)
        if file.size() == 0:
            file.write(b"lock", 0)
        return file

    # what a test does to the disk

    def crash(self, loss: PowerLoss) -> SimulatedFiles:
        """Return the disk as it is found after a power loss now; this one goes on unharmed."""
        after = SimulatedFiles(capacity_bytes=self.capacity_bytes)
        after._names = Names(self._names.after(loss))
        return after

    def fail(self, *faults: Fault) -> None:
        """Let these calls fail from now on, counted from now; no faults: everything works again."""
        self._faults = faults
        self._struck.clear()

    def load(self, contents: Mapping[str, bytes]) -> None:
        """Put files on the disk, durably, with their folders."""
        for path, content in contents.items():
            self.make_directory(directory_of(path))
            self._names.create(self.next_sequence(), path).replace(content)
            self._names.sync(directory_of(path))

    def contents(self) -> dict[str, bytes]:
        """Return every file as a reader sees it."""
        return {path: inode.read(inode.size_bytes, 0) for path, inode in sorted(self._names.current.files.items())}

    def replace(self, path: str, content: bytes) -> None:
        """Change a file behind the engine's back, cache and disk."""
        self._names.current.files[path].replace(content)

    def flip(self, path: str, bit: int) -> None:
        """Flip one bit of a file, counted from its start."""
        inode = self._names.current.files[path]
        content = bytearray(inode.read(inode.size_bytes, 0))
        content[bit // 8] ^= 1 << (bit % 8)
        inode.replace(bytes(content))

    @property
    def sequence(self) -> int:
        """The number of the latest operation."""
        return self._sequence

    def used_bytes(self) -> int:
        """Return the sum of all sizes."""
        return sum(inode.size_bytes for inode in self._names.current.files.values())

    # for SimulatedFile

    def next_sequence(self) -> int:
        """Number a new operation."""
        self._sequence += 1
        return self._sequence

    def changed(self) -> None:
        """Tell the observer that a write boundary was reached."""
        if self.on_change is not None:
            self.on_change()

    def attempt(self, kind: Kind, path: str) -> None:
        """Count a call and raise OSError if a fault strikes it."""
        fault = self.strike(kind, path)
        if fault is not None:
            raise fault.as_error(path)

    def strike(self, kind: Kind, path: str) -> Fault | None:
        """Count a call and return the fault that strikes it."""
        self.calls[kind] += 1
        for fault in self._faults:
            if fault.kind == kind and fault.path_part in path:
                self._struck[fault] += 1
                if fault.strikes(kind, self._struck[fault]):
                    return fault
        return None

    def reserve(self, path: str, more_bytes: int) -> None:
        """Raise OSError (ENOSPC) if the disk has no room for ``more_bytes``."""
        if more_bytes > 0 and self.used_bytes() + more_bytes > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "simulated disk is full", path)

    def unlock(self, path: str) -> None:
        """Give the one-writer lock back."""
        self._locked.discard(path)


class SimulatedFile:
    """A File of a simulated disk."""

    __slots__ = ("_closed", "_files", "_inode", "holds_lock", "path")

    def __init__(self, files: SimulatedFiles, path: str, inode: Inode) -> None:
        self.path = path
        self.holds_lock = False
        self._files = files
        self._inode = inode
        self._closed = False

    def read(self, size: int, at: int) -> bytes:
        """See File."""
        self._attempt("read")
        return self._inode.read(size, at)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """See File."""
        self._check_open()
        fault = self._files.strike("write", self.path)
        content = bytes(data) if fault is None else bytes(data)[: fault.partial_bytes]
        if content:
            self._files.reserve(self.path, at + len(content) - self._inode.size_bytes)
            self._inode.change(Change(self._files.next_sequence(), at, content))
            self._files.changed()
        if fault is not None:
            raise fault.as_error(self.path)

    def write_many(self, parts: list[bytes], at: int) -> None:
        """See File."""
        self.write(b"".join(parts), at)

    def allocate(self, size: int) -> None:
        """See File."""
        self._attempt("allocate")
        self._files.reserve(self.path, size - self._inode.size_bytes)
        if size > self._inode.size_bytes:
            self._resize(size)

    def truncate(self, size: int) -> None:
        """See File."""
        self._attempt("truncate")
        self._resize(size)

    def size(self) -> int:
        """See File."""
        return self._inode.size_bytes

    def sync(self) -> None:
        """See File; a failing one loses for good what it was to save."""
        self._check_open()
        fault = self._files.strike("sync", self.path)
        if fault is not None:
            self._inode.fail_sync()
            self._files.changed()
            raise fault.as_error(self.path)
        self._inode.sync()
        self._files.changed()

    def drop_cache(self) -> None:
        """See File."""
        self._inode.drop_cache()

    def close(self) -> None:
        """See File."""
        self._closed = True
        if self.holds_lock:
            self.holds_lock = False
            self._files.unlock(self.path)

    def _resize(self, size: int) -> None:
        self._inode.change(Change(self._files.next_sequence(), size, None))
        self._files.changed()

    def _attempt(self, kind: Kind) -> None:
        self._check_open()
        self._files.attempt(kind, self.path)

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "file is closed", self.path)
