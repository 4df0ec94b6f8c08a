"""Every error of the Python API, as one tree.

ClientError
├── InvalidArgument       refused here, before anything was sent; nothing was stored
├── RouteNotFound         the name server knows no such topic
│   └── NoBroker          ... and no broker either
├── BrokerRefused         the broker answered with a code other than success
│   ├── NotSupported      ... because it does not know the request
│   ├── NotWritable       ... or was not asked: no broker that is there takes messages of this topic
│   ├── ScheduleKeyTaken  ... because a timer with this schedule key is pending already
│   ├── TimerTooFar       ... because the moment is further away than it takes
│   ├── TimerPast         ... because the moment is past, and the sender did not want that
│   ├── TimerLimit        ... because it takes no more timers, or no more for this moment
│   └── NotHeld           ... because a received message is not this consumer's any more
├── BrokerUnreachable     no connection; a send that meets it may or may not be stored
├── Timeout               no answer in time; a send that meets it may or may not be stored
├── BadAnswer             the broker's answer cannot be read
├── ClientClosed          the producer, consumer or admin was closed
├── NotThisEvent          a message is no event, or another one than was asked for
├── UsedAfterFork         an asynchronous client was made before the process forked
├── HalfNotSafe           a half was stored with less safety than asked for, and was rolled back
└── PlainSendRefused      a plain producer was used inside a block whose messages a transaction decides

Each class docstring is the default message; fields say what the error is about.
"""

from __future__ import annotations

from collections.abc import Sequence

# For those who ask which code BrokerRefused carries.
from ..rocketmq.codes import Answer

__all__ = [
    "Answer",
    "BadAnswer",
    "BrokerRefused",
    "BrokerUnreachable",
    "ClientClosed",
    "ClientError",
    "HalfNotSafe",
    "InvalidArgument",
    "InvalidFilter",
    "NoBroker",
    "NoSuchQueue",
    "NotHeld",
    "NotSupported",
    "NotThisEvent",
    "NotWritable",
    "PlainSendRefused",
    "RouteNotFound",
    "ScheduleKeyTaken",
    "Timeout",
    "TimerLimit",
    "TimerPast",
    "TimerTooFar",
    "UsedAfterFork",
]


class ClientError(Exception):
    """The broker could not be asked, or refused."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class InvalidArgument(ClientError):
    """The request is not valid; nothing was sent."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class InvalidFilter(InvalidArgument):
    """The filter cannot be read as SQL92; nothing was asked."""


class NoSuchQueue(InvalidArgument):
    """The topic has no queue of this number that can be written, or none at this broker; nothing was sent."""

    def __init__(self, topic: str, queue_id: int | None, broker: str | None = None) -> None:
        what = "no queue" if queue_id is None else f"no queue {queue_id}"
        where = "" if broker is None else f" at {broker}"
        super().__init__(
            f"Topic {topic} has {what} that can be written{where}.", field="broker" if queue_id is None else "queue_id"
        )


class RouteNotFound(ClientError):
    """The name server knows no such topic: there is none, or no broker that has it is there."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"The name server knows no topic {topic!r}: create it, check the name, or start its broker.")
        self.topic = topic


class NoBroker(RouteNotFound):
    """The name server knows no such topic, and no broker: all of them are away."""

    def __init__(self, topic: str) -> None:
        ClientError.__init__(
            self, f"The name server knows no broker now, so none has topic {topic!r}: is a broker running?"
        )
        self.topic = topic


class BrokerRefused(ClientError):
    """The broker refused the request; `code` is RocketMQ's response code, `remark` its own words."""

    def __init__(self, code: int, remark: str | None) -> None:
        super().__init__(f"The broker refused the request with code {code}: {remark or 'no remark'}")
        self.code = code
        self.remark = remark or ""


class NotSupported(BrokerRefused):
    """The broker does not know this request (code 3): ask a broker that does, or do without."""


class NotWritable(BrokerRefused):
    """The topic has no queue that can be written, on any broker that is there; nothing was sent."""

    def __init__(self, topic: str) -> None:
        super().__init__(Answer.NO_PERMISSION, f"Topic {topic} has no queue that can be written.")
        self.topic = topic


class ScheduleKeyTaken(BrokerRefused):
    """A timer with this schedule key is pending already: replace it, keep it, or choose another key."""

    def __init__(self, code: int, remark: str | None, due_ms: int | None = None) -> None:
        """`due_ms`: when the pending one is due; None if the broker did not report it."""
        super().__init__(code, remark)
        self.due_ms = due_ms
        # the broker's own words name the property, whose name here is the argument's
        said = (remark or "").partition("; send with")[0] or "A timer with this schedule key is pending already"
        text = f"{said}. Send with on_conflict='replace' to have this one in its place, with 'keep' to leave that one, "
        self.args = (f"{text}or with another schedule_key.",)


class TimerTooFar(BrokerRefused):
    """The due time is further away than the broker accepts."""


class TimerPast(BrokerRefused):
    """The due time is past, and the sender asked to have that refused (reject_past)."""


class TimerLimit(BrokerRefused):
    """The broker accepts no more timers, or no more for this second."""


class NotHeld(BrokerRefused):
    """Received messages are not this consumer's any more; `receipts` says which."""

    def __init__(self, receipts: Sequence[object]) -> None:
        super().__init__(
            Answer.NO_MESSAGE,
            f"{len(receipts)} of the messages are not held: their invisible time ended, or was changed and a newer "
            "receipt counts. They are redelivered.",
        )
        self.receipts = tuple(receipts)


class BrokerUnreachable(ClientError):
    """No connection to the broker; a send that meets this may or may not be stored."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"No connection to {address}: {reason}. Check the address and that it is running.")
        self.address = address
        self.reason = reason


class Timeout(ClientError):
    """No answer in time; a send that meets this may or may not be stored."""

    def __init__(self, address: str, timeout_ms: int, waited_for: str | None = None) -> None:
        """`waited_for`: what it was that did not come, if not an answer of `address`."""
        what = f"Not done within {timeout_ms} ms, waiting for {waited_for}" if waited_for is not None else (
            f"No answer from {address} within {timeout_ms} ms"
        )  # fmt: skip
        super().__init__(f"{what}; a send may or may not be stored.")
        self.address = address
        self.timeout_ms = timeout_ms
        self.waited_for = waited_for or f"an answer of {address}"


class BadAnswer(ClientError):
    """The broker's answer cannot be read."""


class ClientClosed(ClientError):
    """This producer, consumer or admin was closed; make a new one."""


class UsedAfterFork(ClientError):
    """This asynchronous client belongs to an event loop of the process that forked; make a new one in this process."""


class HalfNotSafe(ClientError):
    """The broker stored the half with less safety than asked for; it was rolled back."""

    def __init__(self, status: str) -> None:
        super().__init__(
            f"The broker stored the half with less safety than asked for ({status}); it was rolled back. Retry, "
            "or check the broker's disk and slave."
        )
        self.status = status


class NotThisEvent(ClientError):
    """The message is no event, or another one than was asked for; `name` is the one that it says to be."""

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class PlainSendRefused(ClientError):
    """A plain producer was used inside a transactional block; nothing was sent."""

    def __init__(self) -> None:
        super().__init__(
            "This producer would send immediately, whether or not the transaction commits. Send with the producer of "
            "the transactional() block, or enter it with plain_sends=True if that is what you want."
        )
