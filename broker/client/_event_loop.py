"""The base of the synchronous API: one event-loop thread in this process, and faces of asynchronous clients.

A face is a synchronous client that speaks through an asynchronous one, its core, which belongs to one process. A face
that was made before a fork works in the child too: with a core of its own, which is made at its first use there and
connects anew. What had begun (consuming, above all) goes on in the parent alone. Faces are generated (_make_faces.py).

Clients are `with` blocks: the end of the block closes them, faces (`Face`) and asynchronous clients (`AsyncClosing`).
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from .errors import Timeout
from .remoting import forks

Result = TypeVar("Result")
Given = ParamSpec("Given")
Method = TypeVar("Method", bound=Callable[..., Any])

#: How much later than its own time-out a call gives up whose event loop does not come to it.
GRACE_MS = 1_000


class EventLoopThread:
    """Runs coroutines for callers in other threads; started at first use, anew in a forked child."""

    def __init__(self) -> None:
        self._begin()
        forks.begin_anew(self._begin)

    def _begin(self) -> None:
        # in a child the lock may be held by a thread that is not there
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(
        self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None, *, timeout_ms: int | None = None
    ) -> Result:
        """Run `work` and return its result; raises what it raises, TimeoutError after `timeout_s`.

        `timeout_ms`: the time-out that `work` keeps by itself. Should the loop be too busy for that, the caller gets
        Timeout all the same.
        """
        forks.look()
        loop = self._running()
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("The synchronous API was called in its own event loop; use the asynchronous one there.")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        if timeout_ms is not None:
            timeout_s = (max(timeout_ms, 0) + GRACE_MS) / 1000
        try:
            return future.result(timeout_s)
        except BaseException as error:
            # the caller was interrupted or waited long enough: nobody is there for the result any more
            is_late = isinstance(error, TimeoutError) and not future.done()
            future.cancel()
            if is_late and timeout_ms is not None:
                busy = "the client's event loop, which is busy (does a coroutine handler block it?)"
                raise Timeout("", timeout_ms, busy) from None
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = forks.new_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="broker-client", daemon=True)
                self._thread.start()
            return self._loop


event_loop_thread = EventLoopThread()


async def call(change: Callable[Given, None], *args: Given.args, **kwargs: Given.kwargs) -> None:
    """Call a plain function that changes what belongs to the event loop, in that loop."""
    change(*args, **kwargs)


# Marks on methods of asynchronous clients, for the generator of their faces.


def plain_send(method: Method) -> Method:
    """Mark a method that sends at once: a block whose messages a transaction decides may refuse its face."""
    return method


def unhurried(method: Method) -> Method:
    """Mark a method that may take longer than its `timeout_ms`: nobody else ends it."""
    return method


# Synchronous faces of asynchronous clients.

Core = TypeVar("Core", bound="AsyncClosing")
CorePart = TypeVar("CorePart")


class _Making:
    """The lock under which clients are made; a child has its own."""

    def __init__(self) -> None:
        self._begin()
        forks.begin_anew(self._begin)

    def _begin(self) -> None:
        self.lock = threading.Lock()


_making = _Making()


class Face(Generic[Core]):
    """The base of all synchronous clients; the end of a `with` block closes them."""

    def __init__(self, make: Callable[[], Core]) -> None:
        self._make = make
        self._made = make()
        self._generation = forks.generation
        #: closed before a fork, it stays so in the child
        self._is_closed = False

    @property
    def core(self) -> Core:
        """The asynchronous client behind this face."""
        return self._core

    @property
    def _core(self) -> Core:
        forks.look()
        if self._generation != forks.generation and not self._is_closed:
            with _making.lock:
                if self._generation != forks.generation:
                    self._made = self._renewed()
                    self._generation = forks.generation
        return self._made

    def _renewed(self) -> Core:
        """Return another client, in the child of a fork."""
        return self._make()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections; idempotent."""
        event_loop_thread.run(self._core.close())
        self._is_closed = True


class Part(Generic[CorePart]):
    """A part of a synchronous client that speaks through the same part of its core, also in the child of a fork."""

    def __init__(self, find: Callable[[], CorePart]) -> None:
        self._find = find

    @property
    def _core(self) -> CorePart:
        return self._find()


class AsyncClosing(ABC):
    """A client that the end of an `async with` block closes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """End all connections; idempotent."""
