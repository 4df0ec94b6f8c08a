"""What the mirror asks of a broker: the part of broker.client.Admin that it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..client import Message
from ..client.admin import Broker, ConsumeStats, GroupConfig, QueueEntries, TopicConfig, TopicStats
from ..client.transactions import State, TransactionPage, TransactionStatus


class Source(Protocol):
    """The questions to a broker, synchronous; each raises a ClientError of broker.client.errors."""

    def brokers(self) -> Sequence[Broker]:
        """Return the brokers of the name service."""

    def changes(self, token: str) -> Mapping[str, Any]:
        """Return the answer to 14000; raises NotSupported on an Apache RocketMQ broker."""

    def topics(self) -> Sequence[TopicConfig]:
        """Return the topics of a broker (request 21)."""

    def topic_stats(self, topic: str) -> TopicStats:
        """Return the offsets of a topic's queues (request 202)."""

    def groups(self) -> Sequence[GroupConfig]:
        """Return the consumer groups of a broker (request 201)."""

    def consume_stats(self, group: str) -> ConsumeStats:
        """Return how far a group has consumed (request 208)."""

    def delay_offsets(self) -> Mapping[int, int]:
        """Return the next offset to release by level (request 45)."""

    def delay_levels(self) -> Sequence[int]:
        """Return the delays in ms, level 1 first (request 26, messageDelayLevel)."""

    def runtime(self) -> Mapping[str, str]:
        """Return the figures of a running broker (request 28)."""

    def pull(self, topic: str, queue_id: int, offset: int, count: int) -> Sequence[Message]:
        """Return messages of a queue from an offset on (request 11)."""

    def transactions(self, state: State = "open", *, count: int = 100) -> TransactionPage:
        """Return a page of transactions (request 14010); raises NotSupported on an Apache RocketMQ broker, as the
        next."""

    def message_by_unique_id(self, topic: str, unique_id: str) -> Message | None:
        """Return the message with a unique id (request 12)."""

    def transaction_status(self) -> TransactionStatus:
        """Return the counts of transactions (request 14013)."""

    def queue_entries(self, topic: str, queue_id: int, index: int, count: int) -> QueueEntries:
        """Return entries of a queue (request 321)."""
