"""One question by HTTP: its name is looked up once, checked, and pinned; whatever is no proper answer raises NoAnswer.

What is not here cannot be misled: no redirects, no proxies, no cookies, no compressed bodies, no connection kept. Names
are looked up by the system's resolver, in threads, so that a slow name server does not use up the time of others.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import httptools

from console.features.checkback.allowed import Address, AddressRefused, AllowList, IPAddress

#: Time for the connection, within the time for the whole question.
CONNECT_S = 2.0
#: Status line and headers of an answer.
HEAD_BYTES = 8 * 1024
_PART_BYTES = 16 * 1024
#: IP addresses of one name that are tried, one after another.
TRIED = 2

#: Lookups at a time of one Resolver; each has one address to look up.
LOOKUPS = 2


class NoAnswer(Exception):
    """The address gave no proper answer; `reason` says why in a few words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason[:200]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How long a question may take, and how large its answer may be."""

    timeout_s: float = 5.0
    answer_bytes: int = 4096
    #: True: any status 2xx will do, whatever the body is; for who is told and not asked
    any_success: bool = False


@dataclass(slots=True)
class HttpAnswer:
    """What came back with status 200; names of headers in small letters."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_complete: bool = False


class Asker:
    """Asks addresses; belongs to one event loop."""

    def __init__(
        self, allowed: AllowList, resolve: Resolves, limits: HttpLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._allowed = allowed
        self._resolve = resolve
        self._limits = limits or HttpLimits()
        self._tls = tls or ssl.create_default_context()

    async def ask(self, address: Address, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """POST `body` (JSON), return the answer with status 200 (see HttpLimits); raises NoAnswer."""
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                found = await self._places(address)
                reader, writer = await self._connect(address, found)
                try:
                    writer.write(_request(address, headers, body))
                    return await self._read(reader)
                finally:
                    writer.transport.abort()  # nothing is said after the answer, so nobody has to be waited for
        except AddressRefused as error:
            raise NoAnswer(str(error)) from None
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._limits.timeout_s:g} s") from None
        except ssl.SSLError as error:
            raise NoAnswer(f"TLS: {error.reason or error}") from None
        except OSError as error:
            raise NoAnswer(f"{type(error).__name__}: {error.strerror or error}") from None

    async def _places(self, address: Address) -> Sequence[IPAddress]:
        """Where the address leads, now: this is looked up once, and nothing but this is connected to."""
        self._allowed.check_origin(address)
        literal = address.origin.literal
        found = [literal] if literal is not None else await self._resolve(address.origin.host, address.origin.port)
        if not found:
            raise NoAnswer("the name leads nowhere")
        self._allowed.check_resolved(found)
        return found

    async def _connect(
        self, address: Address, found: Sequence[IPAddress]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        is_tls = address.origin.scheme == "https"
        last = min(TRIED, len(found)) - 1
        for number, place in enumerate(found[: last + 1]):
            try:
                async with asyncio.timeout(CONNECT_S):
                    return await asyncio.open_connection(
                        str(place), address.origin.port, limit=_PART_BYTES,
                        ssl=self._tls if is_tls else None,
                        server_hostname=address.origin.host if is_tls else None,
                    )  # fmt: skip
            except ssl.SSLError:
                raise
            except TimeoutError:
                if number == last:
                    raise NoAnswer(f"no connection within {CONNECT_S:g} s") from None
            except OSError:
                if number == last:
                    raise
        raise AssertionError("the last one returns or raises")

    async def _read(self, reader: asyncio.StreamReader) -> HttpAnswer:
        parsed = _Parsed()
        parser = parsed.parser
        left = HEAD_BYTES + self._limits.answer_bytes
        while not parsed.answer.is_complete:
            part = await reader.read(min(_PART_BYTES, left + 1))
            left -= len(part)
            if left < 0 or len(parsed.answer.body) > self._limits.answer_bytes:
                raise NoAnswer(f"the answer is larger than {self._limits.answer_bytes:,} bytes")
            if not part:
                raise NoAnswer("the answer ended early; it needs a Content-Length, or chunks")
            try:
                parser.feed_data(part)
            except httptools.HttpParserUpgrade:
                raise NoAnswer("the server wants another protocol") from None
            except httptools.HttpParserError as error:
                raise NoAnswer(f"no HTTP: {error}") from None
            if parsed.answer.status and not self._is_success(parsed.answer.status):
                raise NoAnswer(f"status {parsed.answer.status}")
        if len(parsed.answer.body) > self._limits.answer_bytes:
            raise NoAnswer(f"the answer is larger than {self._limits.answer_bytes:,} bytes")
        return parsed.answer if self._limits.any_success else _checked(parsed.answer)

    def _is_success(self, status: int) -> bool:
        return status == 200 or (self._limits.any_success and 200 <= status < 300)


class _Parsed:
    """Called by the parser; `answer` is the first one that comes, whatever comes behind it."""

    def __init__(self) -> None:
        self.answer = HttpAnswer()
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; what comes twice is joined, and so means nothing where one value is wanted."""
        if self.answer.is_complete:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        before = self.answer.headers.get(key)
        self.answer.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """The status line is known."""
        if not self.answer.is_complete:
            self.answer.status = self.parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if not self.answer.is_complete:
            self.answer.body += body

    def on_message_complete(self) -> None:
        """All of it."""
        self.answer.is_complete = True


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


def _checked(answer: HttpAnswer) -> HttpAnswer:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise NoAnswer(f"Content-Type is {kind[:60]!r}, not application/json")
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise NoAnswer("the answer is encoded (compressed)")
    return answer


def _request(address: Address, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {address.target} HTTP/1.1",
        f"Host: {address.origin.authority}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Connection: close",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
