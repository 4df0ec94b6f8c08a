"""What is written by hand of the synchronous faces: start and stop, handlers, what ends a block."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

from ._consumer import AsyncConsumer, Handler
from ._event_loop import Face, event_loop_thread
from ._lite_pull import AsyncLitePullConsumer
from ._stop_signals import StopSignals
from ._subscription import ALL
from ._sync_plain import Producer
from ._transaction_producer import AsyncTransactionProducer


class ConsumerFace(Face[AsyncConsumer]):
    """Starts and stops a consumer, and gives its handlers to the one of a forked child."""

    def __init__(self, make: Callable[[], AsyncConsumer]) -> None:
        super().__init__(make)
        self._signals: StopSignals | None = None
        self._subscribed: list[tuple[str, str, Handler]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def _renewed(self) -> AsyncConsumer:
        made = super()._renewed()
        for topic, expression, handler in self._subscribed:
            made.subscribe(topic, expression, handler)
        return made

    def subscribe(self, topic: str, expression: str, handler: Handler) -> None:
        """Have `handler` called for messages of `topic` with these tags (``a || b``, ``*`` for all).

        `expression` may be a Sql as well. Before `start`, and once a topic. Raises InvalidArgument; ClientClosed after
        `stop`.
        """
        self._core.subscribe(topic, expression, handler)
        self._subscribed.append((topic, expression, handler))

    def on(self, topic: str, expression: str = ALL) -> Callable[[Handler], Handler]:
        """Have the decorated function called, as `subscribe` does.

        >>> @consumer.on("order", "created || paid")
        ... def handle(message):
        ...     print(message.body)
        """

        def register(handler: Handler) -> Handler:
            self.subscribe(topic, expression, handler)
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


class TransactionFace(Producer):
    """A producer whose core is a transaction producer; a block starts it."""

    def __init__(self, make: Callable[[], AsyncTransactionProducer]) -> None:
        Face.__init__(self, make)

    @property
    def _core(self) -> AsyncTransactionProducer:
        return cast(AsyncTransactionProducer, super()._core)

    @property
    def core(self) -> AsyncTransactionProducer:
        """The asynchronous client behind this face."""
        return self._core

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Tell every broker that this producer is there, so that it is asked; the first half does it too."""
        event_loop_thread.run(self._core.start())
