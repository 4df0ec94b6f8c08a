"""What is known to be durable, so that recovery need not read the whole log.

``escapement.checkpoint``: two slots of 64 KiB, written in turn, the newer sound one counts.

    0  8 magic "ESCKPT01"   8  8 sequence   16  4 length   20  4 CRC32 of all the rest   24  content (JSON)

Content: see Checkpoint. A checkpoint may lag behind what it describes, never lead: it is written after everything it
names was synced. A store without one (Apache RocketMQ's, or both slots unreadable) is read from its beginning.

``checkpoint``: RocketMQ's form, six longs (store time of the last flushed record, of the last queue entry, of the
index, master position 0, confirmed position, position of the last queue entry), so that it can start on our store.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field
from typing import Any
from zlib import crc32

from ..disk.files import Files, directory_of

_MAGIC = b"ESCKPT01"
_HEAD = struct.Struct(">8sQII")
_SLOT_SIZE = 64 << 10
_ROCKETMQ = struct.Struct(">6q")
_ROCKETMQ_SIZE = 4096


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes of the log that hold no readable record though later ones do: [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All records below ``position`` are durable and stand in queues and index."""

    position: int
    queue_count: int = 0
    queue_total: int = 0
    index_name: str = ""
    index_number: int = 1
    #: by name of the service: what it wants to be told when it resumes
    states: dict[str, Any] = field(default_factory=dict)
    damaged: tuple[tuple[int, int], ...] = ()
    clean: bool = False
    segment_size: int = 0
    queue_file_entries: int = 0
    index_slots: int = 0
    index_entries: int = 0
    store_ms: int = 0

    def to_bytes(self) -> bytes:
        """Return the content of a slot; damage beyond what fits is left for fsck to find again."""
        value = asdict(self)
        content = json.dumps(value).encode()
        while len(content) > _SLOT_SIZE - _HEAD.size:
            value["damaged"] = value["damaged"][: len(value["damaged"]) // 2]
            content = json.dumps(value).encode()
        return content


class CheckpointFile:
    """Reads and writes both checkpoint files, ours and RocketMQ's."""

    def __init__(self, files: Files, path: str, rocketmq_path: str) -> None:
        self._files = files
        self._path = path
        self._rocketmq_path = rocketmq_path
        self._sequence = 0

    def load(self) -> Checkpoint | None:
        """Return the newest sound checkpoint, None if there is none."""
        try:
            file = self._files.open(self._path)
        except FileNotFoundError:
            return None
        try:
            slots = [_read_slot(file.read(_SLOT_SIZE, at)) for at in (0, _SLOT_SIZE)]
        finally:
            file.close()
        sound = [slot for slot in slots if slot is not None]
        if not sound:
            return None
        self._sequence, checkpoint = max(sound, key=lambda slot: slot[0])
        return checkpoint

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the older slot, durable on return. Safe in any thread, one at a time; raises OSError."""
        fresh = not self._files.exists(self._path)
        sequence = self._sequence + 1
        content = checkpoint.to_bytes()
        head = _HEAD.pack(_MAGIC, sequence, len(content), 0)
        crc = crc32(content, crc32(head[:20]))
        file = self._files.open(self._path, create=True)
        try:
            file.write(_HEAD.pack(_MAGIC, sequence, len(content), crc) + content, (sequence % 2) * _SLOT_SIZE)
            file.sync()
        finally:
            file.close()
        self._sequence = sequence
        self._save_rocketmq(checkpoint)
        if fresh:
            self._files.sync_directory(directory_of(self._path))

    def _save_rocketmq(self, checkpoint: Checkpoint) -> None:
        last = checkpoint.store_ms
        content = _ROCKETMQ.pack(last, last, last, 0, checkpoint.position, checkpoint.position)
        file = self._files.open(self._rocketmq_path, create=True)
        try:
            file.write(content.ljust(_ROCKETMQ_SIZE, b"\0"), 0)
            file.sync()
        finally:
            file.close()


def _read_slot(raw: bytes) -> tuple[int, Checkpoint] | None:
    if len(raw) < _HEAD.size:
        return None
    magic, sequence, length, crc = _HEAD.unpack_from(raw)
    content = raw[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or len(content) != length or crc32(content, crc32(raw[:20])) != crc:
        return None
    try:
        value = json.loads(content)
        value["damaged"] = tuple((int(start), int(end)) for start, end in value["damaged"])
        return sequence, Checkpoint(**value)
    except (ValueError, TypeError, KeyError):
        return None
