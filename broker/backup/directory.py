"""A backup as a directory: written so that whatever a kill or a power loss leaves is the last whole backup, or none.

Files beside the log are kept under the name of their content, so what did not change is there already. A segment of the
log only grows, so the next backup appends to the last one and has nothing to do with those before. What the manifest
does not name is removed when the new manifest is on disk; until then the one before it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Protocol

from ..engine.disk import File, Files, join, load_file, replace_file
from ..engine.errors import StoreLocked
from .errors import BackupDamaged, BackupRefused
from .manifest import LOG_FOLDER, MANIFEST, OBJECT_FOLDER, PARTIAL, Manifest, Part, PartKind, parse
from .reading import Readable, pieces_of

_UNDER_WAY = "under-way."
#: Made durable in such portions: what waits for the disk in one heap keeps the broker's own syncs waiting behind it.
_SYNC_BYTES = 8 << 20


def write_pieces(file: File, pieces: Iterable[bytes]) -> tuple[str, int]:
    """Write a file from its beginning, zeros as holes; returns the SHA-256 of what was given, and how many bytes."""
    digest, stored = sha256(), 0
    for piece in pieces:
        digest.update(piece)
        if piece.count(0) != len(piece):
            file.write(piece, stored)
        stored += len(piece)
    return digest.hexdigest(), stored


class _Digest(Protocol):
    """What hashlib makes of bytes that come one after the other."""

    def update(self, data: bytes, /) -> None:
        """Go on with these bytes."""

    def hexdigest(self) -> str:
        """Return the digest of all so far."""


def manifest_in(files: Files, directory: str) -> Manifest:
    """Return the manifest of a backup that was finished. Raises BackupRefused, BackupDamaged."""
    content = load_file(files, join(directory, MANIFEST))
    if content is not None:
        return parse(content, join(directory, MANIFEST))
    if files.exists(join(directory, PARTIAL)) or files.exists(join(directory, OBJECT_FOLDER)):
        raise BackupRefused(
            f"The backup in {directory} was begun and not finished: take it again, to the same directory, which copies"
            " only what is missing."
        )
    raise BackupRefused(f"{directory} is no backup: there is no {MANIFEST}.")


class BackupDirectory:
    """Writes one backup into a directory, on top of those before."""

    def __init__(self, files: Files, directory: str) -> None:
        """Lock the directory, making it if need be. Raises BackupRefused if it is in use, or something else."""
        self._files = files
        self._directory = directory
        self._refuse_other()
        for folder in (LOG_FOLDER, OBJECT_FOLDER):
            files.make_directory(join(directory, folder))
        try:
            self._lock = files.lock(join(directory, "lock"))
        except StoreLocked:
            raise BackupRefused(f"Another backup is being written to {directory}; wait for it.") from None
        self._fresh: dict[str, Part] = {}
        self._known: dict[str, Part] = {}
        for name in (MANIFEST, PARTIAL):
            content = load_file(files, join(directory, name))
            if content is not None:
                self._known.update((part.path, part) for part in parse(content, join(directory, name)).segments)
        #: a segment that was compared with the store's, and the digest as far as it goes
        self._compared: tuple[str, _Digest] | None = None
        self._sweep_under_way()
        #: bytes that were written, and that were there from before
        self.new_bytes = self.kept_bytes = 0

    def _refuse_other(self) -> None:
        names = set(self._files.list(self._directory))
        if names - {MANIFEST, PARTIAL, LOG_FOLDER, OBJECT_FOLDER, "lock", f"{MANIFEST}.tmp", f"{PARTIAL}.tmp"}:
            raise BackupRefused(f"{self._directory} holds something else than a backup; give a directory of its own.")

    def _sweep_under_way(self) -> None:
        for name in self._files.list(join(self._directory, OBJECT_FOLDER)):
            if name.startswith(_UNDER_WAY):
                self._files.remove(join(self._directory, OBJECT_FOLDER, name))

    def compare(self, segments: list[tuple[int, int]], segment: Callable[[int], Readable]) -> None:
        """Make sure that the store's log goes on where the backups before end, so that what they have is not copied
        again: their last segment is read in the store. Raises BackupRefused where it is another log."""
        last = max(self._known.values(), key=lambda part: part.start_position, default=None)
        if last is None:
            return
        filled = dict(segments).get(last.start_position)
        if filled is None and segments and last.start_position < segments[0][0]:
            self._known.clear()
            return
        if filled is None or filled < last.stored_bytes:
            raise self._another_log()
        digest = sha256()
        for piece in pieces_of(segment(last.start_position), last.stored_bytes):
            digest.update(piece)
        if digest.hexdigest() != last.sha256:
            raise self._another_log()
        self._compared = (last.path, digest)

    def _another_log(self) -> BackupRefused:
        return BackupRefused(
            f"The log of the store is not the one that is in {self._directory}: it is another store, or it was restored"
            " to an earlier time, or lost its unsynced end in a power failure. Take the backup to a new directory."
        )

    # the files beside the log

    def add_file(self, path: str, kind: PartKind, size_bytes: int, pieces: Iterable[bytes]) -> Part:
        """Take in a file; it is durable after ``seal``."""
        temporary = join(self._directory, OBJECT_FOLDER, f"{_UNDER_WAY}{len(self._fresh)}")
        file = self._files.open(temporary, create=True)
        try:
            digest, stored = write_pieces(file, pieces)
        finally:
            file.close()
        part = Part(path, kind, max(size_bytes, stored), stored, digest)
        if part.stored_as in {known.stored_as for known in self._fresh.values()} or self._has(part):
            self._files.remove(temporary)
            self.kept_bytes += stored
        else:
            self._fresh[temporary] = part
            self.new_bytes += stored
        return part

    def _has(self, part: Part) -> bool:
        with suppress(FileNotFoundError):
            file = self._files.open(join(self._directory, part.stored_as))
            try:
                return file.size() == part.stored_bytes
            finally:
                file.close()
        return False

    def drop_files(self) -> None:
        """Forget the files that were taken in, as they are copied once more."""
        self._fresh.clear()
        self._sweep_under_way()

    def seal(self) -> None:
        """Make the files that were taken in durable, each under its name. Raises OSError."""
        for temporary, part in self._fresh.items():
            file = self._files.open(temporary)
            try:
                file.sync()
            finally:
                file.close()
            self._files.rename(temporary, join(self._directory, part.stored_as))
        self._fresh.clear()
        self._files.sync_directory(join(self._directory, OBJECT_FOLDER))

    # the log

    def add_segment(self, start: int, size_bytes: int, filled: int, source: Readable) -> Part:
        """Take in a segment, durable on return: only what is new of it is written. Raises OSError."""
        path = f"{LOG_FOLDER}/{start:020d}"
        known = self._known.get(path)
        if known is not None and known.stored_bytes == filled == size_bytes and self._has_whole(known):
            self.kept_bytes += filled
            return known
        digest: _Digest = sha256()
        at = 0
        if known is not None and self._has_whole(known) and self._compared and self._compared[0] == path:
            digest, at = self._compared[1], known.stored_bytes
        self.kept_bytes += at
        file = self._files.open(join(self._directory, path), create=True)
        try:
            for piece in pieces_of(source, filled, at):
                digest.update(piece)
                file.write(piece, at)
                at += len(piece)
                self.new_bytes += len(piece)
                if at % _SYNC_BYTES < len(piece):
                    file.sync()
            file.sync()
        finally:
            file.close()
        if at != filled:
            raise BackupRefused(f"Segment {path} of the store is shorter than its log; check the store with fsck.")
        self._files.sync_directory(join(self._directory, LOG_FOLDER))
        return Part(path, "log", size_bytes, filled, digest.hexdigest())

    def _has_whole(self, part: Part) -> bool:
        """Tell whether a segment's file is at least as long as its part says: more may follow of a run that ended."""
        with suppress(FileNotFoundError):
            file = self._files.open(join(self._directory, part.stored_as))
            try:
                return file.size() >= part.stored_bytes
            finally:
                file.close()
        return False

    # the end

    def note(self, manifest: Manifest) -> None:
        """Note what a run that ends now would leave to the next one. Raises OSError."""
        replace_file(self._files, join(self._directory, PARTIAL), manifest.to_bytes())
        self._files.sync_directory(self._directory)

    def finish(self, manifest: Manifest) -> None:
        """Have the backup count, and remove what does not belong to it. Raises OSError."""
        replace_file(self._files, join(self._directory, MANIFEST), manifest.to_bytes())
        self._files.sync_directory(self._directory)
        self._files.remove(join(self._directory, PARTIAL))
        wanted = {part.stored_as for part in manifest.parts}
        for folder in (LOG_FOLDER, OBJECT_FOLDER):
            for name in self._files.list(join(self._directory, folder)):
                if f"{folder}/{name}" not in wanted:
                    self._files.remove(join(self._directory, folder, name))

    def close(self) -> None:
        """Let others write here; closing twice is fine."""
        self._lock.close()


def pieces_in(files: Files, directory: str, part: Part) -> Iterator[bytes]:
    """Yield the content of a part, which is as long as the manifest says. Raises BackupDamaged."""
    try:
        file = files.open(join(directory, part.stored_as))
    except FileNotFoundError:
        raise BackupDamaged(part.stored_as, "it is missing") from None
    try:
        yield from pieces_of(file, part.stored_bytes)
    finally:
        file.close()
