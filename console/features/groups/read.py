"""Consumer groups: their shapes with the columns of the list, progress from the mirror, members from the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused
from broker.client.admin import ConsumeStats, GroupConnections
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Queue
from broker.rocketmq.codes import Request
from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask
from console.site.evidence import Evidence
from console.site.mirrored import GroupLag, History, Mirrored, lags_by_group, mirrored
from console.ui.table import FIGURE, LOUD, NAME, RATE, VALUE, Cell, Column, Table, file_columns

GROUPS = Table(
    "groups",
    (
        Column("name", _("Group"), NAME, page="group"),
        Column("state", _("State"), Cell("groups/cells/state.html", by=(VALUE,))),
        Column("lag", _("Lag"), FIGURE),
        Column("consumed_per_s", _("Consumed"), RATE, unit="/s"),
        Column("members", _("Members"), FIGURE),
        Column("topics", _("Topics"), FIGURE),
        Column("retry", _("Waiting for another try"), FIGURE),
        Column("dead", _("Dead letters"), LOUD),
        *file_columns("consume_enable retry_max_times"),
    ),
    row_id="group",
    file_order="name state members topics lag retry dead consumed_per_s",
)


class GroupState(TextChoices):
    """The state of a group that deserves mention."""

    UNKNOWN = "unknown", _("unknown")
    NEVER_USED = "never-used", _("never used")
    CURRENT = "current", _("caught up")
    BEHIND = "behind", _("behind")
    NO_CONSUMER = "no-consumer", _("no consumer")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A consumer group in the list."""

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
        """The number of messages between the offset and the queue's end."""
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
    """The page of a group. `group` None: not known to the mirror. `members` None: the broker could not be asked."""

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
        """The topics in which it can be moved: all that it has offsets in."""
        return tuple(dict.fromkeys(queue.topic for queue in self.queues if not queue.topic.startswith(DLQ_PREFIX)))


#: what an Apache RocketMQ broker is asked for them
GROUP_REQUESTS = (Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Request.GET_CONSUME_STATS)
MEMBER_REQUESTS = (Request.GET_CONSUMER_CONNECTION_LIST, Request.GET_CONSUME_STATS)
MAX_COUNT = 200
#: ResponseCode.CONSUMER_NOT_ONLINE: nobody consumes for the group now
NOT_ONLINE = 206
_UNKNOWN = History()


class _Line(NamedTuple):
    """A group out of thousands, without the cost of a model."""

    name: str
    members: int | None
    consume_enable: bool
    retry_max_times: int
    is_system: bool


#: groups with how far they are behind
Listed = list[tuple[_Line, GroupLag | None]]


@authorised
def groups(scope: TopicScope, *, search: str = "", offset: int = 0, count: int = 100) -> Groups:
    """Return a page of the consumer groups, but RocketMQ's own, the one furthest behind first."""
    here = mirrored()
    count, offset = min(max(count, 1), MAX_COUNT), max(offset, 0)
    listed = _listed(here, search, scope)
    listed.sort(key=_furthest)
    return Groups(
        evidence=here.evidence(polled_by=GROUP_REQUESTS),
        now_ms=here.now_ms,
        rows=tuple(_rows(here, listed[offset : offset + count])),
        total=len(listed),
        offset=offset,
        count=count,
        search=search,
    )


@authorised
def group_rows(
    scope: TopicScope, here: Mirrored, search: str = "", *, watched: Callable[[Listed], Listed] | None = None
) -> list[GroupRow]:
    """Return every group whose name contains `search`.

    Of those that `watched` leaves out it is not told how fast they are and for how long they took nothing: a thousand
    histories are most of what a thousand groups cost.
    """
    return _rows(here, _listed(here, search, scope), watched)


def left_behind(most: int) -> Callable[[Listed], Listed]:
    """Return a choice for `group_rows`: groups that somebody reads and that lag, and `most` others, furthest behind."""

    def watched(listed: Listed) -> Listed:
        waiting = [pair for pair in listed if pair[1] is not None and pair[1].lag]
        others = sorted((pair for pair in waiting if not pair[0].members), key=_furthest)
        return [pair for pair in waiting if pair[0].members] + others[:most]

    return watched


def unwatched(_: Listed) -> Listed:
    """Choose for `group_rows` no groups, so that no histories are read."""
    return []


def _listed(here: Mirrored, search: str, scope: TopicScope) -> Listed:
    groups = ConsumerGroup.objects.filter(broker=here.name, is_system=False, name__icontains=search).order_by("name")
    lags = {lag.group: lag for lag in lags_by_group(here.name)}
    lines = map(_Line._make, groups.values_list(*_Line._fields))
    return [(row, lags.get(row.name)) for row in lines if scope.group(row.name)]


def _furthest(pair: tuple[_Line, GroupLag | None]) -> tuple[int, str]:
    """Return the key that sorts those furthest behind first."""
    row, lag = pair
    return -((lag.lag if lag else None) or 0), row.name


def _rows(here: Mirrored, listed: Listed, watched: Callable[[Listed], Listed] | None = None) -> list[GroupRow]:
    histories = here.histories("group", [row.name for row, _ in (watched(listed) if watched else listed)])
    dead = _dead_letters(here)
    given_up = here.histories("topic", [f"{DLQ_PREFIX}{name}" for name in dead])
    return [
        _row(row, lag, histories.get(row.name, _UNKNOWN), dead, given_up.get(f"{DLQ_PREFIX}{row.name}", _UNKNOWN))
        for row, lag in listed
    ]


@authorised
def group(scope: TopicScope, name: str) -> GroupPage:
    """Return one group: its queues from the mirror, its members from the broker.

    It may subscribe to topics that it has not read yet: those that are not seen are left out.
    """
    scope.require_group(name)
    here = mirrored()
    line = ConsumerGroup.objects.filter(broker=here.name, name=name).values_list(*_Line._fields).first()
    lag = next(iter(lags_by_group(here.name, group=name)), None)
    history = here.histories("group", [name])[name]
    told, members_evidence = ask(lambda admin: _ask(admin, name), source=here.name, requests=MEMBER_REQUESTS)
    connections, stats = told if told is not None else (None, None)
    row = _row(_Line._make(line), lag, history, _dead_letters(here)) if line else None
    subscribed = sorted(connections.subscriptions.items()) if connections else []
    return GroupPage(
        evidence=here.evidence(polled_by=GROUP_REQUESTS),
        now_ms=here.now_ms,
        name=name,
        broker=here.name,
        group=row,
        queues=scope.rows(_queues(here, name, stats), lambda queue: queue.topic),
        members=None if told is None else _members(connections),
        members_evidence=members_evidence,
        consume_type=connections.consume_type if connections else None,
        message_model=connections.message_model if connections else None,
        subscriptions=tuple(pair for pair in subscribed if scope.topic(pair[0])),
    )


def _ask(admin: Admin, name: str) -> tuple[GroupConnections | None, ConsumeStats | None]:
    """Return who consumes now (None: nobody) and what was consumed last (None: nothing yet)."""
    try:
        connections = admin.connections(name)
    except BrokerRefused as refusal:
        if refusal.code != NOT_ONLINE:
            raise
        connections = None
    try:
        return connections, admin.consume_stats(name)
    except BrokerRefused:
        return connections, None


def _members(connections: GroupConnections | None) -> tuple[Member, ...]:
    if connections is None:
        return ()
    return tuple(Member(each.client_id, each.address, each.language, each.version) for each in connections.connections)


def _queues(here: Mirrored, name: str, stats: ConsumeStats | None) -> tuple[GroupQueue, ...]:
    last = {(part.queue.topic, part.queue.queue_id): part.last_ms for part in stats.queues} if stats else {}
    committed = {
        (row.topic, row.queue_id): row.offset for row in ConsumerOffset.objects.filter(broker=here.name, group=name)
    }
    # what was given back to it is there for it alone, though it may never have read that topic
    own = RETRY_PREFIX + name
    topics = {topic for topic, _ in committed} | {own}
    ends: dict[tuple[str, int], int | None] = {}
    for row in Queue.objects.filter(broker=here.name, topic__in=topics):
        place, low = (row.topic, row.queue_id), row.min_offset or 0
        if row.topic == own and place not in committed:
            if (row.max_offset or 0) <= low:
                continue
            committed[place] = low
        ends[place] = row.max_offset
    return tuple(
        GroupQueue(topic, queue_id, committed.get((topic, queue_id)), ends.get((topic, queue_id)),
                   last.get((topic, queue_id)) or None)
        for topic, queue_id in sorted({*committed, *ends})
    )  # fmt: skip


def _dead_letters(here: Mirrored) -> Mapping[str, int]:
    """Return the number of messages in each %DLQ% topic, by group."""
    rows = Queue.objects.filter(broker=here.name, topic__startswith=DLQ_PREFIX).values_list(
        "topic", "min_offset", "max_offset"
    )
    held: dict[str, int] = {}
    for topic, low, high in rows:
        group = topic.removeprefix(DLQ_PREFIX)
        held[group] = held.get(group, 0) + (high or 0) - (low or 0)
    return held


def _row(
    row: _Line, lag: GroupLag | None, history: History, dead: Mapping[str, int], given_up: History | None = None
) -> GroupRow:
    return GroupRow(
        name=row.name,
        state=_state(row, lag),
        members=row.members,
        topics=lag.topics if lag else 0,
        lag=lag.lag if lag else None,
        retry=lag.retry if lag else None,
        dead=dead.get(row.name),
        consumed_per_s=history.latest,
        consume_enable=row.consume_enable,
        retry_max_times=row.retry_max_times,
        is_system=row.is_system,
        quiet_ms=history.quiet_ms if lag and lag.lag else None,
        newly_dead=given_up.total if given_up else 0,
    )


def _state(row: _Line, lag: GroupLag | None) -> GroupState:
    if lag is None:
        return GroupState.NEVER_USED if not row.members else GroupState.CURRENT
    if row.members == 0:
        return GroupState.NO_CONSUMER
    if lag.lag is None:
        return GroupState.UNKNOWN
    return GroupState.BEHIND if lag.lag > 0 else GroupState.CURRENT
