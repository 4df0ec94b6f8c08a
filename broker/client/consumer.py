"""The synchronous consumer: a thin face of AsyncConsumer; handlers run in threads."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, Unpack

from .calling import Handler
from .consuming import DEFAULT_HANDLERS, AsyncConsumer
from .credentials import Access
from .eventloop import event_loop_thread
from .orderly import SUSPEND_MS
from .stopsignals import StopSignals
from .subscription import ALL


class Consumer:
    """A member of a consumer group.

    >>> consumer = Consumer("billing", from_where="first")
    >>> @consumer.on("order", "created || paid")
    ... def handle(message):
    ...     print(message.body)
    >>> consumer.run()

    Returning acknowledges the message; an exception has it delivered again later, after `max_reconsume_times` (16, if
    none are given) it is a dead letter.

    `orderly`: messages of a queue are handled one after the other, and nobody else handles that queue. After an
    exception the queue rests for `suspend_ms` and the same message comes again, until it was handled again
    `max_reconsume_times` (none: without end); then it is a dead letter, and the queue goes on.

    `trace`: tell of every message in RocketMQ's trace topic (True), or in another one.
    """

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "last",
        handlers: int = DEFAULT_HANDLERS, orderly: bool = False, max_reconsume_times: int | None = None,
        suspend_ms: int = SUSPEND_MS, trace: bool | str = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        self._core = AsyncConsumer(
            group, namesrv, from_where=from_where, handlers=handlers, orderly=orderly,
            max_reconsume_times=max_reconsume_times, suspend_ms=suspend_ms, trace=trace, **access,
        )  # fmt: skip
        self._signals: StopSignals | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def core(self) -> AsyncConsumer:
        """The asynchronous consumer behind this face."""
        return self._core

    def subscribe(self, topic: str, expression: str, handler: Handler) -> None:
        """Have `handler` called for messages of `topic` with these tags (``a || b``, ``*`` for all)."""
        self._core.subscribe(topic, expression, handler)

    def on(self, topic: str, expression: str = ALL) -> Callable[[Handler], Handler]:
        """As subscribe, as a decorator."""

        def register(handler: Handler) -> Handler:
            self.subscribe(topic, expression, handler)
            return handler

        return register

    def start(self) -> None:
        """Join the group and begin."""
        event_loop_thread.run(self._core.start())

    def stop(self, drain_timeout_s: float = 10.0) -> None:
        """Let handlers that have begun finish, commit, leave the group; idempotent."""
        event_loop_thread.run(self._core.stop(drain_timeout_s))
        if (signals := self._signals) is not None:
            signals.set()

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
