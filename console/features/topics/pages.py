"""Topics, one topic, and the messages of a queue: read from the mirror and the broker, and their pages."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any, NamedTuple

from django.db.models import Count, Max, QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.client import Admin, BrokerRefused, Message, RouteNotFound
from broker.mirror.models import ConsumerOffset, Queue, Topic
from broker.rocketmq.codes import Answer as Code
from broker.rocketmq.codes import Request
from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from console.features.topics.operations import names_to_create
from console.features.topics.shapes import (
    QUEUE,
    TOPICS,
    QueueMessages,
    QueueRow,
    Tail,
    TailRow,
    TopicKind,
    TopicPage,
    TopicPart,
    TopicReader,
    TopicRow,
    Topics,
)
from console.kept_figures import FigureSubject
from console.operations.setting_fields import TYPE_ATTRIBUTE, new_topic_form, topic_form
from console.over_time import Measure, OverTime, Wanted, over_time
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised, current_topics
from console.site.broker import MessageRow, ask, ask_each, pull_all, row_of
from console.site.evidence import StaleReason
from console.site.mirrored import Cluster, Here, History, cluster, lags_by_group, mirrored
from console.site.parsing import whole_number
from console.ui.export import Answer, next_offset, page_or_file
from console.ui.live import LiveKind
from console.ui.ordering import asked_order

#: what an Apache RocketMQ broker is asked for them
TOPIC_REQUESTS = (Request.GET_ALL_TOPIC_CONFIG, Request.GET_TOPIC_STATS_INFO)
MAX_COUNT = 200
#: orders that need the sums over every topic's queues, not of a page's topics alone
_BY_QUEUES = frozenset({"messages", "total", "last"})


class _Line(NamedTuple):
    """A topic out of thousands, without the cost of a model."""

    name: str
    is_system: bool
    read_queues: int
    write_queues: int
    permission: int
    #: the brokers that have it; in rows of the mirror the one
    brokers: Any
    differs: bool = False


#: the columns of a line
_COLUMNS = ("name", "is_system", "read_queues", "write_queues", "permission", "broker")


@authorised
def read_topics(
    scope: TopicScope, *, search: str = "", kind: str = "", order: str = "name", offset: int = 0, count: int = 100
) -> Topics:
    """Return a page of the topics whose name contains `search`.

    `kind` "" is all but system topics, "all" is all, else a TopicKind value; `order` is one of those of the
    table.
    """
    here = cluster()
    count, offset = min(max(count, 1), MAX_COUNT), max(offset, 0)
    lines = _lines(here, Topic.objects.filter(broker__in=here.names))
    wanted, by = search.lower(), order.lstrip("-")
    found = [(row, kind_of(row)) for row in lines if wanted in row.name.lower() and scope.topic(row.name)]
    counts = Counter(str(each) for _, each in found)
    chosen = [row for row, each in found if _wanted(each, kind)]
    ends = _ends(here) if by in _BY_QUEUES else {}
    rates = here.rates("topic") if by == "rate" else {}
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
        has_several=here.has_several,
    )


@authorised
def read_topic(scope: TopicScope, name: str) -> TopicPage:
    """Return one topic with its queues, and the groups that read it."""
    scope.require_topic(name)
    here = cluster()
    found = list(Topic.objects.filter(broker__in=here.names, name=name).order_by("broker"))
    queues = Queue.objects.filter(broker__in=here.names, topic=name).order_by("broker", "queue_id")
    rows = tuple(QueueRow(row.broker_id, row.queue_id, row.min_offset, row.max_offset, row.last_ms) for row in queues)
    lines = [
        _Line(each.name, each.is_system, each.read_queues, each.write_queues, each.permission, each.broker_id)
        for each in found
    ]
    readers = tuple(
        TopicReader(group=lag.group, lag=lag.lag, queues=lag.queues)
        for lag in lags_by_group(here.names, topic=name)
        if scope.group(lag.group)
    )
    row = next(iter(found), None)
    return TopicPage(
        evidence=here.evidence(polled_by=TOPIC_REQUESTS),
        now_ms=here.now_ms,
        name=name,
        topic=next(iter(_rows(here, _merged(lines), _ends(here, [name]))), None) if row else None,
        order=bool(row and row.order),
        filter_type=row.filter_type if row else "",
        attributes=dict(row.attributes) if row else {},
        queues=rows,
        readers=readers,
        has_several=here.has_several,
        parts=_parts(here, found, rows) if here.has_several else (),
        missing_at=tuple(each for each in here.names if each not in {row.broker_id for row in found}),
    )


def _parts(here: Cluster, found: Sequence[Topic], queues: Sequence[QueueRow]) -> tuple[TopicPart, ...]:
    """Return the topic at each broker that has it."""
    brokers, parts = {each.name: each for each in here.brokers}, []
    for row in found:
        own = [queue for queue in queues if queue.broker == row.broker_id]
        held = [queue.messages for queue in own]
        history = brokers[row.broker_id].histories("topic", [row.name])[row.name]
        parts.append(
            TopicPart(
                broker=row.broker_id,
                read_queues=row.read_queues,
                write_queues=row.write_queues,
                permission=row.permission,
                order=row.order,
                message_type=str(row.attributes.get(TYPE_ATTRIBUTE, "")),
                messages=sum(each for each in held if each is not None) if held and None not in held else None,
                last_ms=max((queue.last_ms for queue in own if queue.last_ms is not None), default=None),
                sends_per_s=history.latest,
            )
        )
    return tuple(parts)


def _lines(here: Cluster, found: QuerySet[Topic]) -> Iterable[_Line]:
    """Return a line for each topic, in total where there are several brokers."""
    lines = starmap(_Line, found.values_list(*_COLUMNS).order_by())
    return _merged(lines) if here.has_several else lines


def _merged(lines: Iterable[_Line]) -> list[_Line]:
    """Return a line for each name: queues are added up, and permitted is what all brokers permit."""
    known: dict[str, _Line] = {}
    for line in lines:
        other = known.get(line.name)
        if other is None:
            known[line.name] = line._replace(brokers=(line.brokers,))
            continue
        known[line.name] = _Line(
            line.name,
            line.is_system or other.is_system,
            line.read_queues + other.read_queues,
            line.write_queues + other.write_queues,
            line.permission & other.permission,
            (*other.brokers, line.brokers),
            other.differs or line.permission != other.permission,
        )
    return list(known.values())


def kind_of(row: _Line) -> TopicKind:
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


def _ends(here: Here, names: Collection[str] | None = None) -> Mapping[str, dict[str, Any]]:
    """Return sums over the queues of each topic: first, end, last."""
    queues = Queue.objects.filter(broker__in=here.names)
    if names is not None:
        queues = queues.filter(topic__in=names)
    sums = queues.values("topic").annotate(first=Sum("min_offset"), end=Sum("max_offset"), last=Max("last_ms"))
    return {row["topic"]: {**row} for row in sums.order_by()}


def _rows(here: Here, page: Sequence[_Line], ends: Mapping[str, dict[str, Any]]) -> tuple[TopicRow, ...]:
    names = [row.name for row in page]
    histories = here.histories("topic", names)
    readers = dict(
        ConsumerOffset.objects.filter(broker__in=here.names, topic__in=names)
        .values_list("topic")
        .annotate(groups=Count("group", distinct=True))
        .order_by()
    )
    return tuple(
        _row(row, ends.get(row.name), histories.get(row.name, History()), readers.get(row.name, 0)) for row in page
    )


def _row(row: _Line, end: Mapping[str, Any] | None, history: History, readers: int) -> TopicRow:
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
        brokers=tuple(sorted(row.brokers)) if isinstance(row.brokers, tuple) else (row.brokers,),
        differs=row.differs,
    )


def _sort_key(
    order: str, ends: Mapping[str, dict[str, Any]], rates: Mapping[str, float | None]
) -> Callable[[_Line], tuple[Any, str]]:
    """Return the key of an order; the unknown sorts as nothing, and names decide between equals."""
    if order == "messages":
        return lambda row: (_held(ends.get(row.name)), row.name)
    if order == "total":
        return lambda row: ((ends.get(row.name) or {}).get("end") or 0, row.name)
    if order == "queues":
        return lambda row: (max(row.read_queues, row.write_queues), row.name)
    if order == "kind":
        kinds = list(TopicKind)
        return lambda row: (kinds.index(kind_of(row)), row.name)
    if order == "last":
        return lambda row: ((ends.get(row.name) or {}).get("last") or 0, row.name)
    if order == "rate":
        return lambda row: (rates.get(row.name) or 0, row.name)
    # retry and dead-letter topics begin with "%": behind the others
    return lambda row: ((kind_of(row) != TopicKind.NORMAL, row.name.lower()), row.name)


def _held(end: Mapping[str, Any] | None) -> int:
    return int((end["end"] or 0) - (end["first"] or 0)) if end else 0


QUEUE_REQUESTS = (Request.GET_TOPIC_STATS_INFO, Request.PULL_MESSAGE)
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
        broker=here.name,
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
def read_tail(scope: TopicScope, name: str) -> Tail:
    """Return the newest messages of a topic, of all its brokers in one list."""
    scope.require_topic(name)
    here, hide = cluster(), masks()
    found, evidence = ask_each(lambda admin: _newest(admin, name), here, requests=QUEUE_REQUESTS)
    there = [(each.name, newest) for each, newest in found if newest is not None]
    if not there and not evidence.stale:
        evidence = replace(evidence, stale_reason=StaleReason.NOT_THERE)
    rows = [(broker, queue_id, row) for broker, (part, _stored) in there for queue_id, row in part]
    rows.sort(key=lambda row: (row[2].store_ms, row[2].position), reverse=True)
    shown = tuple(TailRow(broker, queue_id, hide.row(row, name)) for broker, queue_id, row in rows[:SHOWN])
    stored = sum(newest[1] for _broker, newest in there) if there else None
    return Tail(evidence, here.now_ms, name, shown, stored, SHOWN, here.has_several)


def _newest(admin: Admin, name: str) -> tuple[tuple[tuple[int, MessageRow], ...], int] | None:
    """Return the newest messages and how many were ever stored at this broker; None: it has no such topic."""
    try:
        queues = admin.topic_stats(name).queues
    except RouteNotFound:
        return None
    except BrokerRefused as refusal:
        if refusal.code != Code.TOPIC_NOT_EXIST:
            raise
        return None
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
    queues = Queue.objects.filter(broker__in=cluster().names, topic=name).order_by()
    found = queues.aggregate(first=Sum("min_offset"), end=Sum("max_offset"), last=Max("last_ms"))
    return tuple(found.values())


@require_safe
def topics(request: HttpRequest) -> Answer:
    """Answer the list, filtered by name and kind."""
    wanted = {name: request.GET.get(name, "")[:127] for name in ("search", "kind", "order")}
    order = asked_order(wanted["order"], TOPICS.orders, "name")
    kind = wanted["kind"] if wanted["kind"] in (*TopicKind.values, "all") else ""
    offset = whole_number(request.GET.get("offset")) or 0

    def page(place: int | None) -> Topics:
        return read_topics(search=wanted["search"], kind=kind, order=order, offset=place or 0)

    data, visible = page(offset), current_topics()
    new_names = [] if visible.is_all else names_to_create(visible)
    query = request.GET.urlencode()
    context = {
        "data": data,
        "here": "topics",
        "live": f"topics?{query}" if query else "topics",
        "keep_order": "" if order == "name" else f"&order={order}",
        "form": new_topic_form() if visible.is_all or new_names else None,
        "new_names": new_names,
        "number": uuid.uuid4(),
        "kinds": [(kind.value, kind.label, data.counts.get(kind.value, 0)) for kind in TopicKind],
        "previous": max(0, offset - data.count) if offset else None,
        "following": offset + data.count if offset + data.count < data.total else None,
    }
    return page_or_file(request, "topics/page.html", context, TOPICS, page, following=next_offset)


@require_safe
def topic(request: HttpRequest, name: str) -> HttpResponse:
    """Show one topic with its queues, readers and newest messages."""
    data = read_topic(name)
    if data.topic is None and data.evidence.as_of_ms is not None:
        raise Http404(_absent(data))
    over = _charts(name, request.GET)
    context = {
        "data": data, "here": "topics", "live": over.live(f"topic/{name}"), "number": uuid.uuid4(),
        "form": topic_form(name) if data.topic else None,
        "over": over,
    }  # fmt: skip
    return render(request, "topics/topic.html", context)


def _absent(data: TopicPage) -> str:
    """Return why there is no page: the topic is not there, or was not when the console last heard from the broker."""
    if not data.evidence.stale:
        return _("There is no such topic.")
    return _(
        "This topic was not there when the console last heard from the broker. If it is new, its page comes once the "
        "console follows the broker again."
    )


def _charts(name: str, given: Mapping[str, str]) -> OverTime:
    return over_time(given, _lines_of(name), about=("topic", name))


def _lines_of(name: str) -> list[Wanted]:
    """Return what is shown of a topic over time."""
    measures = [Measure.PASSED, Measure.LAG, Measure.PENDING, Measure.LATENESS]
    return [Wanted(FigureSubject.Kind.TOPIC, name, measure) for measure in measures]


@require_safe
def tail(request: HttpRequest, name: str) -> HttpResponse:
    """Show the newest messages, followed as they come."""
    data = read_tail(name)
    if data.evidence.stale_reason is StaleReason.NOT_THERE:
        raise Http404(_("There is no such topic."))
    return render(request, "topics/tail.html", {"data": data, "here": "topics", "live": f"tail/{name}"})


@require_safe
def queue(request: HttpRequest, name: str, queue_id: int) -> Answer:
    """Show the messages of one queue, a page of offsets, newest first."""

    def page(place: tuple[int, int] | None) -> QueueMessages:
        return queue_messages(name, queue_id, *(place or (None,)))

    def before(shown: QueueMessages) -> tuple[int, int] | None:
        return None if (first := shown.previous_offset) is None else (first, shown.offset - first)

    data = queue_messages(name, queue_id, whole_number(request.GET.get("offset")))
    context = {"data": data, "here": "topics", "newest_first": data.messages[::-1]}
    return page_or_file(
        request, "topics/queue.html", context, QUEUE, page, rows=lambda shown: shown.messages[::-1], following=before
    )


def _topics_live(_: str, query: Mapping[str, str]) -> Topics:
    return read_topics(
        search=query.get("search", ""),
        kind=query.get("kind", ""),
        order=asked_order(query.get("order", ""), TOPICS.orders, "name"),
        offset=whole_number(query.get("offset")) or 0,
    )


_MOVED_BY = frozenset({"topics", "queues", "offsets", "histories"})
LIVE = {
    "topics": LiveKind(_topics_live, _MOVED_BY, frozenset({"search", "kind", "order", "offset"})),
    "topic": LiveKind(
        lambda name, _: read_topic(name), _MOVED_BY, frozenset({"over"}), takes_argument=True, charts=_charts
    ),
    "tail": LiveKind(
        lambda name, _: read_tail(name), frozenset({"queues"}), takes_argument=True, mark=stored_mark, is_near=True
    ),
}
