"""Bodies for pages, read whole in the event loop: a page thread is taken when there is something to do, and not before.

Django's views read a body in their thread and wait there for as long as it takes; a few slow senders would keep all
threads from everybody else.

All bodies share a budget. When it is spent, those that are not whole give up, the oldest first: what comes at once is
never kept waiting by what does not come. Who shows no cookie of a session has signed in nowhere: a stranger's body is
small, has to keep coming, and gives up before others. A cookie is no proof, it is looked up by the page; who makes one
up has the budget above him all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

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

    def largest_of(self, *, is_stranger: bool) -> int:
        """Return how large a body may be, in bytes."""
        return min(self.largest_bytes, self.small_bytes) if is_stranger else self.largest_bytes

    def time_s(self, come_bytes: int, *, is_stranger: bool) -> float:
        """Return how long a body may be under way of which so many bytes have come."""
        if not is_stranger:
            return self.longest_s
        return min(self.longest_s, self.grace_s + come_bytes / self.least_bytes_s)


@dataclass(slots=True, eq=False)
class _Body:
    """A body that is being read; `time` ends when it has to be whole, or gives up."""

    is_stranger: bool
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
            oldest = next((each for each in self._unfinished if each.is_stranger), next(iter(self._unfinished)))
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
        if announced is not None and announced > self._bounds.largest_of(is_stranger=body.is_stranger):
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
        bounds, is_stranger = self._bounds, body.is_stranger
        largest, begun_s = bounds.largest_of(is_stranger=is_stranger), asyncio.get_running_loop().time()
        try:
            async with body.time:
                while True:
                    body.time.reschedule(begun_s + bounds.time_s(len(body.data), is_stranger=is_stranger))
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
    who = " for somebody who has not signed in" if body.is_stranger else ""
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
