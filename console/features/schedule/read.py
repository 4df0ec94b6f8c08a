"""Read the lanes: all of them from the mirror without a request to the broker, and one from the broker.

The pending messages of one are read in due order, page by page.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from broker.client import Admin, Message
from broker.client.admin import QueueEntries, QueueEntry
from broker.mirror.models import ScheduleLevel
from broker.mirror.watch import Mark, due_by, paired
from broker.rocketmq.codes import Request
from broker.rocketmq.properties import REAL_QUEUE_ID, REAL_TOPIC
from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.features.schedule.shapes import (
    EDGES_MS,
    MAX_PAGE_COUNT,
    PAGE_COUNT,
    DueSpread,
    Lane,
    LaneFigures,
    LanePage,
    Lanes,
    LaneState,
    NextMinute,
    ParkedMessage,
)
from console.features.schedule.total import in_total, is_unsaved, minute_of_all, sum_of, total_of, typical
from console.past import Moment, evidence_of, parts_at
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask, pull_all, read_each
from console.site.evidence import Evidence, joined
from console.site.merged import Part, Place, merged, read_cursor
from console.site.mirrored import Cluster, History, Mirrored, alone, cluster, mirrored
from console.site.reading_on import fill

#: what an Apache RocketMQ broker is asked for a lane
LANE_REQUESTS = (Request.GET_TOPIC_STATS_INFO, Request.GET_ALL_DELAY_OFFSET, Request.QUERY_CONSUME_QUEUE)
#: a head that is overdue by more is behind, not just being released
LATE_MS = 1_000
#: a p99 lateness above this deserves a look: RocketMQ, which looks at its lanes every 100 ms, is later as a rule
LATENESS_LIMIT_MS = 100.0
#: RocketMQ saves every 10 s; three times missed deserves a look
UNSAVED_LIMIT_MS = 30_000


def lanes() -> Lanes:
    """Return all lanes, of several brokers in total: counts and moments, no names."""
    return lanes_of(cluster())


def lanes_of(of: Cluster) -> Lanes:
    """Return the lanes of these brokers, in total."""
    rows = _rows(of)
    return _total(of, rows, _released(of, rows))


def lanes_with_parts(of: Cluster) -> tuple[Lanes, Mapping[str, tuple[Lane, ...]]]:
    """Return the lanes in total, and by broker those of each, as of the moment of its own rows."""
    rows = _rows(of)
    released = _released(of, rows)
    parts = {here.name: tuple(_drawn(here, rows, released, here.as_of_ms)) for here in of.brokers}
    return _total(of, rows, released), parts


#: rates of release by broker and level
_Released = Mapping[str, Mapping[str, History]]


def _released(of: Cluster, rows: Sequence[ScheduleLevel]) -> _Released:
    return {
        here.name: here.histories("level", [str(row.level) for row in rows if row.broker_id == here.name])
        for here in of.brokers
    }


def _drawn(here: Mirrored, rows: Sequence[ScheduleLevel], released: _Released, at_ms: int | None) -> Iterator[Lane]:
    """Yield the lanes of one broker, level 1 first."""
    for row in rows:
        if row.broker_id == here.name:
            yield lane_of(row, here, released[here.name][str(row.level)], at_ms)


def _total(of: Cluster, rows: Sequence[ScheduleLevel], released: _Released) -> Lanes:
    """Return the lanes of all rows, those of several brokers in total, all as of the same moment."""
    at_ms, started = _as_of_ms(of), [here.broker.started_ms for here in of.brokers if here.broker]
    each = [(here.name, lane) for here in of.brokers for lane in _drawn(here, rows, released, at_ms)]
    drawn = in_total(each, len(of.brokers)) if of.has_several else tuple(lane for _broker, lane in each)
    return Lanes(
        of.evidence(polled_by=LANE_REQUESTS),
        of.now_ms,
        of.source if of.brokers else "",
        _figures(drawn, min((moment for moment in started if moment is not None), default=None)),
        drawn,
        _minute(rows, at_ms) if at_ms is not None else None,
        of.evidence(polled_by=LANE_REQUESTS, exact=False),
        has_several=of.has_several,
    )


def _as_of_ms(of: Cluster) -> int | None:
    """Return the moment of the newest rows."""
    return max((here.as_of_ms for here in of.brokers if here.as_of_ms is not None), default=None)


def highest_level() -> int:
    """Return the number of the last level, 0 while none is known."""
    return max((row.level for row in _rows(cluster())), default=0)


def _rows(of: Cluster) -> list[ScheduleLevel]:
    """Return the levels' rows of all brokers, level 1 first."""
    return list(ScheduleLevel.objects.filter(broker__in=of.names).order_by("level", "broker"))


def levels(here: Mirrored) -> list[ScheduleLevel]:
    """Return the levels' rows, level 1 first."""
    return list(ScheduleLevel.objects.filter(broker=here.name).order_by("level"))


def lane_of(row: ScheduleLevel, here: Mirrored, released: History, at_ms: int | None = None) -> Lane:
    """Return the lane of a level as the pages draw it: at the moment of its rows, or at that of other brokers'."""
    as_of_ms = at_ms or here.as_of_ms or here.now_ms
    backlog = _backlog(row)
    rate = row.released_per_s if row.released_per_s is not None else released.latest
    return Lane(
        level=row.level,
        delay_ms=row.delay_ms,
        state=_state(row, backlog, as_of_ms),
        backlog=backlog,
        next_due_ms=row.next_due_ms,
        oldest_store_ms=row.oldest_store_ms,
        min_offset=row.min_offset,
        delay_offset=row.delay_offset,
        persisted_offset=row.persisted_offset,
        persisted_ms=row.persisted_ms,
        end_offset=row.max_offset,
        spread=_spread(row, as_of_ms),
        released_per_s=rate,
        released=released,
        released_total=row.released_total,
        lateness_p50_ms=row.lateness_p50_ms,
        lateness_p99_ms=row.lateness_p99_ms,
        early_total=row.early_total,
        warnings=frozenset(_warnings(row, as_of_ms)),
    )


def _figures(drawn: Sequence[Lane], started_ms: int | None) -> LaneFigures:
    """Return the strip above the lanes; its figures are None where nothing is known."""
    waiting = [lane for lane in drawn if lane.next_due_ms is not None]
    first = min(waiting, key=lambda lane: lane.next_due_ms or 0, default=None)
    late = [lane for lane in drawn if lane.lateness_p99_ms is not None]
    worst = max(late, key=lambda lane: lane.lateness_p99_ms or 0, default=None)
    unsaved = [lane for lane in drawn if is_unsaved(lane)]
    oldest = min(unsaved, key=lambda lane: lane.persisted_ms or 0, default=None)
    return LaneFigures(
        pending=sum_of([lane.backlog for lane in drawn]),
        released_per_s=sum_of([lane.released_per_s for lane in drawn]),
        next_due_ms=first.next_due_ms if first else None,
        next_due_level=first.level if first else None,
        lateness_p50_ms=typical(drawn),
        lateness_p99_ms=worst.lateness_p99_ms if worst else None,
        lateness_p99_level=worst.level if worst else None,
        early_total=sum_of([lane.early_total for lane in drawn]),
        started_ms=started_ms,
        persisted_oldest_ms=oldest.persisted_ms if oldest else None,
        persisted_oldest_level=oldest.level if oldest else None,
    )


def _minute(rows: Sequence[ScheduleLevel], start: int) -> NextMinute | None:
    """Count messages due in each of the 60 seconds from a moment on, levels of several brokers added up.

    None while a waiting lane's due times are unknown.
    """
    moments = [start + 1_000 * second for second in range(1, 61)]
    by_level: dict[int, list[int]] = {}
    for row in rows:
        if not _backlog(row):
            continue
        points = _points(row)
        if not points:
            return None
        steps = _steps(_due(row, points, moments))
        others = by_level.get(row.level, [0] * len(steps))
        by_level[row.level] = [count + other for count, other in zip(steps, others, strict=True)]
    counts = tuple(sum(column) for column in zip(*by_level.values(), strict=True)) or (0,) * 60
    peak = max(range(60), key=lambda second: counts[second]) if any(counts) else None
    level = max(by_level, key=lambda number: by_level[number][peak]) if peak is not None else None
    return NextMinute(start, counts, peak, level, exact=False)


def next_of_lanes(of: Cluster) -> tuple[str, int] | None:
    """Return the broker with the next message on a lane, and when it is due, by one query; None: none is known."""
    rows = ScheduleLevel.objects.filter(broker__in=of.names, next_due_ms__isnull=False).order_by("next_due_ms")
    first = rows.values_list("broker", "next_due_ms").first()
    return (first[0], first[1]) if first is not None and first[1] is not None else None


def due_by_broker(of: Cluster, moments_ms: Sequence[int]) -> dict[str, list[int] | None]:
    """Return by broker how many messages of its lanes are due at or before each of these ascending moments.

    None: nothing is known of its lanes, or not when what waits on one of them is due.
    """
    rows, found = _rows(of), dict[str, list[int] | None]()
    for here in of.brokers:
        lanes = [row for row in rows if row.broker_id == here.name]
        counts = [_lane_due(row, moments_ms) for row in lanes]
        known = [each for each in counts if each is not None]
        is_known = bool(lanes) and len(known) == len(lanes)
        found[here.name] = [sum(column) for column in zip(*known, strict=True)] if is_known else None
    return found


def _lane_due(row: ScheduleLevel, moments_ms: Sequence[int]) -> list[int] | None:
    backlog, points = _backlog(row), _points(row)
    if backlog is None or (backlog and not points):
        return None
    if not backlog:
        return [0] * len(moments_ms)
    # behind the last one that waits nothing changes any more
    ahead = bisect_left(moments_ms, points[-1][1])
    return [*_due(row, points, moments_ms[:ahead]), *[backlog] * (len(moments_ms) - ahead)]


def _backlog(row: ScheduleLevel) -> int | None:
    if row.delay_offset is None or row.max_offset is None:
        return None
    return max(0, row.max_offset - row.delay_offset)


def _state(row: ScheduleLevel, backlog: int | None, as_of_ms: int) -> LaneState:
    if backlog is None:
        return LaneState.UNKNOWN
    if row.max_offset == 0:
        return LaneState.NEVER_USED
    if backlog == 0:
        return LaneState.EMPTY
    late = row.next_due_ms is not None and row.next_due_ms < as_of_ms - LATE_MS
    return LaneState.LATE if late else LaneState.WAITING


def _points(row: ScheduleLevel) -> list[Mark]:
    """Return the marks from the first pending entry on."""
    marks = list(paired(row.marks))
    if row.next_due_ms is None or row.delay_offset is None:
        return marks
    ahead = [mark for mark in marks if mark[1] > row.next_due_ms and mark[0] >= row.delay_offset]
    return [(row.delay_offset, row.next_due_ms), *ahead]


def _due(row: ScheduleLevel, points: Sequence[Mark], moments: Sequence[int]) -> list[int]:
    return due_by(moments, delay_offset=row.delay_offset or 0, end_offset=row.max_offset or 0, points=points)


def _steps(rising: Sequence[int]) -> list[int]:
    return [count - before for before, count in zip([0, *rising], rising, strict=False)]


def _spread(row: ScheduleLevel, as_of_ms: int) -> DueSpread | None:
    backlog, points = _backlog(row), _points(row)
    if backlog is None or (backlog and not points):
        return None
    moments = [as_of_ms, *(as_of_ms + edge for edge in EDGES_MS)]
    overdue, *rising = _due(row, points, moments)
    counts = tuple(_steps(rising))
    return DueSpread(counts, beyond=backlog - rising[-1], overdue=overdue, exact=backlog <= 1)


def _warnings(row: ScheduleLevel, as_of_ms: int) -> list[str]:
    found = []
    if row.lateness_p99_ms is not None and row.lateness_p99_ms > LATENESS_LIMIT_MS:
        found.append("p99")
    unsaved = row.persisted_offset is not None and row.persisted_offset != row.delay_offset
    if unsaved and row.persisted_ms is not None and as_of_ms - row.persisted_ms > UNSAVED_LIMIT_MS:
        found.append("persisted")
    if row.next_due_ms is not None and row.next_due_ms < as_of_ms - LATE_MS:
        found.append("late")
    return found


PAGE_REQUESTS = (Request.GET_ALL_DELAY_OFFSET, Request.QUERY_CONSUME_QUEUE, Request.PULL_MESSAGE)

#: the way back is looked for among so many before a page, and for so long
BEFORE, BEFORE_S = 2_000, 0.5

Page = tuple[int, QueueEntries, list[Message]]
Keep = Callable[[ParkedMessage], bool]


@authorised
def lane(scope: TopicScope, level: int, place: Place | None = None, count: int = PAGE_COUNT) -> LanePage:
    """Return a page of one lane; `place` is the offset that it begins at, of several brokers a page's cursor.

    Without it begins at the first pending message.
    """
    hide = masks()
    keep: Keep | None = None if scope.see_all else lambda row: scope.topic(row.real_topic)
    of = cluster()
    if of.has_several:
        found = _lane_of_several(of, level, place if isinstance(place, str) else None, count, keep)
    else:
        found = _lane(of, level, place if isinstance(place, int) else None, count, keep)
    return replace(found, messages=tuple(hide.row(row, row.real_topic) for row in found.messages))


def _lane_of_several(of: Cluster, level: int, cursor: str | None, count: int, keep: Keep | None) -> LanePage:
    """Return a page of the lanes of all brokers with this level, merged by due time."""
    rows = [row for row in _rows(of) if row.level == level]
    count = min(max(count, 1), MAX_PAGE_COUNT)
    empty = LanePage(
        of.evidence(polled_by=PAGE_REQUESTS), of.now_ms, of.source, None, 0, count, (), None, None, None, None,
        has_several=True,
    )  # fmt: skip
    if not rows:
        return empty
    by_name, at_ms = {here.name: here for here in of.brokers}, _as_of_ms(of)
    lanes = []
    for row in rows:
        here = by_name[row.broker_id]
        history = here.histories("level", [str(level)])[str(level)]
        lanes.append((here.name, lane_of(row, here, history, at_ms)))
    page = replace(empty, lane=total_of(lanes, len(of.brokers)))

    def read(place: str | None, step: int) -> LanePage:
        return _merged(page, of, level, place, step)

    if keep is None:
        return read(cursor, count)
    found = fill(read, lambda part: (part.messages, part.cursor), keep, cursor, count, MAX_PAGE_COUNT)
    return replace(found.page, messages=found.rows, cursor=found.following, looked=found.looked)


def _merged(page: LanePage, of: Cluster, level: int, cursor: str | None, count: int) -> LanePage:
    """Return the page with the messages at a cursor: each broker is asked for as many as all of them give."""
    places = read_cursor(cursor) or {}
    names = {part.broker for part in page.lane.parts} if page.lane else set()

    def read(here: Mirrored) -> tuple[Part[ParkedMessage] | None, Evidence]:
        place = places.get(here.name)
        if here.name not in names or (here.name in places and place is None):
            return Part(here.name, (), None), here.evidence(polled_by=PAGE_REQUESTS)
        offset = place if isinstance(place, int) else None
        found, evidence = ask(
            lambda admin: _rows_of(_read(admin, level, offset, count), here.name),
            source=here.name, requests=PAGE_REQUESTS,
        )  # fmt: skip
        return None if found is None else Part(here.name, *found), evidence

    read_by_broker = read_each(read, of)
    parts = [part for part, _evidence in read_by_broker if part is not None]
    whole = merged(parts, before=places, key=lambda row: row.due_ms, place=lambda row: row.offset + 1, count=count)
    evidence = joined(of.source, [evidence for _part, evidence in read_by_broker])
    return replace(page, evidence=evidence, messages=whole.rows, cursor=whole.cursor)


def _lane(of: Cluster, level: int, offset: int | None, count: int, keep: Keep | None) -> LanePage:
    """Return a page of one lane of one broker; with `keep`, of those that it takes."""
    here = of.brokers[0] if of.brokers else Mirrored(of.now_ms, None, None)
    row = next((row for row in levels(here) if row.level == level), None)
    count = min(max(count, 1), MAX_PAGE_COUNT)
    if row is None:
        evidence = here.evidence(polled_by=PAGE_REQUESTS)
        return LanePage(evidence, here.now_ms, here.name, None, offset or 0, count, (), None, None, None, None)
    drawn = lane_of(row, here, here.histories("level", [str(level)])[str(level)])
    asked = row.delay_offset or 0 if offset is None else offset
    if keep is not None:
        part, evidence = ask(
            lambda admin: _part(admin, level, offset, count, keep, here.name), source=here.name, requests=PAGE_REQUESTS
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
    messages = tuple(_parked(entry, by_offset.get(entry.offset), released, here.name) for entry in entries.entries)
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
    """The part of the kept messages that a page shows."""

    offset: int
    messages: tuple[ParkedMessage, ...] = ()
    first_offset: int | None = None
    previous_offset: int | None = None
    next_offset: int | None = None
    last_offset: int | None = None
    looked: int = 0


def _part(admin: Admin, level: int, offset: int | None, count: int, keep: Keep, broker: str) -> _Part:
    """Return a page of kept ones; behind the last of them, their last page."""
    read, rows_of = partial(_read, admin, level), partial(_rows_of, broker=broker)
    released = admin.delay_offsets().get(level, 0)
    asked = released if offset is None else max(0, offset)
    found = fill(read, rows_of, keep, asked, count, MAX_PAGE_COUNT)
    low, high = found.page[1].min_offset, found.page[1].max_offset
    before = _before(read, asked, low, count, keep)
    if offset is not None and not found.rows and found.following is None and before is not None:
        asked, found = before, fill(read, rows_of, keep, before, count, MAX_PAGE_COUNT)
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
    """Return where the page of kept ones before `end` begins, or where the look ended; None: nothing is there."""
    until_s = time.monotonic() + BEFORE_S
    hits: list[int] = []
    high = end
    while high > low:
        first = max(low, high - MAX_PAGE_COUNT)
        rows, _ = _rows_of(read(first, high - first), "")
        hits += [row.offset for row in reversed(rows) if row.offset < high and keep(row)]
        if len(hits) >= count:
            return hits[count - 1]
        high = first
        if high > low and (end - high >= BEFORE or time.monotonic() > until_s):
            return high
    return hits[-1] if hits else None


def _rows_of(page: Page, broker: str) -> tuple[list[ParkedMessage], int | None]:
    """Return the messages of a stretch, and where the next one begins."""
    released, entries, records = page
    by_offset = {record.queue_offset: record for record in records}
    rows = [_parked(entry, by_offset.get(entry.offset), released, broker) for entry in entries.entries]
    following = rows[-1].offset + 1 if rows else entries.max_offset
    return rows, following if following < entries.max_offset else None


def _parked(entry: QueueEntry, record: Message | None, released: int, broker: str) -> ParkedMessage:
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
        broker=broker,
    )


def kept_lanes() -> Lanes:
    """Return one broker's lanes as a snapshot keeps them, without their rates: earlier snapshots show those better."""
    found = lanes_of(alone(mirrored()))
    return replace(found, lanes=tuple(replace(lane, released=History()) for lane in found.lanes))


def lanes_at(asked_ms: int) -> tuple[Moment, Lanes | None]:
    """Return all lanes at an earlier moment, as its snapshots have them, of several brokers in total."""
    moment, parts = parts_at(asked_ms, "lanes", Lanes)
    if not parts:
        return moment, None
    found = lanes_together(parts, moment.broker) if moment.has_several else parts[0][1]
    evidence = evidence_of(moment)
    return moment, replace(found, evidence=evidence, next_minute_evidence=evidence)


def lanes_together(parts: Sequence[tuple[str, Lanes]], source: str) -> Lanes:
    """Return the lanes of several brokers in total, each as it was kept."""
    newest = max((kept for _broker, kept in parts), key=lambda kept: kept.now_ms)
    started = [kept.figures.started_ms for _broker, kept in parts if kept.figures.started_ms is not None]
    drawn = in_total([(broker, lane) for broker, kept in parts for lane in kept.lanes], len(parts))
    return replace(
        newest,
        broker=source,
        figures=_figures(drawn, min(started, default=None)),
        lanes=drawn,
        next_minute=minute_of_all([kept.next_minute for _broker, kept in parts]),
        has_several=True,
    )
