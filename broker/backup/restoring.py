"""Restoring a backup into an empty directory.

    1  take the store's lock and set the mark that a restore is under way: no broker opens the directory
    2  copy every part, checking its SHA-256; segments get their full size
    3  cut the log and what follows from it, if it is to be as it was at an earlier moment (``cut.py``)
    4  set ``abort``, as after a kill: the broker reads the log from the last checkpoint on; remove the mark

A restore that was ended somewhere leaves the mark, and the next one clears the directory and begins anew.

A backup is rehearsed by restoring it to a directory of its own, where an engine opens it. Nobody drives that engine: it
has no sockets and is not ticked, so nothing is released, asked or answered. The store that the backup was taken of is
not looked at.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from ..engine.config import EngineConfig
from ..engine.disk import File, Files, directory_of, join
from ..engine.engine import Engine
from ..engine.errors import StoreLocked
from ..engine.fsck import Report
from ..engine.fsck.store import check_store
from ..engine.fsck.survey import counts_of, sizes_of
from ..engine.log.checkpoint import CLOCK_MARK, reached_ms
from ..engine.outside import RESTORING
from .cut import Cut, cut_store
from .directory import manifest_in, pieces_in, write_pieces
from .errors import BackupDamaged, BackupRefused
from .manifest import LOG_FOLDER, MANIFEST, Manifest, Part, parse
from .pipe import members_of
from .reading import pieces_of

_SPOOL = "escapement.restoring.objects"
#: A manifest of a million queue files; more is none.
_MOST_MANIFEST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Restored:
    """A store that was restored, and what was cut off, if anything."""

    manifest: Manifest
    position: int
    last_ms: int
    cut: Cut | None


def restore_directory(
    files: Files, directory: str, root: str, *, until_ms: int | None = None, told: Callable[[str], None]
) -> Restored:
    """Restore the backup in a directory. Raises BackupRefused, BackupDamaged, OSError."""
    manifest = manifest_in(files, directory)
    check_moment(manifest, until_ms)
    target = _Target(files, root)
    try:
        for part in manifest.parts:
            target.add(part.stored_as, pieces_in(files, directory, part))
            if part.kind == "log":
                told(f"{part.path}: {part.stored_bytes:,} bytes")
        return target.finish(manifest, until_ms)
    finally:
        target.close()


def restore_stream(
    files: Files, stream: IO[bytes], root: str, *, until_ms: int | None = None, told: Callable[[str], None]
) -> Restored:
    """Restore the backup that comes out of a pipe. Raises BackupRefused, BackupDamaged, OSError."""
    target = _Target(files, root)
    try:
        for name, pieces in members_of(stream):
            if name == MANIFEST:
                content = b"".join(_at_most(pieces, _MOST_MANIFEST_BYTES))
                manifest = parse(content, name)
                check_moment(manifest, until_ms)
                return target.finish(manifest, until_ms)
            target.add(name, pieces)
            if name.startswith(LOG_FOLDER):
                told(name)
        raise BackupDamaged("the stream", "it ends before its manifest")
    finally:
        target.close()


def check_moment(manifest: Manifest, until_ms: int | None) -> None:
    """Raise BackupRefused for a moment of which the backup does not know what was there."""
    if until_ms is None:
        return
    if until_ms > manifest.taken_ms:
        raise BackupRefused("The time is later than the backup: leave out --until, or use a newer backup.")
    if until_ms <= manifest.first_ms:
        raise BackupRefused("The time is before the first message of the backup; use an older backup.")


def _at_most(pieces: Iterator[bytes], limit: int) -> Iterator[bytes]:
    for piece in pieces:
        limit -= len(piece)
        if limit < 0:
            raise BackupDamaged(MANIFEST, "it is too long")
        yield piece


class _Target:
    """The store that is being made."""

    def __init__(self, files: Files, root: str) -> None:
        """Lock and mark an empty directory; raises BackupRefused for any other."""
        self._files = files
        self._root = root
        self._mark = join(root, RESTORING)
        self._sums: dict[str, tuple[str, int]] = {}
        names = files.list(root)
        if RESTORING not in names and [name for name in names if name not in ("lock", "lost+found")]:
            raise BackupRefused(f"{root} is not empty; give a directory that is not there yet, or is empty.")
        files.make_directory(root)
        try:
            self._lock = files.lock(join(root, "lock"))
        except StoreLocked:
            raise BackupRefused(f"{root} is in use, by a broker or another restore; give another directory.") from None
        files.open(self._mark, create=True).close()
        files.sync_directory(root)
        for name in names:
            self._clear(name)
        for folder in (LOG_FOLDER, "config", _SPOOL):
            files.make_directory(join(root, folder))

    def _clear(self, name: str) -> None:
        """Remove what a restore has left that was ended."""
        path = join(self._root, name)
        if name in ("lock", "lost+found", RESTORING):
            return
        if self._files.list(path) or name in (LOG_FOLDER, "config", _SPOOL):
            self._files.remove_directory(path)
            return
        with suppress(IsADirectoryError, PermissionError):
            self._files.remove(path)

    def add(self, stored_as: str, pieces: Iterator[bytes]) -> None:
        """Write one file of the backup; where it belongs is settled by the manifest. Raises BackupDamaged, OSError."""
        folder, _, name = stored_as.partition("/")
        is_segment = folder == LOG_FOLDER and name.isdigit()
        if not is_segment and not (folder == "objects" and name.isalnum()):
            raise BackupDamaged(stored_as, "no backup has such a file")
        if stored_as in self._sums:
            return
        file = self._files.open(join(self._root, LOG_FOLDER if is_segment else _SPOOL, name), create=True)
        try:
            written = write_pieces(file, pieces)
            file.sync()
        finally:
            file.close()
        self._sums[stored_as] = written

    def finish(self, manifest: Manifest, until_ms: int | None) -> Restored:
        """Check all that was written against the manifest, put it into its place, and have it be a store."""
        for part in manifest.parts:
            if part.stored_as not in self._sums:
                raise BackupDamaged(part.stored_as, "it is missing")
            if self._sums[part.stored_as] != (part.sha256, part.stored_bytes):
                raise BackupDamaged(part.stored_as, "its checksum differs")
        uses = Counter(part.stored_as for part in manifest.parts)
        for part in manifest.parts:
            uses[part.stored_as] -= 1
            self._place(part, is_last=not uses[part.stored_as])
        self._settle()
        position, last_ms, cut = manifest.position, manifest.last_ms, None
        if until_ms is not None:
            cut = cut_store(self._files, self._root, manifest, until_ms)
            position, last_ms = cut.position, cut.last_ms
        self._files.open(join(self._root, "abort"), create=True).close()
        self._files.sync_directory(self._root)
        self._files.remove(self._mark)
        self._files.sync_directory(self._root)
        return Restored(manifest, position, last_ms, cut)

    def _place(self, part: Part, *, is_last: bool) -> None:
        """Give a file its place and its full size; what is alike was stored once."""
        files, path = self._files, join(self._root, part.path)
        if part.kind == "log":
            file = files.open(path)
            try:
                file.allocate(part.size_bytes)
                file.sync()
            finally:
                file.close()
            return
        files.make_directory(directory_of(path))
        spooled = join(self._root, _SPOOL, part.sha256)
        if is_last:
            files.rename(spooled, path)
        file = files.open(path, create=True)
        try:
            if not is_last:
                self._copy(spooled, part.stored_bytes, file)
            file.truncate(part.size_bytes)
            file.sync()
        finally:
            file.close()

    def _copy(self, path: str, size_bytes: int, target: File) -> None:
        source = self._files.open(path)
        try:
            at = 0
            for piece in pieces_of(source, size_bytes):
                target.write(piece, at)
                at += len(piece)
        finally:
            source.close()

    def _settle(self) -> None:
        """Make the names durable, and remove what the files beside the log were copied from."""
        files, root = self._files, self._root
        files.remove_directory(join(root, _SPOOL))
        for folder in _folders(files, root):
            files.sync_directory(folder)

    def close(self) -> None:
        """Give the directory free; closing twice is fine."""
        self._lock.close()


def _folders(files: Files, folder: str) -> Iterator[str]:
    """Yield the folders below one, and itself last."""
    for name in files.list(folder):
        if files.list(join(folder, name)):
            yield from _folders(files, join(folder, name))
    yield folder


# Rehearsing.


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a restored backup was found to be. ``walked``: records that the start read in the log."""

    restored: Restored
    restore_s: float
    start_s: float
    walked: int
    counts: dict[str, int]
    report: Report


def rehearse(
    files: Files,
    root: str,
    restore: Callable[[], Restored],
    now_ms: int,
    *,
    delay_levels: str | None = None,
) -> Rehearsal:
    """Restore by a call to ``root`` and look at the store. Raises as the restore, and StoreUnsupported, OSError."""
    begin_s = time.monotonic()
    restored = restore()
    restored_s = time.monotonic()
    is_simulated = files.exists(join(root, CLOCK_MARK))
    moment_ms = (reached_ms(files, root) or now_ms) if is_simulated else now_ms
    manifest = restored.manifest
    sizes = {"segment_size_bytes": manifest.segment_size_bytes, **manifest.sizes, **sizes_of(files, root)}
    config: dict[str, Any] = {"root": root, "is_simulated": is_simulated, **sizes}
    if delay_levels is not None:
        config["delay_levels"] = delay_levels
    engine = Engine.open(EngineConfig(**config), files, moment_ms)
    try:
        started_s = time.monotonic()
        counts = counts_of(engine, moment_ms)
        walked = engine.health().records_recovered
    finally:
        engine.close(moment_ms)
    report = check_store(files, root)
    return Rehearsal(restored, restored_s - begin_s, started_s - restored_s, walked, counts, report)
