"""Reads topics, from the mirror."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Count, Max, Sum

from broker.models import ConsumerOffset, Queue, Topic
from console.access.topics import Eyes
from console.queries.lags import lags_by_group
from console.queries.mirrored import Mirrored, mirrored
from console.queries.shapes.history import History
from console.queries.shapes.topics import QueueRow, TopicKind, TopicPage, TopicReader, TopicRow, Topics

#: topic configuration and topic stats, on an Apache RocketMQ broker
TOPIC_REQUESTS = (21, 202)
MAX_COUNT = 200


def topics(
    *,
    search: str = "",
    kind: str = "",
    order: str = "name",
    offset: int = 0,
    count: int = 100,
    eyes: Eyes | None = None,
) -> Topics:
    """Topics that `eyes` see and whose name contains `search`; kind "" is all but system topics, "all" is all, else a
    TopicKind value; order: name, messages, rate or last, with "-" before it the other way round."""
    here, eyes = mirrored(), eyes or Eyes()
    count, offset = min(max(count, 1), MAX_COUNT), max(offset, 0)
    named = [row for row in Topic.objects.filter(broker=here.name) if search.lower() in row.name.lower()]
    found = [row for row in named if eyes.topic(row.name)]
    counts = Counter(str(kind_of(row)) for row in found)
    chosen = [row for row in found if _wanted(row, kind)]
    ends = _ends(here)
    rates = here.histories("topic", [row.name for row in chosen]) if order.lstrip("-") == "rate" else {}
    chosen.sort(key=_sort_key(order.lstrip("-"), ends, rates), reverse=order.startswith("-"))
    page = chosen[offset : offset + count]
    rows = _rows(here, page, ends)
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


def topic(name: str) -> TopicPage:
    """One topic with its queues and readers."""
    here = mirrored()
    row = Topic.objects.filter(broker=here.name, name=name).first()
    queues = Queue.objects.filter(broker=here.name, topic=name).order_by("queue_id")
    readers = tuple(
        TopicReader(group=lag.group, lag=lag.lag, queues=lag.queues) for lag in lags_by_group(here.name, topic=name)
    )
    return TopicPage(
        evidence=here.evidence(polled_by=TOPIC_REQUESTS),
        now_ms=here.now_ms,
        name=name,
        broker=here.name,
        topic=_rows(here, [row], _ends(here, name))[0] if row else None,
        order=bool(row and row.order),
        filter_type=row.filter_type if row else "",
        attributes=dict(row.attributes) if row else {},
        queues=tuple(QueueRow(queue.queue_id, queue.min_offset, queue.max_offset, queue.last_ms) for queue in queues),
        readers=readers,
    )


def kind_of(row: Topic) -> TopicKind:
    """What the topic is for."""
    if row.name.startswith("%RETRY%"):
        return TopicKind.RETRY
    if row.name.startswith("%DLQ%"):
        return TopicKind.DEAD_LETTER
    return TopicKind.SYSTEM if row.is_system else TopicKind.NORMAL


def _wanted(row: Topic, kind: str) -> bool:
    if kind == "all":
        return True
    return kind_of(row) == kind if kind else kind_of(row) != TopicKind.SYSTEM


def _ends(here: Mirrored, name: str | None = None) -> Mapping[str, dict[str, Any]]:
    """Sums over the queues of each topic: first, end, last."""
    queues = Queue.objects.filter(broker=here.name)
    if name is not None:
        queues = queues.filter(topic=name)
    sums = queues.values("topic").annotate(first=Sum("min_offset"), end=Sum("max_offset"), last=Max("last_ms"))
    return {row["topic"]: {**row} for row in sums.order_by()}


def _rows(here: Mirrored, page: list[Topic], ends: Mapping[str, dict[str, Any]]) -> tuple[TopicRow, ...]:
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


def _row(row: Topic, end: Mapping[str, Any] | None, history: History, readers: int) -> TopicRow:
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
) -> Callable[[Topic], tuple[Any, str]]:
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
