"""Take snapshots and let old ones go: one an interval, later one an hour, in the end none.

A snapshot holds what the pages show, read as the pages read it. What cannot be read is None, with the reason beside it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from django.conf import settings
from django.db import connection

from broker.client import Admin
from console.features.groups.read import group_rows, unwatched
from console.features.schedule import read as schedule_read
from console.features.schedule.shapes import Lanes
from console.features.timers import apache_records
from console.features.timers import read as of_timers
from console.features.timers.read import forecast_of
from console.features.timers.shapes import (
    DEFAULT,
    ZOOMS,
    Forecast,
    TimerFilter,
    TimerList,
    TimersPage,
    Window,
    stretch_of_rows,
    window_of,
)
from console.features.transactions import pages as transactions_pages
from console.features.transactions.shapes import TransactionFigures
from console.security.topic_scope import EVERYTHING
from console.site.broker import ask
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
from console.site.history import History
from console.site.mirrored import Mirrored, mirrored
from console.ui.snapshots.models import Snapshot
from console.ui.snapshots.shapes import PARTS, GroupsKept, GroupTopic, Taken, TimersKept, Zoomed, pack

#: zooms that are kept: below a second the timers themselves would have to be
KEPT_ZOOMS = tuple(name for name in ZOOMS if name != "1s")
#: a snapshot is bounded: groups furthest behind first, and as many lines of a group and a topic
MOST_GROUPS = 5_000
MOST_TOPICS = 20_000

HOUR_MS = 3_600_000
#: rows that one round deletes at most: a long pause is caught up with over several rounds
BATCH = 500

_BY_TOPIC = """
    SELECT o."group", o.topic, count(*),
           CASE WHEN bool_and(q.max_offset IS NOT NULL) THEN sum(greatest(q.max_offset - o."offset", 0)) END,
           sum(o."offset"),
           CASE WHEN bool_and(q.max_offset IS NOT NULL) THEN sum(q.max_offset) END
      FROM broker_consumeroffset o
      LEFT JOIN broker_queue q ON q.broker_id = o.broker_id AND q.topic = o.topic AND q.queue_id = o.queue_id
     WHERE o.broker_id = %(broker)s AND o."group" = ANY(%(groups)s)
     GROUP BY o."group", o.topic
     ORDER BY o."group", o.topic
     LIMIT %(most)s
"""

#: of each hour that is past the first limit one snapshot stays: the first that knows its lanes, else the first
_THINNED = """
    DELETE FROM console_snapshot WHERE id IN (
        SELECT id FROM (
            SELECT id, row_number() OVER (PARTITION BY broker, at_ms / %(hour)s ORDER BY lanes IS NULL, at_ms) AS place
              FROM console_snapshot WHERE at_ms < %(each_until)s
        ) numbered WHERE place > 1 LIMIT %(batch)s)
"""
_OLD = """
    DELETE FROM console_snapshot WHERE id IN (
        SELECT id FROM console_snapshot WHERE at_ms < %(until)s ORDER BY at_ms LIMIT %(batch)s)
"""


def take() -> Snapshot | None:
    """Take and keep the snapshot of this interval unless it was taken, and delete old ones."""
    slot_ms = _slot(now_ms())
    kept = None
    if not Snapshot.objects.filter(slot_ms=slot_ms).exists():
        taken = look()
        kept = keep(taken, slot_ms) if taken is not None else None
    thin(now_ms())
    return kept


def keep(taken: Taken, slot_ms: int | None = None) -> Snapshot:
    """Write a snapshot; of two of the same interval the first stays."""
    packed = {part: None if getattr(taken, part) is None else pack(getattr(taken, part)) for part in PARTS}
    lags = [row.lag for row in taken.groups.rows if row.lag is not None] if taken.groups else []
    row = Snapshot(
        broker=taken.broker,
        slot_ms=_slot(taken.at_ms) if slot_ms is None else slot_ms,
        at_ms=taken.at_ms,
        why=taken.why,
        lanes_pending=taken.lanes.figures.pending if taken.lanes else None,
        timers_pending=taken.timers.page.figures.pending if taken.timers else None,
        lag=sum(lags) if lags else None,
        **packed,
    )
    Snapshot.objects.bulk_create([row], ignore_conflicts=True)
    return Snapshot.objects.get(broker=row.broker, slot_ms=row.slot_ms)


def thin(at_ms: int) -> int:
    """Delete a batch of snapshots that are past their time. Returns how many."""
    each_until = at_ms - round(settings.SNAPSHOT_KEEP_H * HOUR_MS)
    until = at_ms - round(settings.SNAPSHOT_KEEP_DAYS * 24 * HOUR_MS)
    with connection.cursor() as cursor:
        cursor.execute(_OLD, {"until": until, "batch": BATCH})
        gone = cursor.rowcount
        cursor.execute(_THINNED, {"hour": HOUR_MS, "each_until": each_until, "batch": BATCH})
        return gone + cursor.rowcount


def look(zooms: tuple[str, ...] = KEPT_ZOOMS) -> Taken | None:
    """Read the present, with the Timers page at these zooms; None as long as no broker was ever seen.

    Without any zoom it reads sums alone, for a comparison: no wheel, not how long decisions took, nor how
    fast groups are.
    """
    here = mirrored()
    if not here.name:
        return None
    why: dict[str, str] = {}
    trouble = _trouble(here)
    if trouble is not None:
        why = dict.fromkeys(("lanes", "groups"), trouble.value)
    timers = _timers(here, zooms, why)
    halves = _transactions(why, sums_only=not zooms)
    return Taken(
        broker=here.name,
        at_ms=here.now_ms,
        lanes=None if trouble else _lanes(),
        timers=timers,
        transactions=halves,
        groups=None if trouble else _groups(here, sums_only=not zooms),
        why=why,
    )


def _trouble(here: Mirrored) -> StaleReason | None:
    """Return why the mirror's rows cannot be used; a mirror that is behind by less than the interval can."""
    reason = here.evidence(polled_by=()).stale_reason
    if reason is StaleReason.MIRROR_BEHIND and here.as_of_ms is not None:
        interval_ms = max(settings.SNAPSHOT_EVERY_S, 60) * 1000
        return reason if here.now_ms - here.as_of_ms > interval_ms else None
    return reason


def _lanes() -> Lanes:
    """Return the lanes without their rates of five minutes, which earlier snapshots show better."""
    found = schedule_read.lanes()
    return replace(found, lanes=tuple(replace(lane, released=History()) for lane in found.lanes))


def _timers(here: Mirrored, zooms: tuple[str, ...], why: dict[str, str]) -> TimersKept | None:
    page = of_timers.timers.within(EVERYTHING, DEFAULT) if zooms else of_timers.timer_sums.within(EVERYTHING)
    if page.evidence.stale_reason is not None:
        why["timers"] = page.evidence.stale_reason.value
        return None
    return timers_kept(here, page, zooms)


def timers_kept(here: Mirrored, page: TimersPage, zooms: tuple[str, ...] = KEPT_ZOOMS) -> TimersKept:
    """Return the Timers page with its zooms, without what fires next, which has keys, and without bars of single
    topics."""
    first = page.first
    nothing = TimerList(
        page.evidence, page.now_ms, TimerFilter(), (), newest_read=first.newest_read, records=first.records
    )
    topics = tuple(replace(row, lateness=row.lateness and replace(row.lateness, histogram=())) for row in page.topics)
    page = replace(page, first=nothing, topics=topics, forecast=None)
    return TimersKept(page, _pulled(here, page, zooms) if page.polled else _forecasts(here, page, zooms))


def _forecasts(here: Mirrored, page: TimersPage, zooms: tuple[str, ...]) -> tuple[Zoomed, ...]:
    found = []
    for name in zooms:
        window = window_of(name, None, page.now_ms)
        forecast, _ = ask(partial(_forecast, window), source=here.name, requests=())
        if forecast is not None:
            found.append(Zoomed(name, forecast))
    return tuple(found)


def _forecast(window: Window, admin: Admin) -> Forecast:
    return forecast_of(admin, window)


def _pulled(here: Mirrored, page: TimersPage, zooms: tuple[str, ...]) -> tuple[Zoomed, ...]:
    newest, _ = ask(apache_records.read_newest, source=here.name, requests=())
    if newest is None:
        return ()
    windows = [window_of(name, None, page.now_ms) for name in zooms]
    return tuple(
        Zoomed(each.zoom.name, strip=stretch_of_rows(newest.rows, each.start_ms, each.zoom.span_ms, each.zoom.step_ms))
        for each in windows
    )


def _transactions(why: dict[str, str], *, sums_only: bool) -> TransactionFigures | None:
    page = (transactions_pages.transaction_sums if sums_only else transactions_pages.read_transactions).within(
        EVERYTHING
    )
    evidence: Evidence = page.evidence
    if evidence.stale_reason is not None:
        why["transactions"] = evidence.stale_reason.value
        return None
    return page.figures


def _groups(here: Mirrored, *, sums_only: bool) -> GroupsKept:
    found = group_rows.within(EVERYTHING, here, watched=unwatched if sums_only else None)
    rows = sorted(found, key=lambda row: (-(row.lag or 0), row.name))
    kept = rows[:MOST_GROUPS]
    names = [row.name for row in kept]
    with connection.cursor() as cursor:
        cursor.execute(_BY_TOPIC, {"broker": here.name, "groups": names, "most": MOST_TOPICS})
        lines = tuple(
            GroupTopic(group, topic, queues, _whole(lag), int(offsets), _whole(ends))
            for group, topic, queues, lag, offsets, ends in cursor.fetchall()
        )
    return GroupsKept(tuple(kept), lines, left_out=len(rows) - len(kept))


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))


def _slot(at_ms: int) -> int:
    every_ms = max(1, round((settings.SNAPSHOT_EVERY_S or 60) * 1000))
    return at_ms - at_ms % every_ms
