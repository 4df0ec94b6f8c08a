"""Which processors a scan takes."""

from __future__ import annotations

import os
from collections.abc import Collection

#: As many at most without a word: each takes a Python process and its memory.
MOST = 4


def available() -> set[int]:
    """Return the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def chosen(among: Collection[int], wanted: int) -> list[int]:
    """Return the processors of a scan, at least one.

    ``wanted``: how many; 0: all, but never more than MOST. The last ones are taken: the first ones serve devices too.
    """
    there = sorted(among)
    return there[-max(1, min(wanted or MOST, len(there))) :]
