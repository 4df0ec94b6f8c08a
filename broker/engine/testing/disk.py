"""A simulated disk: files in memory that lose, tear and reorder what is not synced, fill up, fail and rot on request.

Of each file it keeps what reads see, what the disk has, and the operations in between:

    current   everything written so far (the page cache)
    durable   what a power loss cannot take
    pending   operations after the last sync, in order; a sync applies them to durable

A failed sync forgets its pending operations: current still shows them, and no later sync saves them.

Names are kept in the same way: a created, renamed or removed name is durable only after its folder was synced. Folders
themselves are made durable at once, which is what ``Files.make_directory`` promises.

Each operation has a sequence number. A PowerLoss decides from that number alone what becomes of an operation that was
not synced, so that the same one applied to the same history gives the same disk: a failure is repeated from its kind,
seed and limit.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ..disk import File, Write, directory_of, write_each
from ..errors import StoreLocked

Kind = Literal[
    "open",
    "read",
    "write",
    "allocate",
    "truncate",
    "sync",
    "rename",
    "remove",
    "make_directory",
    "sync_directory",
    "list",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``nth`` call of ``kind`` (counted from 1, on paths that contain ``path_part``) raises OSError.

    ``forever``: all later ones too. ``partial_bytes``: so much of a failing write is there nevertheless.
    """

    kind: Kind
    nth: int = 1
    error: int = errno.EIO
    forever: bool = False
    partial_bytes: int = 0
    path_part: str = ""

    def strikes(self, kind: str, count: int) -> bool:
        """Tell whether the ``count``-th call of ``kind`` fails."""
        return kind == self.kind and (count == self.nth or (self.forever and count > self.nth))

    def as_error(self, path: str) -> OSError:
        """Return what the call raises."""
        return OSError(self.error, f"simulated {errno.errorcode.get(self.error, self.error)} of {self.kind}", path)


# The disk and its open files.


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
        """Open a file, as ``Files`` says."""
        self.attempt("open", path)
        inode = self._names.current.files.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            inode = self._names.create(self.next_sequence(), path)
            self.changed()
        return SimulatedFile(self, path, inode)

    def list(self, path: str) -> list[str]:
        """List the names in a directory, as ``Files`` says."""
        self.attempt("list", path)
        inside = path.rstrip("/") + "/"
        tree = self._names.current
        below = [name[len(inside) :] for name in (*tree.files, *tree.folders) if name.startswith(inside)]
        return sorted(name for name in below if name and "/" not in name)

    def exists(self, path: str) -> bool:
        """Tell whether a path exists, as ``Files`` says."""
        return path in self._names.current.files or path in self._names.current.folders

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, as ``Files`` says."""
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
        """Rename a file atomically, as ``Files`` says."""
        self.attempt("rename", target)
        self._names.rename(self.next_sequence(), source, target)
        self.changed()

    def remove(self, path: str) -> None:
        """Remove a file, as ``Files`` says."""
        self.attempt("remove", path)
        self._names.remove(self.next_sequence(), path)
        self.changed()

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all in it, as ``Files`` says."""
        for name in self.list(path):
            inner = f"{path}/{name}"
            if inner in self._names.current.folders:
                self.remove_directory(inner)
            else:
                self.remove(inner)
        self.remove(path)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable, as ``Files`` says."""
        self.attempt("sync_directory", path)
        self._names.sync(path)
        self.changed()

    def write_durably(self, writes: Sequence[Write]) -> None:
        """Write into many files and make each durable, as ``Files`` says."""
        write_each(self, writes)

    def used_ratio(self, path: str) -> float:
        """Return how full the disk is, as ``Files`` says."""
        return min(1.0, self.used_bytes() / self.capacity_bytes)

    def lock(self, path: str) -> File:
        """Take the lock of the one writer, as ``Files`` says."""
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
        """Return the number of a new operation."""
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
        """Read up to so many bytes from a place, as ``File`` says."""
        self._attempt("read")
        return self._inode.read(size, at)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write bytes at a place, as ``File`` says."""
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
        """Write several pieces one after the other, as ``File`` says."""
        self.write(b"".join(parts), at)

    def allocate(self, size: int) -> None:
        """Reserve room on the disk, as ``File`` says."""
        self._attempt("allocate")
        self._files.reserve(self.path, size - self._inode.size_bytes)
        if size > self._inode.size_bytes:
            self._resize(size)

    def truncate(self, size: int) -> None:
        """Change the length of the file, as ``File`` says."""
        self._attempt("truncate")
        self._resize(size)

    def size(self) -> int:
        """Return the length in bytes, as ``File`` says."""
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
        """Let the system forget what it keeps of the file, as ``File`` says."""
        self._inode.drop_cache()

    def close(self) -> None:
        """Close the file; closing twice is fine."""
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


# The content of a file.


class Change(NamedTuple):
    """A write of ``data`` at ``at``, or (``data`` is None) a new size ``at``."""

    sequence: int
    at: int
    data: bytes | None


class Inode:
    """The content of one simulated file."""

    __slots__ = ("_current", "_durable", "_pending")

    def __init__(self, content: bytes = b"") -> None:
        self._current: bytes | bytearray = content
        self._durable: bytes | bytearray = content
        self._pending: list[Change] = []

    @property
    def size_bytes(self) -> int:
        """The length that a reader sees."""
        return len(self._current)

    @property
    def dirty(self) -> bool:
        """Tell whether something waits for a sync."""
        return bool(self._pending)

    def read(self, size: int, at: int) -> bytes:
        """Return what a reader sees."""
        return bytes(self._current[at : at + size])

    def change(self, change: Change) -> None:
        """Take a write or a new size."""
        self._pending.append(change)
        self._current = _apply(self._current, change)

    def sync(self) -> None:
        """Make all pending changes durable."""
        for change in self._pending:
            self._durable = _apply(self._durable, change)
        self._pending.clear()

    def fail_sync(self) -> None:
        """Forget the pending changes as a kernel does after a failed writeback: readers go on seeing them."""
        self._pending.clear()

    def drop_cache(self) -> None:
        """Show readers what is on the disk and what still waits for it, and nothing else."""
        self._current = bytes(self._durable)
        for change in self._pending:
            self._current = _apply(self._current, change)

    def replace(self, content: bytes) -> None:
        """Set cache and disk to ``content``, as rot or an operator does behind the engine's back."""
        self._current = self._durable = content
        self._pending.clear()

    def after(self, loss: PowerLoss) -> Inode:
        """Return the file as it is found after ``loss``."""
        if loss.kind == "kill":
            return Inode(bytes(self._current))
        if not self._pending:
            return Inode(bytes(self._durable))
        content = bytearray(self._durable)
        size_bytes = len(content)
        for change in self._pending:
            if change.data is None:
                if loss.keeps_size(change.sequence):
                    size_bytes = change.at
                    del content[size_bytes:]
                continue
            end = change.at + len(change.data)
            for at, piece, garbled in loss.surviving_sectors(change.sequence, change.data, change.at):
                if garbled and any(self._durable[at : at + len(piece)]):
                    continue
                content.extend(bytes(max(0, at - len(content))))
                content[at : at + len(piece)] = piece
            if end > size_bytes and loss.keeps_size(change.sequence):
                size_bytes = end
        content.extend(bytes(max(0, size_bytes - len(content))))
        return Inode(bytes(content[:size_bytes]))


def _apply(content: bytes | bytearray, change: Change) -> bytearray:
    target = content if isinstance(content, bytearray) else bytearray(content)
    if change.data is None:
        del target[change.at :]
        target.extend(bytes(change.at - len(target)))
        return target
    target.extend(bytes(max(0, change.at - len(target))))
    target[change.at : change.at + len(change.data)] = change.data
    return target


# The names.


class NameChange(NamedTuple):
    """An atomic change of one folder: ``removed`` goes (a folder with all in it), ``added`` then leads to ``inode``."""

    sequence: int
    folder: str
    removed: str | None
    added: str | None
    inode: Inode | None


@dataclass(slots=True)
class Tree:
    """Folders and files by path, at one moment."""

    folders: set[str] = field(default_factory=set)
    files: dict[str, Inode] = field(default_factory=dict)

    def copy(self) -> Tree:
        """Return a tree of the same files."""
        return Tree(set(self.folders), dict(self.files))

    def apply(self, change: NameChange) -> None:
        """Carry out one change; a name that is not there is left so."""
        if change.removed is not None:
            self.files.pop(change.removed, None)
            if change.removed in self.folders:
                inside = change.removed + "/"
                self.folders = {path for path in self.folders if path != change.removed and not path.startswith(inside)}
                self.files = {path: inode for path, inode in self.files.items() if not path.startswith(inside)}
        if change.added is not None and change.inode is not None and change.folder in self.folders:
            self.files[change.added] = change.inode


class Names:
    """The current tree, the durable tree and what lies between."""

    def __init__(self, tree: Tree | None = None) -> None:
        self.current = tree or Tree()
        self._durable = self.current.copy()
        self._pending: list[NameChange] = []

    def add_folder(self, path: str) -> None:
        """Make a folder in an existing one, durable at once (its parent is synced)."""
        self.sync(directory_of(path))
        self.current.folders.add(path)
        self._durable.folders.add(path)

    def create(self, sequence: int, path: str) -> Inode:
        """Let ``path`` lead to a new empty file."""
        folder = directory_of(path)
        if folder not in self.current.folders:
            raise FileNotFoundError(path)
        inode = Inode()
        self._change(NameChange(sequence, folder, None, path, inode))
        return inode

    def rename(self, sequence: int, source: str, target: str) -> None:
        """Let ``target`` lead to the file of ``source``: atomic in one folder, two changes across two."""
        inode = self.current.files.get(source)
        if inode is None:
            raise FileNotFoundError(source)
        if directory_of(source) == directory_of(target):
            self._change(NameChange(sequence, directory_of(target), source, target, inode))
            return
        self._change(NameChange(sequence, directory_of(target), None, target, inode))
        self._change(NameChange(sequence, directory_of(source), source, None, None))

    def remove(self, sequence: int, path: str) -> None:
        """Remove a file, or a folder with the files in it."""
        if path in self.current.files or path in self.current.folders:
            self._change(NameChange(sequence, directory_of(path), path, None, None))

    def sync(self, folder: str) -> None:
        """Make the names in ``folder`` durable."""
        if folder not in self.current.folders:
            raise FileNotFoundError(folder)
        waiting = []
        for change in self._pending:
            if change.folder == folder:
                self._durable.apply(change)
            else:
                waiting.append(change)
        self._pending = waiting

    def after(self, loss: PowerLoss) -> Tree:
        """Return the tree as it is found after ``loss``, of fresh files."""
        tree = self._durable.copy()
        for change in self._pending:
            if loss.keeps(change.sequence):
                tree.apply(change)
        found: dict[int, Inode] = {}
        for path, inode in tree.files.items():
            tree.files[path] = found.setdefault(id(inode), inode.after(loss))
        return tree

    def _change(self, change: NameChange) -> None:
        self._pending.append(change)
        self.current.apply(change)


# The power loss.

#: The unit in which a disk writes; a write may be torn between two of them.
SECTOR_BYTES = 512
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class PowerLoss:
    """The choice of un-synced operations that survive.

    ``kill``: all (the process died, the operating system did not). ``all``: none. ``prefix``: those up to the
    sequence number ``until``, the next one torn. ``random``: each on its own, by ``seed``; writes may be
    torn, and garbled where the disk held nothing before (a sector that is overwritten is old or new, never neither).
    """

    kind: Literal["kill", "all", "prefix", "random"]
    seed: int = 0
    until: int = 0

    def keeps(self, sequence: int) -> bool:
        """Tell whether a change of names survives."""
        if self.kind == "prefix":
            return sequence <= self.until
        return self.kind == "kill" or (self.kind == "random" and self._chance(sequence, 1) < self._keep_share())

    def keeps_size(self, sequence: int) -> bool:
        """Tell whether a new file size survives."""
        if self.kind == "random":
            return self._chance(sequence, 2) < (1 + self._keep_share()) / 2
        return self.keeps(sequence)

    def surviving_sectors(self, sequence: int, data: bytes, at: int) -> list[tuple[int, bytes, bool]]:
        """Return the pieces of a write that reach the disk, as (address, bytes, garbled)."""
        if self.keeps(sequence):
            return [(at, data, False)]
        torn = self.kind == "prefix" and sequence == self.until + 1
        if self.kind == "random":
            torn = self._chance(sequence, 3) < 0.5
        if not torn:
            return []
        pieces = []
        begin = at
        while begin < at + len(data):
            end = min(at + len(data), (begin // SECTOR_BYTES + 1) * SECTOR_BYTES)
            fate = self._chance(sequence, begin + 4)
            if fate < 0.5:
                pieces.append((begin, data[begin - at : end - at], False))
            elif fate < 0.55:
                garbage = bytes(int(256 * self._chance(begin + place, sequence)) for place in range(end - begin))
                pieces.append((begin, garbage, True))
            begin = end
        return pieces

    def _keep_share(self) -> float:
        return (0.1, 0.5, 0.9)[self.seed % 3]

    def _chance(self, sequence: int, purpose: int) -> float:
        """Return a number in [0, 1) that depends on seed, operation and purpose alone (splitmix64)."""
        word = (self.seed * 0x9E3779B97F4A7C15 + sequence * 0xD1B54A32D192ED03 + purpose * 0x8CB92BA72F3D8DD7) & _MASK
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
        return (word ^ (word >> 31)) / (1 << 64)
