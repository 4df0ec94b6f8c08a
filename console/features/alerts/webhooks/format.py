"""The form in which a service takes news of alerts: what is sent, and whether its answer means that it took it.

A new service is a class in a file of its own here with its line in `registry.py`, and its title in the translation.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from console.features.alerts.told import Told
from console.features.checkback.request import HttpAnswer
from console.operations.kind import Words

#: characters of what a service says that are kept with a delivery
SAID_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Try:
    """One try to tell a service: `body` is the kept text of `told`, `number` counts the tries from 1."""

    told: Told
    body: str
    address: str
    secret: str
    at: datetime
    number: int = 1


@dataclass(frozen=True, slots=True)
class Post:
    """What is asked of a service: a POST of JSON to an address."""

    address: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Format(ABC):
    """The form of one service. `name` is a stable code; rules are kept with it."""

    name: ClassVar[str]
    title: ClassVar[Words]
    #: how an address of the service begins
    example: ClassVar[str]
    #: what its secret is called; "": it has none that is typed in
    secret_title: ClassVar[Words] = ""
    needs_secret: ClassVar[bool] = False
    #: whether who knows the address may post: it is not shown again then
    is_address_secret: ClassVar[bool] = True

    @abstractmethod
    def post(self, each: Try) -> Post:
        """Return what is asked of the service."""

    def fault(self, answer: HttpAnswer) -> str:
        """Return why the answer means that the news were not taken; "" where they were."""
        return "" if is_success(answer) else refused(answer)


def is_success(answer: HttpAnswer) -> bool:
    """Tell whether the status says so."""
    return 200 <= answer.status < 300


def refused(answer: HttpAnswer) -> str:
    """Return the status, with what the service says of it."""
    words = " ".join(answer.body.decode("utf-8", "replace").split())
    return f"status {answer.status}" + (f": {words[:SAID_LENGTH]}" if words else "")


def fault_in(answer: HttpAnswer, *codes: str, said: tuple[str, ...]) -> str:
    """Return the fault that an answer tells in its body, whatever its status: the first of `codes` that is there has to
    be 0; `said` are names of what the service says of it."""
    if not is_success(answer):
        return refused(answer)
    told = read_object(answer.body)
    code = next((told[name] for name in codes if name in told), None)
    if code == 0 and not isinstance(code, bool):
        return ""
    if code is None:
        return f"the answer has no {codes[0]}"
    words = next((str(told[name]) for name in said if told.get(name)), "")
    return f"{codes[0]} {str(code)[:20]}" + (f": {words[:SAID_LENGTH]}" if words else "")


def read_object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object of an answer; empty where it is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def as_json(body: object) -> bytes:
    """Return the bytes of a body; what is not ASCII stays as it is, as services count bytes."""
    return json.dumps(body, ensure_ascii=False).encode()


def cut(text: str, most_bytes: int) -> str:
    """Return as much of a text as has so many bytes, with an ellipsis where it is not all."""
    raw = text.encode()
    return text if len(raw) <= most_bytes else raw[: most_bytes - 3].decode("utf-8", "ignore") + "…"
