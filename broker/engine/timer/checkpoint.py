"""The files of the timers that a checkpoint writes, and what may go from memory and disk with it.

``escapement.timers``, replaced as a whole, ours:

     0  8 magic "ESCTIM01"    8  8 sequence    16  4 length of the head    20  4 length of the map    24  4 CRC32
    28  head (JSON, see Kept), then the map of what is over (state.py), compressed

It belongs to the log as it was when it was written, and may be newer than the checkpoint: what recovery walks again
below ``end_offset`` is known already.

``timerwheel`` is written less often than the state; ``wheels`` names the files that may be found (position in the timer
log that one stands for, and CRC32): the new one is renamed to its place only after the state that names it is durable.
Units behind that position are put into the wheel again at start.

``config/timercheck``, RocketMQ's, 4,096 bytes of which 56 are used: 8 read time, 8 position in the timer log that
the wheel's file stands for, 8 next offset of the queue, 8 the same, 8 state version, 8 time, 8 counter. State version
is our mark: RocketMQ writes 0, and that it was there in between means that it has delivered timers.

``config/escapementTimers.json``, ours: whether releases are paused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any
from zlib import crc32

from ..disk import Files, directory_of, join, load_file, replace_file, save_file
from ..store import Store
from ..tables import json_file
from .index import TimerIndex
from .log import UNIT_SIZE, TimerLogWrite
from .state import TimerStates, pack_chunks, unpack_chunks
from .wheel import checksum_of, second_of

# The files.

_MAGIC = b"ESCTIM01"
_HEAD = struct.Struct(">8sQIII")
_CHECK = struct.Struct(">7q")
_CHECK_SIZE = 4096
CHECK_BYTES = _CHECK.size
#: "ESCAPEM" as a number.
OUR_STATE_VERSION = 0x4553434150454D


@dataclass(slots=True)
class Kept:
    """The head of the state file. Moments in ms, ``safe_second``: everything up to it is over."""

    end_offset: int = 0
    log_min: int = 0
    log_end: int = 0
    safe_second: int = 0
    wheels: list[tuple[int, int]] = field(default_factory=list)
    slots: int = 0
    file_size: int = 0
    by_topic: dict[str, int] = field(default_factory=dict)
    displaced: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    recalled: list[tuple[str, str, int]] = field(default_factory=list)


class StateWrite:
    """The files that a checkpoint writes, in order: timer log, wheel beside its place, state, wheel in its place."""

    def __init__(self, paths: Paths, sequence: int, kept: Kept, chunks: list[tuple[int, bytes]]) -> None:
        self.paths = paths
        self.sequence = sequence
        self.kept = kept
        self.chunks = chunks
        self.log_write: TimerLogWrite | None = None
        self.pages: list[tuple[int, bytes]] | None = None
        self.wheel_position = 0
        self.wheel_size = 0
        self.check_counter = 0
        self.now_ms = 0
        self.on_done: Callable[[StateWrite, bool], None] = lambda write, saved: None

    def run(self, files: Files) -> None:
        """Write all files in order, durable on return. Raises OSError."""
        if self.log_write is not None:
            self.log_write.run(files)
        if self.pages is not None:
            self._write_wheel(files)
            self.kept.wheels = [*self.kept.wheels[-1:], (self.wheel_position, checksum_of(self.pages, self.wheel_size))]
        content = pack_state(self.sequence, self.kept, self.chunks)
        replace_file(files, self.paths.state, content)
        files.sync_directory(directory_of(self.paths.state))
        if self.pages is not None:
            files.rename(self.paths.wheel + ".tmp", self.paths.wheel)
            files.sync_directory(directory_of(self.paths.wheel))
        wheel_position = self.kept.wheels[-1][0] if self.kept.wheels else 0
        check = check_bytes(self.kept, wheel_position, self.now_ms, self.check_counter)
        save_file(files, self.paths.check, check)

    def _write_wheel(self, files: Files) -> None:
        temporary = self.paths.wheel + ".tmp"
        files.remove(temporary)
        file = files.open(temporary, create=True)
        try:
            file.truncate(self.wheel_size)
            for at, page in self.pages or ():
                file.write(page, at)
            file.sync()
        finally:
            file.close()

    def done(self, *, saved: bool, now_ms: int) -> None:
        """Say whether a checkpoint vouches for them."""
        self.on_done(self, saved)


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of the files that a checkpoint writes."""

    state: str
    wheel: str
    check: str


def pack_state(sequence: int, kept: Kept, chunks: list[tuple[int, bytes]]) -> bytes:
    """Return the content of the state file."""
    head = json.dumps(asdict(kept)).encode()
    over = pack_chunks(chunks)
    crc = crc32(over, crc32(head, sequence & 0xFFFFFFFF))
    return _HEAD.pack(_MAGIC, sequence, len(head), len(over), crc) + head + over


def load_state(files: Files, path: str) -> tuple[int, Kept, list[tuple[int, bytes]]] | None:
    """Return (sequence, head, chunks) of the state file, None if there is none that is sound."""
    content = load_file(files, path)
    if content is None or len(content) < _HEAD.size:
        return None
    magic, sequence, head_size, over_size, crc = _HEAD.unpack_from(content)
    head = content[_HEAD.size : _HEAD.size + head_size]
    over = content[_HEAD.size + head_size :]
    if magic != _MAGIC or len(over) != over_size or crc32(over, crc32(head, sequence & 0xFFFFFFFF)) != crc:
        return None
    try:
        value: dict[str, Any] = json.loads(head)
        kept = Kept(**value)
        kept.wheels = [(int(position), int(checksum)) for position, checksum in kept.wheels]
        return sequence, kept, unpack_chunks(over)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def check_bytes(kept: Kept, wheel_position: int, now_ms: int, counter: int) -> bytes:
    """Return the whole content of ``timercheck``."""
    offset = kept.end_offset
    head = _CHECK.pack(kept.safe_second * 1000, wheel_position, offset, offset, OUR_STATE_VERSION, now_ms, counter)
    return head.ljust(_CHECK_SIZE, b"\0")


def is_foreign(files: Files, path: str) -> bool:
    """Tell whether Apache RocketMQ wrote ``timercheck`` last."""
    content = load_file(files, path)
    return content is not None and len(content) >= _CHECK.size and _CHECK.unpack_from(content)[4] != OUR_STATE_VERSION


def check_of_rocketmq(files: Files, path: str) -> int:
    """Return RocketMQ's read time in ms, 0 if there is none."""
    content = load_file(files, path)
    return int(_CHECK.unpack_from(content)[0]) if content is not None and len(content) >= _CHECK.size else 0


# Putting a checkpoint together.

#: A slot may be used once more shortly after its second: so far behind it is looked at again.
_LOOK_BACK = 120


class TimerCheckpoints:
    """Puts together what a checkpoint writes of the timers, and takes over the outcome."""

    def __init__(self, store: Store, states: TimerStates, index: TimerIndex) -> None:
        root = store.config.root
        self.paths = Paths(
            join(root, "escapement.timers"), join(root, "timerwheel"), join(root, "config", "timercheck")
        )
        self._pause_path = join(root, "config", "escapementTimers.json")
        self._store = store
        self._states = states
        self._index = index
        self._sequence = 0
        self._wheels: list[tuple[int, int]] = []
        self._wheel_ms = 0
        self._wheel_log_end = -1
        self._cleared = 0

    def start(self, kept: Kept, sequence: int, now_ms: int) -> None:
        """Go on from what was kept."""
        self._sequence = sequence
        self._wheels = kept.wheels
        self._wheel_log_end = kept.wheels[-1][0] if kept.wheels else -1
        self._wheel_ms = now_ms
        self._cleared = kept.safe_second

    def writes(self, now_ms: int, clock_steps: dict[str, int], *, clean: bool) -> StateWrite:
        """Return what a checkpoint taken now writes; ``clean``: it is the last one."""
        states, index = self._states, self._index
        safe = self.safe_second()
        self._clear(safe)
        self._sequence += 1
        kept = Kept(
            end_offset=states.end_offset,
            log_min=index.log.min_position,
            log_end=index.log.end_position,
            safe_second=safe,
            wheels=self._wheels[-3:],
            slots=index.wheel.slots,
            file_size=index.log.file_size,
            by_topic=dict(states.by_topic),
            displaced=[(s.second, s.first, s.last, s.number, s.rolls) for s in index.wheel.displaced.values()],
            totals=asdict(states.totals),
            steps=clock_steps,
            recalled=states.recalled.kept(now_ms),
        )
        write = StateWrite(self.paths, self._sequence, kept, states.chunks())
        write.log_write = index.log.unwritten()
        write.now_ms, write.check_counter, write.on_done = now_ms, self._sequence, self._done
        if self._wants_wheel(now_ms, clean=clean):
            write.pages = index.wheel.pages()
            write.wheel_size = len(index.wheel.raw)
            write.wheel_position = index.log.end_position
            self._wheel_ms = now_ms
        return write

    def check_point(self, now_ms: int) -> bytes:
        """Return the first 56 bytes of ``timercheck`` as of now."""
        kept = Kept(end_offset=self._states.end_offset, safe_second=self.safe_second())
        return check_bytes(kept, self._index.log.end_position, now_ms, self._sequence)[:CHECK_BYTES]

    def renew(self) -> None:
        """Have the wheel written with the next checkpoint: it was made anew."""
        self._wheel_log_end = -1

    def save_paused(self, paused: bool) -> None:
        """Remember that releases are paused. Raises OSError."""
        save_file(self._store.files, self._pause_path, json_file.dump({"paused": paused}))

    def load_paused(self) -> bool:
        """Tell whether releases were paused when the broker stopped."""
        read = json_file.load(self._store.files, self._pause_path, lambda value: bool(value["paused"]))
        return bool(read)

    def safe_second(self) -> int:
        """Return the second up to which everything is over, durably."""
        releasing = [second_of(due_ms) for due_ms in self._states.releasing_ms()]
        return min([self._index.lowest_second(), *releasing]) - 1

    def _wants_wheel(self, now_ms: int, *, clean: bool) -> bool:
        config, fresh = self._store.config, self._index.log.end_position - self._wheel_log_end
        if self._wheel_log_end < 0:
            return clean or fresh > 1
        if clean or fresh >= config.timer_wheel_units * UNIT_SIZE:
            return fresh > 0 or clean
        return fresh > 0 and not self._wheel_ms <= now_ms < self._wheel_ms + config.timer_wheel_interval_ms

    def _clear(self, safe: int) -> None:
        wheel = self._index.wheel
        second = max(self._cleared - _LOOK_BACK, safe - wheel.places + 1)
        while (found := wheel.next_used(second, safe)) is not None:
            wheel.clear(found)
            second = found + 1
        for old in [old for old in wheel.displaced if old <= safe]:
            del wheel.displaced[old]
        for minute in [minute for minute in self._index.minutes if minute < safe // 60]:
            del self._index.minutes[minute]
        self._cleared = safe

    def _done(self, write: StateWrite, saved: bool) -> None:
        index = self._index
        self._wheels = write.kept.wheels
        if not saved:
            return
        if write.log_write is not None:
            index.log.wrote(write.log_write)
        if write.pages is not None:
            self._wheel_log_end = write.wheel_position
        self._trim(write.kept.safe_second)

    def _trim(self, safe: int) -> None:
        """Remove a file of the timer log that nothing leads to any more."""
        index = self._index
        log = index.log
        end = log.min_position - log.min_position % log.file_size + log.file_size
        last = log.last_unit_of(end - log.file_size) if end < log.end_position else None
        if last is None or last.write_ms // 1000 + index.wheel.slots > safe:
            return
        if end <= self._wheel_log_end and min((slot.first for slot in index.wheel.used()), default=end) >= end:
            log.trim(end)
