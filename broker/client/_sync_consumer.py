"""The synchronous consumer: a thin face of AsyncConsumer; handlers run in threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self, Unpack

from ._consumer import DEFAULT_HANDLERS, DRAIN_S, AsyncConsumer
from ._event_loop import Face, event_loop_thread
from ._handler_calls import Handler
from ._orderly import SUSPEND_MS
from ._stop_signals import StopSignals
from ._subscription import ALL
from .credentials import Access


class Consumer(Face[AsyncConsumer]):
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

    `trace`: tell of every message in RocketMQ's trace topic (True), or in another one. `drain_timeout_s`: how long
    `stop` waits for handlers that have begun; what they have done by then does not come again.

    A consumer starts once. In a forked child it is a member of its own that is not started, with the same handlers.
    """

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "last",
        handlers: int = DEFAULT_HANDLERS, orderly: bool = False, max_reconsume_times: int | None = None,
        suspend_ms: int = SUSPEND_MS, trace: bool | str = False, drain_timeout_s: float = DRAIN_S,
        **access: Unpack[Access],
    ) -> None:  # fmt: skip
        super().__init__(
            lambda: AsyncConsumer(
                group, namesrv, from_where=from_where, handlers=handlers, orderly=orderly,
                max_reconsume_times=max_reconsume_times, suspend_ms=suspend_ms, trace=trace,
                drain_timeout_s=drain_timeout_s, **access,
            )
        )  # fmt: skip
        self._signals: StopSignals | None = None
        self._subscribed: list[tuple[str, str, Handler]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def close(self) -> None:
        """As stop."""
        self.stop()

    def _renewed(self) -> AsyncConsumer:
        made = super()._renewed()
        for topic, expression, handler in self._subscribed:
            made.subscribe(topic, expression, handler)
        return made

    @property
    def core(self) -> AsyncConsumer:
        """The asynchronous consumer behind this face."""
        return self._core

    def subscribe(self, topic: str, expression: str, handler: Handler) -> None:
        """Have `handler` called for messages of `topic` with these tags (``a || b``, ``*`` for all).

        Before `start`, and once a topic; raises InvalidArgument.
        """
        self._core.subscribe(topic, expression, handler)
        self._subscribed.append((topic, expression, handler))

    def on(self, topic: str, expression: str = ALL) -> Callable[[Handler], Handler]:
        """As subscribe, as a decorator."""

        def register(handler: Handler) -> Handler:
            self.subscribe(topic, expression, handler)
            return handler

        return register

    def start(self) -> None:
        """Join the group and begin; nothing if that is so already. Raises ClientClosed after `stop`."""
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
