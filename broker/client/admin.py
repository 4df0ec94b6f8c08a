"""The answers of brokers to an admin: topics, groups and their progress, connected clients, and a user's permissions.

All values are frozen. What is asked about timers and transactions has modules of its own (`timers`, `transactions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct
from msgspec import field as named

from ..rocketmq.acl import Action, Kind, Policies, address_of, decide, demand_on
from ._types import Broker, MessageQueue, Route, RouteQueues

__all__ = [
    "AccessUser",
    "Administration",
    "AdministrativeRequest",
    "Broker",
    "BrokerSetting",
    "ConnectedClient",
    "Connection",
    "ConsumeStats",
    "GroupConfig",
    "GroupConnections",
    "HeldQueue",
    "Pending",
    "QueueEntries",
    "QueueEntry",
    "QueueProgress",
    "QueueStats",
    "Route",
    "RouteQueues",
    "RunningInfo",
    "TopicConfig",
    "TopicStats",
    "TopicWaiting",
    "TopicWork",
    "UserAccess",
]


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic as a broker keeps it; `permission`: 4 read, 2 write, 6 both."""

    name: str
    read_queues: int
    write_queues: int
    permission: int
    broker: str
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerSetting:
    """A setting of a broker, its values as text.

    Only Escapement tells the others: `default`, `started` (what it was started with: another `value` was changed while
    it runs) and `allowed`, which says what it can be changed to, "" that it cannot. None: the broker does not report.
    """

    name: str
    value: str
    default: str | None = None
    started: str | None = None
    allowed: str | None = None


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The bounds of one queue: offsets from `min_offset` up to, not including, `max_offset`."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_update_ms: int


@dataclass(frozen=True, slots=True)
class TopicStats:
    """The queues of one topic, sorted; `put_per_s` is None where the broker does not report it."""

    topic: str
    queues: tuple[QueueStats, ...]
    put_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A consumer group as a broker keeps it; after `retry_max_times` more tries a message is a dead letter."""

    name: str
    retry_max_times: int
    retry_queues: int
    consume_enabled: bool
    broadcast_enabled: bool
    orderly: bool
    broker: str


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of a group in one queue; `lag` counts messages not yet consumed.

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
    """A connected client of a group; `version` is RocketMQ's number."""

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
    """A 20-byte entry of a consume queue. In SCHEDULE_TOPIC_XXXX `tags_code` is the due time in ms."""

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


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """A client as a member of one group; a client may be in several. `version` is RocketMQ's number, 0 unknown.

    `since_ms`, `seen_ms`: first and last heartbeat by the broker's clock; None where the broker does not report them.
    `locked`: queues that it holds to consume in order. What a consumer is and subscribes is that of its group.
    """

    role: Literal["producer", "consumer"]
    group: str
    client_id: str
    address: str
    language: str
    version: int
    since_ms: int | None = None
    seen_ms: int | None = None
    consume_type: str = ""
    message_model: str = ""
    subscriptions: Mapping[str, str] = field(default_factory=dict)
    locked: tuple[MessageQueue, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldQueue:
    """A queue that a consumer says it holds; None where it does not report one."""

    queue: MessageQueue
    offset: int | None
    cached: int | None
    is_locked: bool
    pulled_ms: int | None
    consumed_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicWork:
    """A consumer's own word of its work on a topic: mean times in ms, rates a second, failures of the last hour."""

    topic: str
    pull_ms: float | None
    consume_ms: float | None
    done_per_s: float | None
    failed_per_s: float | None
    failed: int | None


class AdministrativeRequest(Struct, rename="camel", frozen=True):
    """A request that changed topics, groups, offsets, users, policies or settings, as the broker kept it.

    `answer` is RocketMQ's code, 0 for success; None: it was answered later. `sender` is an address with a port.
    """

    number: int
    at_ms: int
    user: str
    sender: str = named(name="from")
    code: int = 0
    request: str = ""
    fields: dict[str, str] = {}
    body: str = ""
    answer: int | None = None
    remark: str = ""


class Administration(Struct, rename="camel", frozen=True):
    """A part of a broker's administration log; `log` names its numbering, `first` and `last` what is kept of it."""

    log: str
    first: int
    last: int
    requests: list[AdministrativeRequest] = []


@dataclass(frozen=True, slots=True)
class RunningInfo:
    """A consumer's own word of itself (307), unchecked. `stack`: of all its threads, if it was asked."""

    properties: Mapping[str, str]
    queues: tuple[HeldQueue, ...]
    topics: tuple[TopicWork, ...]
    stack: str


# What waits for a topic that is to be deleted.

#: What is to become of that which waits for a topic that is deleted.
Pending = Literal["cancel", "keep"]


class TopicWaiting(Struct, rename="camel", frozen=True):
    """Counts of the timers, messages of a delay level, open halves, and parked halves that are pending for a
    topic. Not ``complete``: there may be more, as too much is pending for all of it to be read."""

    timers: int = 0
    delayed: int = 0
    halves: int = 0
    parked_halves: int = 0
    complete: bool = True

    @property
    def total(self) -> int:
        """The sum of all four."""
        return self.timers + self.delayed + self.halves + self.parked_halves

    @classmethod
    def of_fields(cls, ext: Mapping[str, str]) -> TopicWaiting | None:
        """Return the counts in the fields of an answer; None where it has none (Apache RocketMQ's)."""
        told = [ext.get(f"esc{name}", "") for name in ("Timers", "Delayed", "Halves", "ParkedHalves")]
        if not all(each.isascii() and each.isdigit() for each in told):
            return None
        timers, delayed, halves, parked = map(int, told)
        return cls(timers, delayed, halves, parked)

    def __add__(self, other: TopicWaiting) -> TopicWaiting:
        return TopicWaiting(
            self.timers + other.timers, self.delayed + other.delayed, self.halves + other.halves,
            self.parked_halves + other.parked_halves, self.complete and other.complete,
        )  # fmt: skip


# What access control lets somebody do.


@dataclass(frozen=True, slots=True)
class AccessUser:
    """A user of access control as a broker keeps it, without the secret.

    `previous_until_ms`: until when the secret before the present one counts as well; None: there is one only.
    """

    name: str
    is_super: bool
    is_enabled: bool
    policies: Policies
    previous_until_ms: int | None = None


#: Decisions that are remembered of one answer.
_MOST_DECISIONS = 10_000


class UserAccess:
    """The rights of a user at one broker, as of when it was asked. Unknown and disabled ones have none."""

    __slots__ = ("_decisions", "_may_everything", "_policies", "broker", "cluster", "is_enabled", "is_known", "user")

    def __init__(
        self, user: str, broker: Broker, *, is_known: bool, is_super: bool, is_enabled: bool, policies: Policies
    ) -> None:
        self.user = user
        self.broker = broker.name
        self.cluster = broker.cluster
        self.is_known = is_known
        self.is_enabled = is_known and is_enabled
        self._may_everything = self.is_enabled and is_super
        self._policies = policies
        self._decisions: dict[tuple[Kind, str, tuple[Action, ...], str | None], bool] = {}

    def allows(self, kind: Kind, name: str, actions: tuple[Action, ...], source: str | None) -> bool:
        """Tell whether one of the actions is allowed on a topic, group or cluster to somebody at the address `source`.

        Where the address is not known, nothing is allowed to a user whose policies ask for addresses.
        """
        if self._may_everything or not self.is_enabled:
            return self._may_everything
        key = (kind, name, actions, source)
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= _MOST_DECISIONS:
                self._decisions.clear()
            known = self._decisions[key] = self._decide(kind, name, actions, source)
        return known

    def _decide(self, kind: Kind, name: str, actions: tuple[Action, ...], source: str | None) -> bool:
        address = None if source is None else address_of(source)
        if address is None and any(each.sources for entries in self._policies.values() for each in entries):
            return False
        return decide(self._policies, demand_on(kind, name, actions), address) is True
