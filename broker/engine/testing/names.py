"""The names of a simulated disk: which path leads to which file, now and after a power loss.

A created, renamed or removed name is durable only after its folder was synced. Folders themselves are made durable
at once, which is what ``Files.make_directory`` promises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..disk.files import directory_of
from .inode import Inode
from .powerloss import PowerLoss


class NameChange(NamedTuple):
    """An atomic change of one folder: ``removed`` goes (a folder with all in it), ``added`` then leads to ``inode``."""

    sequence: int
    folder: str
    removed: str | None
    added: str | None
    inode: Inode | None


@dataclass(slots=True)
class Tree:
    """Folders, and files by path."""

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
