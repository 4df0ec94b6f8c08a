"""A file that holds what a service had at one moment; a checkpoint names it by its sequence.

    0  8 magic   8  8 sequence   16  8 length   24  4 CRC32 of all the rest   28  4 zero   32  content

Two files are written in turn, so that the one a durable checkpoint names is never being written. Numbers are
big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from zlib import crc32

from .files import Files, directory_of

_HEAD = struct.Struct(">8sQQII")


def save_snapshot(files: Files, path: str, magic: bytes, sequence: int, length: int, parts: Iterable[bytes]) -> None:
    """Write a snapshot, durable on return: parts of so many bytes in all, each as it comes, and the head when the
    checksum is known. Safe in any thread; raises OSError."""
    crc = crc32(_HEAD.pack(magic, sequence, length, 0, 0))
    at = _HEAD.size
    file = files.open(path, create=True)
    try:
        for part in parts:
            crc = crc32(part, crc)
            file.write(part, at)
            at += len(part)
        assert at == _HEAD.size + length, "a snapshot is not as long as it was to be"
        file.write(_HEAD.pack(magic, sequence, length, crc, 0), 0)
        file.truncate(_HEAD.size + length)
        file.sync()
    finally:
        file.close()
    files.sync_directory(directory_of(path))


def load_snapshot(files: Files, path: str, magic: bytes, sequence: int) -> bytes | None:
    """Return the content of the snapshot with this sequence, None if it is not there or damaged."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None
    try:
        raw = file.read(file.size(), 0)
    finally:
        file.close()
    if len(raw) < _HEAD.size:
        return None
    found_magic, found, length, crc, _ = _HEAD.unpack_from(raw)
    content = raw[_HEAD.size : _HEAD.size + length]
    if found_magic != magic or found != sequence or len(content) != length:
        return None
    whole = crc32(content, crc32(_HEAD.pack(magic, sequence, length, 0, 0)))
    return content if whole == crc else None
