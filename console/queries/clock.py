"""The pages' clock."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Epoch ms."""
    return time.time_ns() // 1_000_000
