"""Handlers of messages in Django apps: found in each app's `handlers.py`, run by `manage.py consume`.

>>> from escapement_mq.handlers import consumer
>>> @consumer("orders", group="billing", expression="created || paid")
... def bill(message):
...     Invoice.objects.create(order_id=message.body.decode())

Returning acknowledges the message. An exception has it delivered again later, in growing steps; after the last attempt
it is a dead letter, where the console shows it. Delivery is at least once: a handler may see a message twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, Unpack

from ..client import ALL, DEFAULT_HANDLERS, SUSPEND_BOUNDS_MS, SUSPEND_MS, Handler, subscription, trace_topic
from ..client.handlers import HandlerOptions, Plan
from ..client.names import check_group, check_topic

__all__ = ["HandlingError", "Registration", "consumer", "registered"]


Where = Literal["first", "last"]
Function = TypeVar("Function", bound=Callable[..., Any])


class HandlingError(Exception):
    """Handlers contradict each other, or there are none; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The options of a group, the same for all its handlers. What each means is told at `consumer`."""

    from_where: Where
    threads: int
    orderly: bool
    max_reconsume_times: int | None
    suspend_ms: int
    trace: bool | str


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered handler: the messages it is called for, and the way its group consumes."""

    topic: str
    group: str
    expression: str
    handler: Handler
    options: GroupOptions
    calls: HandlerOptions
    once: bool | str = False

    @property
    def place(self) -> str:
        """The module and name of the handler."""
        return f"{self.handler.__module__}.{getattr(self.handler, '__qualname__', repr(self.handler))}"


_registered: dict[tuple[str, str], Registration] = {}


def consumer(
    topic: str, group: str, expression: str = ALL, *, from_where: Where = "last", threads: int = DEFAULT_HANDLERS,
    orderly: bool = False, max_reconsume_times: int | None = None, suspend_ms: int = SUSPEND_MS,
    trace: bool | str = False, once: bool | str = False, **calls: Unpack[HandlerOptions],
) -> Callable[[Function], Function]:  # fmt: skip
    """Have the decorated function called for messages of `topic` with these tags (``a || b``, ``*`` for all).

    `from_where` is where a new group begins; `threads`: how many handlers of the group run in parallel in a process;
    `orderly`: those of one queue one after the other. A message that failed is tried again `max_reconsume_times` times
    (none given: 16, in order without end), in order after a rest of `suspend_ms`. `trace`: see `Consumer`. All these
    belong to the group: its handlers must say the same. A coroutine function runs in the client's event loop.

    What follows belongs to the handler. `backoff`, `timeout`, `batch` and `batch_wait`: see `Consumer.subscribe`.
    `once`: a message that the group has handled is not handled again; that is noted in the same database transaction as
    what the handler does (of the default database, or the one of this name), so it is done exactly if that commits.

    Raises:
        InvalidArgument: a name or an expression that no broker takes.
        HandlingError: another handler has this topic in this group, or says otherwise about the group.
    """
    check_topic(topic)
    check_group(group)
    subscription(topic, expression)
    trace_topic(trace)
    _check(group, "threads", threads, 1)
    _check(group, "max_reconsume_times", max_reconsume_times or 0, 0)
    _check(group, "suspend_ms", suspend_ms, *SUSPEND_BOUNDS_MS)
    Plan.of(**calls, orderly=orderly)
    options = GroupOptions(from_where, threads, orderly, max_reconsume_times, suspend_ms, trace)

    def register(function: Function) -> Function:
        new = Registration(topic, group, expression, function, options, calls, once)
        _check_once(new)
        _register(new)
        return function

    return register


def registered() -> tuple[Registration, ...]:
    """Return all handlers, by group and topic."""
    return tuple(registration for _, registration in sorted(_registered.items()))


def forget_all() -> None:
    """Forget all handlers, for tests."""
    _registered.clear()


def _check(group: str, name: str, value: int, least: int, most: int | None = None) -> None:
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise HandlingError(f"{name}={value} of group {group} is not valid: {bounds}.")


def _check_once(new: Registration) -> None:
    if new.once is False:
        return
    if inspect.iscoroutinefunction(new.handler):
        raise HandlingError(f"{new.place} is a coroutine function: transactions belong to threads. Write a `def`.")
    if new.calls.get("batch", 1) > 1:
        raise HandlingError(f"{new.place} takes batches, which succeed and fail together: `once` is for one message.")
    if new.calls.get("timeout") is not None:
        raise HandlingError(f"{new.place} has a timeout, and would run beside its next attempt: that is not once.")


def _register(new: Registration) -> None:
    key = (new.group, new.topic)
    if (other := _registered.get(key)) is not None and other.place != new.place:
        raise HandlingError(
            f"{new.place} and {other.place} both handle {new.topic} in group {new.group}: a message of a group goes to "
            "one handler. Use another group for one of them, or call one from the other."
        )
    for other in _registered.values():
        if other.group == new.group and other.options != new.options:
            names = [each.name for each in fields(GroupOptions)]
            named = [name for name in names if getattr(other.options, name) != getattr(new.options, name)]
            raise HandlingError(
                f"{new.place} and {other.place} differ about group {new.group}: {', '.join(named)} belongs to the "
                "group, give both handlers the same."
            )
    _registered[key] = new
