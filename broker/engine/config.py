"""Everything about a store that can be chosen, as one value that is checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from ..rocketmq.layout import RETENTION_HOURS
from ..rocketmq.topics import DELAY_LEVELS
from .errors import StoreUnsupported

MEBIBYTE = 1 << 20

#: of the number of a delay level
_MOST_DIGITS = 12
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The settings of one store: its place, durability, sizes and behaviour.

    Raises StoreUnsupported where a value cannot work.
    """

    # where and who
    root: str
    cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = 0
    host: str = "127.0.0.1"
    port: int = 10911

    # a demonstration: the moments that come in are a simulated clock's
    is_simulated: bool = False

    # durability
    flush: Literal["sync", "async"] = "sync"
    flush_interval_ms: int = 500
    sync_batch_bytes: int = 8 * MEBIBYTE
    checkpoint_interval_ms: int = 5_000
    checkpoint_bytes: int = 64 * MEBIBYTE
    save_interval_ms: int = 1_000

    # formats; segment size, queue entries, index sizes must stay what they were when the store was made
    segment_size_bytes: int = 256 * MEBIBYTE
    queue_file_entries: int = 300_000
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000
    timer_slots: int = 604_800
    timer_log_file_bytes: int = 100 * MEBIBYTE
    timer_wheel_interval_ms: int = 60_000
    timer_wheel_units: int = 1_000_000

    # behaviour
    delay_levels: str = DELAY_LEVELS
    timer_max_delay_ms: int = 3_653 * 86_400_000
    timer_max_pending: int = 100_000_000
    timer_max_per_slot: int = 0
    timer_overdue_per_s: int = 20_000
    auto_create_topics: bool = True
    default_topic_queues: int = 4
    auto_create_groups: bool = True
    #: what one pull is answered with at most, beyond its first message (maxTransferCountOnMessageInMemory and
    #: maxTransferBytesOnMessageInMemory)
    pull_most_messages: int = 32
    pull_most_bytes: int = 256 * 1024
    max_body_bytes: int = 4 * MEBIBYTE
    max_properties_bytes: int = 32_767
    pending_limit_bytes: int = 256 * MEBIBYTE

    # transactions (BrokerConfig.transactionTimeOut, transactionCheckInterval, transactionCheckMax)
    transaction_timeout_ms: int = 6_000
    transaction_interval_ms: int = 30_000
    transaction_checks: int = 15

    # retention
    retention_hours: float = RETENTION_HOURS
    keep_unconsumed: bool = True
    disk_refuse_ratio: float = 0.90

    def __post_init__(self) -> None:
        if (
            self.segment_size_bytes < 1024
            or self.queue_file_entries < 1
            or self.index_entries < 2
            or self.index_slots < 1
        ):
            raise StoreUnsupported(
                "Segment, queue and index sizes must be positive; a segment has at least 1,024 bytes."
            )
        if self.transaction_timeout_ms < 0 or self.transaction_interval_ms < 1 or not 0 < self.transaction_checks < 256:
            raise StoreUnsupported(
                "A transaction's time-out is 0 ms or more, the interval of checks at least 1 ms, their number 1 to 255."
            )
        if self.timer_slots < 14 or self.timer_log_file_bytes < 68 or self.timer_overdue_per_s < 1:
            raise StoreUnsupported(
                "A timer wheel has at least 14 slots, a file of the timer log at least 68 bytes; "
                "at least one overdue timer is released a second."
            )
        if self.timer_max_delay_ms < 1 or self.timer_max_pending < 1 or self.timer_max_per_slot < 0:
            raise StoreUnsupported(
                "The furthest due time is at least 1 ms ahead, at least one timer may be pending, and the limit "
                "of a slot is a number of timers, or 0 for none."
            )
        if self.pull_most_messages < 1 or self.pull_most_bytes < 1:
            raise StoreUnsupported("A pull is answered with at least one message.")
        if self.flush not in ("sync", "async"):
            raise StoreUnsupported(f"flush is 'sync' or 'async', not {self.flush!r}.")
        try:
            ip_address(self.host)
        except ValueError:
            raise StoreUnsupported(
                f"The advertised host {self.host!r} is no IP address; records hold addresses."
            ) from None
        parse_delay_levels(self.delay_levels)


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the delay in ms of each level of a ``messageDelayLevel`` setting, level 1 first."""
    delays: list[int] = []
    for word in text.split():
        number, unit = word[:-1], word[-1]
        if unit not in _UNIT_MS or not number.isdecimal() or len(number) > _MOST_DIGITS:
            raise StoreUnsupported(f"Delay level {word[:40]!r} is not a number followed by s, m, h or d.")
        delays.append(int(number) * _UNIT_MS[unit])
    if not delays:
        raise StoreUnsupported("At least one delay level is needed.")
    return tuple(delays)
