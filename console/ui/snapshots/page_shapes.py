"""Pages as they were: which snapshot was found for a moment, and two of them side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from console.features.groups.read import GROUPS, GroupRow
from console.site.evidence import Evidence, StaleReason
from console.ui.snapshots.shapes import GroupTopic
from console.ui.table import Table


@dataclass(frozen=True, slots=True)
class Moment:
    """The snapshot for a moment that was asked for: the last one that was taken then or before. `at_ms` None: none."""

    #: None: the present
    asked_ms: int | None
    at_ms: int | None
    broker: str = ""
    previous_ms: int | None = None
    next_ms: int | None = None
    #: the oldest one that is kept; None: there is none at all
    first_ms: int | None = None
    #: of a part that could not be read then
    why: StaleReason | None = None
    #: it was taken; False with a snapshot: `why`
    is_known: bool = False

    @property
    def gap_ms(self) -> int | None:
        """Milliseconds between the snapshot and the moment that was asked for."""
        return None if self.at_ms is None or self.asked_ms is None else max(0, self.asked_ms - self.at_ms)


@dataclass(frozen=True, slots=True)
class Sums:
    """What waited in all at the moment of one snapshot; None is unknown."""

    at_ms: int
    lanes_pending: int | None
    timers_pending: int | None
    lag: int | None

    @property
    def waiting(self) -> int | None:
        """Messages that wait on lanes and as timers; None if either is unknown."""
        if self.lanes_pending is None or self.timers_pending is None:
            return None
        return self.lanes_pending + self.timers_pending


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


class Pair(NamedTuple):
    """One figure at two moments; None is unknown. Thousands are made for one page."""

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

    FIGURE = "figure", _("figure")
    LANE = "lane", _("lane")
    TIMERS = "timers", _("timers of a topic")
    GROUP = "group", _("group")
    READING = "reading", _("a group in a topic")


class Measure(TextChoices):
    """A figure that is compared; its value stands in files."""

    WAITING = "waiting", _("Waiting")
    OVERDUE = "overdue", _("Overdue")
    NEXT_DUE_MS = "next_due_ms", _("Next due")
    END_OFFSET = "end_offset", _("Came in")
    DELAY_OFFSET = "delay_offset", _("Left")
    LANES_PENDING = "lanes_pending", _("Waiting on all lanes")
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
    RETRY = "retry", _("Waiting for another try")
    DEAD = "dead", _("Dead letters")
    OFFSET_SUM = "offset_sum", _("Read")
    END_SUM = "end_sum", _("Came in")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing with its figures at both moments."""

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


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of a line, as a row of a file."""

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
    figures: tuple[Line, ...] = ()
    lanes: tuple[Line, ...] = ()
    topics: tuple[Line, ...] = ()
    groups: tuple[Line, ...] = ()
    readings: tuple[Line, ...] = ()

    @property
    def span_ms(self) -> int | None:
        """Milliseconds from one moment to the other."""
        if self.before.at_ms is None or self.after.at_ms is None:
            return None
        return self.after.at_ms - self.before.at_ms

    @property
    def rows(self) -> tuple[Cell, ...]:
        """All figures of all lines, as rows of a file."""
        lines = (*self.figures, *self.lanes, *self.topics, *self.groups, *self.readings)
        return tuple(
            Cell(line.part, line.name, line.topic, measure, pair.before, pair.after, pair.difference)
            for line in lines
            for measure, pair in line.pairs
        )
