"""Finds the snapshot for a moment, and opens its parts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from console.features.schedule.shapes import Lanes
from console.features.transactions.shapes import TransactionFigures
from console.security.topic_scope import Eyes, authorised
from console.site.evidence import StaleReason
from console.site.mirrored import mirrored
from console.ui.snapshots.models import Snapshot
from console.ui.snapshots.page_shapes import Moment, Sums
from console.ui.snapshots.shapes import PARTS, GroupsKept, Shape, Taken, TimersKept, unpack

#: the shape of each part
KINDS = {"lanes": Lanes, "timers": TimersKept, "transactions": TransactionFigures, "groups": GroupsKept}


def moment_of(asked_ms: int) -> Moment:
    """The last snapshot of the broker that was taken at the moment or before."""
    name = mirrored().name
    rows = Snapshot.objects.filter(broker=name)
    moments = rows.values_list("at_ms", flat=True)
    at_ms = moments.filter(at_ms__lte=asked_ms).order_by("-at_ms").first()
    first_ms = moments.order_by("at_ms").first()
    if at_ms is None:
        return Moment(asked_ms, None, name, next_ms=first_ms, first_ms=first_ms)
    return Moment(
        asked_ms,
        at_ms,
        name,
        previous_ms=moments.filter(at_ms__lt=at_ms).order_by("-at_ms").first(),
        next_ms=moments.filter(at_ms__gt=at_ms).order_by("at_ms").first(),
        first_ms=first_ms,
    )


def part_at(asked_ms: int, part: str, kind: type[Shape]) -> tuple[Moment, Shape | None]:
    """One part of the snapshot for a moment."""
    moment = moment_of(asked_ms)
    if moment.at_ms is None:
        return moment, None
    packed, why = _row(moment.at_ms, part, "why")
    if packed is None:
        return replace(moment, why=_reason(why, part)), None
    return replace(moment, is_known=True), _opened(kind, bytes(packed))


def all_at(asked_ms: int) -> tuple[Moment, Taken | None]:
    """All parts of it."""
    moment = moment_of(asked_ms)
    if moment.at_ms is None:
        return moment, None
    *packed, why = _row(moment.at_ms, *PARTS, "why")
    opened = {
        part: None if held is None else _opened(KINDS[part], bytes(held))
        for part, held in zip(PARTS, packed, strict=True)
    }  # fmt: skip
    known = any(held is not None for held in packed)
    taken = Taken(broker=mirrored().name, at_ms=moment.at_ms, why=why, **opened)
    return replace(moment, is_known=known, why=None if known else _reason(why, "lanes")), taken


@authorised
def sums(scope: Eyes, most: int = 240) -> tuple[Sums, ...]:
    """Return sums over all that is kept, at most so many moments evenly apart; the lag of all groups is for those who
    see all."""
    rows = Snapshot.objects.filter(broker=mirrored().name).order_by("at_ms")
    found = [Sums(*row) for row in rows.values_list("at_ms", "lanes_pending", "timers_pending", "lag")]
    step = max(1, -(-len(found) // most))
    chosen = found[::-step][::-1]
    return tuple(chosen if scope.see_all else (replace(row, lag=None) for row in chosen))


@lru_cache(maxsize=16)
def _opened_before(kind: type[Any], packed: bytes) -> Any:
    """The shapes of these very bytes: frozen, and what one may see of them is decided by whoever reads."""
    return unpack(kind, packed)


def _opened(kind: type[Shape], packed: bytes) -> Shape:
    key: Any = kind
    found: Shape = _opened_before(key, packed)
    return found


def _row(at_ms: int, *names: str) -> tuple[Any, ...]:
    rows = Snapshot.objects.filter(broker=mirrored().name, at_ms=at_ms).order_by("slot_ms")
    # thinned in this moment: as one that knows nothing
    return rows.values_list(*names).first() or (*(None for _ in names[:-1]), {})


def _reason(why: Any, part: str) -> StaleReason:
    code = why.get(part) if isinstance(why, dict) else None
    return StaleReason(code) if code in StaleReason.values else StaleReason.NOT_THERE
