"""Timers by schedule key that a database transaction decides: `producer.timers` in a transactional() block.

A put, move or cancel is a half (broker/engine/timer/acts.py): what it says is done when the transaction commits, and
never if it does not, whatever dies in between. So it answers nothing yet: who has to know what became of it asks `get`
after the commit, or decides in the handler of the message. Of what transactions say about one key the half that was
sent last counts: lock the row that the key is about first, and they take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol, Unpack

from ..client import (
    Body,
    Half,
    InvalidArgument,
    MessageOptions,
    NotSupported,
    Outgoing,
    TransactionProducer,
    timer_half,
)
from ..client.timers import Timer


class Joined(Protocol):
    """A block that joins messages to its transaction."""

    @property
    def plain_producer(self) -> TransactionProducer:
        """The producer behind the block."""

    def send(self, topic: str, body: Body, *, timeout_ms: int = ..., **options: Unpack[MessageOptions]) -> Half:
        """Send a message that is shown with the commit."""

    def send_prepared(self, topic: str, message: Outgoing, *, timeout_ms: int = ...) -> Half:
        """Send one that is made already."""


class BlockTimers:
    """The timers of schedule keys, decided with the transaction of a block: `producer.timers`.

    Raises as Block.send does: let that end the block, so that nothing is committed.
    """

    def __init__(self, block: Callable[[], Joined]) -> None:
        self._block = block

    def put(
        self, topic: str, key: str, body: Body, *, timeout_ms: int = 3000, **options: Unpack[MessageOptions]
    ) -> Half:
        """Store a timer with a schedule key at the commit, in the place of one pending there then.

        A delay counts from the commit. `on_conflict` can only be "replace": nobody can be told after the commit.
        """
        if "schedule_key" in options:
            raise InvalidArgument("The schedule key is the second argument of put.", field="schedule_key")
        given = options.copy()
        given["schedule_key"] = key
        given["on_conflict"] = options.get("on_conflict") or "replace"
        return self._block().send(topic, body, timeout_ms=timeout_ms, **given)

    def move(
        self, topic: str, key: str, *, at: datetime | None = None, delay: timedelta | None = None,
        deliver_at_ms: int | None = None, delay_ms: int | None = None, timeout_ms: int = 3000,
    ) -> tuple[Half, ...]:  # fmt: skip
        """Give the timer pending with this key at the commit another due time; a delay counts from the commit.

        Where nothing is pending then, nothing happens. Returns a half for each broker that has the topic.
        """

        def made() -> Outgoing:
            return timer_half("move", key, at=at, delay=delay, deliver_at_ms=deliver_at_ms, delay_ms=delay_ms)

        return self._send_to_all(topic, made, timeout_ms)

    def cancel(self, topic: str, key: str, *, reason: str = "", timeout_ms: int = 3000) -> tuple[Half, ...]:
        """Cancel the timer pending with this key at the commit; where there is none, nothing happens.

        `reason` is kept with the timer's history. Returns a half for each broker that has the topic.
        """
        return self._send_to_all(topic, lambda: timer_half("cancel", key, reason=reason), timeout_ms)

    def get(self, topic: str, key: str, *, timeout_ms: int = 3000) -> Timer | None:
        """Return the timer pending with this key now: what this transaction has said of it is not done yet."""
        return self._block().plain_producer.timers.get(topic, key, timeout_ms=timeout_ms)

    def _send_to_all(self, topic: str, made: Callable[[], Outgoing], timeout_ms: int) -> tuple[Half, ...]:
        """Send a half to every broker of the topic: a timer stays where it was sent while brokers come and go."""
        block, ends_s = self._block(), time.monotonic() + timeout_ms / 1000
        made()  # what cannot be meant is refused before anything is asked
        halves: list[Half] = []
        refused: NotSupported | None = None
        for broker in block.plain_producer.brokers_of(topic, timeout_ms=timeout_ms):
            left_ms = max(1, int((ends_s - time.monotonic()) * 1000))
            try:
                halves.append(block.send_prepared(topic, made().to(broker), timeout_ms=left_ms))
            except NotSupported as error:  # an Apache RocketMQ beside ours has no timers with keys
                refused = error
        if refused is not None and not halves:
            raise refused
        return tuple(halves)
