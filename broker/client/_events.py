"""Typed events: structs that are sent as JSON, with their name and version beside them, and read back as what they are.

>>> @event("order.paid", version=1)
... class OrderPaid(msgspec.Struct):
...     number: str
...     amount: Decimal

>>> producer.send("orders", OrderPaid("4711", Decimal("9.99")))
>>> message.event()
OrderPaid(number='4711', amount=Decimal('9.99'))

On the wire it is a message like any other, for clients of any language: the body is JSON, and two properties say what
it is, `event` and `event_version`; filters may ask for them. A handler whose first parameter is annotated with an event
gets that event, and its second one, if it has one, the message. Other events of the topic are passed by.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from .errors import InvalidArgument, NotThisEvent

NAME, VERSION = "event", "event_version"
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Known:
    """An event's name, its version, and its type."""

    name: str
    version: int
    kind: type[msgspec.Struct]


Kind = TypeVar("Kind", bound=msgspec.Struct)
_by_kind: dict[type[msgspec.Struct], Known] = {}
_by_name: dict[tuple[str, int], Known] = {}


def event(name: str, *, version: int = 1) -> Callable[[type[Kind]], type[Kind]]:
    """Have the decorated msgspec.Struct be an event of this name and version; a changed form is another version.

    Raises InvalidArgument for a name that is no word, a type that is no Struct, and a name and version in use.
    """
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or " " in name:
        raise InvalidArgument(f"event name {name!r:.140} is not valid: one word such as 'order.paid'.", field="name")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidArgument(f"version {version!r:.140} is not valid: a whole number from 1 up.", field="version")

    def register(kind: type[Kind]) -> type[Kind]:
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            raise InvalidArgument(f"{kind!r:.140} is no msgspec.Struct; an event is one.", field="event")
        other = _by_name.get((name, version))
        if other is not None and _place(other.kind) != _place(kind):
            raise InvalidArgument(
                f"{_place(kind)} and {_place(other.kind)} are both version {version} of event {name}: give one of them "
                "another name or version.",
                field="name",
            )
        _by_kind[kind] = _by_name[name, version] = Known(name, version, kind)
        return kind

    return register


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def known_event(kind: object) -> Known | None:
    """Return what is known of a type, if it is an event's."""
    return _by_kind.get(kind) if isinstance(kind, type) else None


def written(body: msgspec.Struct) -> tuple[bytes, dict[str, str]]:
    """Return the body and the properties of an event; raises InvalidArgument for another Struct."""
    known = _by_kind.get(type(body))
    if known is None:
        raise InvalidArgument(
            f"{_place(type(body))} is no event: decorate it with @event('its.name', version=1), or send bytes or text.",
            field="body",
        )
    try:
        raw = msgspec.json.encode(body)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"The event {known.name} cannot be written as JSON: {error}.", field="body") from None
    return raw, {NAME: known.name, VERSION: str(known.version)}


def read_event(body: bytes, properties: dict[str, str], kinds: tuple[type[msgspec.Struct], ...] = ()) -> Any:
    """Return the event that a message is, one of `kinds` if some are given; raises NotThisEvent."""
    name, version = properties.get(NAME), properties.get(VERSION, "1")
    if name is None:
        raise NotThisEvent("The message is no event: it has no property `event`. Read its body, or json().")
    known = _by_name.get((name, int(version))) if version.isascii() and version.isdigit() else None
    if known is None or (kinds and known.kind not in kinds):
        wanted = ", ".join(f"{_by_kind[kind].name} {_by_kind[kind].version}" for kind in kinds) or "no type is known"
        raise NotThisEvent(f"The message is event {name[:140]!r} of version {version[:20]}; here: {wanted}.", name)
    try:
        return msgspec.json.decode(body, type=known.kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotThisEvent(f"The body is no {name} of version {version}: {error}.", name) from None


# Handlers that are typed by an event.


@dataclass(frozen=True, slots=True)
class EventInput:
    """The events that a handler takes, and whether it wants the message as well."""

    kinds: tuple[type[msgspec.Struct], ...]
    with_message: bool

    def wants(self, properties: dict[str, str]) -> bool:
        """Tell whether a message is for the handler: not if it is another event by its name."""
        name = properties.get(NAME)
        return name is None or any(_by_kind[kind].name == name for kind in self.kinds)


def event_input(handler: Callable[..., object]) -> EventInput | None:
    """Return which events a handler takes by its annotations; None for one that takes messages."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
        hints = get_type_hints(inspect.unwrap(handler))
    except (TypeError, ValueError, NameError):  # a builtin, or names that exist for type checkers only
        return None
    if not parameters:
        return None
    wanted = hints.get(parameters[0].name)
    kinds = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
    if not all(known_event(kind) is not None for kind in kinds):
        return None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return EventInput(kinds, with_message=len(positional) > 1 and positional[1].default is inspect.Parameter.empty)
