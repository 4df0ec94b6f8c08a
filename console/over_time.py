"""Charts over the last hour, day or week, or a stretch of one's own, from the figures that are kept (kept_figures).

A value is that of a minute (of an hour, further back than minutes are kept), put together so that a chart has some 150
at most: of what goes through the mean, of what waits, of lag and lateness the highest. A minute that was not read is a
gap, never 0; a single one that was missed between two others is not told apart.

Of several brokers what goes through is added up where it is known, and said where that of one is not; what waits at one
that is away counts as it was known last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils.http import urlencode

from console.kept_figures import HOUR_MS, MINUTE_MS
from console.operations.marks import Mark, marks_between
from console.site.clock import now_ms, simulated
from console.site.mirrored import Cluster, cluster
from console.site.parsing import whole_number

DAY_MS = 24 * HOUR_MS
#: what a chart may be over, its length, and the width of one value
SPANS = {"hour": (HOUR_MS, MINUTE_MS), "day": (DAY_MS, 10 * MINUTE_MS), "week": (7 * DAY_MS, HOUR_MS)}
DEFAULT = "hour"
#: values of one line at most, and the shortest stretch
MOST_VALUES, SHORTEST_MS = 170, 5 * MINUTE_MS
#: widths that values have: whole parts of hours and days
_WIDTHS = tuple(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440))


class Measure(Enum):
    """What a line shows, and what it is counted in."""

    PASSED = "passed"
    PENDING = "pending"
    LAG = "lag"
    LATENESS = "lateness_us"

    @property
    def is_rate(self) -> bool:
        """Tell whether it is counted in messages a second."""
        return self is Measure.PASSED


@dataclass(frozen=True, slots=True)
class Wanted:
    """A line: what is shown of which subject. `part` is the part of a snapshot that knows it."""

    kind: str
    name: str
    measure: Measure
    part: str = "lanes"


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time that a chart is over, cut into values of one width; `over` is empty for one that was chosen by hand."""

    start_ms: int
    end_ms: int
    width_ms: int
    over: str = ""

    @property
    def length(self) -> int:
        """The number of values."""
        return (self.end_ms - self.start_ms) // self.width_ms

    @property
    def is_by_minute(self) -> bool:
        """Tell whether the rows of minutes are read, not those of hours."""
        return self.width_ms < HOUR_MS


@dataclass(frozen=True, slots=True)
class Line:
    """The values of one line, oldest first; None is a gap."""

    wanted: Wanted
    values: tuple[float | None, ...]

    @property
    def peak(self) -> float | None:
        """The highest value; None: nothing is known."""
        return max((value for value in self.values if value is not None), default=None)

    @property
    def peak_at(self) -> int | None:
        """The number of the highest value."""
        return None if self.peak is None else self.values.index(self.peak)

    @property
    def last(self) -> float | None:
        """The newest value that is known."""
        return next((value for value in reversed(self.values) if value is not None), None)


@dataclass(frozen=True, slots=True)
class OverTime:
    """The content of a page's charts."""

    stretch: Stretch
    now_ms: int
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    #: of several brokers: those of which nothing is known for part of the time
    partial: tuple[str, ...] = ()
    #: parameters of the page that its links keep
    kept: tuple[tuple[str, str], ...] = ()
    is_kept_at_all: bool = True

    def live(self, page: str) -> str:
        """Return the address of a live page with these charts; those of a stretch that is over do not move."""
        if not self.stretch.over:
            return page
        return f"{page}{'&' if '?' in page else '?'}over={self.stretch.over}"

    def address(self, **query: object) -> str:
        """Return the query of this page with another stretch."""
        return f"?{urlencode({**dict(self.kept), **{name: str(value) for name, value in query.items()}})}"


def stretch_of(given: Mapping[str, str], at_ms: int) -> Stretch:
    """Return the stretch that an address names: `over`, or `from` and `to` in ms; what makes no sense is the default.

    It ends with a whole value, the one that is under way left out.
    """
    start_ms, end_ms = whole_number(given.get("from")), whole_number(given.get("to"))
    over = given.get("over", DEFAULT)
    span_ms, width_ms = SPANS.get(over, SPANS[DEFAULT])
    if start_ms is None or end_ms is None or not 0 <= start_ms < end_ms:
        end_ms = at_ms - at_ms % max(width_ms, _every_ms())
        return _cut(end_ms - span_ms, end_ms, at_ms, over if over in SPANS else DEFAULT)
    end_ms = min(end_ms, at_ms)
    oldest_ms = at_ms - round(settings.SNAPSHOT_KEEP_DAYS * DAY_MS)
    start_ms = max(oldest_ms, min(start_ms, end_ms - SHORTEST_MS))
    return _cut(start_ms, max(end_ms, start_ms + SHORTEST_MS), at_ms, "")


def _cut(start_ms: int, end_ms: int, at_ms: int, over: str) -> Stretch:
    least_ms = _every_ms()
    if start_ms < at_ms - round(settings.SNAPSHOT_KEEP_H * HOUR_MS) - 2 * HOUR_MS:
        least_ms = HOUR_MS
    span_ms = end_ms - start_ms
    width_ms = next((each for each in _WIDTHS if each >= least_ms and span_ms / each <= MOST_VALUES), _WIDTHS[-1])
    start_ms -= start_ms % width_ms
    return Stretch(start_ms, start_ms + max(1, -(-(end_ms - start_ms) // width_ms)) * width_ms, width_ms, over)


def _every_ms() -> int:
    """Return how far snapshots are apart by the broker's clock, as one of the widths that values have."""
    line = simulated()
    every_ms = (settings.SNAPSHOT_EVERY_S or 60) * 1000 * (line.speed if line is not None else 1)
    return next((width for width in _WIDTHS if width >= every_ms), _WIDTHS[-1])


def over_time(
    given: Mapping[str, str],
    wanted: Sequence[Wanted],
    *,
    kinds: Sequence[str] = (),
    about: tuple[str, str] | None = None,
    keep: Sequence[str] = (),
    moved: Callable[[int, int], Sequence[Moved]] | None = None,
) -> OverTime:
    """Return the charts of a page, as the parameters of its address ask for.

    `kinds`: how the kinds of operations begin that are marked; `about`: only those that touch this ("topic" or "group",
    its name); `keep`: parameters that links keep; `moved`: what set groups back or forward between two moments, which
    is no consumption: what was consumed again counts, what was skipped does not.
    """
    of, at_ms = cluster(), now_ms()
    stretch = stretch_of(given, at_ms)
    lines, partial = lines_of(of, wanted, stretch, moved(stretch.start_ms, at_ms) if moved is not None else ())
    kept = tuple((name, given[name][:255]) for name in keep if given.get(name))
    # what was done since the last whole value stands at the end
    end_ms = at_ms if stretch.over else stretch.end_ms
    marks = marks_between(stretch.start_ms, end_ms, of.names, kinds=kinds, about=about)
    is_kept = bool(settings.SNAPSHOT_EVERY_S)
    return OverTime(stretch, at_ms, lines, marks, partial, kept, is_kept)


# Reading: minutes (or hours) of each broker first, then all brokers, then the values of the chart.

_ROWS = """
    SELECT s.broker, s.kind, s.name, f.slot, f.passed, {pending}, {lag}, {lateness}
      FROM console_figuresubject s JOIN {table} f ON f.subject_id = s.id
     WHERE s.broker = ANY(%(brokers)s)
       AND (s.kind, s.name) IN (SELECT * FROM unnest(%(kinds)s::text[], %(names)s::text[]))
       AND f.slot BETWEEN %(first)s AND %(last)s
     ORDER BY s.id, f.slot
"""
_MINUTES = _ROWS.format(table="console_minutefigures", pending="f.pending", lag="f.lag", lateness="f.lateness_us")
#: beside the last value of an hour its highest one
_HOURS = _ROWS.format(
    table="console_hourfigures",
    pending="ARRAY[f.pending, f.most_pending]",
    lag="ARRAY[f.lag, f.most_lag]",
    lateness="ARRAY[f.lateness_us, f.most_lateness_us]",
)
_READ = """
    SELECT broker, slot_ms / %(width)s, bool_or(lanes IS NOT NULL), bool_or(timers IS NOT NULL)
      FROM console_snapshot
     WHERE broker = ANY(%(brokers)s) AND slot_ms BETWEEN %(start)s AND %(end)s
     GROUP BY 1, 2
"""

#: broker -> part -> whether a base slot was read: as it was, and with single slots between two others
_Read = dict[str, dict[str, tuple[list[bool], list[bool]]]]


@dataclass(frozen=True, slots=True)
class _Base:
    """The slots in which figures are kept, over a stretch and one before it."""

    first: int
    length: int
    width_ms: int
    is_by_hour: bool

    @classmethod
    def of(cls, stretch: Stretch) -> _Base:
        width_ms = _every_ms() if stretch.is_by_minute else HOUR_MS
        first = stretch.start_ms // width_ms - 1
        return cls(first, -(-stretch.end_ms // width_ms) - first, width_ms, not stretch.is_by_minute)


#: at which broker ("": the first, as there was no other), when, and by how many messages a group was set back
Moved = tuple[str, int, int]


def lines_of(
    of: Cluster, wanted: Sequence[Wanted], stretch: Stretch, moved: Sequence[Moved] = ()
) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """Return the lines, and of several brokers those of which nothing is known for part of the time; by two queries."""
    base = _Base.of(stretch)
    read = _read(of, base)
    rows = _rows(of, wanted, stretch, base)
    lines = tuple(
        Line(each, _values(_in_total(of, each, rows, read, base, moved), each, stretch, base)) for each in wanted
    )
    return lines, _partial(read, base) if of.has_several else ()


def _read(of: Cluster, base: _Base) -> _Read:
    """Return which slots were read of each broker."""
    found = {name: {part: [False] * base.length for part in ("lanes", "timers")} for name in of.names}
    start_ms = base.first * base.width_ms
    given: dict[str, Any] = {"brokers": of.names, "width": base.width_ms, "start": start_ms,
             "end": start_ms + base.length * base.width_ms - 1}  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_READ, given)
        for broker, slot, has_lanes, has_timers in cursor.fetchall():
            parts, at = found[broker], slot - base.first
            parts["lanes"][at], parts["timers"][at] = has_lanes, has_timers
    return {name: {part: (slots, _bridged(slots)) for part, slots in parts.items()} for name, parts in found.items()}


def _rows(
    of: Cluster, wanted: Sequence[Wanted], stretch: Stretch, base: _Base
) -> dict[tuple[str, str, str], list[Any]]:
    """Return the rows of each subject at each broker, from the beginning of the hour (or day) of the first slot on."""
    subjects = list(dict.fromkeys((each.kind, each.name) for each in wanted))
    is_by_minute = stretch.is_by_minute
    unit_ms = MINUTE_MS if is_by_minute else HOUR_MS
    first = base.first * base.width_ms // unit_ms
    given: dict[str, Any] = {
        "brokers": of.names,
        "kinds": [str(kind) for kind, _name in subjects],
        "names": [name for _kind, name in subjects],
        "first": first // 60 * 60 if is_by_minute else first // 24 * 24,
        "last": (base.first + base.length) * base.width_ms // unit_ms,
    }  # fmt: skip
    found: dict[tuple[str, str, str], list[Any]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_MINUTES if is_by_minute else _HOURS, given)
        for broker, kind, name, slot, *figures in cursor.fetchall():
            found.setdefault((broker, kind, name), []).append((slot * unit_ms // base.width_ms - base.first, *figures))
    return found


#: places of the figures in a row, behind its slot
_PLACES = {Measure.PASSED: 1, Measure.PENDING: 2, Measure.LAG: 3, Measure.LATENESS: 4}


def _in_total(
    of: Cluster, each: Wanted, rows: Mapping[tuple[str, str, str], Sequence[Any]], read: _Read, base: _Base,
    moved: Sequence[Moved],
) -> list[float | None]:  # fmt: skip
    """Return a line's figure in every slot, of all brokers: a rate per second, or what there was at most."""
    several = []
    for broker in of.names:
        is_read, bridged = read[broker][each.part]
        told = _filled(rows.get((broker, each.kind, each.name), ()), is_read, _PLACES[each.measure], base)
        if each.measure.is_rate:
            own = [(at_ms, count) for name, at_ms, count in moved if (name or of.names[0]) == broker]
            several.append(_rates(_unmoved(told, own, base), bridged, base))
        else:
            several.append([None if value is None else value[1] for value in told])
    # where nobody was read it is a gap, also in a total in which one that is away counts as it was known last
    is_known = [any(column) for column in zip(*(read[name][each.part][1] for name in of.names), strict=True)]
    columns = zip(zip(*several, strict=True), is_known, strict=True)
    return [_sum(column, each.measure) if known else None for column, known in columns] or [None] * base.length


def _filled(told: Sequence[Any], is_read: Sequence[bool], place: int, base: _Base) -> list[tuple[float, float] | None]:
    """Return the last figure of each slot with the highest one, as rows are there only where a figure moved.

    The first slot of an hour (of a day, of hours) that was read has a row: without one its subject is gone.
    """
    rows: dict[int, Any] = {max(row[0], 0): row[place] for row in told}
    turn_ms = DAY_MS if base.is_by_hour else HOUR_MS
    found: list[tuple[float, float] | None] = []
    last: float | None = None
    turn: int | None = None
    for at, here in enumerate(is_read):
        now = (base.first + at) * base.width_ms // turn_ms
        if at in rows:
            value = rows[at]
            last, most = value if isinstance(value, list) else (value, value)
            turn = now
        elif here and turn is not None and now != turn:
            last = most = None
            turn = now
        else:
            most = last
        found.append(None if last is None else (last, last if most is None else most))
    return found


def _unmoved(
    told: list[tuple[float, float] | None], moved: Sequence[tuple[int, int]], base: _Base
) -> list[tuple[float, float] | None]:
    """Return the figures as they would stand if nobody had moved the group: a minute's was taken at its beginning, an
    hour's at its end."""
    for at_ms, count in moved:
        first = max(0, at_ms // base.width_ms - base.first + (0 if base.is_by_hour else 1))
        told = [
            figure if figure is None or at < first else (figure[0] + count, figure[1] + count)
            for at, figure in enumerate(told)
        ]
    return told


def _bridged(is_read: Sequence[bool]) -> list[bool]:
    last = len(is_read) - 1
    return [here or (0 < at < last and is_read[at - 1] and is_read[at + 1]) for at, here in enumerate(is_read)]


def _sum(column: Sequence[float | None], measure: Measure) -> float | None:
    known = [value for value in column if value is not None]
    if not known:
        return None
    # of several brokers the latest one says how late it was
    return max(known) if measure is Measure.LATENESS else sum(known)


def _rates(told: Sequence[tuple[float, float] | None], is_read: Sequence[bool], base: _Base) -> list[float | None]:
    """Return what went through a second in each slot; not known where the one before was not read."""
    found: list[float | None] = [None] * base.length
    before: float | None = None
    for at, here in enumerate(is_read):
        figure = told[at]
        if not here or figure is None:
            before = None
            continue
        if before is not None and figure[0] >= before:
            found[at] = (figure[0] - before) * 1000 / base.width_ms
        before = figure[0]
    return found


def _values(figures: Sequence[float | None], each: Wanted, stretch: Stretch, base: _Base) -> tuple[float | None, ...]:
    """Return the values of the chart from those of the slots: the mean of a rate, the highest of the others."""
    wide = max(1, stretch.width_ms // base.width_ms)
    skipped = stretch.start_ms // base.width_ms - base.first
    found: list[float | None] = []
    for at in range(skipped, skipped + stretch.length * wide, wide):
        known = [value for value in figures[at : at + wide] if value is not None]
        if not known:
            found.append(None)
        elif each.measure.is_rate:
            found.append(sum(known) / len(known))
        else:
            most = max(known)
            found.append(most / 1000 if each.measure is Measure.LATENESS else most)
    return tuple(found)


def _partial(read: _Read, base: _Base) -> tuple[str, ...]:
    """Return the brokers of which something was not read while something of another was."""
    bridged = {name: parts["lanes"][1] for name, parts in read.items()}
    anybody = [any(column) for column in zip(*bridged.values(), strict=True)]
    return tuple(name for name, mine in bridged.items() if any(a and not b for a, b in zip(anybody, mine, strict=True)))


_FASTEST = """
    SELECT DISTINCT ON (broker) broker, per_s, slot FROM (
        SELECT s.broker, f.slot, (f.passed - lag(f.passed) OVER before) / 60.0 / (f.slot - lag(f.slot) OVER before)
               AS per_s
          FROM console_figuresubject s JOIN console_minutefigures f ON f.subject_id = s.id
         WHERE s.broker = ANY(%(brokers)s) AND s.kind = ANY(%(kinds)s::text[]) AND s.name = ''
        WINDOW before AS (PARTITION BY s.id ORDER BY f.slot)) found
     WHERE per_s > 0 ORDER BY broker, per_s DESC
"""


def fastest(of: Cluster, kinds: Sequence[str]) -> dict[str, tuple[float, int]]:
    """Return by broker the fastest minute that is kept of any of these kinds: messages a second at least, and when."""
    given: dict[str, Any] = {"brokers": of.names, "kinds": [str(kind) for kind in kinds]}
    with connection.cursor() as cursor:
        cursor.execute(_FASTEST, given)
        return {broker: (float(per_s), (slot - 1) * MINUTE_MS) for broker, per_s, slot in cursor.fetchall()}
