"""Consumer groups as snapshots keep them, and those of several brokers in total: sums, the worst state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db import connection

from broker.rocketmq.topics import GROUP_PREFIXES
from console.features.groups.read import GroupRow, GroupState, group_rows, unwatched
from console.security.topic_scope import EVERYTHING, TopicScope
from console.site.mirrored import Here

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
     WHERE o.broker_id = ANY(%(brokers)s) AND o."group" = ANY(%(groups)s)
     GROUP BY o."group", o.topic
     ORDER BY o."group", o.topic
     LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """The progress of one group through one topic, in sums over its queues."""

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


def kept_groups(here: Here, *, sums_only: bool) -> GroupsKept:
    """Return the groups of now; `sums_only`: not how fast they are."""
    found = group_rows.within(EVERYTHING, here, watched=unwatched if sums_only else None)
    rows = sorted(found, key=lambda row: (-(row.lag or 0), row.name))
    kept = rows[:MOST_GROUPS]
    names = [row.name for row in kept]
    with connection.cursor() as cursor:
        cursor.execute(_BY_TOPIC, {"brokers": here.names, "groups": names, "most": MOST_TOPICS})
        lines = tuple(
            GroupTopic(group, topic, queues, _whole(lag), int(offsets), _whole(ends))
            for group, topic, queues, lag, offsets, ends in cursor.fetchall()
        )
    return GroupsKept(tuple(kept), lines, left_out=len(rows) - len(kept))


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))


def seen_of(kept: GroupsKept, scope: TopicScope) -> GroupsKept:
    """Return what may be shown: groups that then read a topic that is seen now. Of one that then read, or reads today,
    what is not seen there are the figures of what is."""
    if scope.see_all:
        return kept
    others = {line.group for line in kept.topics if not scope.topic(line.topic)}
    lines: dict[str, list[GroupTopic]] = {}
    for line in kept.topics:
        if scope.topic(line.topic):
            lines.setdefault(line.group, []).append(line)
    rows = []
    for row in kept.rows:
        if row.name not in others and scope.whole_group(row.name):
            rows.append(row)
        elif row.name in lines:
            rows.append(_row_in_part(row, lines[row.name]))
    names = {row.name for row in rows}
    return GroupsKept(tuple(rows), tuple(line for name in lines if name in names for line in lines[name]), 0)


def _row_in_part(row: GroupRow, lines: Sequence[GroupTopic]) -> GroupRow:
    """Return a group with the figures of some of its topics; what is told of the group alone is left out."""
    read = [line for line in lines if not line.topic.startswith(GROUP_PREFIXES)]
    lag = _whole_sum([line.lag for line in lines])
    state = row.state
    if state in (GroupState.BEHIND, GroupState.CURRENT, GroupState.UNKNOWN):
        state = GroupState.UNKNOWN if lag is None else GroupState.BEHIND if lag else GroupState.CURRENT
    return replace(
        row, state=state, topics=len(read), lag=lag, retry=None, dead=None, consumed_per_s=None, quiet_ms=None,
        newly_dead=0, reads_others=True,
    )  # fmt: skip


def together(parts: Sequence[tuple[str, GroupsKept]]) -> GroupsKept:
    """Return the groups of several brokers, each with its name, in total."""
    rows: dict[str, list[GroupRow]] = {}
    lines: dict[tuple[str, str], list[GroupTopic]] = {}
    for broker, kept in parts:
        for row in kept.rows:
            rows.setdefault(row.name, []).append(replace(row, brokers=(broker,)))
        for line in kept.topics:
            lines.setdefault((line.group, line.topic), []).append(line)
    found = sorted(map(_row_of_all, rows.values()), key=lambda row: (-(row.lag or 0), row.name))
    topics = tuple(_line_of_all(lines[key]) for key in sorted(lines))
    # who is left out at each broker may be the same group
    return GroupsKept(tuple(found), topics, max((kept.left_out for _broker, kept in parts), default=0))


def _row_of_all(several: Sequence[GroupRow]) -> GroupRow:
    """Return a group in total; a broker at which it has read nothing has no lag to add."""
    states, reading = list(GroupState), [row for row in several if row.lag is not None or row.topics]
    quiet = [row.quiet_ms for row in several if row.quiet_ms is not None]
    return replace(
        several[0],
        state=max((row.state for row in several), key=states.index),
        members=max((row.members for row in several if row.members is not None), default=None),
        topics=max(row.topics for row in several),
        lag=_whole_sum([row.lag for row in reading]),
        retry=_known_sum(row.retry for row in several),
        dead=_known_sum(row.dead for row in several),
        consumed_per_s=_rates(several),
        consume_enable=all(row.consume_enable for row in several),
        retry_max_times=max(row.retry_max_times for row in several),
        quiet_ms=min(quiet, default=None),
        newly_dead=sum(row.newly_dead for row in several),
        brokers=tuple(sorted(name for row in several for name in row.brokers)),
    )


def _line_of_all(several: Sequence[GroupTopic]) -> GroupTopic:
    return GroupTopic(
        several[0].group,
        several[0].topic,
        sum(line.queues for line in several),
        _whole_sum([line.lag for line in several]),
        sum(line.offset_sum for line in several),
        _whole_sum([line.end_sum for line in several]),
    )


def _whole_sum(values: Sequence[int | None]) -> int | None:
    """Return the sum; None where one of them is not known, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _known_sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _rates(several: Sequence[GroupRow]) -> float | None:
    known = [row.consumed_per_s for row in several if row.consumed_per_s is not None]
    return sum(known) if known else None
