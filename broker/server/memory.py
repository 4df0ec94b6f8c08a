"""How much memory this process has to itself, and how what is free of it goes back."""

from __future__ import annotations

import ctypes
from pathlib import Path

WORTH_TRIMMING_BYTES = 32 * 1024 * 1024
"""So much must have been freed in large pieces before the allocator is asked to give it back."""

_STATUS = Path("/proc/self/status")
_STEP = 1 << 20
_libc = ctypes.CDLL(None)


def anonymous_bytes() -> int | None:
    """Anonymous resident memory (RssAnon: page cache not counted), in whole MiB; None where it cannot be told."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024 // _STEP * _STEP
    except (OSError, ValueError, IndexError):
        return None
    return None


def give_back() -> None:
    """Lets the allocator give free memory back to the operating system, which it does not by itself where a piece in
    use lies behind it; where it cannot be asked (it is not glibc's), it stays."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)
