"""One operation of the REST interface: a method at an address, and what a token has to allow for it.

What is needed stands in the table and is asked for before a handler runs (`console.rest.grants.require_needs`). A
handler only narrows: it asks for what a body or an id names, and leaves out rows that the token does not allow.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from console.security.tokens import Grant

from .needs import SOMEWHERE, Need
from .state import Room

Handler = Callable[[Request, Grant, Room], Awaitable[Response]]
#: what a handler narrows by: an id that names a topic, names in the body, each row of an answer, or who began it
Narrowing = Literal["id", "body", "rows", "own"]

_PARAMETER = re.compile(r"{(\w+)}")
#: parameters of addresses that are names, and of what
_NAMES = {"topic": "topic", "group": "group", "queue": "topic"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one address. `needs` empty: `action` on each topic, group and queue that the address names, on some
    name where it names none."""

    method: str
    path: str
    summary: str
    action: str
    handler: Handler
    takes: type[msgspec.Struct] | None = None
    answers: tuple[tuple[int, str, type[msgspec.Struct]], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    narrows: Narrowing | None = None
    needs: tuple[Need, ...] = ()

    @property
    def needed(self) -> tuple[Need, ...]:
        """All that a token has to allow before the handler runs; never empty."""
        if self.needs:
            return self.needs
        named = [name for name in _PARAMETER.findall(self.path) if name in _NAMES]
        return tuple(Need((self.action,), name, _NAMES[name]) for name in named) or (Need((self.action,), SOMEWHERE),)
