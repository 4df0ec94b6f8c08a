"""A backup as a stream: a tar archive with the files that a directory would hold, the manifest last.

A pipe may be slow, and the broker's checkpoints are held off only while the files beside the log are copied. So those
go to a temporary directory first, a tenth of the log or so; the log goes straight into the pipe. A stream that ends
early has no manifest, and is no backup.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from io import BytesIO
from typing import IO

from ..engine.disk import Files, join
from .directory import BackupDirectory, pieces_in
from .errors import BackupDamaged
from .manifest import LOG_FOLDER, MANIFEST, Manifest, Part, PartKind
from .reading import PIECE_BYTES, Readable, pieces_of


class _Pieces:
    """Pieces as something to read from, that hashes what is read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""
        self.digest = sha256()

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end."""
        while len(self._rest) < size and (piece := next(self._pieces, b"")):
            self._rest += piece
        found, self._rest = self._rest[:size], self._rest[size:]
        self.digest.update(found)
        return found


class BackupPipe:
    """Writes one backup into a stream. ``spool`` is an empty directory for what must not wait for the pipe."""

    def __init__(self, files: Files, spool: str, out: IO[bytes]) -> None:
        self._files = files
        self._spool_path = spool
        self._spool = BackupDirectory(files, spool)
        self._parts: dict[str, Part] = {}
        self._tar = tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, bufsize=PIECE_BYTES)  # noqa: SIM115 - ended by finish; a stream that was cut off stays without its end
        self.new_bytes = self.kept_bytes = 0

    def add_file(self, path: str, kind: PartKind, size_bytes: int, pieces: Iterable[bytes]) -> Part:
        """Take in a file; it goes into the stream with ``seal``."""
        part = self._spool.add_file(path, kind, size_bytes, pieces)
        self._parts[part.stored_as] = part
        return part

    def drop_files(self) -> None:
        """Forget the files that were taken in, as they are copied once more."""
        self._parts.clear()
        self._spool.drop_files()

    def seal(self) -> None:
        """Send the files that were taken in. Raises OSError."""
        self._spool.seal()
        for name, part in self._parts.items():
            pieces = _Pieces(pieces_in(self._files, self._spool_path, part))
            self._send(name, part.stored_bytes, pieces)
            self._files.remove(join(self._spool_path, name))

    def compare(self, segments: list[tuple[int, int]], segment: object) -> None:
        """Do nothing, as a stream has no backups before it."""

    def add_segment(self, start: int, size_bytes: int, filled: int, source: Readable) -> Part:
        """Send a segment. Raises OSError."""
        path = f"{LOG_FOLDER}/{start:020d}"
        pieces = _Pieces(pieces_of(source, filled))
        self._send(path, filled, pieces)
        return Part(path, "log", size_bytes, filled, pieces.digest.hexdigest())

    def _send(self, name: str, size_bytes: int, pieces: _Pieces | BytesIO) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = size_bytes, 0o600
        self._tar.addfile(member, pieces)  # type: ignore[arg-type]  # tarfile only reads from it
        self.new_bytes += size_bytes

    def note(self, manifest: Manifest) -> None:
        """Do nothing, as no other run goes on with a stream."""

    def finish(self, manifest: Manifest) -> None:
        """Send the manifest and end the stream. Raises OSError."""
        content = manifest.to_bytes()
        self._send(MANIFEST, len(content), BytesIO(content))
        self._tar.close()

    def close(self) -> None:
        """Give the temporary directory back; closing twice is fine."""
        self._spool.close()


def members_of(stream: IO[bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield name and content of each file of a stream. Raises BackupDamaged where it is no archive or ends early."""
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=PIECE_BYTES) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is not None:
                    yield member.name.removeprefix("./"), _content(content)
    except (tarfile.TarError, EOFError) as error:
        raise _no_archive(error) from None


def _content(file: IO[bytes]) -> Iterator[bytes]:
    try:
        while piece := file.read(PIECE_BYTES):
            yield piece
    except (tarfile.TarError, EOFError) as error:
        raise _no_archive(error) from None


def _no_archive(error: Exception) -> BackupDamaged:
    return BackupDamaged("the stream", f"it is no whole archive ({error})")
