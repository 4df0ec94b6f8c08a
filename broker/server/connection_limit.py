"""How many connections a broker takes, and how much memory its process has to itself.

All servers of a broker share the descriptors that its process may open:

    descriptors allowed = what else is open + kept for the store + places of connections

Where no place is free, the connection that has been silent longest since it came makes room for the next one; where all
have spoken, the next one is closed as soon as it comes.

Memory is the anonymous resident memory of the process. What is free of it can be given back to the operating system,
which the allocator does not always do by itself.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
from pathlib import Path
from typing import Protocol

logger = logging.getLogger(__name__)

MOST_DESCRIPTORS = 65_536
"""As many descriptors are asked for at the start, if the hard limit allows so many."""

RESERVED_DESCRIPTORS = 256
"""Kept for the store: segments, queues that are read, checkpoints. Of a small limit it is a quarter."""

LEAST_PLACES = 8
"""So many connections are taken in any case."""

RECOUNT_INTERVAL_MS = 30_000
"""How often it is counted what else is open: the store opens a file for each new segment of its log."""


def raise_descriptor_limit() -> int:
    """Let this process open as many files and connections as it may (RLIMIT_NOFILE); how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError) as error:
            logger.warning("the limit of open files stays %d: %s", soft, error)
    return descriptor_limit()


def descriptor_limit() -> int:
    """Return how many descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def open_descriptors() -> int:
    """Return how many descriptors this process has open; raises OSError if there is none left to look with."""
    return len(os.listdir("/proc/self/fd")) - 1


class Guest(Protocol):
    """A connection, as its place sees it."""

    def make_room(self) -> None:
        """End the connection: its place is needed."""


class Places:
    """The places of all connections of one broker; `most` is set by `recount`."""

    def __init__(self) -> None:
        self.most = LEAST_PLACES
        self.refused_total = 0
        self._taken: set[Guest] = set()
        self._silent: dict[Guest, None] = {}
        self._is_told = False
        self._counted_ms = 0
        self._others = 0
        self.recount(0)

    @property
    def taken(self) -> int:
        """The number of connections that have a place."""
        return len(self._taken)

    def recount(self, now_ms: int) -> None:
        """Count anew how many places there are, if it is time to. While there is no descriptor to count with, what else
        is open stays as it was, and it is time again with the next call."""
        if self._counted_ms and self._counted_ms <= now_ms < self._counted_ms + RECOUNT_INTERVAL_MS:
            return
        try:
            self._others = open_descriptors() - len(self._taken)
            self._counted_ms = now_ms
        except OSError as error:
            logger.debug("open files cannot be counted now: %s", error)
        limit = descriptor_limit()
        self.most = max(limit - self._others - min(RESERVED_DESCRIPTORS, limit // 4), LEAST_PLACES)
        if len(self._taken) < self.most * 9 // 10:
            self._is_told = False

    def enter(self, guest: Guest) -> bool:
        """Give a new connection a place; return False if there is none."""
        if len(self._taken) >= self.most and not self.make_room():
            self.refused_total += 1
            if not self._is_told:
                self._is_told = True
                logger.error(
                    "%d connections are there, all have spoken, more cannot be (limit of open files: %d): further ones "
                    "are refused (said once, until a tenth of the places is free)",
                    len(self._taken), descriptor_limit(),
                )  # fmt: skip
            return False
        self._taken.add(guest)
        return True

    def make_room(self) -> bool:
        """End the connection that has been silent longest since it came; return False if all have spoken."""
        guest = next(iter(self._silent), None)
        if guest is None:
            return False
        self.leave(guest)
        guest.make_room()
        return True

    def has_come(self, guest: Guest) -> None:
        """Note that a connection is there which has not spoken yet."""
        if guest in self._taken:
            self._silent[guest] = None

    def has_spoken(self, guest: Guest) -> None:
        """Note that a connection is in use."""
        self._silent.pop(guest, None)

    def leave(self, guest: Guest) -> None:
        """Give a place back; twice is fine."""
        self._taken.discard(guest)
        self._silent.pop(guest, None)


# The memory of this process.

WORTH_TRIMMING_BYTES = 32 * 1024 * 1024
"""So much must have been freed in large pieces before the allocator is asked to give it back."""

_STATUS = Path("/proc/self/status")
_STEP = 1 << 20
_libc = ctypes.CDLL(None)


def anonymous_bytes() -> int | None:
    """Return the anonymous resident memory (RssAnon: page cache not counted) in whole MiB; None where it cannot be
    told."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024 // _STEP * _STEP
    except (OSError, ValueError, IndexError):
        return None
    return None


def give_back() -> None:
    """Have the allocator give free memory back to the operating system, which it does not by itself where a piece in
    use lies behind it; where it cannot be asked (it is not glibc's), it stays."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)
