"""Where a broker may listen, the sockets that it listens on, and how their connections are accepted.

What others can reach needs access control, and TLS unless the network is answered for.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)


class ListeningRefused(Exception):
    """The broker must not listen there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """What to set or to change, in words of whoever starts the broker."""

    access: str
    host: str
    advertise: str
    tls: str
    plaintext: str = "ESCAPEMENT_PLAINTEXT=1"


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a broker is to listen, what clients are told, and what protects it."""

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
    if listening.told in ("", "0.0.0.0", "::"):  # noqa: S104 - it is refused
        raise ListeningRefused(
            f"Clients cannot connect to {listening.told or 'an empty address'}: {remedies.advertise} to the address"
            " that they are to use."
        )
    if is_loopback(host) or listening.has_tls:
        return
    heard = (
        f"The broker would listen on {host} without TLS: what is sent could be read on its way, and what is signed said"
        " again at any time, also as another kind of request, because RocketMQ's signature covers fields and body, but"
        " neither the request's code nor the moment."
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
            logger.error("%s: connections wait until one can be taken (said once): %s", self._name, error)
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
