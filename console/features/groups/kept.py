"""Consumer groups as a snapshot keeps them, and as their page shows them at an earlier moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from django.db import connection

from console.features.groups.read import GROUPS, MAX_COUNT, GroupRow, group_rows, unwatched
from console.past import Moment, evidence_of, part_at
from console.security.topic_scope import EVERYTHING, TopicScope, authorised
from console.site.evidence import Evidence
from console.site.mirrored import Mirrored
from console.ui.table import Table

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


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """How far one group has read one topic: sums over its queues."""

    group: str
    topic: str
    queues: int
    #: None: the end of some queue was not known
    lag: int | None
    offset_sum: int
    end_sum: int | None


@dataclass(frozen=True, slots=True)
class GroupsKept:
    """Consumer groups, those furthest behind first; `left_out`: so many more were there."""

    rows: tuple[GroupRow, ...]
    topics: tuple[GroupTopic, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class PastGroups:
    """A page of the groups of a snapshot, as console.features.groups.read.Groups."""

    table: ClassVar[Table] = GROUPS

    evidence: Evidence
    now_ms: int
    rows: tuple[GroupRow, ...]
    total: int
    offset: int
    count: int
    search: str
    #: of the groups on this page
    topics: tuple[GroupTopic, ...] = ()
    #: groups that were too many for the snapshot
    left_out: int = 0


def kept_groups(here: Mirrored, *, sums_only: bool) -> GroupsKept:
    """Return the groups of now; `sums_only`: not how fast they are."""
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
