"""The synchronous simple consumer: a thin face of AsyncSimpleConsumer, safe for threads."""

from __future__ import annotations

from typing import Literal, Unpack

from ._event_loop import Face, event_loop_thread
from ._simple import AsyncSimpleConsumer, Receipt, Received
from ._subscription import ALL
from .credentials import Access

_run = event_loop_thread.run


class SimpleConsumer(Face[AsyncSimpleConsumer]):
    """Receives messages of a group by hand: each is nobody else's until its time is over, and done when acknowledged.

    >>> with SimpleConsumer("billing") as consumer:
    ...     for received in consumer.receive("order", invisible_ms=60_000):
    ...         print(received.attempt, received.body)
    ...         consumer.ack(received)

    What is not acknowledged in time is handed out again, with `attempt` one higher; after the last attempt that the
    group allows (16 retries, if nothing else is set) it is a dead letter. Any number of consumers share a group, and a
    topic may have fewer queues than consumers. With `in_order` a queue hands out nothing more until all of a `receive`
    is acknowledged, and there are no dead letters.

    `from_where` counts for a topic that is new to the group: "first" begins with the first message that is there,
    "last" with the first one that comes after the group's first `receive`.
    """

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "first",
        in_order: bool = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        super().__init__(
            lambda: AsyncSimpleConsumer(group, namesrv, from_where=from_where, in_order=in_order, **access)
        )

    @property
    def core(self) -> AsyncSimpleConsumer:
        """The asynchronous consumer behind this face."""
        return self._core

    def receive(
        self, topic: str, *, max_messages: int = 16, invisible_ms: int = 30_000, wait_ms: int = 15_000,
        expression: str = ALL,
    ) -> list[Received]:  # fmt: skip
        """Up to `max_messages` (at most 32) with one of the tags, or that a Sql wants; waits `wait_ms` for one."""
        return _run(
            self._core.receive(
                topic, max_messages=max_messages, invisible_ms=invisible_ms, wait_ms=wait_ms, expression=expression
            )
        )

    def ack(self, *received: Received | Receipt) -> None:
        """The messages are done. Raises NotHeld for those that somebody else may have by now; the others are done."""
        _run(self._core.ack(*received))

    def extend(self, received: Received | Receipt, invisible_ms: int) -> Receipt:
        """Keep a message that long from now; returns the receipt to use from now on. Raises NotHeld."""
        return _run(self._core.extend(received, invisible_ms))

    def nack(self, received: Received | Receipt, delay_ms: int = 0) -> None:
        """Give a message back, to be handed out again after `delay_ms`. Raises NotHeld."""
        _run(self._core.nack(received, delay_ms))

    def close(self) -> None:
        """End all connections; what is held comes to others when its time is over."""
        _run(self._core.close())
        self._is_closed = True
