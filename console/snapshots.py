"""Take snapshots and let old ones go: one an interval, later one an hour, in the end none.

A snapshot holds what the pages show, read as the pages read it. What cannot be read is None, with the reason beside it.
For a comparison all parts are opened again, or read of the present, those of several brokers in total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import connection

from broker.mirror.models import MirrorState
from console.features.groups import kept as groups
from console.features.groups.kept import GroupsKept, kept_groups
from console.features.schedule import read as schedule
from console.features.schedule.read import kept_lanes
from console.features.schedule.shapes import Lanes
from console.features.timers import pages as timers_pages
from console.features.timers import read as timers_read
from console.features.timers.kept import TimersKept
from console.features.timers.pages import KEPT_ZOOMS, kept_timers
from console.features.transactions import pages as transactions_pages
from console.features.transactions import total as transactions
from console.features.transactions.pages import transaction_sums
from console.features.transactions.shapes import TransactionFigures
from console.figures_taken import figures_of
from console.kept_figures import HOUR_MS, forget_figures, keep_figures
from console.past import Moment, OldPart, Snapshot, evidence_of, pack, whole_at
from console.security.topic_scope import EVERYTHING
from console.site.chosen import choice_of, choosing
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Cluster, Mirrored, alone, cluster, mirrored

#: the parts of a snapshot, as its row has them, and the shape of each
KINDS = {"lanes": Lanes, "timers": TimersKept, "transactions": TransactionFigures, "groups": GroupsKept}

#: rows that one round deletes at most: a long pause is caught up with over several rounds
BATCH = 500

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


@dataclass(frozen=True, slots=True)
class Taken:
    """The knowledge of a broker at a moment. A part that is None was not read: `why` has the StaleReason's code."""

    broker: str
    at_ms: int
    lanes: Lanes | None
    timers: TimersKept | None
    transactions: TransactionFigures | None
    groups: GroupsKept | None
    why: dict[str, str]


def take() -> list[Snapshot]:
    """Take and keep the snapshots of this interval, one a broker, unless they were taken, and delete old ones."""
    slot_ms = _slot(now_ms())
    kept = []
    there = set(Snapshot.objects.filter(slot_ms=slot_ms).values_list("broker", flat=True))
    for name in MirrorState.objects.exclude(broker__in=there).order_by("broker").values_list("broker", flat=True):
        with choosing(choice_of(name)):
            taken = look()
        if taken is not None:
            kept.append(keep(taken, slot_ms))
            parts = taken.lanes, taken.timers, taken.groups
            keep_figures(taken.broker, slot_ms, figures_of(taken.broker, *parts))
    thin(now_ms())
    forget_figures(now_ms())
    return kept


def keep(taken: Taken, slot_ms: int | None = None) -> Snapshot:
    """Write a snapshot; of two of the same interval the first stays."""
    packed = {part: None if getattr(taken, part) is None else pack(getattr(taken, part)) for part in KINDS}
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
    timers = kept_timers(here, zooms, why)
    halves = _transactions(here, why, sums_only=not zooms)
    return Taken(
        broker=here.name,
        at_ms=here.now_ms,
        lanes=None if trouble else kept_lanes(),
        timers=timers,
        transactions=halves,
        groups=None if trouble else kept_groups(here, sums_only=not zooms),
        why=why,
    )


def _trouble(here: Mirrored) -> StaleReason | None:
    """Return why the mirror's rows cannot be used; a mirror that is behind by less than the interval can."""
    reason = here.evidence(polled_by=()).stale_reason
    if reason is StaleReason.MIRROR_BEHIND and here.as_of_ms is not None:
        interval_ms = max(settings.SNAPSHOT_EVERY_S, 60) * 1000
        return reason if here.now_ms - here.as_of_ms > interval_ms else None
    return reason


def _transactions(here: Mirrored, why: dict[str, str], *, sums_only: bool) -> TransactionFigures | None:
    read = transactions_pages.transaction_sums if sums_only else transactions_pages.read_transactions
    page = read.within(EVERYTHING, alone(here))
    evidence: Evidence = page.evidence
    if evidence.stale_reason is not None:
        why["transactions"] = evidence.stale_reason.value
        return None
    return page.figures


def _slot(at_ms: int) -> int:
    every_ms = max(1, round((settings.SNAPSHOT_EVERY_S or 60) * 1000))
    return at_ms - at_ms % every_ms


def all_at(asked_ms: int) -> tuple[Moment, Taken | None]:
    """Return all parts of the snapshots for a moment, None without one."""
    moment, whole = whole_at(asked_ms, KINDS)
    if whole is None or moment.at_ms is None:
        return moment, None
    if moment.has_several:
        parts = _in_total(whole.parts, moment)
    else:
        parts = {part: next(iter(held.values()), None) for part, held in whole.parts.items()}
    return moment, Taken(broker=moment.broker, at_ms=moment.at_ms, why=whole.why, **parts)


def _in_total(parts: Mapping[str, Mapping[str, Any]], moment: Moment) -> dict[str, Any]:
    """Return each part of several brokers in total; None where none of them knows it."""
    lanes, timers, halves, kept = (list(parts[part].items()) for part in ("lanes", "timers", "transactions", "groups"))
    pages = [replace(held.page, evidence=evidence_of(moment)) for _broker, held in timers]
    figures = [held for _broker, held in halves]
    return {
        "lanes": schedule.lanes_together(lanes, moment.broker) if lanes else None,
        "timers": TimersKept(timers_pages.together(pages, moment.broker), ()) if pages else None,
        "transactions": transactions.figures_of(figures, TransactionFigures()) if figures else None,
        "groups": groups.together(kept) if kept else None,
    }


def all_now() -> tuple[Moment, Taken | None]:
    """Return sums of all parts at the present: no wheel, not how long decisions took, nor how fast groups are."""
    of = cluster()
    if not of.has_several:
        taken = look(zooms=())
        return Moment(
            None, taken.at_ms if taken else None, taken.broker if taken else "", is_known=taken is not None
        ), taken  # fmt: skip
    timers, halves = timers_read.timer_sums.within(EVERYTHING, of), transaction_sums.within(EVERYTHING, of)
    taken = Taken(
        broker=of.source,
        at_ms=of.now_ms,
        lanes=schedule.lanes_of(of),
        timers=TimersKept(timers, ()),
        transactions=halves.figures,
        groups=groups.kept_groups(of, sums_only=True),
        why={},
    )
    return Moment(None, of.now_ms, of.source, is_known=True, has_several=True, older=_older(of)), taken


def _older(of: Cluster) -> tuple[OldPart, ...]:
    """Return the brokers whose figures are not the present, with the age of the mirror's rows."""
    found = [(here, here.evidence(polled_by=()).stale_reason) for here in of.brokers]
    return tuple(OldPart(here.name, here.as_of_ms, why) for here, why in found if why is not None)
