"""What was handed out as of one moment, on disk, so that a start need not read all that was ever popped.

``escapement.pops.0`` and ``.1`` (disk/snapshot.py), magic "ESCPOPS1". The content is a row for each queue:

    2 length, name (group \\0 topic \\0 queue id)   8 next offset   4 length, JSON of Orderly (empty without)
    4 count, check points that pin:   8 start  8 pop_ms  8 due_ms  mask held  mask pinned
    4 count, those of one message:    8 offset  8 pop_ms  8 due_ms  8 start of its parent  8 pop_ms of its parent

A mask is 2 length and bytes, lowest first. What is being copied counts as held: the copy may not be durable yet.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator

from ..disk.files import Files
from ..disk.snapshot import load_snapshot, save_snapshot
from .checkpoint import CheckPoint
from .orderly import Orderly, next_offset_in
from .popqueue import PopQueue
from .records import read_key

_MAGIC = b"ESCPOPS1"
_LENGTH = struct.Struct(">H")
_COUNT = struct.Struct(">I")
_NUMBER = struct.Struct(">q")
_ROOT = struct.Struct(">3q")
_CHILD = struct.Struct(">5q")


def save(files: Files, path: str, sequence: int, parts: list[bytes]) -> None:
    """Write a snapshot, durable on return. Safe in any thread; raises OSError."""
    content = b"".join(parts)
    save_snapshot(files, path, _MAGIC, sequence, len(content), [content])


def load(files: Files, path: str, sequence: int) -> bytes | None:
    """Return the content of the snapshot with this sequence, None if it is not there or damaged."""
    return load_snapshot(files, path, _MAGIC, sequence)


def dump(queues: Iterable[PopQueue]) -> list[bytes]:
    """Return the rows of these queues; those of queues that have not changed are kept from the last time."""
    rows: list[bytes] = []
    for queue in queues:
        if queue.packed is None:
            queue.packed = _pack(queue)
        rows.append(queue.packed)
    return rows


def _pack(queue: PopQueue) -> bytes:
    orderly = json.dumps(queue.orderly.to_json()).encode() if queue.orderly is not None else b""
    roots = [root for root in queue.roots if root.pinned]
    children = [point for point in queue.points.values() if point.parent is not None]
    parts = [
        _LENGTH.pack(len(queue.name)),
        queue.name,
        _NUMBER.pack(queue.next_offset),
        _COUNT.pack(len(orderly)),
        orderly,
    ]
    parts.append(_COUNT.pack(len(roots)))
    for root in roots:
        parts.append(_ROOT.pack(root.start, root.pop_ms, root.due_ms))
        parts += [_mask(root.held | root.reviving), _mask(root.pinned)]
    parts.append(_COUNT.pack(len(children)))
    parts += [
        _CHILD.pack(child.start, child.pop_ms, child.due_ms, child.root.start, child.root.pop_ms) for child in children
    ]
    return b"".join(parts)


def _mask(mask: int) -> bytes:
    raw = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    return _LENGTH.pack(len(raw)) + raw


class _Reader:
    """Reads a snapshot from front to back."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._content)

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        found = form.unpack_from(self._content, self._at)
        self._at += form.size
        return found

    def piece(self, form: struct.Struct) -> bytes:
        (length,) = self.numbers(form)
        piece = self._content[self._at : self._at + length]
        if len(piece) != length:
            raise ValueError("the snapshot is too short")
        self._at += length
        return piece

    def mask(self) -> int:
        return int.from_bytes(self.piece(_LENGTH), "little")


def parse(content: bytes) -> Iterator[PopQueue]:
    """Yield the queues of a snapshot. Raises ValueError if the content does not hold together."""
    reader = _Reader(content)
    try:
        while reader:
            yield _unpack(reader)
    except (struct.error, KeyError, TypeError) as error:
        raise ValueError(f"the snapshot does not hold together: {error}") from None


def _unpack(reader: _Reader) -> PopQueue:
    key = read_key(reader.piece(_LENGTH))
    queue = PopQueue(key, *reader.numbers(_NUMBER))
    if orderly := reader.piece(_COUNT):
        value = json.loads(orderly)
        queue.orderly = Orderly.from_json(value)
        queue.next_offset = next_offset_in(value, queue.next_offset)
    parents: dict[tuple[int, int], CheckPoint] = {}
    unspoken: dict[CheckPoint, int] = {}
    for _ in range(*reader.numbers(_COUNT)):
        start, pop_ms, due_ms = reader.numbers(_ROOT)
        root = CheckPoint(start, pop_ms, due_ms, reader.mask())
        root.pinned = reader.mask()
        parents[start, pop_ms] = root
        unspoken[root] = root.pinned & ~root.held
    children: list[CheckPoint] = []
    for _ in range(*reader.numbers(_COUNT)):
        offset, pop_ms, due_ms, *parent = reader.numbers(_CHILD)
        root = parents[parent[0], parent[1]]
        children.append(CheckPoint(offset, pop_ms, due_ms, 1, root))
        unspoken[root] &= ~(1 << (offset - root.start))
    for root, mask in unspoken.items():
        # the message of one that was being copied: its own handle is gone, so the first one speaks for it again
        root.held |= mask
        queue.restore(root)
    for child in children:
        queue.restore(child)
    return queue
