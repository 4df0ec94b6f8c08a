"""The pages of lanes, timers and groups as a snapshot has them; nothing here asks the broker."""

from __future__ import annotations

from dataclasses import replace

from django.utils.translation import gettext as _

from console.features.schedule.shapes import Lanes
from console.features.timers.read import without_names
from console.features.timers.shapes import DEFAULT, TimersPage
from console.security.topic_scope import TopicScope, authorised
from console.site.evidence import Evidence
from console.ui.snapshots.page_shapes import Moment, PastGroups
from console.ui.snapshots.reader import part_at
from console.ui.snapshots.shapes import GroupsKept, TimersKept

MAX_COUNT = 200


def evidence_of(moment: Moment) -> Evidence:
    """Return the evidence of a snapshot's figures; how old they were is not told beside a moment that is past."""
    return Evidence(_("snapshot of %(broker)s") % {"broker": moment.broker}, None, True, moment.why)


def lanes_at(asked_ms: int) -> tuple[Moment, Lanes | None]:
    """Return all lanes at a moment."""
    moment, found = part_at(asked_ms, "lanes", Lanes)
    if found is None:
        return moment, None
    evidence = evidence_of(moment)
    return moment, replace(found, evidence=evidence, next_minute_evidence=evidence)


@authorised
def timers_at(scope: TopicScope, asked_ms: int, zoom: str = "") -> tuple[Moment, TimersPage | None]:
    """Return the Timers page at a moment, at one of the zooms that are kept, else at the default one."""
    moment, kept = part_at(asked_ms, "timers", TimersKept)
    if kept is None:
        return moment, None
    evidence = evidence_of(moment)
    zooms = {each.zoom: each for each in kept.zooms}
    chosen = zooms.get(zoom) or zooms.get(DEFAULT)
    forecast = chosen.forecast if chosen else None
    strip = forecast.stretch if forecast else chosen.strip if chosen else None
    wheel = kept.page.wheel
    if wheel is not None:
        # what is due beyond the stretch was asked for at the default zoom alone
        beyond = wheel.beyond if chosen and chosen.zoom == DEFAULT else None
        wheel = replace(wheel, strip=strip, beyond=beyond, evidence=evidence) if strip else None
    page = replace(
        kept.page,
        evidence=evidence,
        zoom=chosen.zoom if chosen else DEFAULT,
        first=replace(kept.page.first, evidence=evidence),
        wheel=wheel,
        forecast=forecast and replace(forecast, evidence=evidence),
        is_past=True,
    )
    return moment, page if scope.see_all else without_names(page, scope)


@authorised
def groups_at(
    scope: TopicScope, asked_ms: int, search: str = "", offset: int = 0, count: int = 100
) -> tuple[Moment, PastGroups | None]:
    """Return consumer groups that are seen now, and that read nothing then that is not seen."""
    moment, kept = part_at(asked_ms, "groups", GroupsKept)
    if kept is None or moment.at_ms is None:
        return moment, None
    found = seen_of(kept, scope)
    count, offset = min(max(count, 1), MAX_COUNT), max(offset, 0)
    rows = [row for row in found.rows if search.lower() in row.name.lower()]
    page = rows[offset : offset + count]
    names = {row.name for row in page}
    lines = tuple(line for line in found.topics if line.group in names)
    return moment, PastGroups(
        evidence_of(moment), moment.at_ms, tuple(page), len(rows), offset, count, search, lines, kept.left_out
    )


def seen_of(kept: GroupsKept, scope: TopicScope) -> GroupsKept:
    """A group that read then what is not seen is not shown, whatever it reads now."""
    if scope.see_all:
        return kept
    hidden = {line.group for line in kept.topics if not scope.topic(line.topic)}
    rows = tuple(row for row in kept.rows if scope.group(row.name) and row.name not in hidden)
    names = {row.name for row in rows}
    return GroupsKept(rows, tuple(line for line in kept.topics if line.group in names), 0)
