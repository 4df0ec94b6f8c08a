"""Consumer groups: their shapes with the columns of the list, progress from the mirror, members from the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import starmap
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar

from django.db.models import TextChoices
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused
from broker.client.admin import ConsumeStats, GroupConnections
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Queue, Topic
from broker.rocketmq.codes import Request
from broker.rocketmq.topics import DLQ_PREFIX, GROUP_PREFIXES, POP_SEPARATORS, RETRY_PREFIX
from console.operations.catch_up import Pace, arriving
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask_each
from console.site.evidence import Evidence
from console.site.mirrored import Cluster, GroupLag, Here, History, cluster, lags_by_group, lags_of_each
from console.templatetags.escapement import figure, rate, span
from console.ui.ordering import Key, Sorting, ordered
from console.ui.table import BROKER, FIGURE, LOUD, NAME, RATE, VALUE, Cell, Column, Table, file_columns
from console.ui.verdicts import Verdict, not_known, said

GROUPS = Table(
    "groups",
    (
        Column("name", _("Group"), NAME, page="group", sort="name"),
        Column("state", _("State"), Cell("groups/cells/state.html", by=(VALUE, "lag"))),
        Column("lag", _("Lag"), FIGURE, sort="lag"),
        Column("consumed_per_s", _("Consumed"), RATE, unit="/s", sort="rate"),
        Column("members", _("Members"), FIGURE, sort="members"),
        Column("topics", _("Topics"), FIGURE, sort="topics"),
        Column("retry", _("Waiting for retry"), FIGURE, sort="retry"),
        Column("dead", _("Dead letters"), LOUD, sort="dead"),
        *file_columns("consume_enable retry_max_times reads_others"),
        BROKER,
    ),
    row_id="group",
    file_order="name state members topics lag retry dead consumed_per_s",
)

#: the order of a list for which none was asked
FURTHEST = "-lag"


class GroupState(TextChoices):
    """The state of a group that deserves mention; of several brokers the worst, which is the last here."""

    NEVER_USED = "never-used", _("never used")
    CURRENT = "current", _("caught up")
    BEHIND = "behind", _("lagging")
    UNKNOWN = "unknown", _("unknown")
    NO_CONSUMER = "no-consumer", _("no consumer")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A consumer group in the list, in total over the brokers that have it."""

    name: str
    state: GroupState
    #: consumers connected now (of several brokers the most at one: a consumer connects to all that it reads from);
    #: None when the broker does not tell in bulk (the group's own page asks)
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
    #: the brokers that have it
    brokers: tuple[str, ...] = ()
    #: beside topics that are seen: figures are of these, and what is told of the group alone is not known
    reads_others: bool = False

    @property
    def broker(self) -> str:
        """The brokers that have it, in one text."""
        return " ".join(self.brokers)


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
    has_several: bool = False
    #: "" for one that a snapshot kept, which has one order
    order: str = ""

    @property
    def has_parts(self) -> bool:
        """Tell whether a group of the page reads topics that are not seen, too."""
        return any(row.reads_others for row in self.rows)

    @property
    def sorting(self) -> Sorting | None:
        """The order of the list, and the rest of its address."""
        return Sorting(self.order, "&" + urlencode({"search": self.search})) if self.order else None


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """A group's progress in one queue; offset None: nothing committed yet."""

    broker: str
    topic: str
    queue_id: int
    offset: int | None
    max_offset: int | None
    #: epoch ms of the last message consumed there, as the broker tells it (request 208)
    consumed_ms: int | None
    #: any member gets its messages (POP); of others the clients divide the queues, which no broker is told
    is_popped: bool = False

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
    #: the brokers that it is connected to
    brokers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupPart:
    """A group at one of several brokers."""

    broker: str
    group: GroupRow
    #: None: it has read nothing there
    lag: GroupLag | None


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The page of a group. `group` None: not known to the mirror. `members` None: the broker could not be asked."""

    evidence: Evidence
    now_ms: int
    name: str
    group: GroupRow | None
    queues: tuple[GroupQueue, ...]
    members: tuple[Member, ...] | None
    members_evidence: Evidence
    consume_type: str | None
    message_model: str | None
    #: topic and expression
    subscriptions: tuple[tuple[str, str], ...]
    has_several: bool = False
    #: the group at each of several brokers that has it
    parts: tuple[GroupPart, ...] = ()
    #: the brokers that do not have it
    missing_at: tuple[str, ...] = ()
    #: the names of settings that differ from broker to broker
    differing: tuple[str, ...] = ()
    #: in the topics that it reads, mean of 10 s; None: nobody knows
    arriving_per_s: float | None = None
    #: it reads topics that are not seen, too
    reads_others: bool = False
    #: consumers that are connected and not named, as they may subscribe to what is not seen
    unnamed_members: int = 0

    @property
    def verdict(self) -> Verdict | None:
        """What is with the group, and what can be done."""
        if self.group is None:
            return None
        connected = self.group.members if self.members is None else len(self.members) + self.unnamed_members
        return not_known() if self.evidence.stale else verdict_of(self.group, connected, self.arriving_per_s)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics in which it can be moved: all that it has offsets in."""
        return tuple(dict.fromkeys(queue.topic for queue in self.queues if not queue.topic.startswith(DLQ_PREFIX)))

    @property
    def own_topics(self) -> tuple[str, ...]:
        """The topics in which it can be moved at once: without those of its tries."""
        return tuple(topic for topic in self.topics if not topic.startswith(GROUP_PREFIXES))


def verdict_of(group: GroupRow, members: int | None, arriving_per_s: float | None = None) -> Verdict:
    """Return what is with a group that has so many consumers, and for which so much arrives; None: not known."""
    lag = figure(group.lag)
    if group.lag and not group.consume_enable:
        words = said(
            ngettext(
                "Consumption is disabled; {lag} message is pending.",
                "Consumption is disabled; {lag} messages are pending.",
                group.lag,
            ),
            lag=lag,
        )
        if group.reads_others:
            return Verdict("look", words, gettext("Users who see all topics that it reads can enable it."))
        return Verdict("look", words, gettext("Enable it in the settings below."))
    if group.lag and members == 0:
        words = said(
            ngettext(
                "No consumer is connected, and {lag} message is pending.",
                "No consumer is connected, and {lag} messages are pending.",
                group.lag,
            ),
            lag=lag,
        )
        return Verdict("look", words, gettext("They are delivered when one connects."))
    if group.lag and members and (group.quiet_ms or 0) >= QUIET_MS:
        words = said(
            ngettext(
                "Consumers are connected and have consumed nothing for {quiet}; {lag} message is pending.",
                "Consumers are connected and have consumed nothing for {quiet}; {lag} messages are pending.",
                group.lag,
            ),
            quiet=span(group.quiet_ms or 0), lag=lag,
        )  # fmt: skip
        address = f"{reverse('clients')}?{urlencode({'search': group.name})}"
        return Verdict(
            "broken",
            words,
            gettext("The page of a client shows what its threads do."),
            gettext("Open its clients"),
            address,
        )
    if group.lag:
        return _behind(group, arriving_per_s)
    return _caught_up(group, members)


def _behind(group: GroupRow, arriving_per_s: float | None) -> Verdict:
    """Return how long a group that consumes needs for what it is behind, while so much arrives."""
    behind = group.lag or 0
    lag, pace = figure(behind), Pace(group.consumed_per_s, arriving_per_s)
    if pace.is_outrun(behind):
        words = said(
            ngettext(
                "{lag} message behind, and it does not catch up: {arriving}/s arrive, {consumed}/s are consumed.",
                "{lag} messages behind, and it does not catch up: {arriving}/s arrive, {consumed}/s are consumed.",
                behind,
            ),
            lag=lag, arriving=rate(arriving_per_s), consumed=rate(group.consumed_per_s),
        )  # fmt: skip
        return Verdict("look", words)
    left_ms = pace.catch_up_ms(behind)
    if left_ms is None:
        return Verdict("wait", said(ngettext("{lag} message behind.", "{lag} messages behind.", behind), lag=lag))
    words = said(
        ngettext(
            "{lag} message behind; at the recent rates caught up in {left}.",
            "{lag} messages behind; at the recent rates caught up in {left}.",
            behind,
        ),
        lag=lag,
        left=span(left_ms),
    )
    return Verdict("wait", words)


def _caught_up(group: GroupRow, members: int | None) -> Verdict:
    """Return what is with a group for which nothing is pending."""
    if group.lag is None:
        return Verdict("idle", said(gettext("How far it is behind is not known.")))
    if group.dead:
        words = said(
            ngettext("Caught up, with {dead} dead letter.", "Caught up, with {dead} dead letters.", group.dead),
            dead=figure(group.dead),
        )
        address = reverse("dead_letters_of", args=[group.name])
        return Verdict("look", words, "", gettext("Open dead letters"), address)
    if group.state is GroupState.NEVER_USED:
        return Verdict("idle", said(gettext("Never used: it has no offset in any topic.")))
    if members == 0:
        return Verdict("idle", said(gettext("Caught up; no consumer is connected.")))
    return Verdict("ok", said(gettext("Caught up: nothing is pending.")))


#: what an Apache RocketMQ broker is asked for them
GROUP_REQUESTS = (Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Request.GET_CONSUME_STATS)
MEMBER_REQUESTS = (Request.GET_CONSUMER_CONNECTION_LIST, Request.GET_CONSUME_STATS)
MAX_COUNT = 200
#: a group that consumes nothing for so long although something is pending stands still
QUIET_MS = 120_000
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
    #: the brokers that have it; in rows of the mirror the one
    brokers: Any
    #: the worst state of its brokers, where it has several
    state: GroupState | None = None
    reads_others: bool = False


Told = TypeVar("Told")
#: the columns of a line
_COLUMNS = ("name", "members", "consume_enable", "retry_max_times", "is_system", "broker")
#: groups with how far they are behind
Listed = list[tuple[_Line, GroupLag | None]]


@authorised
def groups(scope: TopicScope, *, search: str = "", order: str = FURTHEST, offset: int = 0, count: int = 100) -> Groups:
    """Return a page of the consumer groups, but RocketMQ's own; `order` is one of those of the table."""
    here = cluster()
    count, offset = min(max(count, 1), MAX_COUNT), max(offset, 0)
    listed = _listed(here, search, scope)
    listed = _sorted(here, listed, order)
    return Groups(
        evidence=here.evidence(polled_by=GROUP_REQUESTS),
        now_ms=here.now_ms,
        rows=tuple(_rows(here, listed[offset : offset + count])),
        total=len(listed),
        offset=offset,
        count=count,
        search=search,
        has_several=here.has_several,
        order=order,
    )


def _sorted(here: Cluster, listed: Listed, order: str) -> Listed:
    """Return all groups in an order, before those of a page are read in full."""
    if order == FURTHEST:
        return sorted(listed, key=_furthest)
    of = order.removeprefix("-")
    partly = {row.name for row, _lag in listed if row.reads_others}
    dead = _without(partly, _dead_letters(here) if of == "dead" else {})
    rates = _without(partly, here.rates("group") if of == "rate" else {})
    keys: dict[str, Key] = {
        "name": lambda pair: pair[0].name.lower(),
        "lag": lambda pair: pair[1] and pair[1].lag,
        "rate": lambda pair: rates.get(pair[0].name),
        "members": lambda pair: pair[0].members,
        "topics": lambda pair: pair[1].topics if pair[1] else 0,
        "retry": lambda pair: pair[1] and pair[1].retry,
        "dead": lambda pair: dead.get(pair[0].name),
    }
    return ordered(listed, order, keys)


@authorised
def group_rows(
    scope: TopicScope, here: Here, search: str = "", *, watched: Callable[[Listed], Listed] | None = None
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


def _listed(here: Here, search: str, scope: TopicScope) -> Listed:
    groups = ConsumerGroup.objects.filter(broker__in=here.names, is_system=False, name__icontains=search)
    among = _topics_seen(here, scope)
    if here.has_several:
        total, of_each = lags_of_each(here.names, among=among)
    else:
        total, of_each = lags_by_group(here.names, among=among), []
    lags = {lag.group: lag for lag in total}
    lines = starmap(_Line, groups.order_by("name").values_list(*_COLUMNS))
    seen = [row for row in lines if scope.group(row.name)]
    if not scope.see_all:
        seen = [row._replace(reads_others=not scope.whole_group(row.name)) for row in seen]
    if here.has_several:
        seen = _merged(seen, {(broker, lag.group): lag for broker, lag in of_each})
    return [(row, lags.get(row.name)) for row in seen]


def _topics_seen(here: Here, scope: TopicScope) -> list[str] | None:
    """Return the topics that are seen, tries and dead letters among them; None: all of them."""
    if scope.see_all:
        return None
    rows = (model.objects.filter(broker__in=here.names).order_by() for model in (Queue, ConsumerOffset))
    names = {name for found in rows for name in found.values_list("topic", flat=True).distinct()}
    return sorted(filter(scope.topic, names))


def _without(names: Set[str], found: Mapping[str, Told]) -> dict[str, Told]:
    return {name: each for name, each in found.items() if name not in names}


def _merged(lines: Iterable[_Line], lags: Mapping[tuple[str, str], GroupLag]) -> list[_Line]:
    """Return a line for each name, with the worst state of its brokers; `lags` by broker and group."""
    known: dict[str, _Line] = {}
    for line in lines:
        state = _state(line, lags.get((line.brokers, line.name)))
        other = known.get(line.name)
        if other is None:
            known[line.name] = line._replace(brokers=(line.brokers,), state=state)
            continue
        members = (line.members, other.members)
        known[line.name] = other._replace(
            members=max((each for each in members if each is not None), default=None),
            consume_enable=line.consume_enable and other.consume_enable,
            retry_max_times=max(line.retry_max_times, other.retry_max_times),
            brokers=(*other.brokers, line.brokers),
            state=_worst([state, *([other.state] if other.state else [])]),
        )
    return list(known.values())


def _worst(states: Sequence[GroupState]) -> GroupState:
    order = list(GroupState)
    return max(states, key=order.index)


def _furthest(pair: tuple[_Line, GroupLag | None]) -> tuple[int, str]:
    """Return the key that sorts those furthest behind first."""
    row, lag = pair
    return -((lag.lag if lag else None) or 0), row.name


def _rows(here: Here, listed: Listed, watched: Callable[[Listed], Listed] | None = None) -> list[GroupRow]:
    told = watched(listed) if watched else listed
    histories = here.histories("group", [row.name for row, _ in told if not row.reads_others])
    # what was given up, and how much is taken, is told of a group alone, not of each topic that it reads
    dead = _without({row.name for row, _ in listed if row.reads_others}, _dead_letters(here))
    given_up = here.histories("topic", [f"{DLQ_PREFIX}{name}" for name in dead])
    return [
        _row(row, lag, histories.get(row.name, _UNKNOWN), dead, given_up.get(f"{DLQ_PREFIX}{row.name}", _UNKNOWN))
        for row, lag in listed
    ]


@authorised
def group(scope: TopicScope, name: str) -> GroupPage:
    """Return one group: its queues from the mirror, its members from the broker.

    It may subscribe to topics that it has not read yet: those that are not seen are left out. Of one that reads what is
    not seen its consumers are counted, not named.
    """
    scope.require_group(name)
    here, reads_others = cluster(), not scope.whole_group(name)
    among = _topics_seen(here, scope)
    found = list(ConsumerGroup.objects.filter(broker__in=here.names, name=name).order_by("broker"))
    lines = [
        _Line(
            each.name, each.members, each.consume_enable, each.retry_max_times, each.is_system, each.broker_id,
            reads_others=reads_others,
        )
        for each in found
    ]  # fmt: skip
    lag = next(iter(lags_by_group(here.names, group=name, among=among)), None)
    history = _UNKNOWN if reads_others else here.histories("group", [name])[name]
    told, members_evidence = ask_each(lambda admin: _ask(admin, name), here, requests=MEMBER_REQUESTS)
    dead = _dead_letters(here, name) if lines and not reads_others else {}
    parts = _parts(here, lines, name, among) if here.has_several else ()
    if here.has_several:
        lines = _merged(lines, {(part.broker, name): part.lag for part in parts if part.lag is not None})
    connected = {each.name: answer[0] for each, answer in told if answer[0] is not None}
    first = next(iter(connected.values()), None)
    subscribed = sorted({pair for each in connected.values() for pair in each.subscriptions.items()})
    stats = {each.name: answer[1] for each, answer in told}
    queues = scope.rows(_queues(here, name, stats), lambda queue: queue.topic)
    members = _members(connected) if told else None
    return GroupPage(
        evidence=here.evidence(polled_by=GROUP_REQUESTS),
        now_ms=here.now_ms,
        name=name,
        group=_row(lines[0], lag, history, dead) if lines else None,
        queues=queues,
        members=members and (() if reads_others else members),
        members_evidence=members_evidence,
        consume_type=first.consume_type if first else None,
        message_model=first.message_model if first else None,
        subscriptions=tuple(pair for pair in subscribed if scope.topic(pair[0])),
        has_several=here.has_several,
        parts=parts,
        missing_at=tuple(each for each in here.names if each not in {row.broker_id for row in found}),
        differing=_differing(found),
        arriving_per_s=arriving(here, name, {queue.topic for queue in queues}, attrgetter("latest")),
        reads_others=reads_others,
        unnamed_members=len(members or ()) if reads_others else 0,
    )


def _parts(
    here: Cluster, lines: Sequence[_Line], name: str, among: Sequence[str] | None = None
) -> tuple[GroupPart, ...]:
    """Return the group at each broker that has it."""
    lags = dict(lags_of_each(here.names, group=name, among=among)[1])
    brokers, parts = {each.name: each for each in here.brokers}, []
    for line in lines:
        own, lag = brokers[line.brokers], lags.get(line.brokers)
        history, dead = own.histories("group", [name])[name], _dead_letters(own, name)
        if line.reads_others:
            history, dead = _UNKNOWN, {}
        parts.append(GroupPart(own.name, _row(line, lag, history, dead), lag))
    return tuple(parts)


def _differing(found: Sequence[ConsumerGroup]) -> tuple[str, ...]:
    kept: dict[str, set[int]] = {
        "consume_enabled": {row.consume_enable for row in found},
        "broadcast_enabled": {row.consume_broadcast_enable for row in found},
        "orderly": {row.consume_message_orderly for row in found},
        "retry_max_times": {row.retry_max_times for row in found},
    }
    return tuple(name for name, values in kept.items() if len(values) > 1)


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


def _members(connected: Mapping[str, GroupConnections]) -> tuple[Member, ...]:
    """Return each consumer once, with the brokers that it is connected to."""
    found: dict[str, Member] = {}
    for broker, connections in connected.items():
        for each in connections.connections:
            known = found.get(each.client_id)
            brokers = (*known.brokers, broker) if known else (broker,)
            found[each.client_id] = Member(each.client_id, each.address, each.language, each.version, brokers)
    return tuple(found.values())


#: a queue: its broker, its topic and its number there
_Place = tuple[str, str, int]


def _queues(here: Here, name: str, stats: Mapping[str, ConsumeStats | None]) -> tuple[GroupQueue, ...]:
    """Return the group's queues; `stats` by broker."""
    last = {
        (broker, part.queue.topic, part.queue.queue_id): part.last_ms
        for broker, told in stats.items()
        for part in (told.queues if told else ())
    }
    rows = ConsumerOffset.objects.filter(broker__in=here.names, group=name)
    committed: dict[_Place, int] = {(row.broker_id, row.topic, row.queue_id): row.offset for row in rows}
    # what was given back to it is there for it alone, though it may never have read that topic
    own = RETRY_PREFIX + name
    topics = {topic for _broker, topic, _queue in committed} | {own}
    read = {(broker, topic) for broker, topic, _queue in committed}
    ends: dict[_Place, int | None] = {}
    for row in Queue.objects.filter(broker__in=here.names, topic__in=topics):
        place, low = (row.broker_id, row.topic, row.queue_id), row.min_offset or 0
        if row.topic == own and place not in committed:
            if (row.max_offset or 0) <= low:
                continue
            committed[place] = low
        elif place[:2] not in read:
            # a topic that it reads at another broker
            continue
        ends[place] = row.max_offset
    popped = _popped(here, name, topics)
    return tuple(
        GroupQueue(*place, committed.get(place), ends.get(place), last.get(place) or None, place[1] in popped)
        for place in sorted({*committed, *ends}, key=lambda each: (each[1], each[0], each[2]))
    )


def _popped(here: Here, name: str, topics: Set[str]) -> frozenset[str]:
    """Return those of these topics that the group pops, with their retries: it has a retry topic for each of them.

    Its own retry topic is among them where it pops all that it reads.
    """
    retries = {f"{RETRY_PREFIX}{name}{between}{topic}": topic for topic in topics for between in POP_SEPARATORS}
    there = Topic.objects.filter(broker__in=here.names, name__in=retries.keys()).values_list("name", flat=True)
    found = {each for retry in there for each in (retry, retries[retry])}
    own = {RETRY_PREFIX + name} if found and not [each for each in topics - found if not _is_retry(each)] else set()
    return frozenset(found | own)


def _is_retry(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def _dead_letters(here: Here, group: str = "") -> Mapping[str, int]:
    """Return the number of messages in each %DLQ% topic, by group; of one group where it is named."""
    queues = Queue.objects.filter(broker__in=here.names)
    named = queues.filter(topic=DLQ_PREFIX + group) if group else queues.filter(topic__startswith=DLQ_PREFIX)
    held: dict[str, int] = {}
    for topic, low, high in named.values_list("topic", "min_offset", "max_offset"):
        own = topic.removeprefix(DLQ_PREFIX)
        held[own] = held.get(own, 0) + (high or 0) - (low or 0)
    return held


def _row(
    row: _Line, lag: GroupLag | None, history: History, dead: Mapping[str, int], given_up: History | None = None
) -> GroupRow:
    return GroupRow(
        name=row.name,
        state=row.state or _state(row, lag),
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
        brokers=tuple(sorted(row.brokers)) if isinstance(row.brokers, tuple) else (row.brokers,),
        reads_others=row.reads_others,
    )


def _state(row: _Line, lag: GroupLag | None) -> GroupState:
    if lag is None:
        return GroupState.NEVER_USED if not row.members else GroupState.CURRENT
    if row.members == 0:
        return GroupState.NO_CONSUMER
    if lag.lag is None:
        return GroupState.UNKNOWN
    return GroupState.BEHIND if lag.lag > 0 else GroupState.CURRENT
