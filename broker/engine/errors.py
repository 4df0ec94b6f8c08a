"""Every error the engine raises, as one tree.

BrokerError                     (rocketmq/errors.py has it, and what is marked with a star)
├── InvalidMessage *            the request is wrong; nothing was written
│   ├── BodyTooLarge
│   ├── PropertiesTooLarge
│   ├── InvalidProperties *
│   ├── InvalidTopicName *
│   ├── InvalidGroupName *
│   ├── InvalidValue *
│   ├── InvalidQueue
│   ├── InvalidDelayLevel *
│   ├── TooManyKeys
│   ├── TimerIllegal
│   │   ├── TimerTooFar
│   │   ├── TimerInThePast
│   │   └── ScheduleKeyTaken
│   └── FeatureMissing
├── TopicNotFound
├── TopicNotWritable
├── TopicNotReadable
├── GroupNotFound
├── TransactionNotFound
├── TransactionMismatch         the half message is another one than the request says
├── TransactionDecided          the opposite was decided already
├── HandleGone                  a popped message is no more its consumer's: the time was over, or it got another handle
├── StoreRefused                the store takes nothing now; nothing was written
│   ├── DiskFull
│   ├── StoreFailed
│   ├── StoreClosed
│   ├── TimerFlowControl
│   └── StoreBusy
├── StoreLocked                 another broker owns the directory
├── StoreUnsupported            the directory cannot be opened by this version
├── RecordNotFound
└── CorruptRecord *             bytes on disk do not match their checksum

Each class docstring is the default message; fields say what the error is about.
"""

from __future__ import annotations

from ..rocketmq.errors import BrokerError as BrokerError
from ..rocketmq.errors import CorruptRecord as CorruptRecord
from ..rocketmq.errors import InvalidDelayLevel as InvalidDelayLevel
from ..rocketmq.errors import InvalidGroupName as InvalidGroupName
from ..rocketmq.errors import InvalidMessage as InvalidMessage
from ..rocketmq.errors import InvalidProperties as InvalidProperties
from ..rocketmq.errors import InvalidTopicName as InvalidTopicName
from ..rocketmq.errors import InvalidValue as InvalidValue


class BodyTooLarge(InvalidMessage):
    """The body is larger than the broker takes."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"The body has {size_bytes:,} bytes, the limit is {limit_bytes:,}; "
            "send a reference to the content instead, or split it."
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class PropertiesTooLarge(InvalidMessage):
    """The properties are larger than the broker takes."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"The properties have {size_bytes:,} bytes, the limit is {limit_bytes:,}; move data to the body."
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class InvalidQueue(InvalidMessage):
    """The queue does not exist in its topic."""

    def __init__(self, topic: str, queue_id: int, queues: int) -> None:
        super().__init__(f"Topic {topic!r} has queues 0 to {queues - 1}, not {queue_id}; refresh the route and retry.")
        self.topic = topic
        self.queue_id = queue_id
        self.queues = queues


class TooManyKeys(InvalidMessage):
    """The messages of a batch have more keys together than the broker takes at once."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The messages of a batch have more than {limit:,} keys together; make smaller batches.")
        self.limit = limit


class TimerIllegal(InvalidMessage):
    """The moment, the schedule key or the target of a timer message is not valid."""


class TimerTooFar(TimerIllegal):
    """The moment is further off than the broker allows."""

    def __init__(self, due_ms: int, limit_ms: int) -> None:
        super().__init__(
            f"timer message illegal, the delay time should not be bigger than the max delay {limit_ms:,} ms; "
            f"{due_ms} is further off."
        )
        self.due_ms = due_ms
        self.limit_ms = limit_ms


class TimerInThePast(TimerIllegal):
    """The moment is over, and the message may be refused then, or deletes another."""

    def __init__(self, due_ms: int) -> None:
        super().__init__(
            f"timer message illegal: {due_ms} is in the past. Without ESC_REJECT_PAST it is delivered immediately; "
            "if set del msg, the delay time should be bigger than the current time."
        )
        self.due_ms = due_ms


class ScheduleKeyTaken(TimerIllegal):
    """Another timer of the topic has the schedule key and is still pending."""

    def __init__(self, topic: str, key: str, due_ms: int, position: int) -> None:
        super().__init__(
            f"The schedule key {key!r} of topic {topic!r} is taken by a timer due at {due_ms}; send with "
            "ESC_ON_CONFLICT=replace to move that one, or keep to leave it as it is."
        )
        self.topic = topic
        self.key = key
        self.due_ms = due_ms
        self.position = position


class FeatureMissing(InvalidMessage):
    """The message asks for something this broker does not do yet."""


class TopicNotFound(BrokerError):
    """There is no topic of this name."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"Topic {topic!r} does not exist; create it first, or allow topics to be created on first use."
        )
        self.topic = topic


class TopicNotWritable(BrokerError):
    """The topic takes no messages from clients."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"Topic {topic!r} takes no messages from clients: it is read-only or the broker's own.")
        self.topic = topic


class TopicNotReadable(BrokerError):
    """The topic may not be read."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"Topic {topic!r} may not be read: its permission does not allow it.")
        self.topic = topic


class GroupNotFound(BrokerError):
    """The consumer group does not exist."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"Consumer group {group!r} does not exist; it is created by its first consumer or by an administrator."
        )
        self.group = group


class TransactionNotFound(BrokerError):
    """There is no such half message."""

    def __init__(self, offset: int, position: int) -> None:
        super().__init__(
            f"There is no half message with offset {offset} at position {position}: it was never stored here, or it "
            "was removed with its segment. Nothing was changed."
        )
        self.offset = offset
        self.position = position


class TransactionMismatch(BrokerError):
    """The half message is another one than the request says."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(f"The half message with offset {offset} is not the one meant: {what}. Nothing was changed.")
        self.offset = offset


class TransactionDecided(BrokerError):
    """The opposite was decided already, and a decision is final."""

    def __init__(self, offset: int, word: str, by: str, at_ms: int | None) -> None:
        who = f" by {by}" if by else ""
        when = f" at {at_ms} ms" if at_ms is not None else ""
        super().__init__(f"The half message with offset {offset} was {word}{who}{when}; a decision is final.")
        self.offset = offset
        self.by = by
        self.at_ms = at_ms


class HandleGone(BrokerError):
    """A popped message is no more its consumer's: it is given out again, or was already."""

    def __init__(self, topic: str, queue_id: int, offset: int) -> None:
        super().__init__(
            f"The message at offset {offset} of queue {queue_id} of {topic!r} is not held by this handle any more: its "
            "invisible time ended, or was changed (then the newer handle counts). It is redelivered, or was already."
        )
        self.offset = offset


class StoreRefused(BrokerError):
    """The store takes no messages now; nothing was written."""


class DiskFull(StoreRefused):
    """The disk is too full to take messages; consumers still drain, sends resume when space is free."""


class StoreFailed(StoreRefused):
    """Writing to disk failed; the broker must be restarted, recovery will check the end of the log."""


class StoreClosed(StoreRefused):
    """The store is closed; connect to the broker again when it is back."""


class StoreBusy(StoreRefused):
    """Too much is waiting for the disk; retry after a short pause."""


class TimerFlowControl(StoreRefused):
    """As many timers are pending as the broker may keep; send again when some have gone, or raise the limit."""


class StoreLocked(BrokerError):
    """Another broker owns the store directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"Another broker (Escapement or Apache RocketMQ) has {path} open; "
            "stop it, or give this one a directory of its own."
        )
        self.path = path


class StoreUnsupported(BrokerError):
    """The store directory cannot be opened by this version; nothing in it was changed."""


class RecordNotFound(BrokerError):
    """There is no record at this position; it was deleted with its segment, or never was."""

    def __init__(self, position: int) -> None:
        super().__init__(f"No record at position {position:,}: it was removed with its segment, or never was.")
        self.position = position
