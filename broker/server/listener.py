"""The addresses where a broker may listen, the sockets it listens on, and the number of connections it takes.

An address that others can reach needs access control, and TLS unless the operator vouches for the network.

All servers of a broker share the descriptors that its process may open:

    descriptors allowed = what else is open + kept for the store + places of connections

Where no place is free, the connection that has been silent longest since it came makes room for the next one; where all
have spoken, the next one is closed as soon as it comes.

Memory is the anonymous resident memory of the process. What is free of it can be given back to the operating system,
which the allocator does not always do by itself; how much it may keep can be limited.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import ipaddress
import logging
import os
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

logger = logging.getLogger(__name__)


class ListeningRefused(Exception):
    """The broker must not listen there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """The settings to change, in words of whoever starts the broker."""

    access: str
    host: str
    advertise: str
    tls: str
    plaintext: str = "ESCAPEMENT_PLAINTEXT=1"


@dataclass(frozen=True, slots=True)
class Listening:
    """The place where a broker is to listen, what clients are told, and what protects it."""

    host: str
    told: str
    has_access: bool
    has_tls: bool
    is_plaintext_allowed: bool


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_exposed(listening: Listening, remedies: Remedies) -> None:
    """Raise ListeningRefused if others could reach the broker and nothing would keep them from anything, or all that
    goes to it could be heard, changed and said again on its way."""
    host = listening.host
    if not is_loopback(host) and not listening.has_access:
        raise ListeningRefused(
            f"The broker would listen on {host} without access control: anyone who reaches it could read and write"
            f" every message. {remedies.access}, or {remedies.host} to a loopback address."
        )
    if listening.told in ("", "0.0.0.0", "::"):  # noqa: S104 - it is refused # nosec B104
        raise ListeningRefused(
            f"Clients cannot connect to {listening.told or 'an empty address'}: {remedies.advertise} to the address"
            " that they are to use."
        )
    if is_loopback(host) or listening.has_tls:
        return
    heard = (
        f"The broker would listen on {host} without TLS: what is sent could be read on its way, and what is signed"
        " replayed at any time, also as another kind of request, because RocketMQ's signature covers fields and body,"
        " but neither the request's code nor the time."
    )
    if not listening.is_plaintext_allowed:
        raise ListeningRefused(f"{heard} {remedies.tls}, or, on a network of which you are sure, {remedies.plaintext}.")
    logger.warning("%s %s allows it.", heard, remedies.plaintext)


# The sockets.

BACKLOG = 1024
"""Connections that the operating system holds until they are taken."""

MOST_A_TURN = 64
"""Connections taken before others have their turn."""

WAIT_S = 0.2
"""So long no connection is taken after one could not be for want of descriptors or memory."""

_WANT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

#: How far below the broker's port its VIP channel is: MixAll.brokerVIPChannel of Apache RocketMQ.
VIP_BELOW = 2
#: Free ports tried until the one of its VIP channel is free, too.
_PAIRS_TRIED = 20


def bound(host: str, port: int, *, is_free: bool = False) -> socket.socket:
    """Return a socket bound to an address, port 0 for a free one; raises OSError if it is taken.

    Two sockets that may take over a port from closed connections (SO_REUSEADDR) may be bound to it both, until one of
    them listens. So a port that was free, by 0 or by ``is_free``, is bound without, and nobody else comes in between.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        if port and not is_free:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening


class Listener:
    """Accepts the connections that come to one bound socket.

    `accepted` gets each, to keep or to close. Where the process or the machine has no descriptor left, `wanting` is
    called, and connections wait in the backlog until there is one.
    """

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        accepted: Callable[[socket.socket], None],
        wanting: Callable[[], object] = lambda: None,
    ) -> None:
        self._name = name
        self._listening = listening
        self._accepted = accepted
        self._wanting = wanting
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._is_told = False
        # Connections inherit it, so that a broker may come back to its port.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.listen(BACKLOG)
        self._go_on()

    def close(self) -> None:
        """Accept no connections any more."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening.fileno(), self._take)

    def _take(self) -> None:
        for _ in range(MOST_A_TURN):
            try:
                connected, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _WANT:
                    raise
                self._wait(error)
                return
            self._is_told = False
            self._accepted(connected)

    def _wait(self, error: OSError) -> None:
        if not self._is_told:
            self._is_told = True
            logger.error("%s: connections wait until one can be accepted (logged once): %s", self._name, error)
        self._loop.remove_reader(self._listening.fileno())
        self._pause = self._loop.call_later(WAIT_S, self._go_on)
        self._wanting()


def bound_pair(host: str, port: int, other: int) -> tuple[socket.socket, socket.socket | None]:
    """Return the sockets of a broker's port and of its VIP channel, for port 0 a free pair; ``other`` is the name
    service's.

    Raises OSError if the port is taken. That the port of the VIP channel is taken is said and no more: only old
    clients and slaves ask for it.
    """
    for _ in range(_PAIRS_TRIED):
        broker = bound(host, port)
        below = broker.getsockname()[1] - VIP_BELOW
        try:
            if below < 1 or below == other:
                raise OSError("it is the name service's" if below == other else "there is no such port")
            return broker, bound(host, below, is_free=not port)
        except OSError as error:
            if port:
                no_vip_channel(below, error)
                return broker, None
            broker.close()
    return bound(host, port), None


def no_vip_channel(port: int, error: OSError) -> None:
    """Log that the VIP channel is not served, and why."""
    logger.warning("the VIP channel, port %d, is not served: %s", port, error)


# The places of connections.

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
                    "%d connections are open, none of them silent, no more are possible (limit of open files: %d): "
                    "further ones are refused (logged once, until a tenth of the places is free)",
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

LARGE_BYTES = 4 << 20
"""A piece of memory of this size is taken from the operating system by itself, and given back as soon as it is free."""

KEPT_BYTES = 8 << 20
"""So much may be free behind the last piece in use before it is given back."""

#: What is to be set by mallopt: `M_TRIM_THRESHOLD` and `M_MMAP_THRESHOLD` of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3

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


def limit_free_memory() -> None:
    """Have the allocator of this process keep so much of what is free, no more and no less.

    By itself it keeps twice the largest piece that was ever freed, which after the slots of an index are 40 MB, and
    until then gives back each message of 128 KB and more, to ask for it anew. Where it is not glibc's, all stays as it
    is.
    """
    set_option = getattr(_libc, "mallopt", None)
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, LARGE_BYTES)
        set_option(_TRIM_THRESHOLD, KEPT_BYTES)
