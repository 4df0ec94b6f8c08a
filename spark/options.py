"""The options of the data source, from text to values. docs/SPARK.md lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.rocketmq.topics import DELAY_LEVELS

from .decode import NAMED
from .errors import OptionInvalid
from .kinds import NEEDED_PROPERTIES
from .properties import can_tell_apart, column_of
from .row_filter import LEAST, MOST, Wanted
from .selection import GROUPS, Selection, chosen, delays_of

DEFAULT_SPLIT_BYTES = 64 << 20
DEFAULT_BATCH_BYTES = 256 << 20
#: A table that recognises names in one look has room for so many (properties.py).
MOST_EXTRACTED = 40


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What to read and up to where.

    ``end_position`` None and ``end`` "checkpoint": what the broker's checkpoint vouches for, and where there is none,
    up to the last sound record. ``end`` "log": up to the last sound record in any case. ``broker``: address of the
    broker that is asked first; empty: nobody. ``pushdown``: see row_filter.py.
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


def parse_options(options: Mapping[str, str]) -> LogOptions:
    """Return the options as values. Raises OptionInvalid."""
    path = options.get("path")
    if not path:
        raise OptionInvalid('Say which store to read: spark.read.format("rocketmq_log").load("/path/to/store").')
    try:
        groups, only = chosen(_words(options.get("columns", "names")))
    except KeyError as error:
        raise OptionInvalid(f"columns={error}: that is no column, and the groups are {', '.join(GROUPS)}.") from None
    topics = frozenset(_words(options.get("body_topics", "")))
    levels = options.get("levels", DELAY_LEVELS)
    try:
        delays_ms = delays_of(levels)
    except (ValueError, KeyError):
        raise OptionInvalid(f"levels={levels!r} is no list of delays such as '1s 5s 1m 2h'.") from None
    inflate = _flag(options, "inflate")
    selection = Selection(
        groups | {"body"} if topics else groups,
        _extracted(options),
        topics,
        inflate,
        delays_ms,
        only | {"body"} if only and topics else only,
    )
    end = options.get("end", "checkpoint")
    if end not in ("checkpoint", "log"):
        raise OptionInvalid(f"end={end!r}: it is 'checkpoint' or 'log'; a position is given as end_position.")
    return LogOptions(
        path,
        selection,
        _whole(options, "start_position", 0),
        _whole(options, "end_position", -1) if "end_position" in options else None,
        end,
        options.get("broker", ""),
        Wanted(
            frozenset(_words(options["topics"])) if "topics" in options else None,
            times_ms=(_whole(options, "since_ms", LEAST), _whole(options, "until_ms", MOST)),
        ),
        _flag(options, "pushdown"),
        max(1 << 20, _whole(options, "split_bytes", DEFAULT_SPLIT_BYTES)),
        max(1 << 20, _whole(options, "batch_bytes", DEFAULT_BATCH_BYTES)),
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit():
        raise OptionInvalid(f"{name}={text!r} is no whole number from 0 on.")
    return int(text)


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false")
    if text.lower() not in ("true", "false"):
        raise OptionInvalid(f"{name}={text!r}: it is 'true' or 'false'.")
    return text.lower() == "true"


def _extracted(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the properties that become columns of their own."""
    names = tuple(dict.fromkeys(_words(options.get("extract", ""))))
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
