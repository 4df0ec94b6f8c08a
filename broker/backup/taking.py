"""Taking a backup: the files beside the log while checkpoints are held off, then the log up to its end.

    1  hold the checkpoints off; copy tables, then what the last checkpoint vouches for; once more if one came between
    2  let them go on; open the segments, find the end of the log: that is the position of the backup
    3  copy the segments that are new, and of the last one what is new
    4  write the manifest

The hold is the lock on a file in the store, ``escapement.backup``, that broker and backup take in turn; so it ends with
the process that has it, however that ends. A broker that was kept waiting for minutes goes on without it
(``engine/log/upkeep.py``); the backup notices by the number of the checkpoint, and copies again.

What a table says of the log is below the position, as it was copied before. Retention may remove segments meanwhile:
they are open, and are read to their end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ..engine.disk import Files, join
from ..engine.errors import StoreLocked
from ..engine.log.checkpoint import Checkpoint
from ..engine.log.upkeep import BACKUP_LOCK
from ..engine.outside import refuse_outside
from .errors import BackupRefused
from .manifest import Manifest, Part, PartKind
from .reading import LogReader, Paced, Readable, checkpoint_of, filled_bytes, pieces_of, small_files

#: So often the files beside the log are copied while checkpoints go on all the same.
_TRIES = 5


#: A checkpoint takes seconds at most; who has the lock for longer is another backup.
_PATIENCE_S = 600.0
_PAUSE_S = 0.02


def rest() -> None:
    """Let the broker get on for a moment."""
    time.sleep(_PAUSE_S)


@contextmanager
def held(files: Files, root: str, pause: Callable[[], None] = rest) -> Iterator[None]:
    """Hold the store's checkpoints off. Raises BackupRefused if another backup does so for too long."""
    path = join(root, BACKUP_LOCK)
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            lock = files.lock(path)
            break
        except StoreLocked:
            if time.monotonic() > end_s:
                raise BackupRefused(
                    f"Another backup of {root} has been running for minutes; wait for it, or end it."
                ) from None
            pause()
    try:
        yield
    finally:
        lock.close()


class Target(Protocol):
    """Where a backup goes: a directory or a pipe."""

    new_bytes: int
    kept_bytes: int

    def add_file(self, path: str, kind: PartKind, size_bytes: int, pieces: Iterable[bytes]) -> Part:
        """Take in a file beside the log."""

    def drop_files(self) -> None:
        """Forget the files that were taken in, as they are copied once more."""

    def seal(self) -> None:
        """Keep the files that were taken in. Raises OSError."""

    def compare(self, segments: list[tuple[int, int]], segment: Callable[[int], Readable]) -> None:
        """Make sure that the log is that of the backups before. Raises BackupRefused."""

    def add_segment(self, start: int, size_bytes: int, filled: int, source: Readable) -> Part:
        """Take in a segment. Raises OSError, BackupRefused."""

    def note(self, manifest: Manifest) -> None:
        """Note how far it is."""

    def finish(self, manifest: Manifest) -> None:
        """Have the backup count."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The store that is backed up, and what a manifest says of the run. ``told`` hears how far it is; the log is read
    no faster than ``bytes_per_s``, if that is said."""

    root: str
    broker: str
    program: str
    told: Callable[[str], None] = lambda line: None
    pause: Callable[[], None] = rest
    bytes_per_s: float | None = None
    wait: Callable[[float], None] = time.sleep


def take(files: Files, origin: Origin, target: Target, now_ms: int) -> Manifest:
    """Take a backup of a store and return its manifest. Raises BackupRefused, StoreUnsupported, OSError."""
    if not files.exists(join(origin.root, "commitlog")):
        raise BackupRefused(f"{origin.root} is not a store: there is no {join(origin.root, 'commitlog')}.")
    refuse_outside(files, origin.root)
    parts, checkpoint, left_out = _copy_beside(files, origin, target)
    target.seal()
    origin.told(f"{len(parts):,} files beside the log, {sum(part.stored_bytes for part in parts):,} bytes")
    log = _opened(files, origin)
    try:
        start = checkpoint.position if checkpoint is not None else 0
        end = log.end(start, origin.pause)
        manifest = Manifest(
            program=origin.program, broker=origin.broker, taken_ms=now_ms, position=end.position,
            min_position=end.min_position, first_ms=end.first_ms, last_ms=end.last_ms,
            segment_size_bytes=log.segment_size_bytes,
            checkpoint_position=checkpoint.position if checkpoint is not None else None,
            sizes=log.sizes, left_out=tuple(left_out),
        )  # fmt: skip
        return _copy_log(origin, target, log, manifest, parts)
    finally:
        log.close()


def _copy_beside(files: Files, origin: Origin, target: Target) -> tuple[list[Part], Checkpoint | None, list[str]]:
    with held(files, origin.root, origin.pause):
        for _ in range(_TRIES):
            number, checkpoint = checkpoint_of(files, origin.root)
            found, left_out = small_files(files, origin.root)
            parts: list[Part] | None = None
            try:
                parts = [_copy_file(files, origin.root, path, kind, target) for path, kind in found]
            except FileNotFoundError:
                pass  # removed between the look and the copy: with its topic, or trimmed
            if parts is not None and checkpoint_of(files, origin.root)[0] == number:
                return parts, checkpoint, left_out
            target.drop_files()
            origin.pause()
    raise BackupRefused(
        f"The files of {origin.root} changed {_TRIES} times while they were copied: is its broker starting and"
        " stopping, or of a version that does not wait for backups? Take the backup again, or stop the broker for it."
    )


def _copy_file(files: Files, root: str, path: str, kind: PartKind, target: Target) -> Part:
    file = files.open(join(root, path))
    try:
        return target.add_file(path, kind, file.size(), pieces_of(file, filled_bytes(file)))
    finally:
        file.close()


def _opened(files: Files, origin: Origin) -> LogReader:
    """Return the log with all segments open; retention may remove some while they are opened."""
    for _ in range(_TRIES):
        try:
            return LogReader(files, origin.root)
        except FileNotFoundError:
            origin.pause()
    raise BackupRefused(f"The segments of {origin.root} cannot be opened: they are removed while they are looked for.")


def _copy_log(origin: Origin, target: Target, log: LogReader, manifest: Manifest, parts: list[Part]) -> Manifest:
    segments = log.segments(manifest.position)
    target.compare(segments, log.segment)
    copied: list[Part] = []
    for start, filled in segments:
        source: Readable = log.segment(start)
        if origin.bytes_per_s is not None:
            source = Paced(source, origin.bytes_per_s, origin.wait)
        part = target.add_segment(start, log.segment_size_bytes, filled, source)
        copied.append(part)
        target.note(manifest.with_parts(copied))
        origin.told(f"{part.path}: {filled:,} bytes, {len(copied)} of {len(segments)} segments")
    whole = manifest.with_parts([*copied, *parts])
    target.finish(whole)
    return whole
