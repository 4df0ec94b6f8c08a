"""Read the messages of one queue, and the newest of a topic, from the broker."""

from __future__ import annotations

from collections.abc import Hashable

from django.db.models import Max, Sum

from broker.client import Admin, Message
from broker.mirror.models import Queue
from console.features.topics.shapes import QueueMessages, Tail
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask, pull_all
from console.site.mirrored import mirrored
from console.ui.message_rows import MessageRow, row_of

#: topic stats, pull
QUEUE_REQUESTS = (202, 11)
MAX_COUNT = 200
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
