"""Topics, one topic, and the messages of a queue."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.topics import read
from console.features.topics.shapes import QUEUE, TOPICS, QueueMessages, TopicKind, Topics
from console.operations.setting_fields import new_topic_form, topic_form
from console.site.evidence import StaleReason
from console.site.numbers import whole_number
from console.ui.export import Answer, next_offset, page_or_file
from console.ui.live import LiveKind

_ORDERS = ("name", "messages", "last", "rate")


@require_safe
def topics(request: HttpRequest) -> Answer:
    """Answer the list, filtered by name and kind."""
    wanted = {name: request.GET.get(name, "")[:127] for name in ("search", "kind", "order")}
    order = wanted["order"] if wanted["order"] in _ORDERS else "name"
    kind = wanted["kind"] if wanted["kind"] in (*TopicKind.values, "all") else ""
    offset = whole_number(request.GET.get("offset")) or 0

    def page(place: int | None) -> Topics:
        return read.topics(search=wanted["search"], kind=kind, order=order, offset=place or 0)

    data = page(offset)
    query = request.GET.urlencode()
    context = {
        "data": data,
        "here": "topics",
        "live": f"topics?{query}" if query else "topics",
        "form": new_topic_form(),
        "number": uuid.uuid4(),
        "kinds": [(kind.value, kind.label, data.counts.get(kind.value, 0)) for kind in TopicKind],
        "previous": max(0, offset - data.count) if offset else None,
        "following": offset + data.count if offset + data.count < data.total else None,
    }
    return page_or_file(request, "topics/page.html", context, TOPICS, page, following=next_offset)


@require_safe
def topic(request: HttpRequest, name: str) -> HttpResponse:
    """One topic with its queues, readers and newest messages."""
    data = read.topic(name)
    if data.topic is None and not data.evidence.stale:
        raise Http404(_("There is no such topic."))
    context = {
        "data": data, "here": "topics", "live": f"topic/{name}", "number": uuid.uuid4(),
        "form": topic_form(name) if data.topic else None,
    }  # fmt: skip
    return render(request, "topics/topic.html", context)


@require_safe
def tail(request: HttpRequest, name: str) -> HttpResponse:
    """The newest messages, followed."""
    data = read.tail(name)
    if data.evidence.stale_reason is StaleReason.NOT_THERE:
        raise Http404(_("There is no such topic."))
    return render(request, "topics/tail.html", {"data": data, "here": "topics", "live": f"tail/{name}"})


@require_safe
def queue(request: HttpRequest, name: str, queue_id: int) -> Answer:
    """The messages of one queue, a page of offsets, newest first."""

    def page(place: tuple[int, int] | None) -> QueueMessages:
        return read.queue_messages(name, queue_id, *(place or (None,)))

    def before(shown: QueueMessages) -> tuple[int, int] | None:
        return None if (first := shown.previous_offset) is None else (first, shown.offset - first)

    data = read.queue_messages(name, queue_id, whole_number(request.GET.get("offset")))
    context = {"data": data, "here": "topics", "newest_first": data.messages[::-1]}
    return page_or_file(
        request, "topics/queue.html", context, QUEUE, page, rows=lambda shown: shown.messages[::-1], following=before
    )


def _topics_live(_: str, query: Mapping[str, str]) -> Topics:
    return read.topics(
        search=query.get("search", ""),
        kind=query.get("kind", ""),
        order=query.get("order", "name"),
        offset=whole_number(query.get("offset")) or 0,
    )


_MOVED_BY = frozenset({"topics", "queues", "offsets", "histories"})
LIVE = {
    "topics": LiveKind(_topics_live, _MOVED_BY, frozenset({"search", "kind", "order", "offset"})),
    "topic": LiveKind(lambda name, _: read.topic(name), _MOVED_BY, takes_argument=True),
    "tail": LiveKind(
        lambda name, _: read.tail(name),
        frozenset({"queues"}),
        takes_argument=True,
        mark=read.stored_mark,
        is_near=True,
    ),
}
