"""Names to IP addresses, by the system's resolver, in threads that a slow name server cannot use up for others."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Sequence
from typing import Protocol

from .special_networks import IPAddress

#: Lookups at a time of one Resolver; each has one address to look up.
LOOKUPS = 2


class Resolves(Protocol):
    """Gives the IP addresses of a name, at least one; raises OSError."""

    async def __call__(self, host: str, port: int) -> Sequence[IPAddress]:
        """Look `host` up, once."""


class Resolver:
    """getaddrinfo of the system. Belongs to one event loop."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LOOKUPS)

    async def __call__(self, host: str, port: int) -> Sequence[IPAddress]:
        """Raises OSError (socket.gaierror) for a name that leads nowhere."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def look_up() -> None:
            found: list[str] | OSError | UnicodeError
            try:
                infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
                found = [str(info[4][0]) for info in infos]
            except (OSError, UnicodeError) as error:
                found = error
            try:
                loop.call_soon_threadsafe(answered, found)
            except RuntimeError:
                pass  # the loop has ended

        def answered(found: list[str] | OSError | UnicodeError) -> None:
            self._free.release()
            if answer.done():
                return
            if isinstance(found, list):
                answer.set_result(found)
            else:
                answer.set_exception(found if isinstance(found, OSError) else OSError(str(found)))

        # a daemon: nothing ends a lookup that waits, and it must not hold up the end of the process
        threading.Thread(target=look_up, name=f"resolve-{host[:40]}", daemon=True).start()
        return [ipaddress.ip_address(text) for text in dict.fromkeys(await answer)]
