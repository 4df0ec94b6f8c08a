"""How much memory this process has to itself."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")
_STEP = 1 << 20


def anonymous_bytes() -> int | None:
    """Anonymous resident memory (RssAnon: page cache not counted), in whole MiB; None where it cannot be told."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024 // _STEP * _STEP
    except (OSError, ValueError, IndexError):
        return None
    return None
