"""Bodies for pages, read whole in the event loop: a page thread is taken when there is something to do, and not before.

Django's views read a body in their thread and wait there for as long as it takes; a few slow senders would keep all
threads from everybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_NOTHING = {"type": "http.request", "body": b"", "more_body": False}


class WholeBodies:
    """An ASGI application in front of another, which gets each request with its whole body.

    `largest_bytes`: of one body (413), `longest_s`: until it is whole (408), `together_bytes`: of all that have not
    been answered yet (503).
    """

    def __init__(
        self, application: Application, *, largest_bytes: int, longest_s: float, together_bytes: int = 64 << 20
    ) -> None:
        self._application = application
        self._largest_bytes = largest_bytes
        self._longest_s = longest_s
        self._together_bytes = together_bytes
        #: of all bodies that have not been answered
        self.held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI: one request."""
        announced = _announced(scope)
        if announced == 0:
            await self._application(scope, _once(b""), send)
            return
        if announced is not None and announced > self._largest_bytes:
            await _refuse(send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large.")
            return
        body = bytearray()
        try:
            refusal = await self._read(receive, body)
            if refusal is None:
                await self._application(scope, _once(bytes(body)), send)
            elif refusal is not _GONE:
                await _refuse(send, *refusal)
        finally:
            self.held_bytes -= len(body)

    async def _read(self, receive: Receive, body: bytearray) -> tuple[HTTPStatus, str] | None:
        """Append what comes to `body`, counted as held; why not all of it came, or None."""
        try:
            async with asyncio.timeout(self._longest_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return _GONE
                    part = message.get("body", b"")
                    if len(body) + len(part) > self._largest_bytes:
                        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large."
                    if self.held_bytes + len(part) > self._together_bytes:
                        return HTTPStatus.SERVICE_UNAVAILABLE, "Too many bodies are on their way."
                    body += part
                    self.held_bytes += len(part)
                    if not message.get("more_body", False):
                        return None
        except TimeoutError:
            return HTTPStatus.REQUEST_TIMEOUT, "The body did not come in time."


#: there is nobody to tell
_GONE = (HTTPStatus.BAD_REQUEST, "")


def _announced(scope: Scope) -> int | None:
    """How long the body is to be; None: it says so by its end."""
    length = 0
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length" and value.isdigit():
            length = int(value)
    return length


def _once(body: bytes) -> Receive:
    """What the application receives: the body, and then nothing more."""
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
