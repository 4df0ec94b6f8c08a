"""Bounds on the cost of a connection that has not said who it is: bytes, time, and a place among the others.

uvicorn bounds the time between two requests and nothing else. Here a head has to arrive within its time and size, what
is left of a body after its answer too, and an answer has to be taken. A websocket is bounded by uvicorn's own settings,
a body of REST by its reader (console.rest.request_body).

Bodies for pages are read whole in the event loop: a page thread is taken when there is something to do, and not before.
Django's views read a body in their thread and wait there for as long as it takes; a few slow senders would keep all
threads from everybody else.

All bodies share a budget. When it is spent, those that are not whole give up, the oldest first: what comes at once is
never kept waiting by what does not come. Who shows no cookie of a session has signed in nowhere: a stranger's body is
small, has to keep coming, and gives up before others. A cookie is no proof, it is looked up by the page; who makes one
up has the budget above him all the same.
"""

from __future__ import annotations

import asyncio
import http
import ipaddress
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from console.site.coarse_timers import CoarseTimer, coarse_timers
from console.site.exchange import EXCHANGE, Exchange

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: from there everything comes that stands behind a proxy which nobody has named, and all of this machine's own
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one connection, times in seconds.

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
        self._loop, self._timers = self.loop, coarse_timers(self.loop)
        #: uvicorn times there how long a connection is idle, with each answer
        self.loop = cast(asyncio.AbstractEventLoop, self._timers)
        self._bounds = bounds
        #: whether the headers of the next request are awaited, whether they have begun, and how much of them came
        self._awaits_head = True
        self._has_begun = False
        self._head_bytes = self._read_bytes = 0
        #: what came since the last byte of a body: sizes of its chunks, and headers behind it (trailers)
        self._around_bytes = 0
        self._is_refused = False
        self._late: CoarseTimer | None = None
        self._untaken: CoarseTimer | None = None
        self._exchange: Exchange | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Accept a connection, unless its address has too many; the one that has been silent for longest makes room."""
        super().connection_made(transport)
        self._wait(self._bounds.head_s)
        if status := refusal(self, cast(set[Any], self.connections), self._bounds):
            self._refuse(status, "Too many connections of this address." if status == 429 else "Too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the times of a closed connection."""
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Tell whether no request is under way."""
        return self._awaits_head and (self.cycle is None or self.cycle.response_complete)

    @property
    def waits_until_s(self) -> float:
        """The end of the time for what is awaited, in the loop's seconds; 0 if nothing is timed."""
        timer = self._late or self.timeout_keep_alive_task
        return timer.when() if timer is not None else 0.0

    # --- what arrives ---

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; a head that grows beyond its bound is refused, one that stays away is timed."""
        self._read_bytes = len(data)
        if self._awaits_head:
            self._head_bytes += self._read_bytes
        else:
            self._around_bytes += self._read_bytes
        super().data_received(data)
        if self not in self.connections or self.transport.is_closing():
            return  # it has ended, or is a websocket now
        if not self._awaits_head:
            if self._around_bytes > self._bounds.head_bytes:
                self._refuse(431, "What comes around the body is too large.")
            return
        if self._has_begun and self._head_bytes > self._bounds.head_bytes:
            self._refuse(431, "The headers are too large.")
        elif self._late is None and (self._has_begun or self.is_idle):
            self._wait(self._bounds.head_s)

    def on_message_begin(self) -> None:
        """Begin a request, with its first byte."""
        super().on_message_begin()
        self._has_begun = True

    def on_headers_complete(self) -> None:
        """Go on to the body, once the head is whole and within its bounds."""
        self._is_refused = self._is_too_large()
        if self._is_refused:
            raise HeadTooLarge
        self._awaits_head = self._has_begun = False
        self._head_bytes = self._around_bytes = 0
        self._stop_waiting()
        before = self.cycle
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            self.headers = []  # the scope has those of the head; what follows a body is none of them
        cycle: Any = self.cycle
        if cycle is not before:
            self._exchange = cycle.transport = Exchange(cycle, self.transport, self._loop)
            cycle.scope[EXCHANGE] = self._exchange

    def _is_too_large(self) -> bool:
        """Tell whether a head has too many headers, or is too long; what came with it may be longer."""
        bounds = self._bounds
        if len(self.headers) > bounds.headers:
            return True
        if self._head_bytes + self._read_bytes <= bounds.head_bytes:
            return False  # a second head of one read is not in the first of both
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > bounds.head_bytes

    def on_body(self, body: bytes) -> None:
        """Take bytes of a body; who waits for it bounds them."""
        super().on_body(body)
        self._around_bytes = 0

    def on_message_complete(self) -> None:
        """Go on to the next head, once the body is whole."""
        super().on_message_complete()
        if self._exchange is not None:
            self._exchange.is_whole = True
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
            self._untaken = self._timers.call_later(self._bounds.taking_s, self.transport.abort)

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
        self._late = self._timers.call_later(longest_s, self._is_late)

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
            self._timers.call_later(self._bounds.taking_s, transport.abort)


def refusal(new: Any, connections: set[Any], bounds: Bounds) -> int:
    """Return 0 if there is a place for a connection that is among them, else the status that it is refused with.

    Where none is free, the one that has been silent for longest makes room.
    """
    if len(connections) > bounds.connections_each and _are_too_many(new, connections, bounds):
        return 429
    if len(connections) > bounds.connections:
        others = [each for each in connections if each is not new and getattr(each, "is_idle", False)]
        if not others:
            return 503
        min(others, key=lambda each: each.waits_until_s).transport.abort()
    return 0


def _are_too_many(new: Any, connections: set[Any], bounds: Bounds) -> bool:
    address = new.client[0] if new.client else ""
    if _is_among(address, bounds.uncounted):
        return False
    # a websocket's protocol knows its client by the same name
    clients = (getattr(each, "client", None) for each in connections)
    same = sum(client is not None and client[0] == address for client in clients)
    return same > bounds.connections_each


def _is_among(address: str, networks: Iterable[Network]) -> bool:
    try:
        asked = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(asked in network for network in networks)


Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_NOTHING = {"type": "http.request", "body": b"", "more_body": False}


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """`largest_bytes`: of one body (413). `longest_s`: until it is whole (408). `together_bytes`: of all that have not
    been answered yet (503).

    `session_cookie`: name of the cookie by which somebody is no stranger, empty if all are. `small_bytes`: the largest
    body of a stranger. `grace_s` and `least_bytes_s`: what has come of it must have been under way no longer than the
    grace and the time that it takes at this rate.
    """

    largest_bytes: int
    longest_s: float
    together_bytes: int = 64 << 20
    session_cookie: str = ""
    small_bytes: int = 64 << 10
    grace_s: float = 10.0
    least_bytes_s: float = 4 << 10

    def largest_of(self, *, is_anonymous: bool) -> int:
        """Return how large a body may be, in bytes."""
        return min(self.largest_bytes, self.small_bytes) if is_anonymous else self.largest_bytes

    def time_s(self, come_bytes: int, *, is_anonymous: bool) -> float:
        """Return how long a body may be under way of which so many bytes have come."""
        if not is_anonymous:
            return self.longest_s
        return min(self.longest_s, self.grace_s + come_bytes / self.least_bytes_s)


@dataclass(slots=True, eq=False)
class _Body:
    """A body that is being read; `time` ends when it has to be whole, or gives up."""

    is_anonymous: bool
    time: asyncio.Timeout
    data: bytearray = field(default_factory=bytearray)
    has_given_up: bool = False


class BodyBudget:
    """The bytes that all unanswered bodies hold together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0
        self._unfinished: dict[_Body, None] = {}

    def add(self, body: _Body, part: bytes, *, is_last: bool) -> bool:
        """Have a body hold more bytes; others, or it itself, may have to give up. Returns False if there is no room."""
        if body.has_given_up:
            return False
        if is_last:
            self._unfinished.pop(body, None)
        else:
            self._unfinished.setdefault(body)
        body.data += part
        self.held_bytes += len(part)
        while self.held_bytes > self._most_bytes and self._unfinished:
            oldest = next((each for each in self._unfinished if each.is_anonymous), next(iter(self._unfinished)))
            self.release(oldest)
            oldest.has_given_up = True
            if not oldest.time.expired():
                oldest.time.reschedule(0)
        return self.held_bytes <= self._most_bytes and not body.has_given_up

    def release(self, body: _Body) -> None:
        """Give back what a body holds; a second call does nothing."""
        self._unfinished.pop(body, None)
        self.held_bytes -= len(body.data)
        body.data = bytearray()


class WholeBodies:
    """An ASGI application in front of another, which gets each request with its whole body."""

    def __init__(self, application: Application, bounds: BodyBounds) -> None:
        self._application = application
        self._bounds = bounds
        self.budget = BodyBudget(bounds.together_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, as ASGI has it."""
        announced = _announced(scope)
        if announced == 0:
            await self._application(scope, _once(b""), send)
            return
        body = _Body(not _has_cookie(scope, self._bounds.session_cookie.encode()), asyncio.timeout(None))
        if announced is not None and announced > self._bounds.largest_of(is_anonymous=body.is_anonymous):
            await _refuse(send, *_too_large(body))
            return
        try:
            refusal = await self._read(receive, body)
            if refusal is None:
                await self._application(scope, _once(bytes(body.data)), send)
        finally:
            self.budget.release(body)
        if refusal is not None and refusal is not _GONE:
            await _refuse(send, *refusal)

    async def _read(self, receive: Receive, body: _Body) -> tuple[HTTPStatus, str] | None:
        """Read the body within the budget. Returns why not all of it came, or None."""
        bounds, is_anonymous = self._bounds, body.is_anonymous
        largest, begun_s = bounds.largest_of(is_anonymous=is_anonymous), asyncio.get_running_loop().time()
        try:
            async with body.time:
                while True:
                    body.time.reschedule(begun_s + bounds.time_s(len(body.data), is_anonymous=is_anonymous))
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return _GONE
                    part, is_last = message.get("body", b""), not message.get("more_body", False)
                    if len(body.data) + len(part) > largest:
                        return _too_large(body)
                    if not self.budget.add(body, part, is_last=is_last):
                        return _NO_ROOM
                    if is_last:
                        return None
        except TimeoutError:
            return _NO_ROOM if body.has_given_up else (HTTPStatus.REQUEST_TIMEOUT, "The body did not come in time.")


_NO_ROOM = (HTTPStatus.SERVICE_UNAVAILABLE, "Too many bodies are on their way.")
#: there is nobody to tell
_GONE = (HTTPStatus.BAD_REQUEST, "")


def _too_large(body: _Body) -> tuple[HTTPStatus, str]:
    who = " for somebody who has not signed in" if body.is_anonymous else ""
    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is too large{who}."


def _has_cookie(scope: Scope, wanted: bytes) -> bool:
    cookies = (pair for name, value in scope["headers"] if name == b"cookie" for pair in value.split(b";"))
    return any(
        name.strip() == wanted and value.strip() for name, _, value in (each.partition(b"=") for each in cookies)
    )


def _announced(scope: Scope) -> int | None:
    """Return the announced length of the body; None if only its end tells."""
    length = 0
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length" and value.isdigit():
            length = int(value)
    return length


def _once(body: bytes) -> Receive:
    """Make the application's `receive`: it gives the body once, and then nothing more."""
    told = False

    async def receive() -> dict[str, Any]:
        nonlocal told
        if told:
            return _NOTHING
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _refuse(send: Send, status: HTTPStatus, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
