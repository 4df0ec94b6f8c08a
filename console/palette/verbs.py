"""Verbs of the palette: `cancel order-4711`, `resend 200 billing`, `move billing -1h`; what follows is the reason.

Which verbs there are and what may follow is said by the kinds of operations. A command leads to the preview of an
operation, never further. Nothing is asked of the broker before it is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from console.operations.kind import Command, Kind
from console.operations.registry import KINDS


def commands(text: str) -> Iterator[Command]:
    """Yield what the text asks for, whoever may do it; nothing if it begins with no verb."""
    verb, _blank, rest = text.partition(" ")
    kind = _kind_of(verb)
    if kind is not None and rest.strip():
        yield from kind.commands(verb, rest.strip())


def offered(text: str) -> Iterator[Command]:
    """Yield what can be done about a text without a verb, as if it were a key."""
    key = text.split()[0]
    if _kind_of(key) is not None:
        return
    for kind in KINDS.values():
        if kind.is_offered_for_keys:
            yield from kind.commands(kind.verbs[0], key)


def _kind_of(verb: str) -> Kind[Any] | None:
    return next((kind for kind in KINDS.values() if verb.lower() in kind.verbs), None)
