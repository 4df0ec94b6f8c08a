"""Unique message ids as RocketMQ's MessageClientIDSetter makes them: 32 upper-case hex digits.

    4 bytes address | 2 bytes process | 4 bytes class loader | 4 bytes ms since the month began | 2 bytes counter

The first ten bytes are one prefix per process here (address and process id replaced by random bytes: no address is
told), so that two processes cannot make the same id, and a broker hashes the common prefix once.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time

_MONTH_MS = 31 * 24 * 3600 * 1000


class UniqueIds:
    """Makes ids that no other call makes; safe for threads and after fork."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._prefix = secrets.token_bytes(10).hex().upper()
        self._count = itertools.count(secrets.randbelow(0x10000))
        self._started_s = time.monotonic()
        self._base_ms = int(time.time() * 1000) % _MONTH_MS

    def next_id(self) -> str:
        """The next id; the clock part never goes back, the counter separates ids of one millisecond."""
        serial = next(self._count)
        moment = self._base_ms + int((time.monotonic() - self._started_s) * 1000)
        return f"{self._prefix}{moment & 0xFFFFFFFF:08X}{serial & 0xFFFF:04X}"


unique_ids = UniqueIds()
