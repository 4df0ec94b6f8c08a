"""Two moments side by side: what was there, what is there, and what moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from console.security.topic_scope import Eyes, authorised
from console.site.clock import now_ms
from console.ui.snapshots.page_shapes import Comparison, Line, Measure, Moment, Pair, Part
from console.ui.snapshots.read import seen_of
from console.ui.snapshots.reader import all_at
from console.ui.snapshots.shapes import GroupsKept, Taken
from console.ui.snapshots.taker import look

Row = TypeVar("Row")
Name = TypeVar("Name")
#: a figure of a whole snapshot; True: counted since the broker's start
_FIGURES: tuple[tuple[Measure, Callable[[Taken], int | None], bool], ...] = (
    (Measure.LANES_PENDING, lambda taken: taken.lanes.figures.pending if taken.lanes else None, False),
    (Measure.TIMERS_PENDING, lambda taken: taken.timers.page.figures.pending if taken.timers else None, False),
    (Measure.TIMERS_OVERDUE, lambda taken: taken.timers.page.figures.overdue if taken.timers else None, False),
    (Measure.TIMERS_RELEASED, lambda taken: taken.timers.page.figures.released_total if taken.timers else None, True),
    (Measure.TIMERS_CANCELLED, lambda taken: taken.timers.page.figures.cancelled_total if taken.timers else None, True),
    (Measure.LAG_OF_ALL, lambda taken: _lag(taken.groups), False),
    (Measure.OPEN, lambda taken: taken.transactions.open if taken.transactions else None, False),
    (Measure.PARKED, lambda taken: taken.transactions.parked if taken.transactions else None, False),
    (Measure.COMMITTED, lambda taken: taken.transactions.commit_total if taken.transactions else None, True),
    (Measure.ROLLED_BACK, lambda taken: taken.transactions.rollback_total if taken.transactions else None, True),
)


@authorised
def compared(scope: Eyes, before_ms: int | None, after_ms: int | None) -> Comparison:
    """Compare two moments, None: the present; the earlier one comes first."""
    far = 2**62
    one, other = sorted((before_ms, after_ms), key=lambda ms: far if ms is None else ms)
    (before, then), (after, now) = _taken(one, scope), _taken(other, scope)
    return Comparison(
        before,
        after,
        now_ms(),
        figures=_figures(then, now),
        lanes=_lanes(then, now),
        topics=_topics(then, now, scope),
        groups=_groups(then, now),
        readings=_readings(then, now),
    )


def _taken(asked_ms: int | None, eyes: Eyes) -> tuple[Moment, Taken | None]:
    if asked_ms is None:
        # the zooms of the Timers page are not compared
        taken = look(zooms=())
        moment = Moment(None, taken.at_ms if taken else None, taken.broker if taken else "", is_known=taken is not None)
    else:
        moment, taken = all_at(asked_ms)
    if taken is None or taken.groups is None:
        return moment, taken
    groups = seen_of(taken.groups, eyes)
    return moment, Taken(
        taken.broker, taken.at_ms, taken.lanes, taken.timers, taken.transactions, groups, taken.why
    )  # fmt: skip


def _figures(then: Taken | None, now: Taken | None) -> tuple[Line, ...]:
    if then is None and now is None:
        return ()
    return tuple(
        Line(Part.FIGURE, "", ((measure, Pair(read(then) if then else None, read(now) if now else None, is_total)),))
        for measure, read, is_total in _FIGURES
    )


def _lag(groups: GroupsKept | None) -> int | None:
    known = [row.lag for row in groups.rows if row.lag is not None] if groups else []
    return sum(known) if known else None


@dataclass(slots=True)
class _Both(Generic[Row]):
    """A row at both moments; it is not there only where all rows of that moment are known."""

    before: Row | None
    after: Row | None
    is_before: bool
    is_after: bool

    def pair(self, read: Callable[[Row], int | None]) -> Pair:
        """One figure of it."""
        return Pair(
            None if self.before is None else read(self.before), None if self.after is None else read(self.after)
        )


def _joined(
    before: Iterable[Row] | None, after: Iterable[Row] | None, name: Callable[[Row], Name]
) -> list[tuple[Name, _Both[Row]]]:
    """Rows of both moments by name; None: that moment's are not known."""
    then, now = ({name(row): row for row in rows or ()} for rows in (before, after))
    return [
        (key, _Both(then.get(key), now.get(key), before is None or key in then, after is None or key in now))
        for key in dict.fromkeys((*then, *now))
    ]


def _lanes(then: Taken | None, now: Taken | None) -> tuple[Line, ...]:
    rows = _joined(
        then.lanes.lanes if then and then.lanes else None,
        now.lanes.lanes if now and now.lanes else None,
        lambda lane: lane.level,
    )
    return tuple(
        Line(
            Part.LANE,
            str(level),
            (
                (Measure.WAITING, both.pair(lambda lane: lane.backlog)),
                (Measure.OVERDUE, both.pair(lambda lane: lane.spread.overdue if lane.spread else None)),
                (Measure.NEXT_DUE_MS, both.pair(lambda lane: lane.next_due_ms)),
                (Measure.END_OFFSET, both.pair(lambda lane: lane.end_offset)),
                (Measure.DELAY_OFFSET, both.pair(lambda lane: lane.delay_offset)),
            ),
            delay_ms=next(lane.delay_ms for lane in (both.after, both.before) if lane is not None),
            is_before=both.is_before,
            is_after=both.is_after,
        )
        for level, both in sorted(rows, key=lambda row: row[0])
    )


def _topics(then: Taken | None, now: Taken | None, eyes: Eyes) -> tuple[Line, ...]:
    """Those with most timers at each moment: one that is missing may have had few."""
    rows = _joined(
        then.timers.page.topics if then and then.timers else None,
        now.timers.page.topics if now and now.timers else None,
        lambda row: row.topic,
    )
    return _by_change(
        Line(Part.TIMERS, topic, ((Measure.TIMERS_PENDING, both.pair(lambda row: row.pending)),))
        for topic, both in rows
        if eyes.topic(topic)
    )


def _groups(then: Taken | None, now: Taken | None) -> tuple[Line, ...]:
    rows = _joined(
        then.groups.rows if then and then.groups else None,
        now.groups.rows if now and now.groups else None,
        lambda row: row.name,
    )
    return _by_change(
        Line(
            Part.GROUP,
            name,
            (
                (Measure.LAG, both.pair(lambda row: row.lag)),
                (Measure.RETRY, both.pair(lambda row: row.retry)),
                (Measure.DEAD, both.pair(lambda row: row.dead)),
            ),
            is_before=both.is_before,
            is_after=both.is_after,
        )
        for name, both in rows
    )


def _readings(then: Taken | None, now: Taken | None) -> tuple[Line, ...]:
    rows = _joined(
        then.groups.topics if then and then.groups else None,
        now.groups.topics if now and now.groups else None,
        lambda row: (row.group, row.topic),
    )
    return _by_change(
        Line(
            Part.READING,
            name,
            (
                (Measure.LAG, both.pair(lambda row: row.lag)),
                (Measure.OFFSET_SUM, both.pair(lambda row: row.offset_sum)),
                (Measure.END_SUM, both.pair(lambda row: row.end_sum)),
            ),
            topic=topic,
            is_before=both.is_before,
            is_after=both.is_after,
        )
        for (name, topic), both in rows
    )


def _by_change(lines: Iterable[Line]) -> tuple[Line, ...]:
    """What moved most first."""
    return tuple(sorted(lines, key=lambda line: (-line.change, line.name, line.topic)))
