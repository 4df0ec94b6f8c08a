"""A question by HTTP: the host is looked up once, checked and pinned; anything but a proper answer raises NoAnswer.

httpx asks it, over a transport that connects to what was looked up and to nothing else. No redirects, no proxies, no
cookies, no compressed bodies, no connection kept. Names are looked up by the system's resolver, in threads, so that a
slow name server does not use up the time of others.

Questions and answers are signed: HMAC-SHA256 with a secret of the address, both ways.

    question   HMAC(secret, "check" LF timestamp LF nonce LF body)
    answer     HMAC(secret, "answer" LF nonce LF body)

The nonce is the question's, so that an answer counts for that question and no other.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import httpx

from console.features.checkback.allowed import Address, AddressRefused, AllowList, IPAddress

logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of every question

TIMESTAMP_HEADER = "Escapement-Timestamp"
NONCE_HEADER = "Escapement-Nonce"
SIGNATURE_HEADER = "Escapement-Signature"

#: Time for the connection, within the time for the whole question.
CONNECT_S = 2.0
#: Headers of an answer.
HEAD_BYTES = 8 * 1024
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
    """The limits of a question: how long it may take, and how large its answer may be."""

    timeout_s: float = 5.0
    answer_bytes: int = 4096
    #: True: every status and body is an answer, of which the first `answer_bytes` are read; for who is told, not asked
    any_answer: bool = False


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A proper answer; names of headers in small letters, what comes twice is joined by a comma."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Asker:
    """A client that asks addresses; belongs to one event loop."""

    def __init__(
        self, allowed: AllowList, resolve: Resolves, limits: HttpLimits | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._limits = limits or HttpLimits()
        self._tls = tls or ssl.create_default_context()

    async def ask(self, address: Address, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """POST `body` (JSON), return the answer with status 200 (see HttpLimits); raises NoAnswer."""
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                transport = PinnedTransport(await self._places(address), self._tls)
                async with httpx.AsyncClient(
                    transport=transport, trust_env=False, timeout=httpx.Timeout(None, connect=CONNECT_S)
                ) as client:
                    response = await client.send(_request(address, headers, body), stream=True)
                    try:
                        return await self._read(response)
                    finally:
                        await response.aclose()
        except AddressRefused as error:
            raise NoAnswer(str(error)) from None
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._limits.timeout_s:g} s") from None
        except httpx.ConnectTimeout:
            raise NoAnswer(f"no connection within {CONNECT_S:g} s") from None
        except httpx.RemoteProtocolError as error:
            raise NoAnswer(f"no HTTP, or the answer ended early: {error}") from None
        except (httpx.HTTPError, OSError) as error:
            raise NoAnswer(_words(_cause(error))) from None

    async def _places(self, address: Address) -> Sequence[IPAddress]:
        """Return where the address leads now: looked up once, and nothing else is connected to."""
        self._allowed.check_origin(address)
        literal = address.origin.literal
        found = [literal] if literal is not None else await self._resolve(address.origin.host, address.origin.port)
        if not found:
            raise NoAnswer("the name leads nowhere")
        self._allowed.check_resolved(found)
        return found

    async def _read(self, response: httpx.Response) -> HttpAnswer:
        if response.status_code != 200 and not self._limits.any_answer:
            raise NoAnswer(f"status {response.status_code}")
        if sum(len(name) + len(text) for name, text in response.headers.raw) > HEAD_BYTES:
            raise NoAnswer(f"the headers of the answer are larger than {HEAD_BYTES:,} bytes")
        if not self._limits.any_answer:
            _check_length_is_told(response)
            _check_is_json(response)
        body = b""
        async for part in response.aiter_raw():
            body += part
            if len(body) > self._limits.answer_bytes:
                if self._limits.any_answer:
                    break
                raise NoAnswer(f"the answer is larger than {self._limits.answer_bytes:,} bytes")
        return HttpAnswer(response.status_code, dict(response.headers), body[: self._limits.answer_bytes])


class PinnedTransport(httpx.AsyncBaseTransport):
    """Connects to IP addresses that are given, one after the other, whatever the address of a request says.

    The host of the address stays in the header Host, in the name that TLS asks for, and in the name that the
    certificate has to have.
    """

    def __init__(self, places: Sequence[IPAddress], tls: ssl.SSLContext) -> None:
        self._places = places[:TRIED]
        self._inner = httpx.AsyncHTTPTransport(verify=tls, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it to the first that can be connected to; raises what httpx raises for the last one."""
        *others, last = self._places
        for place in others:
            try:
                return await self._inner.handle_async_request(_pinned(request, place))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if isinstance(_cause(error), ssl.SSLError):
                    raise
        return await self._inner.handle_async_request(_pinned(request, last))

    async def aclose(self) -> None:
        """Close the connection of the inner transport."""
        await self._inner.aclose()


def _pinned(request: httpx.Request, place: IPAddress) -> httpx.Request:
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(place)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


class Resolves(Protocol):
    """A source of the IP addresses of a name, at least one; raises OSError."""

    async def __call__(self, host: str, port: int) -> Sequence[IPAddress]:
        """Look up `host` one time."""


class Resolver:
    """The system's resolver (getaddrinfo), in threads of its own. Belongs to one event loop."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LOOKUPS)

    async def __call__(self, host: str, port: int) -> Sequence[IPAddress]:
        """Look up a name. Raises OSError (socket.gaierror) if it leads nowhere."""
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


def _request(address: Address, headers: Mapping[str, str], body: bytes) -> httpx.Request:
    """Return the question, with these headers and no others; the target is sent as it is written, dots and all."""
    given = {
        "Host": address.origin.authority,
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Connection": "close",
        **headers,
    }
    return httpx.Request(
        "POST", str(address.origin), headers=given, content=body, extensions={"target": address.target.encode()}
    )


def _check_length_is_told(response: httpx.Response) -> None:
    """Raise NoAnswer unless the length is told once: without it an answer may be cut off, told twice it may be two."""
    told = [name for name in ("content-length", "transfer-encoding") if name in response.headers]
    if not told:
        raise NoAnswer("the answer may have ended early; it needs a Content-Length, or chunks")
    if len(told) > 1:
        raise NoAnswer("no HTTP: both a Content-Length and chunks")


def _check_is_json(response: httpx.Response) -> None:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise NoAnswer(f"Content-Type is {kind[:60]!r}, not application/json")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise NoAnswer("the answer is encoded (compressed)")


def _cause(error: BaseException) -> BaseException:
    """Return the system's own error beneath those of the libraries; httpcore leaves it as the context only."""
    while (beneath := error.__cause__ or error.__context__) is not None:
        error = beneath
    return error


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return f"{type(error).__name__}: {(isinstance(error, OSError) and error.strerror) or error}"


def sign_question(secret: str, timestamp: str, nonce: str, body: bytes) -> str:
    """Return the signature of a question in hex."""
    return _sign(secret, f"check\n{timestamp}\n{nonce}\n", body)


def sign_answer(secret: str, nonce: str, body: bytes) -> str:
    """Return the signature of an answer in hex."""
    return _sign(secret, f"answer\n{nonce}\n", body)


def sign_alert(secret: str, timestamp: str, nonce: str, body: bytes) -> str:
    """Return the signature of an alert's webhook in hex."""
    return _sign(secret, f"alert\n{timestamp}\n{nonce}\n", body)


def _sign(secret: str, head: str, body: bytes) -> str:
    return hmac.new(secret.encode(), head.encode() + body, hashlib.sha256).hexdigest()
