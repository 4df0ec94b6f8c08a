"""The options of the data source, from text to values, and the choice of rows.

docs/SPARK.md lists the options. Rows are chosen by topic, time stored and position. Positions choose segments exactly.
Times choose them by the first record of each stretch, with an hour to spare on either side, because a broker's clock
may have been set back; what is left is compared row by row.

Spark 4.3 keeps the reader of a DataFrame with the filters it was given, and uses it again for a later query of the same
DataFrame that has none: rows are missing then, and nothing says so. Therefore filters are taken only from a DataFrame
that was loaded with ``pushdown=true``, which says that it is asked once; the options ``topics``, ``since_ms``,
``until_ms``, ``start_position`` and ``end_position`` do the same without that trap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from broker.rocketmq.topics import DELAY_LEVELS

from .columns import GROUPS, NEEDED_PROPERTIES, Selection, chosen, delays_of
from .decode import NAMED
from .properties import can_tell_apart, column_of
from .store import DashboardError

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


DEFAULT_SPLIT_BYTES = 64 << 20
DEFAULT_BATCH_BYTES = 256 << 20
#: A table that recognises names in one look has room for so many (properties.py).
MOST_EXTRACTED = 40
#: ``broker-a=/path/to/store``
_NAMED_STORE = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)


class OptionInvalid(DashboardError):
    """An option of the data source has a value that it cannot have."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The part of the log to read, and where it ends.

    ``broker_name``: what the broker is called whose store that is, for the column `broker`; None: nobody said.
    ``end_position`` None and ``end`` "checkpoint": what the broker's checkpoint vouches for, and where there is none,
    up to the last sound record. ``end`` "log": up to the last sound record in any case. ``broker``: address of the
    broker that is asked first; empty: none is asked. ``pushdown``: see above.
    """

    path: str
    selection: Selection
    start_position: int
    end_position: int | None
    end: str
    broker: str
    wanted: Wanted
    pushdown: bool
    split_bytes: int
    batch_bytes: int
    broker_name: str | None = None


def parse_options(options: Mapping[str, str]) -> LogOptions:
    """Return the options of a scan of one store as values. Raises OptionInvalid."""
    (only, *others) = parse_stores(options)
    if others:
        raise OptionInvalid(f"{len(others) + 1} stores are named, and one is read here: give one path.")
    return only


def parse_stores(options: Mapping[str, str]) -> list[LogOptions]:
    """Return the options as values, for each store that is to be read. Raises OptionInvalid."""
    places = _places(options)
    if len(places) == 1:
        name, path = places[0]
        return [_of_store(options, name, path)]
    names = [name for name, _ in places]
    if None in names or len(set(names)) < len(names):
        raise OptionInvalid('Several stores need a name each: load("broker-a=/path/to/one;broker-b=/path/to/other").')
    for option in ("start_position", "end_position"):
        if option in options:
            raise OptionInvalid(f"{option} is a place in one log, and several are named: choose by since_ms, until_ms.")
    asked = dict(found for found in map(_named, options.get("broker", "").split(";")) if found[0] is not None)
    return [_of_store({**options, "broker": asked.get(name, "")}, name, path) for name, path in places]


def _places(options: Mapping[str, str]) -> list[tuple[str | None, str]]:
    """Return the stores that are named, each with the name of its broker, if it has one."""
    path = options.get("path", "")
    for separator in ";,":
        parts = [_named(part.strip()) for part in path.split(separator) if part.strip()]
        if len(parts) > 1 and all(name is not None for name, _ in parts):
            return parts
    given = [path] if path else json.loads(options.get("paths", "[]"))  # Spark's form of load([…, …])
    if not given:
        raise OptionInvalid('Say which store to read: spark.read.format("rocketmq_log").load("/path/to/store").')
    return [_named(one) for one in given]


def _named(text: str) -> tuple[str | None, str]:
    found = _NAMED_STORE.fullmatch(text)
    return (found[1], found[2]) if found else (None, text)


def _of_store(options: Mapping[str, str], broker_name: str | None, path: str) -> LogOptions:
    selection = parse_selection(options)
    end = options.get("end", "checkpoint")
    if end not in ("checkpoint", "log"):
        raise OptionInvalid(f"end={end!r}: it is 'checkpoint' or 'log'; a position is given as end_position.")
    return LogOptions(
        path,
        selection,
        whole(options, "start_position", 0),
        whole(options, "end_position", -1) if "end_position" in options else None,
        end,
        options.get("broker", ""),
        Wanted(
            frozenset(words(options["topics"])) if "topics" in options else None,
            times_ms=(whole(options, "since_ms", LEAST), whole(options, "until_ms", MOST)),
        ),
        flag(options, "pushdown"),
        max(1 << 20, whole(options, "split_bytes", DEFAULT_SPLIT_BYTES)),
        max(1 << 20, whole(options, "batch_bytes", DEFAULT_BATCH_BYTES)),
        broker_name,
    )


def parse_selection(options: Mapping[str, str], columns: str = "names", *, inflate: bool = False) -> Selection:
    """Return the columns that options choose; ``columns`` and ``inflate``: what counts where they say nothing.

    Raises OptionInvalid.
    """
    try:
        groups, only = chosen(words(options.get("columns", columns)))
    except KeyError as error:
        raise OptionInvalid(f"columns={error}: that is no column, and the groups are {', '.join(GROUPS)}.") from None
    topics = frozenset(words(options.get("body_topics", "")))
    levels = options.get("levels", DELAY_LEVELS)
    try:
        delays_ms = delays_of(levels)
    except (ValueError, KeyError):
        raise OptionInvalid(f"levels={levels!r} is no list of delays such as '1s 5s 1m 2h'.") from None
    return Selection(
        groups | {"body"} if topics else groups,
        _extracted(options),
        topics,
        flag(options, "inflate", inflate),
        delays_ms,
        only | {"body"} if only and topics else only,
    )


def words(text: str) -> list[str]:
    """Return what commas separate."""
    return [word.strip() for word in text.split(",") if word.strip()]


def whole(options: Mapping[str, str], name: str, default: int) -> int:
    """Return the option as a whole number. Raises OptionInvalid."""
    text = options.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit():
        raise OptionInvalid(f"{name}={text!r} is no whole number from 0 on.")
    return int(text)


def flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Return the option as a truth. Raises OptionInvalid."""
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise OptionInvalid(f"{name}={text!r}: it is 'true' or 'false'.")
    return text.lower() == "true"


def _extracted(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the properties that become columns of their own."""
    names = tuple(dict.fromkeys(words(options.get("extract", ""))))
    columns = [column_of(name) for name in names]
    if len(set(columns)) < len(columns):
        double = next(name for name in columns if columns.count(name) > 1)
        raise OptionInvalid(f"extract={','.join(names)!r}: two of them would be the column {double}; ask for one.")
    if len(names) > MOST_EXTRACTED or not can_tell_apart((*NAMED, *names, *NEEDED_PROPERTIES)):
        raise OptionInvalid(
            f"extract: more than {MOST_EXTRACTED} properties, or two names too much alike, cannot be columns of their "
            "own; choose columns=properties, a map of all."
        )
    return names
