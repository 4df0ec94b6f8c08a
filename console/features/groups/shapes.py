"""Consumer groups: lag in the list, and one group with its queues and members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from broker.rocketmq.topics import DLQ_PREFIX
from console.features.groups.columns import GROUPS
from console.site.evidence import Evidence
from console.ui.table import Table


class GroupState(TextChoices):
    """What deserves to be said about a group."""

    UNKNOWN = "unknown", _("unknown")
    NEVER_USED = "never-used", _("never used")
    CURRENT = "current", _("caught up")
    BEHIND = "behind", _("behind")
    NO_CONSUMER = "no-consumer", _("no consumer")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One consumer group."""

    name: str
    state: GroupState
    #: consumers connected now; None when the broker does not tell in bulk (the group's own page asks)
    members: int | None
    #: topics with a committed offset, retry and dead-letter topics not counted
    topics: int
    #: messages behind, all topics but the dead letters; None when unknown
    lag: int | None
    #: waiting in %RETRY%group, held in %DLQ%group; None when there is no such topic
    retry: int | None
    dead: int | None
    consumed_per_s: float | None
    consume_enable: bool
    retry_max_times: int
    is_system: bool
    #: for how long it has taken nothing although something waits, at least; None: unknown, or nothing waits
    quiet_ms: int | None = None
    #: messages given up within the history (5 min)
    newly_dead: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """A page of the list."""

    table: ClassVar[Table] = GROUPS

    evidence: Evidence
    now_ms: int
    rows: tuple[GroupRow, ...]
    total: int
    offset: int
    count: int
    search: str


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """A group's progress in one queue; offset None: nothing committed yet."""

    topic: str
    queue_id: int
    offset: int | None
    max_offset: int | None
    #: epoch ms of the last message consumed there, as the broker tells it (request 208)
    consumed_ms: int | None
    #: the member that holds the queue, when the broker says so
    client_id: str | None = None

    @property
    def lag(self) -> int | None:
        """Messages between the offset and the queue's end."""
        return None if self.offset is None or self.max_offset is None else max(0, self.max_offset - self.offset)


@dataclass(frozen=True, slots=True)
class Member:
    """A connected consumer (request 203)."""

    client_id: str
    address: str
    language: str
    #: RocketMQ's version number of the client, 0 unknown
    version: int


@dataclass(frozen=True, slots=True)
class GroupPage:
    """One group. `group` None: not known to the mirror. `members` None: the broker could not be asked."""

    evidence: Evidence
    now_ms: int
    name: str
    broker: str
    group: GroupRow | None
    queues: tuple[GroupQueue, ...]
    members: tuple[Member, ...] | None
    members_evidence: Evidence
    consume_type: str | None
    message_model: str | None
    #: topic and expression
    subscriptions: tuple[tuple[str, str], ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics in which it can be moved: all that it has offsets in."""
        return tuple(dict.fromkeys(queue.topic for queue in self.queues if not queue.topic.startswith(DLQ_PREFIX)))
