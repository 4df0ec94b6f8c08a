"""Two moments side by side: what was there, what is there, and what moved; and the page that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from django.db.models import TextChoices
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from console.features.groups.kept import GroupsKept, seen_of
from console.past import Asked, Moment, asked_of, status_of
from console.security.topic_scope import TopicScope, authorised
from console.site.clock import now_ms
from console.snapshots import Taken, all_at, all_now
from console.ui.export import Answer, page_or_file
from console.ui.table import Table, file_columns


class Pair(NamedTuple):
    """A figure at two moments; None is unknown. Thousands are made for one page."""

    before: int | None
    after: int | None
    #: counted since the broker's start: less than before means that it was started again
    is_total: bool = False

    @property
    def difference(self) -> int | None:
        """The later figure minus the earlier one; None if unknown, or counted anew."""
        if self.before is None or self.after is None or (self.is_total and self.after < self.before):
            return None
        return self.after - self.before


class Part(TextChoices):
    """The subject of a line of the comparison."""

    FIGURE = "figure", _("value")
    LANE = "lane", _("delay level")
    TIMERS = "timers", _("timers of a topic")
    GROUP = "group", _("group")
    READING = "reading", _("a group in a topic")


class Measure(TextChoices):
    """A figure that is compared; its value stands in files."""

    WAITING = "waiting", _("Waiting")
    OVERDUE = "overdue", _("Overdue")
    NEXT_DUE_MS = "next_due_ms", _("Next due")
    END_OFFSET = "end_offset", _("Incoming")
    DELAY_OFFSET = "delay_offset", _("Released")
    LANES_PENDING = "lanes_pending", _("Pending on all delay levels")
    TIMERS_PENDING = "timers_pending", _("Pending timers")
    TIMERS_OVERDUE = "timers_overdue", _("Overdue timers")
    TIMERS_RELEASED = "timers_released", _("Timers released")
    TIMERS_CANCELLED = "timers_cancelled", _("Timers cancelled")
    LAG_OF_ALL = "lag_of_all", _("Lag of all groups")
    OPEN = "open", _("Open transactions")
    PARKED = "parked", _("Parked transactions")
    COMMITTED = "committed", _("Transactions committed")
    ROLLED_BACK = "rolled_back", _("Transactions rolled back")
    LAG = "lag", _("Lag")
    RETRY = "retry", _("Waiting for retry")
    DEAD = "dead", _("Dead letters")
    OFFSET_SUM = "offset_sum", _("Consumed")
    END_SUM = "end_sum", _("Incoming")


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """A lane, topic, group or the like, with its figures at both moments."""

    part: Part
    name: str
    #: in the order in which a table shows them
    pairs: tuple[tuple[Measure, Pair], ...]
    #: a lane's delay
    delay_ms: int | None = None
    topic: str = ""
    #: it is there at this moment; False: it was gone, or not there yet, or not known
    is_before: bool = True
    is_after: bool = True

    @property
    def change(self) -> int:
        """By how much the first figure moved, without its sign."""
        return abs(self.pairs[0][1].difference or 0)

    @property
    def has_moved(self) -> bool:
        """Tell whether any of its figures is not what it was."""
        return any(pair.before != pair.after for _, pair in self.pairs)


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of a line, as a row of a file."""

    part: Part
    name: str
    topic: str
    figure: Measure
    before: int | None
    after: int | None
    difference: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two moments side by side, the earlier one first."""

    before: Moment
    after: Moment
    now_ms: int
    figures: tuple[ComparedLine, ...] = ()
    lanes: tuple[ComparedLine, ...] = ()
    topics: tuple[ComparedLine, ...] = ()
    groups: tuple[ComparedLine, ...] = ()
    readings: tuple[ComparedLine, ...] = ()

    @property
    def span_ms(self) -> int | None:
        """Milliseconds from one moment to the other."""
        if self.before.at_ms is None or self.after.at_ms is None:
            return None
        return self.after.at_ms - self.before.at_ms

    @property
    def is_oldest(self) -> bool:
        """Tell whether the earlier moment has no snapshot, and the oldest one there is stands for it."""
        asked_ms, at_ms = self.before.asked_ms, self.before.at_ms
        return asked_ms is not None and at_ms is not None and at_ms > asked_ms

    @property
    def is_known(self) -> bool:
        """Tell whether there is something to compare: a snapshot of each moment, or the present."""
        return self.before.at_ms is not None and self.after.at_ms is not None

    @property
    def rows(self) -> tuple[Cell, ...]:
        """The figures of every line, as rows of a file."""
        lines = (*self.figures, *self.lanes, *self.topics, *self.groups, *self.readings)
        return tuple(
            Cell(line.part, line.name, line.topic, measure, pair.before, pair.after, pair.difference)
            for line in lines
            for measure, pair in line.pairs
        )


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
def compared(scope: TopicScope, before_ms: int | None, after_ms: int | None) -> Comparison:
    """Compare two moments, None: the present; the earlier one comes first. What is older than all snapshots is the
    oldest of them."""
    far = 2**62
    one, other = sorted((before_ms, after_ms), key=lambda ms: far if ms is None else ms)
    (before, then), (after, now) = _taken(one, scope), _taken(other, scope)
    first_ms = before.first_ms
    if before.at_ms is None and first_ms is not None and (other is None or first_ms < other):
        # nothing is so old: the oldest one is the nearest
        oldest, then = _taken(first_ms, scope)
        before = replace(oldest, asked_ms=before.asked_ms)
    return Comparison(
        before,
        after,
        now_ms(),
        figures=_figures(then, now, scope),
        lanes=_lanes(then, now),
        topics=_topics(then, now, scope),
        groups=_groups(then, now),
        readings=_readings(then, now),
    )


def _taken(asked_ms: int | None, scope: TopicScope) -> tuple[Moment, Taken | None]:
    moment, taken = all_now() if asked_ms is None else all_at(asked_ms)
    if taken is None or taken.groups is None:
        return moment, taken
    groups = seen_of(taken.groups, scope)
    return moment, Taken(
        taken.broker, taken.at_ms, taken.lanes, taken.timers, taken.transactions, groups, taken.why
    )  # fmt: skip


def _figures(then: Taken | None, now: Taken | None, scope: TopicScope) -> tuple[ComparedLine, ...]:
    """Return figures of the whole broker; of those that are told apart by group who sees all has the sum."""
    if then is None and now is None:
        return ()
    return tuple(
        ComparedLine(
            Part.FIGURE, "", ((measure, Pair(read(then) if then else None, read(now) if now else None, is_total)),)
        )
        for measure, read, is_total in _FIGURES
        if scope.see_all or measure is not Measure.LAG_OF_ALL
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
        """Return one figure at both moments."""
        return Pair(
            None if self.before is None else read(self.before), None if self.after is None else read(self.after)
        )

    def held(self, read: Callable[[Row], int | None]) -> Pair:
        """Return a figure of what is held at both moments: what is not there holds nothing."""
        pair = self.pair(read)
        return Pair(pair.before if self.is_before else 0, pair.after if self.is_after else 0)


def _joined(
    before: Iterable[Row] | None, after: Iterable[Row] | None, name: Callable[[Row], Name]
) -> list[tuple[Name, _Both[Row]]]:
    """Join the rows of both moments by name; None stands for a moment whose rows are not known."""
    then, now = ({name(row): row for row in rows or ()} for rows in (before, after))
    return [
        (key, _Both(then.get(key), now.get(key), before is None or key in then, after is None or key in now))
        for key in dict.fromkeys((*then, *now))
    ]


def _lanes(then: Taken | None, now: Taken | None) -> tuple[ComparedLine, ...]:
    rows = _joined(
        then.lanes.lanes if then and then.lanes else None,
        now.lanes.lanes if now and now.lanes else None,
        lambda lane: lane.level,
    )
    return tuple(
        ComparedLine(
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


def _topics(then: Taken | None, now: Taken | None, scope: TopicScope) -> tuple[ComparedLine, ...]:
    """Return the topics with most timers at each moment: one that is missing has none if all were kept, else few."""
    pages = [taken.timers.page if taken and taken.timers else None for taken in (then, now)]
    before, after = (page.topics if page else None for page in pages)
    rows = _joined(before, after, lambda row: row.topic)
    is_whole = [page is not None and not page.topics_left for page in pages]
    for _name, both in rows:
        # of one that was left out nothing is known
        both.is_before |= not is_whole[0]
        both.is_after |= not is_whole[1]
    return _by_change(
        ComparedLine(Part.TIMERS, topic, ((Measure.TIMERS_PENDING, both.held(lambda row: row.pending)),))
        for topic, both in rows
        if scope.topic(topic)
    )


def _groups(then: Taken | None, now: Taken | None) -> tuple[ComparedLine, ...]:
    rows = _joined(
        then.groups.rows if then and then.groups else None,
        now.groups.rows if now and now.groups else None,
        lambda row: row.name,
    )
    return _by_change(
        ComparedLine(
            Part.GROUP,
            name,
            (
                (Measure.LAG, both.held(lambda row: row.lag)),
                # a group without a topic for them has none
                (Measure.RETRY, both.held(lambda row: row.retry or 0)),
                (Measure.DEAD, both.held(lambda row: row.dead or 0)),
            ),
            is_before=both.is_before,
            is_after=both.is_after,
        )
        for name, both in rows
    )


def _readings(then: Taken | None, now: Taken | None) -> tuple[ComparedLine, ...]:
    rows = _joined(
        then.groups.topics if then and then.groups else None,
        now.groups.topics if now and now.groups else None,
        lambda row: (row.group, row.topic),
    )
    return _by_change(
        ComparedLine(
            Part.READING,
            name,
            (
                (Measure.LAG, both.held(lambda row: row.lag)),
                (Measure.OFFSET_SUM, both.pair(lambda row: row.offset_sum)),
                (Measure.END_SUM, both.pair(lambda row: row.end_sum)),
            ),
            topic=topic,
            is_before=both.is_before,
            is_after=both.is_after,
        )
        for (name, topic), both in rows
    )


def _by_change(lines: Iterable[ComparedLine]) -> tuple[ComparedLine, ...]:
    """Sort lines, those that moved most first."""
    return tuple(sorted(lines, key=lambda line: (-line.change, line.name, line.topic)))


#: lines of one table on the page; the file has all
SHOWN = 200
_HOUR_MS = 3_600_000
#: from when on now is compared, a press each: as one types it, and in words
SPANS = (("-10min", _("ten minutes ago")), ("-1h", _("an hour ago")), ("-1d", _("a day ago")))
COMPARE = Table("compare", file_columns("part name topic figure before after difference"))


@require_safe
def compare(request: HttpRequest) -> Answer:
    """Show lanes, timers, groups and transactions at two moments, by default an hour ago and now."""
    before, after = asked_of(request, "from"), asked_of(request, "to")
    is_default = not (before.text or after.text)
    if is_default:
        before = Asked("-1h", now_ms() - _HOUR_MS)
    is_wrong = bool(before.error or after.error)
    data = None if is_wrong else compared(before.at_ms, after.at_ms)
    context = {
        "data": data,
        "here": "compare",
        "before": before,
        "after": after,
        "shown": SHOWN,
        "spans": SPANS,
        "is_default": is_default,
    }

    def read(_: None) -> Comparison:
        return data or compared(before.at_ms, after.at_ms)

    return page_or_file(request, "snapshots/compare.html", context, COMPARE, read, status=status_of(before, after))
