"""Ports for servers that take seconds to listen: claimed until the process ends, so that two tests never get the same.

None of those that the kernel gives to whoever connects: clients of other tests would have taken one by then. The tests
run in several processes; what each has claimed is a byte range, locked by POSIX, in a file that they share.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

ATTEMPTS = 50
LOWEST = 12_000
#: Java listens on all addresses: a port is taken for it when somebody listens on any of them.
EVERYWHERE = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, ""), (socket.AF_INET6, "::"))


class NoPort(RuntimeError):
    """Nearly all ports are in use."""


class Claims:
    """What this process has claimed, beside what others have."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._own: set[int] = set()

    def claim(self, ports: range) -> bool:
        """Whether all of these are this process's from now on; none is if not."""
        if not self._own.isdisjoint(ports):
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
        except OSError:
            return False
        self._own.update(ports)
        return True


CLAIMS = Claims(Path(tempfile.gettempdir()) / f"escapement-ports-{os.getuid()}")


def free_ports(count: int, *, below: int = 0) -> int:
    """First of `count` ports in a row that are free, with `below` more free ones before it; all are claimed."""
    for _ in range(ATTEMPTS):
        first = random.randrange(LOWEST, first_given_port() - count)
        row = range(first - below, first + count)
        if all(is_free(port) for port in row) and CLAIMS.claim(row):
            return first
    raise NoPort(f"no {count + below} free ports in a row")


def free_port() -> int:
    """A loopback port that is free, as is the one two below it, a broker's VIP channel; both are claimed."""
    return free_ports(1, below=2)


def first_given_port() -> int:
    """The lowest port that the kernel gives to a socket that asks for none."""
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now, on loopback and on all addresses."""
    return all(_can_listen(family, host, port) for family, host in EVERYWHERE)


def _can_listen(family: socket.AddressFamily, host: str, port: int) -> bool:
    if family == socket.AF_INET6 and not Path("/proc/net/if_inet6").exists():
        return True
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen()
        except (OSError, OverflowError):
            return False
    return True
