"""One operation of the REST interface: a method at an address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from console.credentials import Grant

from .room import Room

Handler = Callable[[Request, Grant, Room], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one address. Without a handler it is planned: answered with 501, nothing is done."""

    method: str
    path: str
    summary: str
    action: str
    handler: Handler | None = None
    takes: type[msgspec.Struct] | None = None
    answers: tuple[tuple[int, str, type[msgspec.Struct]], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
