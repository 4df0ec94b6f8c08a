"""Which rows are wanted, by topic, time stored and position, and which filters of a query the reader takes over.

Positions choose segments exactly. Times choose them by the first record of each stretch, with an hour to spare on
either side, because a broker's clock may have been set back; what is left is compared row by row.

Spark 4.3 keeps the reader of a DataFrame with the filters it was given, and uses it again for a later query of the same
DataFrame that has none: rows are missing then, and nothing says so. Therefore filters are taken only from a DataFrame
that was loaded with ``pushdown=true``, which says that it is asked once; the options ``topics``, ``since_ms``,
``until_ms``, ``start_position`` and ``end_position`` do the same without that trap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

#: How far a broker's clock may have been set back without a record being missed.
CLOCK_SLACK_MS = 3_600_000
LEAST, MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows that are wanted. Bounds are inclusive; ``topics`` None: all of them."""

    topics: frozenset[str] | None = None
    positions: tuple[int, int] = (LEAST, MOST)
    times_ms: tuple[int, int] = (LEAST, MOST)

    def may_hold(self, first_ms: int, last_ms: int) -> bool:
        """Tell whether a segment whose records were stored between two moments can hold a wanted row."""
        return first_ms - CLOCK_SLACK_MS <= self.times_ms[1] and last_ms + CLOCK_SLACK_MS >= self.times_ms[0]

    @property
    def columns(self) -> list[str]:
        """The columns that have to be there for ``choose``."""
        needed = {"topic": self.topics is not None, "position": self.positions != (LEAST, MOST)}
        return [
            name for name, is_needed in (needed | {"store_ms": self.times_ms != (LEAST, MOST)}).items() if is_needed
        ]

    def choose(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted rows."""
        masks = []
        if self.topics is not None:
            masks.append(pc.is_in(batch.column("topic"), value_set=pa.array(sorted(self.topics), pa.string())))
        for name, (low, high) in (("position", self.positions), ("store_ms", self.times_ms)):
            if low > LEAST:
                masks.append(pc.greater_equal(batch.column(name), low))
            if high < MOST:
                masks.append(pc.less_equal(batch.column(name), high))
        for mask in masks[1:]:
            masks[0] = pc.and_kleene(masks[0], mask)
        return batch.filter(masks[0]) if masks else batch


def split(wanted: Wanted, filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """Return what is wanted, narrowed by the filters that the reader takes upon itself, and those left to Spark."""
    left: list[Filter] = []
    for one in filters:
        narrowed = _narrow(wanted, one)
        if narrowed is None:
            left.append(one)
        else:
            wanted = narrowed
    return wanted, left


def _narrow(wanted: Wanted, one: Filter) -> Wanted | None:
    column: tuple[str, ...] = getattr(one, "attribute", ())
    if column == ("topic",):
        values = one.value if isinstance(one, In) else (one.value,) if isinstance(one, EqualTo) else None
        if values is None or not all(isinstance(value, str) for value in values):
            return None
        topics = frozenset(values)
        return replace(wanted, topics=topics if wanted.topics is None else wanted.topics & topics)
    bounds = next(_bounds(one), None)
    if bounds is not None and column == ("position",):
        return replace(wanted, positions=_both(wanted.positions, bounds))
    if bounds is not None and column == ("store_ms",):
        return replace(wanted, times_ms=_both(wanted.times_ms, bounds))
    return None


def _both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), min(one[1], other[1])


def _bounds(one: Filter) -> Iterator[tuple[int, int]]:
    match one:
        case EqualTo(_, int(value)):
            yield value, value
        case GreaterThan(_, int(value)):
            yield value + 1, MOST
        case GreaterThanOrEqual(_, int(value)):
            yield value, MOST
        case LessThan(_, int(value)):
            yield LEAST, value - 1
        case LessThanOrEqual(_, int(value)):
            yield LEAST, value
