"""What the mirror asks of a broker: the part of broker.client.Admin that it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..client import Message
from ..client.admin import Broker, ConsumeStats, GroupConfig, QueueEntries, TopicConfig, TopicStats
from ..client.transactions import State, TransactionPage, TransactionStatus


class Source(Protocol):
    """Synchronous questions; each raises a ClientError of broker.client.errors."""

    def brokers(self) -> Sequence[Broker]:
        """Brokers of the name service."""

    def changes(self, token: str) -> Mapping[str, Any]:
        """Request 14000; raises NotSupported on an Apache RocketMQ broker."""

    def topics(self) -> Sequence[TopicConfig]:
        """Request 21."""

    def topic_stats(self, topic: str) -> TopicStats:
        """Request 202."""

    def groups(self) -> Sequence[GroupConfig]:
        """Request 201."""

    def consume_stats(self, group: str) -> ConsumeStats:
        """Request 208."""

    def delay_offsets(self) -> Mapping[int, int]:
        """Request 45: next offset to release by level."""

    def delay_levels(self) -> Sequence[int]:
        """Request 26, messageDelayLevel: delays in ms, level 1 first."""

    def runtime(self) -> Mapping[str, str]:
        """Request 28."""

    def pull(self, topic: str, queue_id: int, offset: int, count: int) -> Sequence[Message]:
        """Request 11."""

    def transactions(self, state: State = "open", *, count: int = 100) -> TransactionPage:
        """Request 14010; raises NotSupported on an Apache RocketMQ broker, as the next."""

    def message_by_unique_id(self, topic: str, unique_id: str) -> Message | None:
        """Request 12."""

    def transaction_status(self) -> TransactionStatus:
        """Request 14013."""

    def queue_entries(self, topic: str, queue_id: int, index: int, count: int) -> QueueEntries:
        """Request 321."""
