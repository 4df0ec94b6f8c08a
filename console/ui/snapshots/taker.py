"""Reads everything that a snapshot holds, as the pages read it: what cannot be read is None, with the reason."""

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
from console.features.timers.shapes import Forecast, TimerFilter, TimerList, TimersPage
from console.features.timers.wheel import forecast_of, stretch_of_rows
from console.features.timers.zoom import DEFAULT, ZOOMS, Window, window_of
from console.features.transactions import read as transactions_read
from console.features.transactions.shapes import TransactionFigures
from console.site.broker import ask
from console.site.evidence import Evidence, StaleReason
from console.site.history import History
from console.site.mirrored import Mirrored, mirrored
from console.ui.snapshots.shapes import GroupsKept, GroupTopic, Taken, TimersKept, Zoomed

#: zooms that are kept: below a second the timers themselves would have to be
KEPT_ZOOMS = tuple(name for name in ZOOMS if name != "1s")
#: a snapshot is bounded: groups furthest behind first, and as many lines of a group and a topic
MOST_GROUPS = 5_000
MOST_TOPICS = 20_000

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


def look(zooms: tuple[str, ...] = KEPT_ZOOMS) -> Taken | None:
    """The present, with the Timers page at these zooms; None as long as no broker was ever seen.

    Without any zoom it is sums alone, as two moments are compared by: no wheel, not how long decisions took, nor how
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
    """Why the mirror's rows are not this moment's; a mirror that is behind by less than the interval is good enough."""
    reason = here.evidence(polled_by=()).stale_reason
    if reason is StaleReason.MIRROR_BEHIND and here.as_of_ms is not None:
        interval_ms = max(settings.SNAPSHOT_EVERY_S, 60) * 1000
        return reason if here.now_ms - here.as_of_ms > interval_ms else None
    return reason


def _lanes() -> Lanes:
    """Without the lines of five minutes: the snapshots before it say more."""
    found = schedule_read.lanes()
    return replace(found, lanes=tuple(replace(lane, released=History()) for lane in found.lanes))


def _timers(here: Mirrored, zooms: tuple[str, ...], why: dict[str, str]) -> TimersKept | None:
    page = of_timers.timers(DEFAULT) if zooms else of_timers.timer_sums()
    if page.evidence.stale_reason is not None:
        why["timers"] = page.evidence.stale_reason.value
        return None
    return timers_kept(here, page, zooms)


def timers_kept(here: Mirrored, page: TimersPage, zooms: tuple[str, ...] = KEPT_ZOOMS) -> TimersKept:
    """The page with its zooms; what fires next has keys and is not kept, nor are the bars of single topics."""
    first = page.first
    nothing = TimerList(
        page.evidence, page.now_ms, TimerFilter(), (), newest_read=first.newest_read, records=first.records
    )  # fmt: skip
    topics = tuple(
        replace(row, lateness=row.lateness and replace(row.lateness, histogram=())) for row in page.topics
    )  # fmt: skip
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
    page = transactions_read.transaction_sums() if sums_only else transactions_read.transactions()
    evidence: Evidence = page.evidence
    if evidence.stale_reason is not None:
        why["transactions"] = evidence.stale_reason.value
        return None
    return page.figures


def _groups(here: Mirrored, *, sums_only: bool) -> GroupsKept:
    found = group_rows(here, watched=unwatched if sums_only else None)
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
