"""Answers: JSON from schemas, problems from errors, and the headers that all of them carry."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from .errors import problem_for

_encode = msgspec.json.Encoder().encode

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}


def json_answer(value: msgspec.Struct, status: int = 200) -> Response:
    """A value of a schema as JSON."""
    return Response(_encode(value), status, HEADERS, "application/json")


def problem_answer(error: Exception, *, allow: str | None = None) -> Response:
    """An error as problem+json; `allow` lists the methods that would have been answered."""
    rule, problem = problem_for(error)
    headers = dict(HEADERS)
    if rule.retry_after_s is not None:
        headers["retry-after"] = str(rule.retry_after_s)
    if rule.status == 401:
        headers["www-authenticate"] = 'Bearer realm="escapement"'
    if allow is not None:
        headers["allow"] = allow
    return Response(_encode(problem), rule.status, headers, "application/problem+json")
