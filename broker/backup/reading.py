"""What a backup reads of a store, whether its broker runs or not. Nothing in it is changed but the lock of the hold.

    commitlog/*                                            the log: append-only; below a checkpoint it never changes
    config/topics.json and the other tables, simulatedClock    replaced as a whole, truth
    consumequeue, index, timerlog, timerwheel, escapement.*, checkpoint, config/delayOffset.json, config/timercheck
                                                           derived: written with checkpoints only

So one checkpoint and what it vouches for are copied together, while the next one is held off (``taking.py``). If one
was written all the same its number has changed, and all is copied again. In the end the same is there as after a kill
of the broker, which its recovery is made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ..engine.config import EngineConfig
from ..engine.disk import File, Files, join
from ..engine.fsck.survey import sizes_of
from ..engine.fsck.unwritten import UnwrittenFiles
from ..engine.log.checkpoint import CLOCK_MARK, Checkpoint, CheckpointFile
from ..engine.log.commit_log import CommitLog
from ..engine.log.recovery import LOOK_AHEAD_BYTES
from ..engine.log.upkeep import BACKUP_LOCK
from ..engine.outside import FORMAT_FILE
from ..engine.timer.pace import PACE_FILE, SCRATCH
from ..rocketmq.layout import store_ms_of
from .manifest import PartKind

#: Bytes read at once.
PIECE_BYTES = 1 << 20
_SEGMENT_UNDER_WAY = "escapement.segment."
_OF_THE_PROCESS = ("lock", "abort", BACKUP_LOCK)
#: how fast this machine releases says nothing of the one where the backup is restored
_OF_THE_MACHINE = (PACE_FILE, f"{PACE_FILE}.bak", SCRATCH)
_DERIVED_FILES = ("checkpoint", "timerwheel", "escapement.checkpoint", "escapement.timers")
_DERIVED_IN_TURN = ("escapement.halves.", "escapement.pops.")
_DERIVED_FOLDERS = {"consumequeue": 2, "index": 0, "timerlog": 0}
_PROGRESS = ("delayOffset.json", "timercheck")
#: How often what stands behind the last sound record is looked at again: a broker may be writing it right now.
_LOOKS_AT_END = 50


def checkpoint_of(files: Files, root: str) -> tuple[int, Checkpoint | None]:
    """Return the newest checkpoint of ours and its number; (0, None) without one."""
    file = CheckpointFile(files, join(root, "escapement.checkpoint"), join(root, "checkpoint"))
    checkpoint = file.load()
    return file.sequence, checkpoint


# The files beside the log.


def small_files(files: Files, root: str) -> tuple[list[tuple[str, PartKind]], list[str]]:
    """Return the path and kind of every file beside the log, tables first, and what is not part of a backup."""
    tables: list[tuple[str, PartKind]] = []
    derived: list[tuple[str, PartKind]] = []
    left_out: list[str] = []
    for name in files.list(root):
        if name == "config":
            for table in files.list(join(root, name)):
                path = f"config/{table}"
                if files.list(join(root, path)):
                    left_out.append(path)
                elif table.removesuffix(".bak") in _PROGRESS:
                    derived.append((path, "derived"))
                elif not table.endswith(".tmp"):
                    tables.append((path, "table"))
        elif name in _DERIVED_FOLDERS:
            derived += [(path, "derived") for path in _files_below(files, root, name, _DERIVED_FOLDERS[name])]
        elif name in _DERIVED_FILES or name.startswith(_DERIVED_IN_TURN):
            derived.append((name, "derived"))
        elif name in (CLOCK_MARK, FORMAT_FILE):
            tables.append((name, "table"))
        elif not (
            name in (*_OF_THE_PROCESS, *_OF_THE_MACHINE, "commitlog")
            or name.startswith(_SEGMENT_UNDER_WAY)
            or _is_tmp(name)
        ):
            left_out.append(name)
    return tables + derived, left_out


def _files_below(files: Files, root: str, folder: str, levels: int) -> Iterator[str]:
    for name in files.list(join(root, folder)):
        path = f"{folder}/{name}"
        if levels:
            yield from _files_below(files, root, path, levels - 1)
        elif not _is_tmp(name):
            yield path


def _is_tmp(name: str) -> bool:
    return name.endswith(".tmp")


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, at: int) -> bytes:
        """Return up to ``size`` bytes from ``at``; fewer at the end."""


class Paced:
    """A file that is read no faster than so many bytes a second, so that its disk has time for others."""

    def __init__(self, file: Readable, bytes_per_s: float, wait: Callable[[float], None]) -> None:
        self._file = file
        self._bytes_per_s = bytes_per_s
        self._wait = wait

    def read(self, size: int, at: int) -> bytes:
        """Read, then wait as long as that many bytes may take."""
        found = self._file.read(size, at)
        self._wait(len(found) / self._bytes_per_s)
        return found


def pieces_of(file: Readable, size_bytes: int, at: int = 0) -> Iterator[bytes]:
    """Yield the bytes of a file from a place up to ``size_bytes``; fewer if it ends before."""
    while at < size_bytes and (piece := file.read(min(PIECE_BYTES, size_bytes - at), at)):
        yield piece
        at += len(piece)


def filled_bytes(file: File) -> int:
    """Return the length of a file without the zeros at its end: queues and index are made as long as they will be."""
    end = file.size()
    while end:
        begin = max(0, end - PIECE_BYTES)
        filled = file.read(end - begin, begin).rstrip(b"\0")
        if filled:
            return begin + len(filled)
        end = begin
    return 0


# The log.


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the log of a backup begins and ends, and when those records were stored (0 without any)."""

    min_position: int
    position: int
    first_ms: int
    last_ms: int


def _size_of_first(files: Files, directory: str) -> int:
    """Return the size of the segments that are there, or of those that would be made."""
    for name in files.list(directory):
        if name.isdigit():
            file = files.open(join(directory, name))
            try:
                return file.size()
            finally:
                file.close()
    return EngineConfig(root=directory).segment_size_bytes


class LogReader:
    """The segments of a log, all open, so that one that retention removes meanwhile can be read to its end."""

    def __init__(self, files: Files, root: str) -> None:
        """Open them. Raises StoreUnsupported for a gap, FileNotFoundError if one goes meanwhile."""
        directory = join(root, "commitlog")
        self.sizes = sizes_of(files, root)
        self.segment_size_bytes = self.sizes.get("segment_size_bytes") or _size_of_first(files, directory)
        self._unwritten = UnwrittenFiles(files)
        self._log = CommitLog(self._unwritten, directory, self.segment_size_bytes)

    def end(self, start_position: int, pause: Callable[[], None]) -> LogEnd:
        """Return the end of the last sound record, looked for from a position below which all is known to be sound."""
        chain = self._log.chain
        position, last_ms = max(start_position, chain.min_position), 0
        looks = 0
        while True:
            begin = position
            for reached, record in self._log.walk(begin, chain.end_position):
                position = reached
                if record is not None:
                    last_ms = store_ms_of(record)
            following = self._log.next_sound(position, min(chain.end_position, position + LOOK_AHEAD_BYTES))
            if following is None:
                break
            looks = looks + 1 if position == begin else 1
            if looks > _LOOKS_AT_END:
                # not a write under way, but damage; the broker's recovery keeps what follows, too
                position, looks = following, 0
            elif looks > 1:
                pause()
        return LogEnd(chain.min_position, position, self._first_ms(position), last_ms or self._last_ms(position))

    def _first_ms(self, end: int) -> int:
        for _, record in self._log.walk(self._log.chain.min_position, end):
            return store_ms_of(record) if record is not None else 0
        return 0

    def _last_ms(self, end: int) -> int:
        """Return when the last record below the end was stored, looked for in the last segment, or the one before."""
        chain = self._log.chain
        for start in [start for start in reversed(chain.segments()) if start < end][:2]:
            following: int | None = start
            last_ms, limit = 0, min(end, start + chain.segment_size)
            while following is not None and following < limit:
                position = following
                for reached, record in self._log.walk(following, limit):
                    position = reached
                    last_ms = store_ms_of(record) if record is not None else last_ms
                following = self._log.next_sound(position, limit)
            if last_ms:
                return last_ms
        return 0

    def segments(self, end_position: int) -> list[tuple[int, int]]:
        """Return first position and written bytes of each segment that holds something below the end."""
        size = self.segment_size_bytes
        return [
            (start, min(size, end_position - start)) for start in self._log.chain.segments() if start < end_position
        ]

    def segment(self, start: int) -> File:
        """Return the open file of a segment."""
        return self._log.chain.file_at(start)[0]

    def close(self) -> None:
        """Close all segments; closing twice is fine."""
        self._log.close()
        self._unwritten.close()
