"""Unique ids of messages in RocketMQ's form (MessageClientIDSetter.createUniqID): 32 upper-case hex digits.

    | address 4 | process id 2 | class loader 4 | ms since the month began 4 | counter 2 |   bytes

The first ten bytes are one prefix per process, so that two processes cannot make the same id and a broker hashes the
common prefix once. They are random here (of a broker all but its address): no client's address is told. The month is
that of the machine's time zone, as in RocketMQ, whose tools look for a message from that moment on.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from itertools import count
from weakref import WeakSet

_PREFIX_BYTES = 10


def steady_clock() -> Callable[[], int]:
    """Return a clock (ms since 1970) that begins at the machine's time and never goes back."""
    began_ms, began_s = int(time.time() * 1000), time.monotonic()
    return lambda: began_ms + int((time.monotonic() - began_s) * 1000)


class UniqueIds:
    """Makes ids that no other call makes; safe for threads and after fork.

    `address`: four bytes that the ids begin with, random ones by default. `clock`: ms since 1970.
    """

    def __init__(self, address: bytes = b"", clock: Callable[[], int] | None = None) -> None:
        self._address = address[:4]
        self._clock = clock or steady_clock()
        self.renew()
        _known.add(self)

    def renew(self) -> None:
        """Begin with another prefix: two processes must not go on from the same one."""
        own = secrets.token_bytes(_PREFIX_BYTES - len(self._address))
        self._prefix = (self._address + own).hex().upper()
        self._count = count(secrets.randbelow(0x10000))
        self._month_ms = range(0)

    def next_id(self) -> str:
        """Return the next id; the counter separates ids of one millisecond."""
        moment_ms, month_ms = self._clock(), self._month_ms
        if moment_ms not in month_ms:
            month_ms = self._month_ms = _month_of(moment_ms)
        return f"{self._prefix}{moment_ms - month_ms.start:08X}{next(self._count) & 0xFFFF:04X}"


def _month_of(moment_ms: int) -> range:
    """Return the milliseconds of the month that a moment is in."""
    year, month = time.localtime(moment_ms / 1000)[:2]
    begin_s, end_s = (time.mktime((year, each, 1, 0, 0, 0, 0, 0, -1)) for each in (month, month + 1))
    return range(int(begin_s * 1000), int(end_s * 1000))


_known: WeakSet[UniqueIds] = WeakSet()


def _renew_all() -> None:
    for ids in list(_known):
        ids.renew()


os.register_at_fork(after_in_child=_renew_all)
