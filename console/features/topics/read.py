"""Read topics from the mirror, the messages of a queue from the broker, and what is lost with what is deleted.

With a topic or a group is lost what its queues hold, and what waits for it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from django.db.models import Count, Max, Q, Sum

from broker.client import Admin, BrokerRefused, Message, NotSupported
from broker.client.admin import TopicWaiting
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Queue, Topic
from broker.rocketmq.topics import DLQ_PREFIX, POP_SEPARATORS, RETRY_PREFIX
from console.features.topics.shapes import (
    QueueMessages,
    QueueRow,
    Tail,
    TopicKind,
    TopicPage,
    TopicReader,
    TopicRow,
    Topics,
)
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site import broker as site_broker
from console.site.broker import MessageRow, ask, pull_all, row_of
from console.site.mirrored import History, Mirrored, lags_by_group, mirrored

#: topic configuration and topic stats, on an Apache RocketMQ broker
TOPIC_REQUESTS = (21, 202)
MAX_COUNT = 200
#: orders that need the sums over every topic's queues, not of a page's topics alone
_BY_QUEUES = frozenset({"messages", "last"})


class Known(Protocol):
    """What is known of a topic from its row in the mirror."""

    @property
    def name(self) -> str:
        """The name of the topic."""

    @property
    def is_system(self) -> bool:
        """Whether it is one of RocketMQ's own."""

    @property
    def read_queues(self) -> int:
        """Number of queues that consumers read."""

    @property
    def write_queues(self) -> int:
        """Number of queues that producers write."""

    @property
    def permission(self) -> int:
        """PermName: read 4, write 2."""


class _Line(NamedTuple):
    """A topic out of thousands, without the cost of a model."""

    name: str
    is_system: bool
    read_queues: int
    write_queues: int
    permission: int


@authorised
def topics(
    scope: TopicScope, *, search: str = "", kind: str = "", order: str = "name", offset: int = 0, count: int = 100
) -> Topics:
    """Return a page of the topics whose name contains `search`.

    `kind` "" is all but system topics, "all" is all, else a TopicKind value; `order` is name, messages, rate or last,
    with "-" before it the other way round.
    """
    here = mirrored()
    count, offset = min(max(count, 1), MAX_COUNT), max(offset, 0)
    lines = map(_Line._make, Topic.objects.filter(broker=here.name).values_list(*_Line._fields).order_by())
    wanted, by = search.lower(), order.lstrip("-")
    found = [(row, kind_of(row)) for row in lines if wanted in row.name.lower() and scope.topic(row.name)]
    counts = Counter(str(each) for _, each in found)
    chosen = [row for row, each in found if _wanted(each, kind)]
    ends = _ends(here) if by in _BY_QUEUES else {}
    rates = here.histories("topic", [row.name for row in chosen]) if by == "rate" else {}
    chosen.sort(key=_sort_key(by, ends, rates), reverse=order.startswith("-"))
    page = chosen[offset : offset + count]
    rows = _rows(here, page, ends or _ends(here, [row.name for row in page]))
    return Topics(
        evidence=here.evidence(polled_by=TOPIC_REQUESTS),
        now_ms=here.now_ms,
        rows=rows,
        total=len(chosen),
        counts=dict(counts),
        offset=offset,
        count=count,
        search=search,
        kind=kind,
        order=order,
    )


@authorised
def topic(scope: TopicScope, name: str) -> TopicPage:
    """Return one topic with its queues, and the groups that read it as far as they are seen."""
    scope.require_topic(name)
    here = mirrored()
    row = Topic.objects.filter(broker=here.name, name=name).first()
    queues = Queue.objects.filter(broker=here.name, topic=name).order_by("queue_id")
    readers = tuple(
        TopicReader(group=lag.group, lag=lag.lag, queues=lag.queues)
        for lag in lags_by_group(here.name, topic=name)
        if scope.group(lag.group)
    )
    return TopicPage(
        evidence=here.evidence(polled_by=TOPIC_REQUESTS),
        now_ms=here.now_ms,
        name=name,
        broker=here.name,
        topic=_rows(here, [row], _ends(here, [name]))[0] if row else None,
        order=bool(row and row.order),
        filter_type=row.filter_type if row else "",
        attributes=dict(row.attributes) if row else {},
        queues=tuple(QueueRow(queue.queue_id, queue.min_offset, queue.max_offset, queue.last_ms) for queue in queues),
        readers=readers,
    )


def kind_of(row: Known) -> TopicKind:
    """Return what the topic is for."""
    if row.name.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if row.name.startswith(DLQ_PREFIX):
        return TopicKind.DEAD_LETTER
    return TopicKind.SYSTEM if row.is_system else TopicKind.NORMAL


def _wanted(row: TopicKind, kind: str) -> bool:
    if kind == "all":
        return True
    return row == kind if kind else row != TopicKind.SYSTEM


def _ends(here: Mirrored, names: Collection[str] | None = None) -> Mapping[str, dict[str, Any]]:
    """Sums over the queues of each topic: first, end, last."""
    queues = Queue.objects.filter(broker=here.name)
    if names is not None:
        queues = queues.filter(topic__in=names)
    sums = queues.values("topic").annotate(first=Sum("min_offset"), end=Sum("max_offset"), last=Max("last_ms"))
    return {row["topic"]: {**row} for row in sums.order_by()}


def _rows(here: Mirrored, page: Sequence[Known], ends: Mapping[str, dict[str, Any]]) -> tuple[TopicRow, ...]:
    names = [row.name for row in page]
    histories = here.histories("topic", names)
    readers = dict(
        ConsumerOffset.objects.filter(broker=here.name, topic__in=names)
        .values_list("topic")
        .annotate(groups=Count("group", distinct=True))
        .order_by()
    )
    return tuple(
        _row(row, ends.get(row.name), histories.get(row.name, History()), readers.get(row.name, 0)) for row in page
    )


def _row(row: Known, end: Mapping[str, Any] | None, history: History, readers: int) -> TopicRow:
    first, total = (end["first"], end["end"]) if end else (None, None)
    return TopicRow(
        name=row.name,
        kind=kind_of(row),
        read_queues=row.read_queues,
        write_queues=row.write_queues,
        permission=row.permission,
        messages=None if total is None or first is None else int(total - first),
        stored_total=None if total is None else int(total),
        last_ms=end["last"] if end else None,
        sends_per_s=history.latest,
        sends=history,
        groups=readers,
    )


def _sort_key(
    order: str, ends: Mapping[str, dict[str, Any]], rates: Mapping[str, History]
) -> Callable[[_Line], tuple[Any, str]]:
    """Unknown sorts as nothing; names decide between equals."""
    if order == "messages":
        return lambda row: (_held(ends.get(row.name)), row.name)
    if order == "last":
        return lambda row: ((ends.get(row.name) or {}).get("last") or 0, row.name)
    if order == "rate":
        return lambda row: (rates[row.name].latest or 0, row.name)
    # retry and dead-letter topics begin with "%": behind the others
    return lambda row: ((kind_of(row) != TopicKind.NORMAL, row.name.lower()), row.name)


def _held(end: Mapping[str, Any] | None) -> int:
    return int((end["end"] or 0) - (end["first"] or 0)) if end else 0


#: topic stats, pull
QUEUE_REQUESTS = (202, 11)
#: topic stats, pull
TAIL_REQUESTS = (202, 11)
#: messages of a topic's tail at most, however fast they come, and the queues that are read: those written to last
SHOWN, QUEUES = 50, 16

Page = tuple[tuple[int, int] | None, int, list[Message]]


@authorised
def queue_messages(
    scope: TopicScope, topic: str, queue_id: int, offset: int | None = None, count: int = 32
) -> QueueMessages:
    """Return a page of one queue's messages; offset None is the newest page."""
    scope.require_topic(topic)
    here = mirrored()
    count = min(max(count, 1), MAX_COUNT)
    page, evidence = ask(
        lambda admin: _read(admin, topic, queue_id, offset, count), source=here.name, requests=QUEUE_REQUESTS
    )
    bounds, first, found = page if page is not None else (None, offset or 0, [])
    low, high = bounds if bounds is not None else (None, None)
    after = found[-1].queue_offset + 1 if found else first
    return QueueMessages(
        evidence=evidence,
        now_ms=here.now_ms,
        topic=topic,
        queue_id=queue_id,
        offset=first,
        count=count,
        min_offset=low,
        max_offset=high,
        messages=masks().rows(map(row_of, found), topic),
        previous_offset=max(low, first - count) if low is not None and first > low else None,
        next_offset=after if high is not None and found and after < high else None,
    )


def _read(admin: Admin, topic: str, queue_id: int, offset: int | None, count: int) -> Page:
    stats = admin.topic_stats(topic)
    bounds = next(
        ((part.min_offset, part.max_offset) for part in stats.queues if part.queue.queue_id == queue_id), None
    )
    if bounds is None:
        return None, offset or 0, []
    low, high = bounds
    first = max(low, high - count) if offset is None else min(max(offset, low), high)
    found = pull_all(admin, topic, queue_id, first, min(count, high - first)) if first < high else []
    return bounds, first, found


@authorised
def tail(scope: TopicScope, name: str) -> Tail:
    """Return the newest messages of a topic."""
    scope.require_topic(name)
    here, hide = mirrored(), masks()
    found, evidence = ask(lambda admin: _newest(admin, name), source=here.name, requests=TAIL_REQUESTS)
    rows, stored = found if found is not None else ((), None)
    shown = tuple((queue_id, hide.row(row, name)) for queue_id, row in rows)
    return Tail(evidence, here.now_ms, name, shown, stored, SHOWN)


def _newest(admin: Admin, name: str) -> tuple[tuple[tuple[int, MessageRow], ...], int]:
    queues = admin.topic_stats(name).queues
    last = sorted(queues, key=lambda each: each.last_update_ms, reverse=True)[:QUEUES]
    found = []
    for each in last:
        queue_id, first = each.queue.queue_id, max(each.min_offset, each.max_offset - SHOWN)
        if first < each.max_offset:
            messages = pull_all(admin, name, queue_id, first, each.max_offset - first)
            found += [(queue_id, row_of(message)) for message in messages]
    found.sort(key=lambda row: (row[1].store_ms, row[1].position), reverse=True)
    return tuple(found[:SHOWN]), sum(each.max_offset for each in queues)


def stored_mark(name: str) -> Hashable:
    """Return what changes with whatever is stored in a topic, as the mirror has it: the broker is not asked."""
    queues = Queue.objects.filter(broker=mirrored().name, topic=name).order_by()
    found = queues.aggregate(first=Sum("min_offset"), end=Sum("max_offset"), last=Max("last_ms"))
    return tuple(found.values())


#: codes of what a preview misses: there may be more that waits than was counted; the broker does not tell all of it
AT_LEAST, NOT_TOLD = "waiting", "waiting_not_told"
#: topics are asked about for so long; the first one is, however long that takes
_PATIENCE_S = 3.0


def held(broker: str, topics: Sequence[str]) -> int:
    """Return how many messages stand in the topics' queues."""
    rows = Queue.objects.filter(broker=broker, topic__in=topics).values_list("min_offset", "max_offset")
    return sum((high or 0) - (low or 0) for low, high in rows)


def counts(found: TopicWaiting) -> dict[str, int | None]:
    """Return what waits, kind by kind, as a preview and a result have it."""
    return {
        "timers": found.timers, "delayed": found.delayed, "halves": found.halves, "parked_halves": found.parked_halves,
    }  # fmt: skip


def waiting_for(topics: Sequence[str]) -> tuple[dict[str, int | None], list[str]]:
    """Return what waits for the topics, and codes of what is not known; of Apache RocketMQ their timers alone."""
    admin = site_broker.admin()
    try:
        found = _told(admin, topics)
        return counts(found), [] if found.complete else [AT_LEAST]
    except NotSupported:
        pass
    nothing = dict.fromkeys(counts(TopicWaiting()))
    try:
        timers = sum(each.count for each in admin.timer_metrics() if each.topic in topics)
    except BrokerRefused:
        # its timers are switched off, or it is older than they are
        return nothing, [NOT_TOLD]
    return nothing | {"timers": timers}, [NOT_TOLD]


def topics_of_tries(broker: str, group: str) -> list[str]:
    """Return where a group's tries are: its own topic first, then those that there are of the topics that it pops.

    %RETRY%a_b_c may be of a group a that pops b_c, of a_b that pops c, or the own one of a_b_c. Who has an offset in
    it reads it; without one it is the group's that reads such a topic, if that can be said of no other group.
    """
    own = RETRY_PREFIX + group
    begins = Q(topic__startswith=f"{own}{POP_SEPARATORS[0]}") | Q(topic__startswith=f"{own}{POP_SEPARATORS[1]}")
    there = Queue.objects.filter(begins, broker=broker).values_list("topic", flat=True).distinct().order_by("topic")
    read = set(ConsumerOffset.objects.filter(broker=broker, group=group).values_list("topic", flat=True))
    popped = [
        name
        for name in there
        if name in read or (name[len(own) + 1 :] in read and not _may_be_anothers(broker, group, name))
    ]
    return [own, *popped]


def _may_be_anothers(broker: str, group: str, topic: str) -> bool:
    rest = topic.removeprefix(RETRY_PREFIX)
    readings = Q(topic=topic) | Q(group=rest)
    for at, letter in enumerate(rest):
        if letter in POP_SEPARATORS:
            readings |= Q(group=rest[:at], topic=rest[at + 1 :])
    others = ConsumerOffset.objects.filter(readings, broker=broker).exclude(group=group)
    return others.exists() or ConsumerGroup.objects.filter(broker=broker, name=rest).exists()


def _told(admin: Admin, topics: Sequence[str]) -> TopicWaiting:
    """Ask for one topic after another; not complete where time was over before the last. Raises NotSupported."""
    until_s, found = time.monotonic() + _PATIENCE_S, TopicWaiting()
    for number, topic in enumerate(topics):
        if number and time.monotonic() > until_s:
            return found + TopicWaiting(complete=False)
        found += admin.topic_waiting(topic)
    return found
