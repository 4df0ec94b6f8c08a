"""One simulated file: what reads see, what the disk has, and the operations in between.

current   = everything written so far (the page cache)
durable   = what a power loss cannot take
pending   = operations after the last sync, in order; a sync applies them to durable
lost      a failed sync forgets its pending operations: current still shows them, no later sync saves them
"""

from __future__ import annotations

from typing import NamedTuple

from .powerloss import PowerLoss


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
        """Whether something waits for a sync."""
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
