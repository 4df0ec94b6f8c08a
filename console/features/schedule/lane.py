"""Read one lane: its pending messages in due order, page by page, from the broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from broker.client import Admin, Message
from broker.client.admin import QueueEntries, QueueEntry
from broker.rocketmq.properties import REAL_QUEUE_ID, REAL_TOPIC
from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.features.schedule.read import lane_of, levels
from console.features.schedule.shapes import MAX_PAGE_COUNT, PAGE_COUNT, LanePage, ParkedMessage
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask, pull_all
from console.site.mirrored import mirrored
from console.site.reading_on import fill

#: delay offsets, queue entries, pull
PAGE_REQUESTS = (45, 321, 11)

#: the way back is looked for among so many before a page, and for so long
BEFORE, BEFORE_S = 2_000, 0.5

Page = tuple[int, QueueEntries, list[Message]]
Keep = Callable[[ParkedMessage], bool]


@authorised
def lane(scope: TopicScope, level: int, offset: int | None = None, count: int = PAGE_COUNT) -> LanePage:
    """Return a page of one lane; offset None begins at the first pending message."""
    hide = masks()
    found = _lane(level, offset, count, None if scope.see_all else lambda row: scope.topic(row.real_topic))
    return replace(found, messages=tuple(hide.row(row, row.real_topic) for row in found.messages))


def _lane(level: int, offset: int | None, count: int, keep: Keep | None) -> LanePage:
    """Return a page of one lane; with `keep`, of those that it takes."""
    here = mirrored()
    row = next((row for row in levels(here) if row.level == level), None)
    count = min(max(count, 1), MAX_PAGE_COUNT)
    if row is None:
        evidence = here.evidence(polled_by=PAGE_REQUESTS)
        return LanePage(evidence, here.now_ms, here.name, None, offset or 0, count, (), None, None, None, None)
    drawn = lane_of(row, here, here.histories("level", [str(level)])[str(level)])
    asked = row.delay_offset or 0 if offset is None else offset
    if keep is not None:
        part, evidence = ask(
            lambda admin: _part(admin, level, offset, count, keep), source=here.name, requests=PAGE_REQUESTS
        )
        part = part or _Part(asked)
        return LanePage(
            evidence, here.now_ms, here.name, drawn, part.offset, count, part.messages, part.first_offset,
            part.previous_offset, part.next_offset, part.last_offset, part.looked,
        )  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class _Part:
    """What a page shows of the messages that are kept."""

    offset: int
    messages: tuple[ParkedMessage, ...] = ()
    first_offset: int | None = None
    previous_offset: int | None = None
    next_offset: int | None = None
    last_offset: int | None = None
    looked: int = 0


def _part(admin: Admin, level: int, offset: int | None, count: int, keep: Keep) -> _Part:
    """A page of kept ones; behind the last of them, their last page."""
    read = partial(_stretch, admin, level)
    released = admin.delay_offsets().get(level, 0)
    asked = released if offset is None else max(0, offset)
    found = fill(read, _rows_of, keep, asked, count, MAX_PAGE_COUNT)
    low, high = found.page[1].min_offset, found.page[1].max_offset
    before = _before(read, asked, low, count, keep)
    if offset is not None and not found.rows and found.following is None and before is not None:
        asked, found = before, fill(read, _rows_of, keep, before, count, MAX_PAGE_COUNT)
        before = _before(read, asked, low, count, keep)
    return _Part(
        offset=found.rows[0].offset if found.rows else asked,
        messages=found.rows,
        first_offset=released if asked > released else None,
        previous_offset=before,
        next_offset=found.following,
        last_offset=None if found.following is None else max(found.following, high - count),
        looked=found.looked,
    )


def _before(read: Callable[[int, int], Page], end: int, low: int, count: int, keep: Keep) -> int | None:
    """Where the page of kept ones before `end` begins; where the look ended if it found less; None: nothing is there"""
    until_s = time.monotonic() + BEFORE_S
    hits: list[int] = []
    high = end
    while high > low:
        first = max(low, high - MAX_PAGE_COUNT)
        rows, _ = _rows_of(read(first, high - first))
        hits += [row.offset for row in reversed(rows) if row.offset < high and keep(row)]
        if len(hits) >= count:
            return hits[count - 1]
        high = first
        if high > low and (end - high >= BEFORE or time.monotonic() > until_s):
            return high
    return hits[-1] if hits else None


def _stretch(admin: Admin, level: int, place: int | None, count: int) -> Page:
    return _read(admin, level, place, count)


def _rows_of(page: Page) -> tuple[list[ParkedMessage], int | None]:
    """The messages of a stretch, and where the next one begins."""
    released, entries, records = page
    by_offset = {record.queue_offset: record for record in records}
    rows = [_parked(entry, by_offset.get(entry.offset), released) for entry in entries.entries]
    following = rows[-1].offset + 1 if rows else entries.max_offset
    return rows, following if following < entries.max_offset else None


def _parked(entry: QueueEntry, record: Message | None, released: int) -> ParkedMessage:
    properties = record.properties if record else {}
    queue_id = properties.get(REAL_QUEUE_ID, "")
    return ParkedMessage(
        offset=entry.offset,
        position=entry.position,
        size_bytes=entry.size_bytes,
        due_ms=entry.tags_code,
        released=entry.offset < released,
        real_topic=properties.get(REAL_TOPIC),
        real_queue_id=int(queue_id) if queue_id.isdigit() else None,
        keys=tuple(record.keys) if record else (),
        tag=record.tags if record else None,
        unique_key=record.unique_key if record else None,
        offset_message_id=record.offset_message_id if record else None,
        store_ms=record.store_ms if record else None,
        born_ms=record.born_ms if record else None,
    )
