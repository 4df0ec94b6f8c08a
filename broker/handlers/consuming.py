"""The consumers of a project's handlers: made, stopped together, waited for until nothing is left."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from django.db import close_old_connections

from ..client import DRAIN_S, ClientError, Consumer, Handler
from . import Registration


def consumers(
    registrations: Iterable[Registration], namesrv: str, *, drain_timeout_s: float = DRAIN_S
) -> dict[str, Consumer]:
    """Return a consumer for each group, not started, with the handlers of its topics. Raises InvalidArgument."""
    made: dict[str, Consumer] = {}
    for registration in registrations:
        one = made.get(registration.group)
        if one is None:
            options = registration.options
            one = made[registration.group] = Consumer(
                registration.group,
                namesrv,
                from_where=options.from_where,
                threads=options.threads,
                orderly=options.orderly,
                max_reconsume_times=options.max_reconsume_times,
                suspend_ms=options.suspend_ms,
                trace=options.trace,
                drain_timeout_s=drain_timeout_s,
            )
        handler = with_connections(_handler_of(registration))
        one.subscribe(registration.topic, registration.expression, handler, **registration.calls)
    return made


def _handler_of(registration: Registration) -> Handler:
    if registration.once is False:
        return registration.handler
    from .inbox import once  # models are loaded by now, and projects without `once` need no table

    using = registration.once if isinstance(registration.once, str) else None
    return once(registration.handler, registration.group, using)


def stop_all(running: Iterable[Consumer]) -> None:
    """Stop all at the same time: none begins anything while another one is waited for."""
    stopping = list(running)
    with ThreadPoolExecutor(len(stopping) or 1) as pool:
        list(pool.map(lambda each: each.stop(), stopping))


def has_drained(running: Iterable[Consumer]) -> bool:
    """Tell whether nothing is stored that a group has not handled; False also while a broker does not report it."""
    try:
        return all(not one.backlog() for one in running)
    except ClientError:
        return False


def with_connections(handler: Handler) -> Handler:
    """Wrap a handler as Django does a request: connections that died or are too old are dropped before and after.

    A coroutine function is left alone: it has no thread of its own, and Django's connections belong to threads.
    """
    if inspect.iscoroutinefunction(handler):
        return handler

    @functools.wraps(handler)
    def handle(*given: object) -> object:
        close_old_connections()
        try:
            return handler(*given)
        finally:
            close_old_connections()

    return handle
