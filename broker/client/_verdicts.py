"""What a handler may say of a message beside "done" and "again": when it wants it again, or that it never will.

>>> def bill(message):
...     if not bank.is_open():
...         raise RetryIn(timedelta(minutes=5))
...     if not message.body:
...         raise DeadLetter("it has no body")

Either may be raised or returned. `Plan` is how a handler is called and when it gets a message again that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from ._outgoing import whole_ms
from .errors import InvalidArgument

__all__ = ["DeadLetter", "HandlerTimeout", "Plan", "RetryIn", "Verdict"]

MOST_IN_BATCH = 10_000
LONGEST_BATCH_WAIT = timedelta(minutes=1)


class RetryIn(Exception):
    """The message is wanted again after `delay`; this counts as an attempt, as any failure does."""

    def __init__(self, delay: timedelta, reason: str = "") -> None:
        super().__init__(f"to be retried in {delay}{': ' if reason else ''}{reason}")
        self.delay_ms = whole_ms(delay)


class DeadLetter(Exception):
    """No further attempt can succeed: the message becomes a dead letter now, with the reason in ESC_DEAD_REASON."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HandlerTimeout(Exception):
    """The handler took longer than its `timeout`: the message counts as failed."""

    def __init__(self, timeout: timedelta) -> None:
        super().__init__(
            f"The handler took longer than its timeout of {timeout}. A function in a thread cannot be ended: it "
            "goes on, beside the next attempt."
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """`backoff`: the time until each further attempt, the last one for all after it; none: the broker's steps.

    `timeout`: what takes longer has failed. `batch`: the handler is called with a list of up to so many messages, after
    `batch_wait` with fewer; they succeed and fail together.
    """

    backoff: tuple[timedelta, ...] = ()
    timeout: timedelta | None = None
    batch: int = 1
    batch_wait: timedelta = timedelta(milliseconds=500)

    @classmethod
    def of(
        cls, backoff: timedelta | Sequence[timedelta] = (), timeout: timedelta | None = None, batch: int = 1,
        batch_wait: timedelta | None = None, *, orderly: bool = False,
    ) -> Plan:  # fmt: skip
        """Check what a caller gives; raises InvalidArgument."""
        steps = (backoff,) if isinstance(backoff, timedelta) else tuple(backoff)
        for step in steps:
            whole_ms(step, "backoff")
        if timeout is not None and not whole_ms(timeout, "timeout"):
            raise InvalidArgument("timeout must be above 0.", field="timeout")
        if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= MOST_IN_BATCH:
            raise InvalidArgument(f"batch is {batch!r:.140}; allowed are 1 to {MOST_IN_BATCH:,}.", field="batch")
        if batch > 1 and orderly:
            raise InvalidArgument("batch is 1 in order: a queue's messages come one after the other.", field="batch")
        wait = USUAL.batch_wait if batch_wait is None else batch_wait
        if whole_ms(wait, "batch_wait") > whole_ms(LONGEST_BATCH_WAIT):
            raise InvalidArgument(f"batch_wait is {wait}, the longest is {LONGEST_BATCH_WAIT}.", field="batch_wait")
        return cls(steps, timeout, batch, wait)

    def retry_ms(self, attempts_before: int) -> int | None:
        """Return how long to wait for the next attempt; None: as the broker does."""
        if not self.backoff:
            return None
        return whole_ms(self.backoff[min(attempts_before, len(self.backoff) - 1)])


#: One message a call, no time-out, the broker's steps.
USUAL = Plan()


class Verdict(NamedTuple):
    """What becomes of a message: it is done, or comes again (after `retry_ms`), or is dead for a reason."""

    is_done: bool
    retry_ms: int | None = None
    dead: str | None = None

    @classmethod
    def of(cls, failure: Exception | None, plan: Plan, attempts_before: int) -> Verdict:
        """Read what a handler did."""
        if failure is None:
            return DONE
        if isinstance(failure, DeadLetter):
            return cls(is_done=False, dead=failure.reason)
        if isinstance(failure, RetryIn):
            return cls(is_done=False, retry_ms=failure.delay_ms)
        return cls(is_done=False, retry_ms=plan.retry_ms(attempts_before))


DONE = Verdict(is_done=True)
