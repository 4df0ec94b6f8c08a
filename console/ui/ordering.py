"""Lists in the order that their address asks for: all of a list is sorted before a page is cut out of it.

`order` is the name of a column, with "-" before it the other way round. A list that a broker gives page by page in an
order of its own is never sorted here: that would sort what happens to be on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Row = TypeVar("Row")
#: what a row is sorted by; None: it is not known
Key = Callable[[Any], Any]


def asked_order(text: str, names: Iterable[str], otherwise: str) -> str:
    """Return the order that was asked for, or that of a list for which none of these columns was."""
    return text if text.removeprefix("-") in set(names) else otherwise


def ordered(rows: Sequence[Row], order: str, keys: Mapping[str, Key]) -> list[Row]:
    """Return the rows in this order. What is not known stands last in both directions, equals as they stood."""
    key_of = keys[order.removeprefix("-")]
    known = [row for row in rows if key_of(row) is not None]
    known.sort(key=key_of, reverse=order.startswith("-"))
    return known + [row for row in rows if key_of(row) is None]


@dataclass(frozen=True, slots=True)
class Sorting:
    """The order of a list, and the rest of its address: what the heads of its columns lead to."""

    order: str
    #: begins with "&" if there is any
    query: str = ""

    def direction(self, name: str) -> str:
        """Return what `aria-sort` says of a column; "" for one that the list is not sorted by."""
        if self.order.removeprefix("-") != name:
            return ""
        return "descending" if self.order.startswith("-") else "ascending"

    def following(self, name: str, *, falls: bool) -> str:
        """Return the order that a column's head leads to; `falls`: the largest come first at the first press."""
        is_falling = not self.order.startswith("-") if self.direction(name) else falls
        return f"-{name}" if is_falling else name
