"""The log of slow requests to pages and REST: how long it took until an answer began, and what it waited for.

Known are, in milliseconds: until a page had a thread, or REST one for each of its questions to the database, in these
questions, and in questions to brokers. Where several brokers are asked beside each other their times are added up.
Receiving of messages, which waits for them by design, is left out. Query strings, forms and bodies are not logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from broker.log_lines import Allowance
from console.site.exchange import exchange_of

logger = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[None]]

#: Lines that may come at once, and how many a second from then on; of others it is told how many there were.
BURST, STEADY_PER_S = 20.0, 1.0
_HELD = ":receive"
_NEVER_S = float("inf")

Result = TypeVar("Result")


@dataclass(slots=True)
class Waits:
    """What one request has waited for by now, in seconds."""

    began_s: float
    thread_s: float | None = None
    database_s: float = 0.0
    queries: int = 0
    broker_s: float = 0.0


_waits: ContextVar[Waits | None] = ContextVar("waits", default=None)


class AskingBroker:
    """Count the time within as waited for a broker."""

    __slots__ = ("_began_s",)

    def __enter__(self) -> None:
        """Begin to wait for a broker."""
        self._began_s = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        """Add the time that passed to what the request waited for."""
        waits = _waits.get()
        if waits is not None:
            waits.broker_s += time.perf_counter() - self._began_s


def for_this_request(work: Callable[[], Result]) -> Callable[[], Result]:
    """Return the same work, to be done in another thread: how long it stood in line, and whom it asks, counts for the
    request that is answered here."""
    waits = _waits.get()
    if waits is None:
        return work
    asked_s, context = time.perf_counter(), copy_context()

    def counted() -> Result:
        waits.thread_s = (waits.thread_s or 0.0) + time.perf_counter() - asked_s
        with _counting_queries(waits):
            return work()

    return lambda: context.run(counted)


@contextmanager
def _counting_queries(waits: Waits) -> Iterator[None]:
    def timed(execute: Callable[..., Any], *arguments: Any) -> Any:
        began_s = time.perf_counter()
        try:
            return execute(*arguments)
        finally:
            waits.database_s += time.perf_counter() - began_s
            waits.queries += 1

    with connection.execute_wrapper(timed):
        yield


class InThread:
    """Middleware that notes when a page's thread began, and what its questions to the database took."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer as the next one does."""
        waits = _waits.get()
        if waits is None:
            return self._get_response(request)
        waits.thread_s = time.perf_counter() - waits.began_s
        with _counting_queries(waits):
            return self._get_response(request)


class SlowRequests:
    """An ASGI application that logs what the next one begins to answer late."""

    def __init__(self, application: Application, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._application = application
        self._allowance = Allowance(BURST, STEADY_PER_S, clock)
        self._limit_s = settings.SLOW_MS / 1000 or _NEVER_S

    async def __call__(self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Pass the request on, and note when its answer begins."""
        if scope["type"] != "http" or scope["path"].endswith(_HELD):
            await self._application(scope, receive, send)
            return
        waits = Waits(time.perf_counter())
        _waits.set(waits)

        async def sends(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._answered(scope, message["status"], waits)
            await send(message)

        await self._application(scope, receive, sends)
        exchange = exchange_of(scope)
        if exchange is not None and exchange.status:  # nothing of such an answer was sent through here
            self._answered(scope, exchange.status, waits)

    def _answered(self, scope: dict[str, Any], status: int, waits: Waits) -> None:
        took_s = time.perf_counter() - waits.began_s
        if took_s >= self._limit_s:
            self._tell(scope, status, took_s, waits)

    def _tell(self, scope: dict[str, Any], status: int, took_s: float, waits: Waits) -> None:
        if not self._allowance.take():
            return
        told: dict[str, str | int] = {"request": scope["method"], "path": scope["path"], "status": status}
        told["took_ms"] = round(1000 * took_s)
        if waits.thread_s is not None:
            told["thread_ms"] = round(1000 * waits.thread_s)
            told["database_ms"], told["queries"] = round(1000 * waits.database_s), waits.queries
        told["broker_ms"] = round(1000 * waits.broker_s)
        if scope.get("client"):
            told["peer"] = scope["client"][0]
        if left_out := self._allowance.left_out():
            told["left_out"] = left_out
        logger.warning("a request was slow", extra=told)
