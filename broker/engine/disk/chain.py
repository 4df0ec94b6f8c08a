"""Segments of one size as one address space.

A segment's name is the position of its first byte in 20 digits, so the folder alone tells what is there:

    commitlog/00000000000000000000   positions 0 .. size-1
    commitlog/00000000000268435456   positions size .. 2*size-1     (the oldest may be gone)

A new segment is made under another name outside the folder, allocated whole, synced and then renamed, so a segment
that can be seen is complete. (RocketMQ refuses to start on a name in the folder that is not a number.)
"""

from __future__ import annotations

from ..errors import RecordNotFound, StoreUnsupported
from .files import File, Files, directory_of, join

#: Bytes zeroed at a time.
_ZERO_BYTES = 1 << 20


def segment_name(position: int) -> str:
    """Return the file name of the segment that starts at ``position``."""
    return f"{position:020d}"


def make_segment(files: Files, directory: str, position: int, size: int) -> None:
    """Make one allocated segment, durable on return. Safe in any thread; raises OSError and leaves nothing behind."""
    temporary = join(directory_of(directory), f"escapement.segment.{position:020d}")
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.allocate(size)
        file.sync()
    except OSError:
        file.close()
        files.remove(temporary)
        raise
    file.close()
    files.rename(temporary, join(directory, segment_name(position)))
    files.sync_directory(directory)


class Chain:
    """The allocated segments of a log."""

    def __init__(self, files: Files, directory: str, segment_size_bytes: int) -> None:
        """Open what is there. Raises StoreUnsupported for a segment of another size or a gap."""
        self.directory = directory
        self.segment_size = segment_size_bytes
        self._files = files
        self._segments: dict[int, File] = {}
        files.make_directory(directory)
        self._sweep_unfinished()
        names = [name for name in files.list(directory) if name.isdigit()]
        for name in names:
            self._open_segment(int(name), last=name == names[-1])
        self.min_position = min(self._segments, default=0)
        self.end_position = max(self._segments, default=0) + (segment_size_bytes if self._segments else 0)
        if len(self._segments) * segment_size_bytes != self.end_position - self.min_position:
            raise StoreUnsupported(f"A segment is missing in the middle of {directory}; restore it from a copy.")

    def _sweep_unfinished(self) -> None:
        parent = directory_of(self.directory)
        for name in self._files.list(parent):
            if name.startswith("escapement.segment."):
                self._files.remove(join(parent, name))

    def _open_segment(self, position: int, *, last: bool) -> None:
        path = join(self.directory, segment_name(position))
        file = self._files.open(path)
        if file.size() != self.segment_size:
            if last and not file.read(8, 0).strip(b"\0"):
                # RocketMQ was stopped while it made this segment; nothing is in it
                file.close()
                self._files.remove(path)
                return
            size = file.size()
            file.close()
            raise StoreUnsupported(
                f"Segment {path} has {size:,} bytes, the configuration says {self.segment_size:,}; "
                "the segment size of a store cannot be changed."
            )
        self._segments[position] = file

    def segment_start(self, position: int) -> int:
        """Return the first position of the segment that holds ``position``."""
        return position - position % self.segment_size

    def file_at(self, position: int) -> tuple[File, int]:
        """Return the file that holds ``position`` and the place in it. Raises RecordNotFound."""
        at = position % self.segment_size
        file = self._segments.get(position - at)
        if file is None:
            raise RecordNotFound(position)
        return file, at

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``position``, never beyond its segment. Raises RecordNotFound."""
        file, at = self.file_at(position)
        return file.read(min(size, self.segment_size - at), at)

    def has(self, position: int) -> bool:
        """Tell whether the segment of ``position`` is there."""
        return position - position % self.segment_size in self._segments

    def adopt(self, position: int) -> None:
        """Take in the segment at the end that ``make_segment`` has made."""
        if position not in self._segments:
            self._segments[position] = self._files.open(join(self.directory, segment_name(position)))
            self.min_position = min(self._segments)
            self.end_position = max(self._segments) + self.segment_size

    def add(self, position: int) -> None:
        """Make and take in the next segment. Raises OSError."""
        if position not in self._segments:
            make_segment(self._files, self.directory, position, self.segment_size)
            self.adopt(position)

    def remove_first(self) -> None:
        """Remove the oldest segment. Raises OSError; then it is forgotten all the same."""
        position = self.min_position
        self._segments.pop(position).close()
        self.min_position = min(self._segments, default=self.end_position)
        self._files.remove(join(self.directory, segment_name(position)))
        self._files.sync_directory(self.directory)

    def clear_from(self, position: int) -> None:
        """Make everything from ``position`` on read as zero, durably; later segments are removed."""
        for start in sorted(self._segments, reverse=True):
            if start >= position and start != self.min_position:
                self._segments.pop(start).close()
                self._files.remove(join(self.directory, segment_name(start)))
                # one by one, the last first: a power loss must not take one from the middle
                self._files.sync_directory(self.directory)
        self.end_position = max(self._segments, default=0) + (self.segment_size if self._segments else 0)
        if self.has(position):
            file, at = self.file_at(position)
            # zeros are written, not made by cutting: a power loss between cut and growth would leave a short segment
            for start in range(at, self.segment_size, _ZERO_BYTES):
                size = min(_ZERO_BYTES, self.segment_size - start)
                if file.read(size, start).count(0) != size:
                    file.write(bytes(size), start)
            file.sync()
        self._files.sync_directory(self.directory)

    def segments(self) -> list[int]:
        """Return the first position of each segment, oldest first."""
        return sorted(self._segments)

    def close(self) -> None:
        """Close all files; closing twice is fine."""
        for file in self._segments.values():
            file.close()
        self._segments.clear()
