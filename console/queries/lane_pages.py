"""Reads one lane: its pending messages in due order, page by page, from the broker."""

from __future__ import annotations

from broker.client import Admin, Message
from broker.client.types import QueueEntries, QueueEntry
from console.queries.asking import ask
from console.queries.contents import pull_all
from console.queries.mirrored import mirrored
from console.queries.schedule import lane_of, levels
from console.queries.shapes.lane import MAX_PAGE_COUNT, PAGE_COUNT, LanePage, ParkedMessage

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
#: delay offsets, queue entries, pull
PAGE_REQUESTS = (45, 321, 11)

Page = tuple[int, QueueEntries, list[Message]]


def lane(level: int, offset: int | None = None, count: int = PAGE_COUNT) -> LanePage:
    """A page of one lane; offset None begins at the first pending message."""
    here = mirrored()
    row = next((row for row in levels(here) if row.level == level), None)
    count = min(max(count, 1), MAX_PAGE_COUNT)
    if row is None:
        evidence = here.evidence(polled_by=PAGE_REQUESTS)
        return LanePage(evidence, here.now_ms, here.name, None, offset or 0, count, (), None, None, None, None)
    drawn = lane_of(row, here, here.histories("level", [str(level)])[str(level)])
    asked = row.delay_offset or 0 if offset is None else offset
    page, evidence = ask(lambda admin: _read(admin, level, offset, count), source=here.name, requests=PAGE_REQUESTS)
    if page is None:
        return LanePage(evidence, here.now_ms, here.name, drawn, asked, count, (), None, None, None, None)
    released, entries, records = page
    first = entries.entries[0].offset if entries.entries else asked
    by_offset = {record.queue_offset: record for record in records}
    messages = tuple(_parked(entry, by_offset.get(entry.offset), released) for entry in entries.entries)
    after = first + len(messages)
    last = max(entries.min_offset, entries.max_offset - count)
    return LanePage(
        evidence=evidence,
        now_ms=here.now_ms,
        broker=here.name,
        lane=drawn,
        offset=first,
        count=count,
        messages=messages,
        first_offset=released if first > released else None,
        previous_offset=max(entries.min_offset, first - count) if first > entries.min_offset else None,
        next_offset=after if messages and after < entries.max_offset else None,
        last_offset=last if messages and after < entries.max_offset else None,
    )


def _read(admin: Admin, level: int, offset: int | None, count: int) -> Page:
    released = admin.delay_offsets().get(level, 0)
    wanted = released if offset is None else max(0, offset)
    entries = admin.queue_entries(SCHEDULE_TOPIC, level - 1, wanted, count)
    if not entries.entries:
        return released, entries, []
    return (
        released,
        entries,
        pull_all(admin, SCHEDULE_TOPIC, level - 1, entries.entries[0].offset, len(entries.entries)),
    )


def _parked(entry: QueueEntry, record: Message | None, released: int) -> ParkedMessage:
    properties = record.properties if record else {}
    queue_id = properties.get("REAL_QID", "")
    return ParkedMessage(
        offset=entry.offset,
        position=entry.position,
        size_bytes=entry.size_bytes,
        due_ms=entry.tags_code,
        released=entry.offset < released,
        real_topic=properties.get("REAL_TOPIC"),
        real_queue_id=int(queue_id) if queue_id.isdigit() else None,
        keys=tuple(record.keys) if record else (),
        tag=record.tags if record else None,
        unique_key=record.unique_key if record else None,
        offset_message_id=record.offset_message_id if record else None,
        store_ms=record.store_ms if record else None,
        born_ms=record.born_ms if record else None,
    )
