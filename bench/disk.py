"""The time that the disk alone takes to keep a little data: the floor under every figure with flush sync."""

from __future__ import annotations

import os
import time
from pathlib import Path

_FILE_BYTES = 16 << 20
_APPEND_BYTES = 512
_SECONDS = 3
#: Between two appends, so that they come at about 1,000 a second where the disk is quick.
_PAUSE_S = 0.001


def bare_syncs(directory: Path) -> str:
    """Append to an allocated file and sync its data, again and again; a sentence for the notes."""
    path = directory / "bare-syncs"
    taken_ms: list[float] = []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, bytes(_FILE_BYTES), 0)
        os.fsync(descriptor)
        end_s, position = time.monotonic() + _SECONDS, 0
        while (begin_s := time.monotonic()) < end_s:
            os.pwrite(descriptor, b"x" * _APPEND_BYTES, position)
            os.fdatasync(descriptor)
            taken_ms.append((time.monotonic() - begin_s) * 1_000)
            position = (position + _APPEND_BYTES) % (_FILE_BYTES - _APPEND_BYTES)
            time.sleep(_PAUSE_S)
    finally:
        os.close(descriptor)
        path.unlink()
    taken_ms.sort()
    p50, p99 = (taken_ms[int(len(taken_ms) * part)] for part in (0.5, 0.99))
    return (
        f"the disk alone, just before: {_APPEND_BYTES} bytes appended and synced, p50 {p50:.2f} ms, p99 {p99:.1f} ms, "
        f"max {taken_ms[-1]:.0f} ms of {len(taken_ms):,}"
    )
