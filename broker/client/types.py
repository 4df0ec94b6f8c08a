"""The values that the Python API gives back. All are frozen; a message is the codec's own.

The one that is made for every send is a msgspec Struct, which is five times cheaper to make than a dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ..rocketmq.message import Message

__all__ = [
    "Broker",
    "Connection",
    "ConsumeStats",
    "GroupConfig",
    "GroupConnections",
    "Message",
    "MessageQueue",
    "QueueEntries",
    "QueueEntry",
    "QueueProgress",
    "QueueStats",
    "Route",
    "RouteQueues",
    "SendResult",
    "TopicConfig",
    "TopicStats",
]


@dataclass(frozen=True, slots=True)
class MessageQueue:
    """One queue of a topic on one broker. The order of fields is RocketMQ's order of queues."""

    topic: str
    broker: str
    queue_id: int


class SendResult(msgspec.Struct, frozen=True):
    """Where a message went. `queue_offset` is the one in the level's queue while a delayed message waits.

    `status`: SEND_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE (stored, less safely).
    `due_ms`: when a delayed message is due, as the broker said; None if it is not delayed or the broker told nothing.
    `recall_handle`: names a timer to `Producer.recall`. `conflict`: `replaced` if this message took the place of one
    with its schedule key, `kept` if that one stays: then all ids and places here are those of the one that stays.
    """

    message_id: str
    offset_message_id: str
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    status: str = "SEND_OK"
    due_ms: int | None = None
    recall_handle: str | None = None
    conflict: Literal["replaced", "kept"] | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker as the name server knows it; `broker_id` 0 is the master."""

    name: str
    cluster: str
    address: str
    broker_id: int = 0


@dataclass(frozen=True, slots=True)
class RouteQueues:
    """The queues of one topic on one broker; permission: 4 read, 2 write."""

    broker: str
    read_queues: int
    write_queues: int
    permission: int


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic lives: its brokers' (master) addresses by name, and its queues."""

    topic: str
    addresses: Mapping[str, str]
    queues: tuple[RouteQueues, ...]

    def writable(self) -> tuple[MessageQueue, ...]:
        """Queues that can be sent to, sorted."""
        return self._with(2, write=True)

    def readable(self) -> tuple[MessageQueue, ...]:
        """Queues that can be pulled from, sorted."""
        return self._with(4, write=False)

    def _with(self, permission: int, *, write: bool) -> tuple[MessageQueue, ...]:
        return tuple(
            MessageQueue(self.topic, part.broker, queue_id)
            for part in sorted(self.queues, key=lambda part: part.broker)
            if part.permission & permission and part.broker in self.addresses
            for queue_id in range(part.write_queues if write else part.read_queues)
        )


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic as a broker keeps it."""

    name: str
    read_queues: int
    write_queues: int
    permission: int
    broker: str
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """How far one queue reaches: offsets from `min_offset` up to, not including, `max_offset`."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_update_ms: int


@dataclass(frozen=True, slots=True)
class TopicStats:
    """All queues of one topic, sorted; `put_per_s` where the broker says it."""

    topic: str
    queues: tuple[QueueStats, ...]
    put_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One consumer group as a broker keeps it."""

    name: str
    retry_max_times: int
    retry_queues: int
    consume_enabled: bool
    broadcast_enabled: bool
    orderly: bool
    broker: str


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far a group is in one queue; `lag` counts messages not yet consumed.

    What lies between `consumer_offset` and `given_offset` was given out and is not known to be consumed.
    """

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_ms: int
    given_offset: int = 0

    @property
    def lag(self) -> int:
        """Messages not yet consumed."""
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """A group's progress in all its queues, sorted, and how many messages it consumes per second."""

    group: str
    queues: tuple[QueueProgress, ...]
    consume_per_s: float

    @property
    def lag(self) -> int:
        """Messages not yet consumed, over all queues."""
        return sum(progress.lag for progress in self.queues)


@dataclass(frozen=True, slots=True)
class Connection:
    """One client of a group."""

    client_id: str
    address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class GroupConnections:
    """The clients of a group now, and what they subscribed: topic -> expression."""

    group: str
    connections: tuple[Connection, ...]
    consume_type: str
    message_model: str
    from_where: str
    subscriptions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One 20-byte entry of a consume queue. In SCHEDULE_TOPIC_XXXX `tags_code` is the due time in ms."""

    offset: int
    position: int
    size_bytes: int
    tags_code: int


@dataclass(frozen=True, slots=True)
class QueueEntries:
    """A page of a consume queue, and the bounds of that queue."""

    min_offset: int
    max_offset: int
    entries: tuple[QueueEntry, ...]
