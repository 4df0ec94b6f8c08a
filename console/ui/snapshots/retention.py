"""Keeps snapshots: one an interval, each for a while, then one an hour, then none."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

from console.site.clock import now_ms
from console.ui.snapshots.models import Snapshot
from console.ui.snapshots.packing import pack
from console.ui.snapshots.shapes import PARTS, Taken
from console.ui.snapshots.taker import look

HOUR_MS = 3_600_000
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


def take() -> Snapshot | None:
    """Take and keep the snapshot of this interval, unless somebody has; then let old ones go."""
    slot_ms = _slot(now_ms())
    kept = None
    if not Snapshot.objects.filter(slot_ms=slot_ms).exists():
        taken = look()
        kept = keep(taken, slot_ms) if taken is not None else None
    thin(now_ms())
    return kept


def keep(taken: Taken, slot_ms: int | None = None) -> Snapshot:
    """Write one; of two of the same interval the first stays."""
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
    """Delete a batch of what is past its time; how many there were."""
    each_until = at_ms - round(settings.SNAPSHOT_KEEP_H * HOUR_MS)
    until = at_ms - round(settings.SNAPSHOT_KEEP_DAYS * 24 * HOUR_MS)
    with connection.cursor() as cursor:
        cursor.execute(_OLD, {"until": until, "batch": BATCH})
        gone = cursor.rowcount
        cursor.execute(_THINNED, {"hour": HOUR_MS, "each_until": each_until, "batch": BATCH})
        return gone + cursor.rowcount


def _slot(at_ms: int) -> int:
    every_ms = max(1, round((settings.SNAPSHOT_EVERY_S or 60) * 1000))
    return at_ms - at_ms % every_ms
