"""The hand-written part of the synchronous faces: start and stop, handlers, the end of a block, signals to stop.

SIGTERM and SIGINT ask the program to stop, whenever they come; commands of other packages listen for them, too.
"""

from __future__ import annotations

import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any, Self, TypedDict, Unpack

from ._consumer import AsyncConsumer, Handler
from ._event_loop import Face, event_loop_thread
from ._lite_pull import AsyncLitePullConsumer
from ._types import ALL

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Within `with`, signals set `is_set` and end `wait()`; for the main thread.

    A `threading.Event` set by a handler is not enough: Python runs handlers in the main thread only, and when the
    system gives the signal to another thread, or just before the wait begins, nothing wakes the main thread. The
    interpreter's wake-up descriptor is written by whichever thread is interrupted.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)

    @property
    def is_set(self) -> bool:
        """Tell whether somebody has asked to stop."""
        return self._asked.is_set()

    def set(self) -> None:
        """Ask to stop; may be called in any thread."""
        self._asked.set()
        try:
            self._wake.send(b"\0")
        except OSError:  # full: it is awake already; closed: nobody waits
            return

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the wish to stop, at most `timeout_s`; return whether it has come."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._asked.is_set():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            if select.select([self._woken], [], [], left)[0]:
                self._woken.recv(4096)
        return True

    def __enter__(self) -> Self:
        self._descriptor = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._handlers: dict[int, Any] = {number: signal.signal(number, self._note) for number in STOP_SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._descriptor)
        self._wake.close()
        self._woken.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._asked.set()


class HandlerOptions(TypedDict, total=False):
    """How a handler is called, and when it gets a message again."""

    backoff: timedelta | Sequence[timedelta]
    timeout: timedelta | None
    batch: int
    batch_wait: timedelta | None


class ConsumerFace(Face[AsyncConsumer]):
    """Starts and stops a consumer, and gives its handlers to the one of a forked child."""

    def __init__(self, make: Callable[[], AsyncConsumer]) -> None:
        super().__init__(make)
        self._signals: StopSignals | None = None
        self._subscribed: list[tuple[str, str, Handler, HandlerOptions]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def _renewed(self) -> AsyncConsumer:
        made = super()._renewed()
        for topic, expression, handler, options in self._subscribed:
            made.subscribe(topic, expression, handler, **options)
        return made

    def subscribe(self, topic: str, expression: str, handler: Handler, **options: Unpack[HandlerOptions]) -> None:
        """Have `handler` called for messages of `topic` with these tags (``a || b``, ``*`` for all).

        `expression` may be a Sql as well. `backoff`, `timeout`, `batch`, `batch_wait`: see AsyncConsumer.subscribe.
        Before `start`, and once a topic. Raises InvalidArgument; ClientClosed after `stop`.
        """
        self._core.subscribe(topic, expression, handler, **options)
        self._subscribed.append((topic, expression, handler, options))

    def on(self, topic: str, expression: str = ALL, **options: Unpack[HandlerOptions]) -> Callable[[Handler], Handler]:
        """Have the decorated function called, as `subscribe` does.

        >>> @consumer.on("order", "created || paid")
        ... def handle(message):
        ...     print(message.body)
        """

        def register(handler: Handler) -> Handler:
            self.subscribe(topic, expression, handler, **options)
            return handler

        return register

    def start(self) -> None:
        """Join the group and begin; returns after the first share of queues is known, if brokers can be reached.

        Nothing if it has started. Raises ClientClosed after `stop`, InvalidArgument without handlers.
        """
        event_loop_thread.run(self._core.start())

    def stop(self, drain_timeout_s: float | None = None) -> None:
        """Begin no handler, wait for those that have begun, commit, leave the group; who calls again waits as well.

        What has ended by then does not come again, unless it failed (and is no dead letter). What has not ended after
        `drain_timeout_s` (if not given: the consumer's) does.
        """
        event_loop_thread.run(self._core.stop(drain_timeout_s))
        self._is_closed = True
        if (signals := self._signals) is not None:
            signals.set()

    def close(self) -> None:
        """Stop, as `stop` without a time does."""
        self.stop()

    def run(self) -> None:
        """Start, and return after SIGINT, SIGTERM or stop(); for the main thread of a program."""

        with StopSignals() as signals:
            self._signals = signals
            try:
                self.start()
                signals.wait()
            finally:
                self._signals = None
                self.stop()


class LitePullFace(Face[AsyncLitePullConsumer]):
    """Knows whether a block ended by an exception: then what was polled last is not done."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_done=error is None)

    def close(self, *, is_done: bool = True) -> None:
        """Leave the group, after committing if that is automatic; idempotent.

        `is_done`: whether the program is done with what the latest poll gave. A block that ends by an exception is not.
        """
        event_loop_thread.run(self._core.close(is_done=is_done))
        self._is_closed = True
