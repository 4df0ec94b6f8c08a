"""The protocol of a new connection, told by its first byte: remoting, TLS, or HTTP for whoever watches the broker.

22        a TLS handshake; what comes out of it is looked at in the same way
G or H    GET or HEAD: one request for health or metrics, answered and closed
else      remoting; a frame begins with the highest byte of its length, 0 or 1

By HTTP there are `/healthz`, `/readyz`, `/metrics`, nothing else, and no writes. Health is told to everybody, in one
word. Metrics name topics, groups and clients: they are told to whoever brings the token, or, where there is none, to
this machine. A request that was passed on by a proxy does not come from this machine, whatever its address.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from ..rocketmq.acl import address_of
from .connection import Connection, Server
from .tls import HANDSHAKE, Certificates, TlsSession

logger = logging.getLogger(__name__)

_HTTP = frozenset(b"GH")


class FrontConnection(Connection):
    """A connection that becomes what its first byte says."""

    def __init__(self, server: Server, certificates: Certificates | None, pages: Pages | None) -> None:
        super().__init__(server)
        self._certificates = certificates
        self._pages = pages
        self._is_fresh = self._is_first_plain = True
        self._session: TlsSession | None = None
        self._asked: bytearray | None = None
        self._came_ms = server.clock()
        self._is_ended = False

    def data_received(self, data: bytes) -> None:
        """Read what came, as it is or as TLS hides it."""
        if self._is_fresh:
            self._is_fresh = False
            if self._certificates is not None and not self._may_go_on(data[0], self._certificates):
                return
        if self._session is None:
            self._plain_received(data)
        else:
            self._unseal(self._session, data)

    def _may_go_on(self, first: int, certificates: Certificates) -> bool:
        if first == HANDSHAKE:
            self._session = TlsSession(certificates.context())
        elif certificates.config.is_required:
            self.close_because("it speaks without TLS, which is required here")
            return False
        elif certificates.config.is_required_elsewhere and not self.is_of_this_machine:
            self.close_because("it speaks without TLS from another machine")
            return False
        return True

    @property
    def is_of_this_machine(self) -> bool:
        """Tell whether the peer is at loopback, or at the very address that it connected to."""
        own = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return is_this_machine(self.host) or bool(own and own[0] == self.host)

    def _unseal(self, session: TlsSession, data: bytes) -> None:
        try:
            plain = session.unseal(data)
        except ssl.SSLError as error:
            super().write(session.waiting())
            self.close_because(f"TLS failed: {error}")
            return
        if own := session.waiting():
            super().write(own)
        if plain:
            self._plain_received(plain)
        if session.is_ended:
            self.close()

    def _plain_received(self, data: bytes) -> None:
        if self._is_first_plain:
            self._is_first_plain = False
            if self._pages is not None and data[0] in _HTTP:
                self._asked = bytearray()
        if self._asked is None:
            super().data_received(data)
        else:
            self._page_asked(self._asked, data)

    def _page_asked(self, asked: bytearray, data: bytes) -> None:
        assert self._pages is not None
        asked += data
        if len(asked) > LONGEST_REQUEST_BYTES:
            self.close_because(f"an HTTP request of more than {LONGEST_REQUEST_BYTES} bytes")
        elif b"\r\n\r\n" in asked and not self._is_ended:
            self._pages.answer(bytes(asked), self.host, self._page_made)
            self._asked = bytearray()

    def _page_made(self, page: bytes) -> None:
        self.write(page)
        self.close()

    def write(self, data: bytes) -> None:
        """Write whole frames, sealed where the peer speaks TLS."""
        if not self._is_ended:
            super().write(data if self._session is None else self._session.seal(data))

    def close_if_overdue(self, now_ms: int) -> None:
        """End this connection as every other, and if a handshake or an HTTP request takes longer than a frame may."""
        session, limits = self._session, self.server.limits
        is_unfinished = self._asked is not None or (session is not None and not session.is_ready)
        if is_unfinished and now_ms - self._came_ms >= limits.frame_timeout_ms:
            self.close_because(f"it did not finish within {limits.frame_timeout_ms} ms what it began with")
        else:
            super().close_if_overdue(now_ms)

    def close(self) -> None:
        """End the connection once what was written is sent."""
        if self._session is not None and self._session.is_ready and not self._is_ended:
            super().write(self._session.farewell())
        self._is_ended = True
        super().close()


def front(certificates: Certificates | None = None, pages: Pages | None = None) -> Callable[[Server], Connection]:
    """Return what makes a server's connections (Hooks.connection) so that they speak TLS and HTTP, too."""
    return lambda server: FrontConnection(server, certificates, pages)


# Pages by HTTP.

LONGEST_REQUEST_BYTES = 8 * 1024

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""Of metrics, as the OpenMetrics standard has it."""

Answered = Callable[[bytes], None]
Metrics = Callable[[], Awaitable[bytes]]
"""The metrics of now, in the text form of OpenMetrics."""

_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


class Pages:
    """The pages of one broker: health, readiness, metrics."""

    def __init__(self, state: Callable[[], str], metrics: Metrics | None = None, *, token: str = "") -> None:
        """`state` says how the store is (Health.state)."""
        self._state = state
        self._metrics = metrics
        self._token = token
        self._making: set[asyncio.Task[None]] = set()

    def answer(self, request: bytes, host: str, answered: Answered) -> None:
        """Call `answered` with the whole answer to one request, at once or soon; what is refused is logged."""

        def logged(answer: bytes) -> None:
            status = answer.partition(b"\r\n")[0].decode().partition(" ")[2]
            if status.startswith("4"):
                logger.warning("an HTTP request of %s was answered with %s", host, status)
            answered(answer)

        self._choose(request, host, logged)

    def _choose(self, request: bytes, host: str, answered: Answered) -> None:
        head, _, _ = request.partition(b"\r\n\r\n")
        line, *rows = head.decode("latin-1").split("\r\n")
        words = line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            answered(page(HTTPStatus.BAD_REQUEST))
            return
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            answered(page(HTTPStatus.METHOD_NOT_ALLOWED))
        elif path == "/healthz":
            answered(page(HTTPStatus.OK, "ok\n"))
        elif path == "/readyz":
            answered(self._readiness())
        elif path == "/metrics" and self._metrics is not None:
            self._tell(_headers(rows), host, self._metrics, answered)
        else:
            answered(page(HTTPStatus.NOT_FOUND))

    def _readiness(self) -> bytes:
        state = self._state()
        is_ready = state in ("OK", "DEGRADED")
        return page(HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE, f"{state}\n")

    def _tell(self, headers: dict[str, str], host: str, metrics: Metrics, answered: Answered) -> None:
        if not self.may_see_metrics(headers, host):
            answered(
                page(
                    HTTPStatus.FORBIDDEN,
                    "Metrics need the token, or, where none is set, a request from this machine itself.\n",
                )
            )
            return

        async def make() -> None:
            try:
                body = await metrics()
            except Exception:
                # a fault in what is only watched must not end anything, and whoever watches is to see it
                logger.exception("metrics could not be collected")
                answered(page(HTTPStatus.INTERNAL_SERVER_ERROR))
            else:
                answered(page(HTTPStatus.OK, body, CONTENT_TYPE))

        task = asyncio.get_running_loop().create_task(make())
        self._making.add(task)
        task.add_done_callback(self._making.discard)

    def may_see_metrics(self, headers: dict[str, str], host: str) -> bool:
        """Tell whether who asks may see more than health; header names are lower case."""
        if self._token:
            kind, _, given = headers.get("authorization", "").partition(" ")
            return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode())
        # the name that was asked for is looked at, too: a page in a browser may have a name of its own lead here
        named = headers.get("host", host).rpartition(":")[0] or headers.get("host", host)
        is_here = is_this_machine(host) and (named == "localhost" or is_this_machine(named))
        return is_here and not any(name in headers for name in _FORWARDED)


def page(status: HTTPStatus, body: bytes | str = b"", content_type: str = "text/plain; charset=utf-8") -> bytes:
    """Return a whole answer; the connection ends with it."""
    content = body.encode() if isinstance(body, str) else body
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(content)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def _headers(rows: list[str]) -> dict[str, str]:
    pairs = (row.partition(":") for row in rows)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def is_this_machine(host: str) -> bool:
    """Tell whether an address leads to this machine itself."""
    address = address_of(host)
    return address is not None and address.is_loopback
