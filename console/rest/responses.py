"""Answers: JSON from schemas, problems from errors, and the headers that all of them carry."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import cast

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from console.rest.errors import problem_for
from console.site.exchange import exchange_of

_encode = msgspec.json.Encoder().encode

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}


_RAW_HEADERS = [
    (name.encode(), text.encode()) for name, text in (HEADERS | {"content-type": "application/json"}).items()
]


_FIELDS = b"".join(b"%b: %b\r\n" % header for header in _RAW_HEADERS) + b"content-length: %d\r\n"


class JsonAnswer(Response):
    """An answer in JSON; its headers, but for the length, are made once for all."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code, self.body, self.background = status, body, None
        self.init_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, as ASGI has it, or in one piece where the server takes it."""
        exchange, body = exchange_of(scope), cast(bytes, self.body)
        is_plain = self.raw_headers[:-1] == _RAW_HEADERS
        if exchange is None or not is_plain or not exchange.answer(self.status_code, _FIELDS % len(body), body):
            await super().__call__(scope, receive, send)

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Set the headers as they go over the wire."""
        self.raw_headers = [*_RAW_HEADERS, (b"content-length", b"%d" % len(self.body))]


def json_answer(value: msgspec.Struct, status: int = 200) -> Response:
    """Return a value of a schema as an answer in JSON."""
    return JsonAnswer(_encode(value), status)


def body_texts(body: bytes) -> tuple[str | None, str | None]:
    """Return a message's body as answers have it: the text and None where it is UTF-8, else None and its base64."""
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode()


def problem_answer(error: Exception, *, allow: str | None = None) -> Response:
    """Return an error as problem+json; `allow` lists the methods that would have been answered."""
    rule, problem = problem_for(error)
    headers = dict(HEADERS)
    if rule.retry_after_s is not None:
        headers["retry-after"] = str(rule.retry_after_s)
    if rule.status == 401:
        headers["www-authenticate"] = 'Bearer realm="escapement"'
    if allow is not None:
        headers["allow"] = allow
    return Response(_encode(problem), rule.status, headers, "application/problem+json")
