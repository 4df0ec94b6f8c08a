"""What one connection may cost before it has said who it is: bytes, time, and a place among the others.

uvicorn bounds the time between two requests and nothing else. Here a head has to arrive within its time and size, what
is left of a body after its answer too, and an answer has to be taken. The body itself is bounded by who reads it
(console.site.web.bodies for pages, console.rest.request_body for REST), a websocket by uvicorn's own settings.
"""

from __future__ import annotations

import asyncio
import http
import ipaddress
from asyncio import TimerHandle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: from there everything comes that stands behind a proxy which nobody has named, and all of this machine's own
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Times in seconds.

    `head_s`: from the first byte of a request, or the beginning of a connection, to the end of its headers.
    `rest_s`: for what is left of a body that nobody waits for. `taking_s`: to take 48 KiB of an answer.
    `connections`: of the process; `connections_each`: of one address, but for those in `uncounted`.
    """

    head_s: float = 15.0
    rest_s: float = 5.0
    taking_s: float = 30.0
    head_bytes: int = 64 << 10
    headers: int = 100
    connections: int = 2_000
    connections_each: int = 256
    uncounted: tuple[Network, ...] = LOOPBACK


class HeadTooLarge(Exception):
    """More headers than any browser sends, or longer ones."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds; make it with `functools.partial(BoundedProtocol, bounds=...)`."""

    def __init__(self, *arguments: Any, bounds: Bounds, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._bounds = bounds
        #: whether the headers of the next request are awaited, whether they have begun, and how much of them came
        self._awaits_head = True
        self._has_begun = False
        self._head_bytes = 0
        self._headers = self._headers_bytes = 0
        self._is_refused = False
        self._late: TimerHandle | None = None
        self._untaken: TimerHandle | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Accept a connection, unless its address has too many; the one that has been silent for longest makes room."""
        super().connection_made(transport)
        self._wait(self._bounds.head_s)
        if len(self.connections) > self._bounds.connections_each and self._are_too_many():
            self._refuse(429, "Too many connections of this address.")
        elif len(self.connections) > self._bounds.connections:
            idle = [each for each in self.connections if isinstance(each, BoundedProtocol) and each.is_idle]
            others = [each for each in idle if each is not self]
            if others:
                min(others, key=lambda each: each.waits_until_s).transport.abort()
            else:
                self._refuse(503, "Too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the times of a closed connection."""
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self._awaits_head and (self.cycle is None or self.cycle.response_complete)

    @property
    def waits_until_s(self) -> float:
        """When the time of what is awaited ends, in the loop's seconds; 0 if nothing is timed."""
        timer = self._late or self.timeout_keep_alive_task
        return timer.when() if timer is not None else 0.0

    def _are_too_many(self) -> bool:
        address = self.client[0] if self.client else ""
        if _is_among(address, self._bounds.uncounted):
            return False
        # a websocket's protocol knows its client by the same name
        clients = (getattr(each, "client", None) for each in self.connections)
        same = sum(client is not None and client[0] == address for client in clients)
        return same > self._bounds.connections_each

    # --- what arrives ---

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; a head that grows beyond its bound is refused, one that stays away is timed."""
        if self._awaits_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self not in self.connections or self.transport.is_closing():
            return  # it has ended, or is a websocket now
        if not self._awaits_head:
            return
        if self._has_begun and self._head_bytes > self._bounds.head_bytes:
            self._refuse(431, "The headers are too large.")
        elif self._late is None and (self._has_begun or self.is_idle):
            self._wait(self._bounds.head_s)

    def on_message_begin(self) -> None:
        """Begin a request, with its first byte."""
        super().on_message_begin()
        self._has_begun = True
        self._headers = self._headers_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count one whole header against the bound."""
        self._headers += 1
        self._headers_bytes += len(name) + len(value)
        is_long = len(self.url) + self._headers_bytes > self._bounds.head_bytes
        if is_long or self._headers > self._bounds.headers:
            self._is_refused = True
            raise HeadTooLarge
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Go on to the body, once the head is whole."""
        self._awaits_head = self._has_begun = False
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Go on to the next head, once the body is whole."""
        super().on_message_complete()
        self._awaits_head = True
        self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refuses, headers beyond their bounds among it."""
        if self._is_refused:
            self._refuse(431, "The headers are too large or too many.")
        else:
            super().send_400_response(msg)
            self._abort_if_untaken()

    # --- what is sent ---

    def on_response_complete(self) -> None:
        """Give the rest of a body that nobody waited for a little time to come, once an answer is written."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_if_untaken()
        elif not self._awaits_head:
            self._wait(self._bounds.rest_s)

    def pause_writing(self) -> None:
        """Time a client that does not take what it asked for."""
        super().pause_writing()
        if self._untaken is None:
            self._untaken = self.loop.call_later(self._bounds.taking_s, self.transport.abort)

    def resume_writing(self) -> None:
        """End the timing of a client that takes its answer again."""
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """End a connection on which nothing came after an answer."""
        super().timeout_keep_alive_handler()
        self._abort_if_untaken()

    # --- the end ---

    def _wait(self, longest_s: float) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(longest_s, self._is_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _is_late(self) -> None:
        self._late = None
        if self.cycle is not None and not self.cycle.response_complete:
            # it has sent on while we were busy with its last request, and may have been kept from sending the rest
            self._wait(self._bounds.head_s)
        elif self._has_begun:
            self._refuse(408, "The request did not come in time.")
        else:
            self.transport.close()
            self._abort_if_untaken()

    def _refuse(self, status: int, text: str) -> None:
        """Answer with one line and end the connection."""
        self._stop_waiting()
        body = f"{text}\n"
        self.transport.write(
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(body)}\r\nretry-after: 5\r\nconnection: close\r\n\r\n{body}".encode()
        )
        self.transport.close()
        self._abort_if_untaken()

    def _abort_if_untaken(self) -> None:
        """Abort a connection whose client does not read; closing would wait for it without end."""
        transport = cast(asyncio.WriteTransport, self.transport)
        if transport.get_write_buffer_size():
            self.loop.call_later(self._bounds.taking_s, transport.abort)


def _is_among(address: str, networks: Iterable[Network]) -> bool:
    try:
        asked = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(asked in network for network in networks)
