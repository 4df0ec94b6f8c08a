"""All that the pages show at one moment, of several brokers in total: for a comparison of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from console.features.groups import kept as groups
from console.features.schedule import read as schedule
from console.features.timers import pages as timers_pages
from console.features.timers import read as timers_read
from console.features.timers.kept import TimersKept
from console.features.transactions import total as transactions
from console.features.transactions.pages import transaction_sums
from console.features.transactions.shapes import TransactionFigures
from console.past import Moment, OldPart, evidence_of, whole_at
from console.security.topic_scope import EVERYTHING
from console.site.mirrored import Cluster, cluster
from console.snapshots import KINDS, Taken, look


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
