"""What a new connection speaks, told by its first byte: remoting, TLS, or HTTP for whoever watches the broker.

22        a TLS handshake; what comes out of it is looked at in the same way
G or H    GET or HEAD: one request for health or metrics, answered and closed (http_health.py)
else      remoting; a frame begins with the highest byte of its length, 0 or 1
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from .connection import Connection, Server
from .http_health import LONGEST_REQUEST_BYTES, Pages
from .tls import HANDSHAKE, Certificates, TlsSession

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
        """As it is, or what TLS hides."""
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
        return True

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
        """Writes whole frames, sealed where the peer speaks TLS."""
        if not self._is_ended:
            super().write(data if self._session is None else self._session.seal(data))

    def close_if_overdue(self, now_ms: int) -> None:
        """As every connection; a handshake and an HTTP request must be done as soon as a frame."""
        session, limits = self._session, self.server.limits
        is_unfinished = self._asked is not None or (session is not None and not session.is_ready)
        if is_unfinished and now_ms - self._came_ms >= limits.frame_timeout_ms:
            self.close_because(f"it did not finish within {limits.frame_timeout_ms} ms what it began with")
        else:
            super().close_if_overdue(now_ms)

    def close(self) -> None:
        """Ends the connection once what was written is sent."""
        if self._session is not None and self._session.is_ready and not self._is_ended:
            super().write(self._session.farewell())
        self._is_ended = True
        super().close()


def front(certificates: Certificates | None = None, pages: Pages | None = None) -> Callable[[Server], Connection]:
    """Return what makes a server's connections (Hooks.connection) so that they speak TLS and HTTP, too."""
    return lambda server: FrontConnection(server, certificates, pages)
