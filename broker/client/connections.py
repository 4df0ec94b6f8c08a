"""Connections of a client by address: made at the first use, and anew after a loss."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from .forks import forks

Secure = Callable[[str], tuple[ssl.SSLContext | None, str | None]]
"""TLS context and the name expected in the certificate, for a connection to a host; None and None for no TLS."""


class Connection(asyncio.Protocol):
    """One end of a connection, made by Connections."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        #: what a forked child has of its parent's connection: kept, so that nothing of it is tidied up there
        self._inherited: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """False once the connection is ending."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def has_room(self) -> bool:
        """Whether the other end reads what was written."""
        return self._room.is_set()

    def let_go(self) -> int | None:
        """In a forked child: the connection is the parent's; returns its descriptor."""
        self._inherited, self._transport = self._transport, None
        socket = self._inherited.get_extra_info("socket") if self._inherited is not None else None
        return socket.fileno() if socket is not None else None

    async def room(self) -> None:
        """Wait while the other end does not read what was already written."""
        if not self._room.is_set():
            await self._room.wait()

    def close(self) -> None:
        """End the connection after what was handed over is written."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is there."""
        # uvloop's transports have the methods but not the base class
        self._transport = cast(asyncio.Transport, transport)
        forks.note(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection ended."""
        self._transport = None
        self._room.set()

    def pause_writing(self) -> None:
        """asyncio: the other end reads too slowly."""
        self._room.clear()

    def resume_writing(self) -> None:
        """asyncio: the other end reads again."""
        self._room.set()


C = TypeVar("C", bound=Connection)


class Connections(Generic[C]):
    """At most one connection an address ("host:port"); callers of one moment share one attempt.

    `made` makes one for an address; `failed` is the error for an address and the reason why nobody answers there,
    `closed` the one for who waits for a connection while the client is closed.
    """

    def __init__(
        self,
        made: Callable[[str], C],
        *,
        secure: Secure,
        timeout_s: float,
        failed: Callable[[str, str], Exception],
        closed: Callable[[str], Exception],
    ) -> None:
        self._made = made
        self._secure = secure
        self._timeout_s = timeout_s
        self._failed = failed
        self._closed = closed
        self._ready: dict[str, C] = {}
        self._attempts: dict[str, asyncio.Task[C]] = {}
        self._generation = forks.generation

    def ready(self, address: str) -> C | None:
        """The connection to `address` if it is there already."""
        one = self._ready.get(address)
        return one if one is not None and one.is_open else None

    async def to(self, address: str) -> C:
        """The connection to `address`; raises what `failed` and `closed` make."""
        one = self.ready(address)
        if one is not None:
            return one
        if self._generation != forks.generation:
            raise self._failed(address, "this client was made before the process forked; make one in the child")
        attempt = self._attempts.get(address)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._connect(address))
            self._attempts[address] = attempt
            attempt.add_done_callback(lambda done: self._attempted(address, done))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled():
                raise self._closed(address) from None
            raise

    def forget(self, one: C) -> bool:
        """Whether this connection, which has ended, was the one to its address."""
        if self._ready.get(one.address) is not one:
            return False
        del self._ready[one.address]
        return True

    def close(self) -> list[C]:
        """End all, and the attempts under way; returns the connections that there were."""
        for attempt in list(self._attempts.values()):
            attempt.cancel()
        ending, self._ready = list(self._ready.values()), {}
        for one in ending:
            one.close()
        return ending

    def _attempted(self, address: str, attempt: asyncio.Task[C]) -> None:
        self._attempts.pop(address, None)
        if not attempt.cancelled():
            attempt.exception()  # seen, whether or not somebody still waits for it

    async def _connect(self, address: str) -> C:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        context, name = self._secure(host)
        try:
            async with asyncio.timeout(self._timeout_s):
                _, one = await asyncio.get_running_loop().create_connection(
                    lambda: self._made(address), host, int(port), ssl=context, server_hostname=name
                )
        except TimeoutError:
            raise self._failed(address, f"no answer within {self._timeout_s:g} s") from None
        except (OSError, ValueError, OverflowError) as error:
            raise self._failed(address, str(error)) from error
        self._ready[address] = one
        return one
