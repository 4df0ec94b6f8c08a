"""Which handler gets which messages: filled by the decorator while `handlers.py` modules are imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ..client.consuming import DEFAULT_HANDLERS, Handler
from ..client.names import check_group, check_topic
from ..client.subscription import ALL, subscription

Where = Literal["first", "last"]
Function = TypeVar("Function", bound=Callable[..., Any])


class HandlingError(Exception):
    """Handlers contradict each other, or there are none; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Handling:
    """One handler: what it is called for, and how its group consumes."""

    topic: str
    group: str
    expression: str
    handler: Handler
    from_where: Where
    threads: int

    @property
    def place(self) -> str:
        """Where the handler is written: module and name."""
        return f"{self.handler.__module__}.{getattr(self.handler, '__qualname__', repr(self.handler))}"


_registered: dict[tuple[str, str], Handling] = {}


def consumer(
    topic: str, group: str, expression: str = ALL, *, from_where: Where = "last", threads: int = DEFAULT_HANDLERS
) -> Callable[[Function], Function]:
    """Have the decorated function called for messages of `topic` with these tags (``a || b``, ``*`` for all).

    `from_where` is where a new group begins; `threads`: how many handlers of the group run at once in a process. Both
    belong to the group: its handlers must say the same. A coroutine function runs in the client's event loop.

    Raises:
        InvalidArgument: a name or an expression that no broker takes.
        HandlingError: another handler has this topic in this group, or says otherwise about the group.
    """
    check_topic(topic)
    check_group(group)
    subscription(topic, expression)
    if threads < 1:
        raise HandlingError(f"threads={threads} of group {group} is not valid: at least 1.")

    def register(function: Function) -> Function:
        _register(Handling(topic, group, expression, function, from_where, threads))
        return function

    return register


def registered() -> tuple[Handling, ...]:
    """All of them, by group and topic."""
    return tuple(handling for _, handling in sorted(_registered.items()))


def forget_all() -> None:
    """Start anew."""
    _registered.clear()


def _register(new: Handling) -> None:
    key = (new.group, new.topic)
    if (other := _registered.get(key)) is not None and other.place != new.place:
        raise HandlingError(
            f"{new.place} and {other.place} both handle {new.topic} in group {new.group}: a message of a group goes to "
            "one handler. Use another group for one of them, or call one from the other."
        )
    for other in _registered.values():
        if other.group == new.group and (other.from_where, other.threads) != (new.from_where, new.threads):
            raise HandlingError(
                f"{new.place} and {other.place} differ about group {new.group}: from_where and threads belong to the "
                "group, give both handlers the same."
            )
    _registered[key] = new
