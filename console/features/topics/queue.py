"""Reads the messages of one queue, from the broker."""

from __future__ import annotations

from broker.client import Admin, Message
from console.features.topics.shapes import MessageRow, QueueMessages
from console.site.broker import ask
from console.site.mirrored import mirrored
from console.site.queue_contents import pull_all

#: topic stats, pull
QUEUE_REQUESTS = (202, 11)
MAX_COUNT = 200
#: characters of a text body shown in a list
PREVIEW_CHARACTERS = 80

Page = tuple[tuple[int, int] | None, int, list[Message]]


def queue_messages(topic: str, queue_id: int, offset: int | None = None, count: int = 32) -> QueueMessages:
    """Messages of one queue; offset None is the newest page."""
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
        messages=tuple(row_of(message) for message in found),
        previous_offset=max(low, first - count) if low is not None and first > low else None,
        next_offset=after if high is not None and found and after < high else None,
    )


def row_of(message: Message) -> MessageRow:
    """A message as one line."""
    return MessageRow(
        offset=message.queue_offset,
        position=message.position,
        size_bytes=message.size,
        store_ms=message.store_ms,
        born_ms=message.born_ms,
        tag=message.tags,
        keys=tuple(message.keys),
        unique_key=message.unique_key,
        offset_message_id=message.offset_message_id,
        reconsume_times=message.reconsume_times,
        preview=_preview(message),
    )


def _preview(message: Message) -> str | None:
    if message.sys_flag & 1:
        return None
    try:
        # four bytes a character at most; the last one may be cut
        text = message.body[: PREVIEW_CHARACTERS * 4].decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        if error.start < PREVIEW_CHARACTERS * 4 - 4 or len(message.body) <= PREVIEW_CHARACTERS * 4:
            return None
        text = message.body[: error.start].decode("utf-8", "strict")
    line = " ".join(text[:PREVIEW_CHARACTERS].split())
    return line if line.isprintable() else None


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
