"""The record of what is durable, so that recovery need not read the whole log.

``escapement.checkpoint``: two slots of 64 KiB, written in turn, the newer sound one counts.

    0  8 magic "ESCKPT01"   8  8 sequence   16  4 length   20  4 CRC32 of all the rest   24  content (JSON)

Content: see Checkpoint. A checkpoint may lag behind what it describes, never lead: it is written after everything it
names was synced. A store without one (Apache RocketMQ's, or both slots unreadable) is read from its beginning.

``checkpoint``: RocketMQ's form, six longs (store time of the last flushed record, of the last queue entry, of the
index, master position 0, confirmed position, position of the last queue entry), so that it can start on our store.

A service (``Derived``) hears of its records when they become visible (``synced``), saves what it made of them with each
checkpoint (``state`` and ``writes``), and after a crash hears of every record behind the checkpoint again (``walked``,
``heard``), so that it comes to the same state whatever was lost:

    open:   resume(saved, whole)  walked(...) heard(...) in order of position  start(now_ms)
    run:    synced(notes)  tick(now_ms)  ...  state() writes() -> run() in a thread -> saved() | not saved

``simulatedClock``: the mark of a store that lives by a simulated clock. It holds a moment (epoch ms, 20 digits, a line
feed) that its clock has not passed. A store has the mark from before its first message on, or never: moments of a
simulated clock among those of the wall clock would make timers leave at once, or in years.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol
from zlib import crc32

from ...rocketmq.message import Message
from ..disk import Files, directory_of, join
from ..errors import StoreUnsupported

_MAGIC = b"ESCKPT01"
_HEAD = struct.Struct(">8sQII")
_SLOT_SIZE = 64 << 10
_ROCKETMQ = struct.Struct(">6q")
_ROCKETMQ_SIZE = 4096
#: In the place of the newest index file's name while queues or index are made anew: they are not vouched for.
NO_INDEX = "none"


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes of the log that hold no readable record though later ones do: [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A promise: records below ``position`` are durable, and in queues and index unless ``index_name`` is NO_INDEX."""

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
        #: number of the newest checkpoint on disk
        self.sequence = 0

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
        self.sequence, checkpoint = max(sound, key=lambda slot: slot[0])
        return checkpoint

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the older slot, durable on return. Safe in any thread, one at a time; raises OSError."""
        fresh = not self._files.exists(self._path)
        sequence = self.sequence + 1
        content = checkpoint.to_bytes()
        head = _HEAD.pack(_MAGIC, sequence, len(content), 0)
        crc = crc32(content, crc32(head[:20]))
        file = self._files.open(self._path, create=True)
        try:
            file.write(_HEAD.pack(_MAGIC, sequence, len(content), crc) + content, (sequence % 2) * _SLOT_SIZE)
            file.sync()
        finally:
            file.close()
        self.sequence = sequence
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
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


# What a service keeps that follows from the log: progress, wheels, open transactions.


class DerivedWrite(Protocol):
    """Files of a service that a checkpoint vouches for."""

    def run(self, files: Files) -> None:
        """Write and sync them; any thread, after the log was synced and before the checkpoint. Raises OSError."""

    def done(self, *, saved: bool, now_ms: int) -> None:
        """Take over the outcome, in the engine's thread; ``saved`` says that the checkpoint stands."""


class Derived(Protocol):
    """A service fed by the log. ``topics``: whose records it wants to hear of; parked ones stand in one of them."""

    name: str
    topics: frozenset[str]

    @property
    def may_checkpoint(self) -> bool:
        """False while only the log can tell what was done, so that no checkpoint may pass it."""

    def resume(self, saved: Any | None, *, whole: bool) -> None:
        """Take over what the last checkpoint kept, None without one; ``whole``: all of the log is walked now."""

    def walked(self, message: Message) -> None:
        """Hear from recovery of a record of its topics."""

    def heard(self, parked: Message) -> None:
        """Hear from recovery that this parked record went out: a record that names it (ESC_SOURCE) is in the log."""

    def start(self, now_ms: int) -> None:
        """Begin to work, as recovery is over."""

    def synced(self, notes: Sequence[Any], now_ms: int) -> None:
        """Take over what it noted (``Store.note``) on records that are visible now."""

    def tick(self, now_ms: int) -> int | None:
        """Do what is due; return the moment of the next thing to do, None without any."""

    def state(self) -> Any:
        """Return what the checkpoint shall keep: small, JSON, equal as long as nothing changed."""

    def writes(self, *, clean: bool) -> DerivedWrite | None:
        """Return the files to write with a checkpoint taken now; ``clean``: it is the last one."""

    def oldest_position(self) -> int | None:
        """Return the lowest position of a record that is still needed, None if none is."""


# The mark of a simulated clock.

CLOCK_MARK = "simulatedClock"
_CLOCK_DIGITS = 20


def admit_clock(files: Files, root: str, now_ms: int, *, is_simulated: bool) -> None:
    """Let a broker have the store, which it has locked, and mark a new one. Raises StoreUnsupported, OSError."""
    is_marked = files.exists(join(root, CLOCK_MARK))
    if is_marked and not is_simulated:
        raise StoreUnsupported(
            f"The store {root} was written by a simulated clock, its times are not real: open it with"
            " ESCAPEMENT_SIMULATED_CLOCK set, or give this broker another directory (ESCAPEMENT_STORE)."
        )
    if is_simulated and not is_marked:
        if files.list(join(root, "commitlog")):
            raise StoreUnsupported(
                f"The store {root} was written by the real clock, a simulated one would spoil its times: give the"
                " demonstration a directory of its own (ESCAPEMENT_STORE), or leave ESCAPEMENT_SIMULATED_CLOCK out."
            )
        note_reached(files, root, now_ms)


def reached_ms(files: Files, root: str) -> int | None:
    """Return the moment that the store's clock has not passed; None without a mark."""
    if not files.exists(join(root, CLOCK_MARK)):
        return None
    file = files.open(join(root, CLOCK_MARK))
    try:
        written = file.read(_CLOCK_DIGITS, 0)
    finally:
        file.close()
    return int(written) if written.isdigit() else 0


def note_reached(files: Files, root: str, moment_ms: int) -> None:
    """Write, durably, that the clock has not passed a moment; makes the mark where there is none."""
    path = join(root, CLOCK_MARK)
    is_new = not files.exists(path)
    file = files.open(path, create=True)
    try:
        file.write(f"{moment_ms:0{_CLOCK_DIGITS}d}\n".encode(), 0)
        file.sync()
    finally:
        file.close()
    if is_new:
        files.sync_directory(root)
