"""The consumers of registered handlers: one a group, each message handled with healthy database connections."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from django.db import close_old_connections

from ..client import DRAIN_S, Consumer, Handler
from ..rocketmq.message import Message
from .registry import Handling


def consumers(handlings: Iterable[Handling], namesrv: str, *, drain_timeout_s: float = DRAIN_S) -> dict[str, Consumer]:
    """A consumer for each group, not started, with the handlers of its topics. Raises InvalidArgument."""
    made: dict[str, Consumer] = {}
    for handling in handlings:
        one = made.get(handling.group)
        if one is None:
            habits = handling.habits
            one = made[handling.group] = Consumer(
                handling.group, namesrv, from_where=habits.from_where, handlers=habits.threads, orderly=habits.orderly,
                max_reconsume_times=habits.max_reconsume_times, suspend_ms=habits.suspend_ms, trace=habits.trace,
                drain_timeout_s=drain_timeout_s,
            )  # fmt: skip
        one.subscribe(handling.topic, handling.expression, with_connections(handling.handler))
    return made


def stop_all(running: Iterable[Consumer]) -> None:
    """Stop all at the same time: none begins anything while another one is waited for."""
    stopping = list(running)
    with ThreadPoolExecutor(len(stopping) or 1) as pool:
        list(pool.map(lambda each: each.stop(), stopping))


def with_connections(handler: Handler) -> Handler:
    """As Django does around a request: connections that died or are too old are dropped before and after.

    A coroutine function is left alone: it has no thread of its own, and Django's connections belong to threads.
    """
    if inspect.iscoroutinefunction(handler):
        return handler

    @functools.wraps(handler)
    def handle(message: Message) -> object:
        close_old_connections()
        try:
            return handler(message)
        finally:
            close_old_connections()

    return handle
