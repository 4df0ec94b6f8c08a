"""Checks of values from outside before a table takes them: bounded, and text that every reader can store.

Tables are written to JSON, answered to clients of many languages and repeated in PostgreSQL: text that is no UTF-8 or
holds control characters breaks one of them, text without a bound all.
"""

from __future__ import annotations

import math
import re
from typing import Any

from .errors import InvalidValue

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
#: Nested deeper than this is nothing that RocketMQ has.
MOST_LEVELS = 32
#: A table as a whole, as it stands in its file. It is answered in one frame, of which Java's clients read 16 MiB, and
#: written anew with each change: with the shortest names these are 40,000 topics, 18,000 groups.
MOST_TABLE_BYTES = 8 << 20
#: One part in so many of a bound comes on top for what groups need: where others have taken all the room, who consumes
#: still gets on.
RESERVED_PART = 4

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROLS_BUT_BREAKS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def check_text(what: str, value: str, *, least: int = 0, most: int, breaks: bool = False) -> None:
    """Raise InvalidValue unless the text has ``least`` to ``most`` characters, none of them a control character (with
    ``breaks``: but tabs and line ends) or half a surrogate pair."""
    if not least <= len(value) <= most:
        raise InvalidValue(what, f"has {len(value):,} characters; allowed are {least:,} to {most:,}")
    found = (_CONTROLS_BUT_BREAKS if breaks else _CONTROLS).search(value)
    if found:
        raise InvalidValue(what, f"has a control character or no UTF-8 (U+{ord(found[0]):04X}) at {found.start():,}")


def check_whole(what: str, value: int, low: int, high: int) -> None:
    """Raise InvalidValue unless a whole number lies in ``low`` to ``high``."""
    if not low <= value <= high:
        raise InvalidValue(what, f"is {_shown(value)}; allowed are {low} to {high}")


def check_json(what: str, value: Any, *, most: int, levels: int = MOST_LEVELS) -> None:
    """Raise InvalidValue unless a value made of JSON can be written by all: text as ``check_text`` wants it, whole
    numbers of 64 bits, at most so many ``levels``."""
    if isinstance(value, str):
        check_text(what, value, most=most, breaks=True)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        check_whole(what, value, LONG_MIN, LONG_MAX)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValue(what, "is no finite number")
    elif not levels:
        raise InvalidValue(what, "is nested too deep")
    elif isinstance(value, dict):
        for name, member in value.items():
            check_text(what, name, most=most)
            check_json(what, member, most=most, levels=levels - 1)
    else:
        for member in value:
            check_json(what, member, most=most, levels=levels - 1)


def check_table(what: str, size: int, more: int, how_to_shrink: str, *, reserve: bool = False) -> None:
    """Raise InvalidValue if a table of ``size`` bytes would hold too much with so many ``more``. What makes it no
    larger may always be: it may be another broker's, and have more. ``reserve``: it is for what groups need."""
    check_size(what, size, more, MOST_TABLE_BYTES + reserve * MOST_TABLE_BYTES // RESERVED_PART, how_to_shrink)


def check_size(what: str, size: int, more: int, most: int, how_to_shrink: str) -> None:
    """Raise InvalidValue as ``check_table``, with a bound of its own."""
    if more > 0 and size + more > most:
        raise InvalidValue(what, f"would have {size + more:,} bytes; allowed are {most:,}: {how_to_shrink}")


def byte_count(text: str) -> int:
    """Return how many bytes a text takes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def tidy(value: str, most: int) -> str:
    """Return text that only tells of something, as it may be kept and shown: bounded, a question mark for each
    character that ``check_text`` refuses."""
    return _CONTROLS.sub("?", value[:most])


def _shown(value: int) -> str:
    return str(value) if LONG_MIN <= value <= LONG_MAX else "beyond 64 bits"
