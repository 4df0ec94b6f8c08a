"""Looking through the messages of a topic: by when they were stored, tag, property and what their bodies hold.

A topic is read from the newest message on, in slices, as far as a moment's patience and a number of records allow. The
next page goes on where this one stopped: nothing is kept between two pages, and who stops asking has stopped it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from django.core.exceptions import PermissionDenied

from broker.client import Admin, Message
from broker.mirror.models import ConsumerOffset
from broker.rocketmq.codes import Request
from broker.rocketmq.properties import TAGS
from broker.rocketmq.topics import GROUP_PREFIXES, POP_SEPARATORS
from console.features.messages.bodies import content_of
from console.features.messages.decoders import BodyType
from console.features.messages.hops import topic_sent_to
from console.features.messages.models import MOST_LOOKED_UP, types_of
from console.features.messages.shapes import Found, MessageFilter, MessageSearch
from console.security.masking import BODY, masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask_each, pull_all, row_of
from console.site.chosen import chosen
from console.site.merged import Places, write_cursor
from console.site.mirrored import cluster

LOOKING_REQUESTS = (Request.GET_TOPIC_STATS_INFO, Request.SEARCH_OFFSET_BY_TIMESTAMP, Request.PULL_MESSAGE)
#: hits of a page, records that are read for them, and for how long
SHOWN, READ, PATIENCE_S = 64, 4_000, 1.5
STEP = 32


@dataclass(slots=True)
class _Part:
    """The unread rest of one queue: from `low` to before `high`."""

    queue_id: int
    low: int
    high: int


@authorised
def messages_through(
    scope: TopicScope, topic: str, wanted: MessageFilter, before: Places | None = None
) -> MessageSearch:
    """Return the newest that match; `read` and `left` say how much was looked at. `before` is where a page goes on.

    Raises PermissionDenied for a filter by something that is masked: whoever may ask whether a value is there has read
    it soon.
    """
    scope.require_topic(topic)
    hide = masks()
    masked = hide.of(topic)
    asked = (wanted.name, TAGS if wanted.tag else "", BODY if wanted.text else "")
    refused = next((masked[name] for name in asked if name in masked), None)
    if refused is not None:
        raise PermissionDenied(refused)
    here, places = cluster(), dict(before or {})
    # brokers are asked in threads, which leave the database alone
    types = types_of(scope, _topics_in(topic)) if wanted.text else {}

    def look(admin: Admin) -> _Looked:
        return _through(admin, topic, wanted, types, _read_place(places.get(chosen().name if here.has_several else "")))

    found, evidence = ask_each(look, here, requests=LOOKING_REQUESTS)
    hits = [replace(hit, broker=broker.name) for broker, part in found for hit in part.hits]
    hits.sort(key=lambda hit: hit.store_ms, reverse=True)
    following = {**places, **{broker.name if here.has_several else "": part.place for broker, part in found}}
    left = sum(part.left for _broker, part in found)
    return MessageSearch(
        evidence, here.now_ms, topic, "", hide.rows(hits), SHOWN, 1, sum(part.read for _broker, part in found), left,
        here.has_several, sum(part.total for _broker, part in found), write_cursor(following) if left else None,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Looked:
    """What one broker gave of a page: `read` records, with `left` still to be read of `total`, and where it stopped."""

    hits: list[Found]
    read: int
    left: int
    total: int
    place: str


Types = Mapping[str, BodyType]


def _topics_in(topic: str) -> set[str]:
    """Return the topics that messages of this one may have been sent to: tries and dead letters are of those that their
    group reads, or of the one that stands behind the group's name."""
    rest = next((topic.removeprefix(prefix) for prefix in GROUP_PREFIXES if topic.startswith(prefix)), None)
    if rest is None:
        return {topic}
    read = ConsumerOffset.objects.filter(group=rest).exclude(topic__startswith="%").order_by()
    popped = {rest[at + 1 :] for at, letter in enumerate(rest) if letter in POP_SEPARATORS}
    return popped | set(read.values_list("topic", flat=True).distinct()[:MOST_LOOKED_UP])


def _through(admin: Admin, topic: str, wanted: MessageFilter, types: Types, ends: Mapping[int, int] | None) -> _Looked:
    parts = _parts(admin, topic, wanted)
    total = sum(part.high - part.low for part in parts)
    if ends is not None:
        # what came since the first page is newer than all of it
        for part in parts:
            part.high = max(part.low, min(part.high, ends.get(part.queue_id, part.low)))
    hits: list[Found] = []
    read, until_s = 0, time.monotonic() + PATIENCE_S
    for part in _in_turn(parts):
        first = max(part.low, part.high - STEP)
        messages = pull_all(admin, topic, part.queue_id, first, part.high - first)
        read += part.high - first
        part.high = first
        hits += [found_of(message) for message in messages if _matches(message, wanted, types)]
        if read >= READ or len(hits) >= SHOWN or time.monotonic() > until_s:
            break
    place = " ".join(f"{part.queue_id}:{part.high}" for part in parts)
    return _Looked(hits, read, sum(part.high - part.low for part in parts), total, place)


def _read_place(text: object) -> dict[int, int] | None:
    """Return the ends of queues that a place says, None: it says none, so the newest come first."""
    pairs = re.findall(r"(?a:(\d{1,9}):(\d{1,18}))", text) if isinstance(text, str) else []
    return {int(queue_id): int(high) for queue_id, high in pairs} or None


def _parts(admin: Admin, topic: str, wanted: MessageFilter) -> list[_Part]:
    """Return each queue's stretch of the range; its ends by the broker's own index of time."""
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
    """Yield the queues' parts by turns, until all are read."""
    while any(part.high > part.low for part in parts):
        yield from (part for part in parts if part.high > part.low)


def _matches(message: Message, wanted: MessageFilter, types: Types) -> bool:
    if wanted.from_ms is not None and message.store_ms < wanted.from_ms:
        return False
    if wanted.to_ms is not None and message.store_ms >= wanted.to_ms:
        return False
    if wanted.tag and message.tags != wanted.tag:
        return False
    if wanted.name and not _has(message.properties.get(wanted.name), wanted.value):
        return False
    if not wanted.text:
        return True
    body_type = types.get(topic_sent_to(message)) if types else None
    content = content_of(message.body, message.sys_flag, message.properties, body_type)
    return wanted.text.encode() in content


def _has(text: str | None, value: str) -> bool:
    return text is not None and (not value or text == value)


def found_of(message: Message, topic: str = "", *, pending: bool = False) -> Found:
    """Return a record as a hit of a search; `topic`: the one that it is sought in, where its own is another."""
    return Found(
        topic=topic or message.topic, unique_key=message.unique_key, offset_message_id=message.offset_message_id,
        keys=tuple(message.keys), tag=message.tags, store_ms=message.store_ms, size_bytes=message.size,
        pending=pending, due_ms=None, preview=row_of(message).preview,
    )  # fmt: skip
