"""The files of a store, wherever they lie, and how a scan of them is divided.

A path is a local directory or an address that pyarrow's file systems know (``hdfs://…``, ``s3://…``, ``file://…``).
Segments are ``commitlog/<position, 20 digits>``. Where the durable end is, says ``escapement.checkpoint``:

    two slots of 64 KiB:  0  8 magic "ESCKPT01"   8  8 sequence   16  4 length   20  4 CRC32 of all the rest   24  JSON

(docs/FORMATS.md); a store of Apache RocketMQ has none, and is read up to its last sound record.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from zlib import crc32

import pyarrow as pa
import pyarrow.fs

from .segment import Stretch, last_sound, next_record

_MAGIC = b"ESCKPT01"
_HEAD = struct.Struct(">8sQII")
_SLOT_SIZE = 64 << 10
#: Read at once over a network, where a request costs more than the bytes.
_FAR_BYTES = 16 << 20
#: Asked of the kernel at once on this machine: one without preemption (as servers have) gives the processor to nobody
#: else before it has copied them all, and 2 MiB took it away from those who send for milliseconds.
_PIECE_BYTES = 128 << 10


class DashboardError(Exception):
    """Parent of what can go wrong while the log is read for dashboards; each says what to do."""


class StoreUnreadable(DashboardError):
    """The directory holds no commit log, or one that cannot be read."""


class LogStore:
    """Reads the segments of one store. Raises StoreUnreadable, OSError."""

    def __init__(self, path: str, system: pa.fs.FileSystem | None = None) -> None:
        """``system``: where the path lies, if that is known; what stands before ``://`` says it otherwise."""
        self.path = path
        self._system, self._root = file_system(path) if system is None else (system, path.partition("://")[2])

    def segments(self) -> list[Segment]:
        """Return the segments by position; none, if nothing was ever sent to the broker of this store."""
        selector = pa.fs.FileSelector(f"{self._root}/commitlog", allow_not_found=True)
        found = [
            Segment(int(info.base_name), info.size)
            for info in self._system.get_file_info(selector)
            if info.is_file and len(info.base_name) == 20 and info.base_name.isdigit() and info.size
        ]
        if not found and not self._is_store():
            raise StoreUnreadable(
                f"{self.path} holds no commit log: no file commitlog/<20 digits> is there. Give the directory that a "
                "broker keeps its store in, the one above commitlog."
            )
        return sorted(found, key=lambda segment: segment.start)

    def open(self, segment_start: int) -> OpenSegment:
        """Open one segment. Raises FileNotFoundError if retention took it meanwhile."""
        file = self._system.open_input_file(f"{self._root}/commitlog/{segment_start:020d}")
        is_near = isinstance(self._system, pa.fs.LocalFileSystem)
        return OpenSegment(file, segment_start, 0 if is_near else _FAR_BYTES)

    def checkpoint_position(self) -> int | None:
        """Return the position up to which the broker vouches for the log, None without a sound checkpoint."""
        try:
            with self._system.open_input_file(f"{self._root}/escapement.checkpoint") as file:
                raw = file.read()
        except FileNotFoundError:
            return None
        slots = [_slot(raw[at : at + _SLOT_SIZE]) for at in (0, _SLOT_SIZE)]
        return max((slot for slot in slots if slot is not None), default=(0, None))[1]

    def end_position(self, start: int, segments: list[Segment]) -> int:
        """Return where the log ends, read from ``start`` on: behind its last sound record."""
        end = start
        for segment in segments:
            if segment.end > start and (segment.start <= start or _has_records(self, segment)):
                with self.open(segment.start) as file:
                    found = last_sound(file.read, max(start, segment.start), segment.end)
                if found is not None:
                    end = found
        return end

    def _is_store(self) -> bool:
        """Tell whether a broker keeps something else here; it makes the log with the first message."""
        known = self._system.get_file_info([f"{self._root}/{name}" for name in ("commitlog", "config/topics.json")])
        return bool(known[0].type == pa.fs.FileType.Directory or known[1].is_file)


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of the log: bytes [start, start + size) of its address space."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """Position behind its last byte."""
        return self.start + self.size


class OpenSegment:
    """An open segment, read by position, at least so many bytes at once. A context manager."""

    def __init__(self, file: pa.NativeFile, start: int, block_bytes: int) -> None:
        self._file = file
        self._start = start
        self._block_bytes = block_bytes
        self._block_at, self._block = 0, b""

    def read(self, position: int, count: int) -> bytes:
        """Return bytes from a position, fewer at the end of the segment."""
        at = position - self._start
        if count <= 0:
            return b""
        if not self._block_bytes:
            return self._in_pieces(at, count)
        if count >= self._block_bytes:
            return bytes(self._file.read_at(count, at))
        if not self._block_at <= at <= at + count <= self._block_at + len(self._block):
            self._block_at, self._block = at, bytes(self._file.read_at(self._block_bytes, at))
        return self._block[at - self._block_at : at - self._block_at + count]

    def _in_pieces(self, at: int, count: int) -> bytes:
        """Return ``count`` bytes from an offset in the file, fewer at its end."""
        end, pieces = at + count, []
        while at < end and (piece := bytes(self._file.read_at(min(_PIECE_BYTES, end - at), at))):
            pieces.append(piece)
            at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def __enter__(self) -> OpenSegment:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def file_system(path: str) -> tuple[pa.fs.FileSystem, str]:
    """Return the file system of a path or address, and the path on it. Raises StoreUnreadable."""
    if "://" in path:
        try:
            system, root = pa.fs.FileSystem.from_uri(path)
        except (pa.ArrowException, OSError) as error:
            raise StoreUnreadable(
                f"{path}: {str(error).splitlines()[0]}. Give a directory, or an address that pyarrow knows: hdfs://…, "
                "s3://…, file:///… with spaces as %20."
            ) from None
        return system, root
    return pa.fs.LocalFileSystem(), os.path.abspath(path)


def stretches(
    store: LogStore,
    segments: list[Segment],
    start: int,
    end: int | None,
    split_bytes: int,
    undivided: Collection[int] = (),
) -> Iterator[Stretch]:
    """Divide [start, end) into stretches of about ``split_bytes`` that begin at records; ``end`` None: unknown.
    ``undivided``: where segments begin of which each is one stretch.

    What no segment holds, though a later one has records, is a stretch of its own: retention took the segment, or it
    got lost.
    """
    last = len(segments) - 1
    while end is None and last > 0 and not _has_records(store, segments[last]):
        last -= 1
    reached = start
    for number, segment in enumerate(segments):
        begin = max(start, segment.start)
        stop = segment.end if end is None else min(segment.end, end)
        if end is not None and reached < end <= segment.start:
            yield Stretch(reached, end, end, bounded=True)
            return
        if begin >= stop:
            continue
        if reached < begin and number <= last:
            yield Stretch(reached, begin, begin, bounded=True)
        reached = segment.end
        bounded = number < last or end is not None
        edges = () if segment.start in undivided else _edges(store, segment, begin, stop, split_bytes)
        for edge in edges:
            yield Stretch(begin, edge, segment.end, bounded=True, opens=begin == segment.start)
            begin = edge
        yield Stretch(begin, stop, segment.end, bounded, opens=begin == segment.start)


def _edges(store: LogStore, segment: Segment, begin: int, stop: int, split_bytes: int) -> Iterator[int]:
    """Yield positions of records, far enough from each other; none, if retention took the segment meanwhile."""
    if stop - begin <= split_bytes * 3 // 2:
        return
    with suppress(FileNotFoundError), store.open(segment.start) as file:
        while stop - begin > split_bytes * 3 // 2:
            edge = next_record(file.read, Stretch(begin, stop, segment.end, bounded=False), begin + split_bytes)
            if edge is None:
                return
            yield edge
            begin = edge


def _has_records(store: LogStore, segment: Segment) -> bool:
    """Tell whether a segment has more than the zeros with which it was allocated."""
    with suppress(FileNotFoundError), store.open(segment.start) as file:
        return bool(file.read(segment.start, 4096).strip(b"\0"))
    return True  # only what is full is deleted


def _slot(raw: bytes) -> tuple[int, int] | None:
    """Return (sequence, position) of a sound slot."""
    if len(raw) < _HEAD.size:
        return None
    magic, sequence, length, crc = _HEAD.unpack_from(raw)
    content = raw[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or len(content) != length or crc32(content, crc32(raw[:20])) != crc:
        return None
    try:
        return sequence, int(json.loads(content)["position"])
    except (ValueError, TypeError, KeyError):
        return None
