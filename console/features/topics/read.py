"""Reads topics, from the mirror."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from django.db.models import Count, Max, Sum

from broker.mirror.models import ConsumerOffset, Queue, Topic
from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from console.features.topics.shapes import QueueRow, TopicKind, TopicPage, TopicReader, TopicRow, Topics
from console.security.topic_scope import Eyes, authorised
from console.site.group_lags import lags_by_group
from console.site.history import History
from console.site.mirrored import Mirrored, mirrored

#: topic configuration and topic stats, on an Apache RocketMQ broker
TOPIC_REQUESTS = (21, 202)
MAX_COUNT = 200
#: orders that need the sums over every topic's queues, not of a page's topics alone
_BY_QUEUES = frozenset({"messages", "last"})


class Known(Protocol):
    """What a row says of a topic."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def is_system(self) -> bool:
        """One of RocketMQ's own."""

    @property
    def read_queues(self) -> int:
        """How many there are to read."""

    @property
    def write_queues(self) -> int:
        """How many there are to write."""

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
    scope: Eyes, *, search: str = "", kind: str = "", order: str = "name", offset: int = 0, count: int = 100
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
def topic(scope: Eyes, name: str) -> TopicPage:
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
    """What the topic is for."""
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
