"""Memory that was used before, as that of a server is that has run for a day."""

from __future__ import annotations

import ctypes
import mmap
import sys
import time
from pathlib import Path

_SHARE = 0.8
_CHUNK_BYTES = 1 << 30


def touch() -> None:
    """Write to most of the memory that is free, and give it back.

    A virtual machine asks its host for a page when it is first used, which takes whoever uses it 1 to 2 us. Stores are
    pages, so without this the first runs on a new machine would be about that.
    """
    rows = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    size = int(int(rows["MemAvailable"].split()[0]) * 1024 * _SHARE) // _CHUNK_BYTES * _CHUNK_BYTES
    if not size:
        return
    begin_s = time.monotonic()
    with mmap.mmap(-1, size) as memory:
        view = ctypes.c_char.from_buffer(memory)
        try:
            for at in range(0, size, _CHUNK_BYTES):
                ctypes.memset(ctypes.addressof(view) + at, 1, _CHUNK_BYTES)
        finally:
            del view
    print(f"  {size >> 30} GB of memory used once in {time.monotonic() - begin_s:.0f} s", file=sys.stderr)
