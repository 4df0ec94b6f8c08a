"""HTTPS on the console's own port, for where no reverse proxy stands in front.

A connection is taken in the clear, counted with all others, and given a certificate; what finishes its handshake in
time becomes one of uvicorn's. asyncio's own way would give a stranger a minute for it, and count nothing until then. A
certificate that is renewed is taken up by itself, as by the broker (broker.server.tls).

A port without TLS beside it leads browsers to the one with it; it serves nothing, and no form is read there.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from uvicorn.server import ServerState

from console.site.bounds import BoundedProtocol, Bounds, refusal

logger = logging.getLogger(__name__)

#: the certificate to show now
Context = Callable[[], ssl.SSLContext]


class Handshake(asyncio.Protocol):
    """A connection until its TLS stands; then its transport is another one, and its protocol uvicorn's."""

    #: as BoundedProtocol says it: it makes room for others
    is_idle = True

    def __init__(self, context: Context, bounds: Bounds, server_state: ServerState, **named: Any) -> None:
        self._context = context
        self._bounds = bounds
        self._protocol = partial(BoundedProtocol, bounds=bounds, server_state=server_state, **named)
        self.connections = cast(set[Any], server_state.connections)
        self.transport: Any = None
        self.client: tuple[str, int] | None = None
        self.waits_until_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._early = bytearray()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, unless there is no place."""
        loop = asyncio.get_running_loop()
        self.transport = transport
        self.client = (transport.get_extra_info("peername") or (("", 0)))[:2]
        self.waits_until_s = loop.time() + self._bounds.head_s
        self.transport.pause_reading()
        self.connections.add(self)
        if refusal(self, self.connections, self._bounds):
            self.transport.abort()
        else:
            self._task = loop.create_task(self._shake_hands())
            loop.call_soon(self._hand_on)  # behind the first step of that

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that ended before it was one."""
        self._is_lost = True
        self.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Keep what comes before the handshake begins, or with its last bytes, for who goes on."""
        self._early += data

    def _hand_on(self) -> None:
        """Give TLS what came before it took our place: uvloop reads from one that was paused as it was made."""
        begun, self._early = self._early, bytearray()
        tls = self.transport.get_protocol()
        while begun and tls is not None and tls is not self:
            room = tls.get_buffer(len(begun))
            size = min(len(room), len(begun))
            room[:size] = begun[:size]
            del begun[:size]
            tls.buffer_updated(size)

    def shutdown(self) -> None:
        """End it, as the server ends."""
        self.transport.abort()

    async def _shake_hands(self) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self.transport, self, self._context(), server_side=True, ssl_handshake_timeout=self._bounds.head_s
            )
        except (OSError, ssl.SSLError) as error:  # a stranger, a port scan, a plain browser, somebody too slow
            logger.debug("no TLS with %s: %s", self.client, error)
            self.connections.discard(self)
            self.transport.abort()
            return
        self.connections.discard(self)
        if self._is_lost or secured is None:
            return
        protocol = self._protocol()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early and not secured.is_closing():
            protocol.data_received(bytes(self._early))


def secured(context: Context, bounds: Bounds) -> Callable[..., Handshake]:
    """Return what makes uvicorn's connections so that they begin with TLS."""

    def made(*, config: Any, server_state: ServerState, app_state: Any, _loop: Any = None) -> Handshake:
        return Handshake(context, bounds, server_state, config=config, app_state=app_state, _loop=_loop)

    return made


Scope = dict[str, Any]


class LeadsToHttps:
    """The ASGI application of the port without TLS."""

    def __init__(self, port: int) -> None:
        """`port`: of the console with TLS."""
        self._port = "" if port == 443 else f":{port}"

    async def __call__(self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Lead who asks for a page there; whatever else is sent here was heard already, and is refused."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        status, headers, body = self._answer(scope)
        headers += [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, scope: Scope) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        host = split_domain_port(named[0])[0] if len(named) == 1 else ""
        if not host or not validate_host(host, settings.ALLOWED_HOSTS):
            return 400, [], b"No such host is served here.\n"
        if scope["method"] not in ("GET", "HEAD"):
            return 403, [], b"Only HTTPS is served; what was sent could be read on its way.\n"
        query = scope["query_string"]
        place = f"https://{host}{self._port}".encode() + scope["raw_path"] + (b"?" + query if query else b"")
        return 301, [(b"location", place)], b"Only HTTPS is served.\n"
