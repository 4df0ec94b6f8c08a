"""Messages of a topic by when they were stored, tag and property: read from the newest on, as far as time allows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied

from broker.client import Admin, Message
from broker.rocketmq.properties import TAGS
from console.features.messages.shapes import Found, MessageFilter, MessageSearch
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask, pull_all
from console.site.mirrored import mirrored

#: topic stats, offset by time, pull
REQUESTS = (202, 29, 11)
#: hits of a page, records that are read for them, and for how long
SHOWN, READ, PATIENCE_S = 64, 4_000, 1.5
STEP = 32


@dataclass(slots=True)
class _Part:
    """What is left of one queue: from `low` to before `high`."""

    queue_id: int
    low: int
    high: int


@authorised
def messages_through(scope: TopicScope, topic: str, wanted: MessageFilter) -> MessageSearch:
    """Return the newest that match; `read` and `left` say how much was looked at.

    Raises PermissionDenied for a filter by something that is masked: whoever may ask whether a value is there has read
    it soon.
    """
    scope.require_topic(topic)
    hide = masks()
    masked = hide.of(topic)
    if wanted.name in masked or (wanted.tag and TAGS in masked):
        raise PermissionDenied(masked.get(wanted.name) or masked[TAGS])
    here = mirrored()
    found, evidence = ask(lambda admin: _through(admin, topic, wanted), source=here.name, requests=REQUESTS)
    hits, read, left = found or ([], 0, 0)
    return MessageSearch(evidence, here.now_ms, topic, "", hide.rows(hits), SHOWN, 1, read, left)


def _through(admin: Admin, topic: str, wanted: MessageFilter) -> tuple[list[Found], int, int]:
    parts = _parts(admin, topic, wanted)
    hits: list[Found] = []
    read, until_s = 0, time.monotonic() + PATIENCE_S
    for part in _in_turn(parts):
        first = max(part.low, part.high - STEP)
        messages = pull_all(admin, topic, part.queue_id, first, part.high - first)
        read += part.high - first
        part.high = first
        hits += [_hit(message) for message in messages if _matches(message, wanted)]
        if read >= READ or len(hits) >= SHOWN or time.monotonic() > until_s:
            break
    hits.sort(key=lambda hit: hit.store_ms, reverse=True)
    return hits[:SHOWN], read, sum(part.high - part.low for part in parts)


def _parts(admin: Admin, topic: str, wanted: MessageFilter) -> list[_Part]:
    """Each queue's stretch of the range; its ends by the broker's own index of time."""
    parts = []
    for queue in admin.topic_stats(topic).queues:
        queue_id, low, high = queue.queue.queue_id, queue.min_offset, queue.max_offset
        if wanted.from_ms is not None and low < high:
            low = max(low, admin.offset_at(topic, queue_id, wanted.from_ms))
        if wanted.to_ms is not None and low < high:
            high = min(high, admin.offset_at(topic, queue_id, wanted.to_ms) + 1)
        parts.append(_Part(queue_id, low, max(low, high)))
    return parts


def _in_turn(parts: list[_Part]) -> Iterator[_Part]:
    """One step of each queue after another, until all are read."""
    while any(part.high > part.low for part in parts):
        yield from (part for part in parts if part.high > part.low)


def _matches(message: Message, wanted: MessageFilter) -> bool:
    if wanted.from_ms is not None and message.store_ms < wanted.from_ms:
        return False
    if wanted.to_ms is not None and message.store_ms >= wanted.to_ms:
        return False
    if wanted.tag and message.tags != wanted.tag:
        return False
    return not wanted.name or _has(message.properties.get(wanted.name), wanted.value)


def _has(text: str | None, value: str) -> bool:
    return text is not None and (not value or text == value)


def _hit(message: Message) -> Found:
    return Found(
        topic=message.topic, unique_key=message.unique_key, offset_message_id=message.offset_message_id,
        keys=tuple(message.keys), tag=message.tags, store_ms=message.store_ms, size_bytes=message.size,
        pending=False, due_ms=None,
    )  # fmt: skip
