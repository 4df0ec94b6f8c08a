"""TLS on the port that plain clients use, too: the first byte says which it is (RocketMQ's `tls.enable`).

A TLS handshake begins with 22; a frame begins with the highest byte of its length, which is 0 or 1. In permissive mode
both are served, in enforcing mode a plain client is refused; between them stands the usual one, in which a plain client
of this machine itself is served, and no other. Certificates that are renewed are taken up by themselves.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)

HANDSHAKE = 22
"""First byte of a TLS handshake (the record's content type)."""

RENEWAL_INTERVAL_MS = 10_000
"""How often the files are looked at, while connections are made."""

_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Files in PEM form. `client_ca_file`: clients must show a certificate of these authorities."""

    cert_file: str
    key_file: str | None = None
    client_ca_file: str | None = None
    is_required: bool = False
    """Enforcing mode: plain clients are refused."""
    is_required_elsewhere: bool = False
    """Plain clients of other machines are refused."""

    def context(self) -> ssl.SSLContext:
        """Return a context with these files; raises OSError if one cannot be read or is not what it should be."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        try:
            context.load_cert_chain(self.cert_file, self.key_file)
        except OSError as error:
            raise OSError(f"TLS cannot use certificate {self.cert_file} with key {self.key_file}: {error}") from error
        if self.client_ca_file is not None:
            try:
                context.load_verify_locations(self.client_ca_file)
            except OSError as error:
                raise OSError(f"TLS cannot use the authorities in {self.client_ca_file}: {error}") from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Return a value that changes with the files; raises OSError."""
        files = (self.cert_file, self.key_file, self.client_ca_file)
        states = [os.stat(path) for path in files if path is not None]
        return tuple((state.st_mtime_ns, state.st_size) for state in states)


def own_certificates(cert_file: str, key_file: str | None) -> TlsConfig:
    """Return what a program of its own shows; plain clients of elsewhere are for networks that somebody vouches for."""
    return TlsConfig(cert_file, key_file, is_required_elsewhere=not is_plaintext_allowed())


def is_plaintext_allowed() -> bool:
    """Tell whether who started this program vouches for the network."""
    return os.environ.get("ESCAPEMENT_PLAINTEXT") == "1"


class Certificates:
    """The context for new connections, made anew when the files have changed."""

    def __init__(self, config: TlsConfig, clock: Callable[[], int]) -> None:
        """Raises OSError if the files cannot be used."""
        self.config = config
        self._clock = clock
        self._stamp = config.stamp()
        self._context = config.context()
        self._looked_ms = clock()

    def context(self) -> ssl.SSLContext:
        """Return the context to use now; if new files cannot be used, the one before stays."""
        now_ms = self._clock()
        if not self._looked_ms <= now_ms < self._looked_ms + RENEWAL_INTERVAL_MS:
            self._looked_ms = now_ms
            self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            stamp = self.config.stamp()
            if stamp != self._stamp:
                self._context = self.config.context()
                self._stamp = stamp
                logger.info("took up the certificates that were renewed: %s", self.config.cert_file)
        except OSError as error:
            logger.error("the certificates before stay in use, the new ones cannot be used: %s", error)


class TlsSession:
    """A TLS connection between two streams of bytes, without a socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_ready = False
        self.is_ended = False
        """True once the peer has said good-bye."""

    def unseal(self, data: bytes) -> bytes:
        """Return what the peer said in these bytes, if anything; raises ssl.SSLError."""
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            if not self.is_ready:
                self._object.do_handshake()
                self.is_ready = True
            while part := self._object.read(_READ_BYTES):
                parts.append(part)
            self.is_ended = True
        except ssl.SSLWantReadError:
            pass  # there is no more for now
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        return b"".join(parts)

    def seal(self, data: bytes) -> bytes:
        """Return the bytes that say this to the peer."""
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]
        return self.waiting()

    def waiting(self) -> bytes:
        """Return bytes of TLS itself that are to be sent now: of the handshake, alerts."""
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """Return the bytes that end the session properly."""
        try:
            self._object.unwrap()
        except ssl.SSLError:
            pass  # the peer's good-bye is not waited for
        return self.waiting()
