"""One request and its answer between uvicorn's connection and the application: what is whole goes in one piece.

ASGI has bodies and answers in parts, each of which is waited for and passed through every layer. Nearly all that REST
is sent is there before its handler runs, and is answered whole. The connection (console.site.bounds) puts an `Exchange`
into the scope of each request; where there is none, behind another server, everything goes in parts.

It stands for the transport of uvicorn's cycle, too, so that an answer in parts leaves in as few writes as can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

#: its name in a scope
EXCHANGE = "escapement.exchange"


def exchange_of(scope: Any) -> Exchange | None:
    """Return the exchange of a request, None behind another server."""
    exchange: Exchange | None = scope.get(EXCHANGE)
    return exchange


class _Default:
    """The headers that uvicorn has for each answer; it makes a new list with another date each second."""

    headers: Sequence[tuple[bytes, bytes]] = ()
    encoded = b""


def _encoded(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    if headers is not _Default.headers:
        _Default.headers = headers
        _Default.encoded = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    return _Default.encoded


class Exchange:
    """The body of one request where it is whole, and its answer.

    uvicorn writes head and body of an answer one after the other, and uvloop sends what is written: two calls to the
    system, and whoever waits for it is woken twice. So a head leaves with the first bytes behind it, or in the next
    turn of the loop where nothing comes.
    """

    __slots__ = ("_cycle", "_ended", "_head", "_is_begun", "_loop", "_transport", "is_whole", "status")

    def __init__(
        self, cycle: RequestResponseCycle, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._cycle: RequestResponseCycle | None = cycle
        self._ended = cycle.on_response
        cycle.on_response = self._end
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._is_begun = False
        #: the last byte of the body has come, and nobody has taken it yet
        self.is_whole = False
        #: what was answered in one piece, 0 before
        self.status = 0

    # --- in one piece ---

    def body(self) -> bytes | None:
        """Return the whole body, once; None where it has to be received, or whoever sent it is gone."""
        cycle = self._cycle
        if not self.is_whole or cycle is None or cycle.disconnected:
            return None
        self.is_whole = False
        cycle.flow.resume_reading()
        cycle.message_event.clear()
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def answer(self, status: int, fields: bytes, body: bytes) -> bool:
        """Answer with these headers, each with its line's end, content-length among them, and this body.

        Returns False, and does nothing, where the answer has to be sent in parts: it is begun, asked for without its
        body, or its receiver has not taken what was sent before.
        """
        cycle = self._cycle
        if cycle is None or cycle.response_started or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        self.status = status
        if cycle.disconnected:
            return True
        closing = b"" if cycle.keep_alive else b"connection: close\r\n"
        self._is_begun = True
        self._transport.write(
            b"%b%b%b%b\r\n%b" % (STATUS_LINE[status], _encoded(cycle.default_headers), fields, closing, body)
        )
        cycle.waiting_for_100_continue = False
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._transport.close()
        cycle.on_response()
        return True

    def _end(self) -> None:
        """Go on to the next request, once the answer is written; cycle and exchange know each other no longer."""
        self._cycle = None
        self._ended()

    # --- in parts, as the transport of uvicorn's cycle ---

    def write(self, data: bytes) -> None:
        """Write bytes, the very first ones together with those that follow."""
        if self._is_begun:
            self._transport.write(data)
        elif self._head:
            self._is_begun = True
            self._transport.write(self._head + data)
        else:
            self._head = data
            self._loop.call_soon(self._send_head)

    def _send_head(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._transport.write(self._head)

    def is_closing(self) -> bool:
        """Tell whether the connection ends."""
        return self._transport.is_closing()

    def close(self) -> None:
        """End the connection once everything is sent."""
        self._send_head()
        self._transport.close()
