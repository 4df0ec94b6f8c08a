"""Unique ids in RocketMQ's form (MessageClientIDSetter.createUniqID), for messages whose sender gave none.

| address 4 | process id 2 | hash 4 | ms since the month began 4 | counter 2 |   in hex, 32 digits
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from itertools import count


class UniqueKeys:
    """Makes unique ids for one broker."""

    def __init__(self, host: bytes, now_ms: int) -> None:
        self._prefix = (host[:4] + (os.getpid() & 0xFFFF).to_bytes(2, "big") + secrets.token_bytes(4)).hex().upper()
        self._month_ms = _month_start_ms(now_ms)
        self._counter = count(secrets.randbits(16))

    def make(self, now_ms: int) -> str:
        """A new id."""
        since_ms = (now_ms - self._month_ms) & 0xFFFFFFFF
        return f"{self._prefix}{since_ms:08X}{next(self._counter) & 0xFFFF:04X}"


def _month_start_ms(now_ms: int) -> int:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return int(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp() * 1000)
