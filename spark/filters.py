"""Filters of a query that the reader takes upon itself: topic, time stored, position.

Spark 4.3 keeps the reader of a DataFrame with the filters it was given, and uses it again for a later query of the same
DataFrame that has none: rows are missing then, and nothing says so. Therefore filters are taken only from a DataFrame
that was loaded with ``pushdown=true``, which says that it is asked once; the options ``topics``, ``since_ms``,
``until_ms``, ``start_position`` and ``end_position`` do the same without that trap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from .row_filter import LEAST, MOST, Wanted


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
