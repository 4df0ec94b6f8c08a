"""Topics, one topic, and the messages of a queue."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.topics import contents, read
from console.features.topics.columns import QUEUE, TOPICS
from console.features.topics.setting_forms import new_topic_form, topic_form
from console.features.topics.shapes import QueueMessages, TopicKind, Topics
from console.site.evidence import StaleReason
from console.ui.export import Answer, next_offset, page_or_file
from console.ui.live import number

_ORDERS = ("name", "messages", "last", "rate")


@require_safe
def topics(request: HttpRequest) -> Answer:
    """The list, filtered by name and kind."""
    wanted = {name: request.GET.get(name, "")[:127] for name in ("search", "kind", "order")}
    order = wanted["order"] if wanted["order"] in _ORDERS else "name"
    kind = wanted["kind"] if wanted["kind"] in (*TopicKind.values, "all") else ""
    offset = number(request.GET.get("offset")) or 0

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
    data = contents.tail(name)
    if data.evidence.stale_reason is StaleReason.NOT_THERE:
        raise Http404(_("There is no such topic."))
    return render(request, "topics/tail.html", {"data": data, "here": "topics", "live": f"tail/{name}"})


@require_safe
def queue(request: HttpRequest, name: str, queue_id: int) -> Answer:
    """The messages of one queue, a page of offsets, newest first."""

    def page(place: tuple[int, int] | None) -> QueueMessages:
        return contents.queue_messages(name, queue_id, *(place or (None,)))

    def before(shown: QueueMessages) -> tuple[int, int] | None:
        return None if (first := shown.previous_offset) is None else (first, shown.offset - first)

    data = contents.queue_messages(name, queue_id, number(request.GET.get("offset")))
    context = {"data": data, "here": "topics", "newest_first": data.messages[::-1]}
    return page_or_file(
        request, "topics/queue.html", context, QUEUE, page, rows=lambda shown: shown.messages[::-1], following=before
    )
