"""Pages of one list of several brokers: merged in the list's order, with a place for each broker to go on from.

A page of the whole is made of a page of each broker. Of the next one a broker gives what stands behind its last row
that was shown; a broker that still has rows, but none to give, ends the page, as those could stand before others'.

A cursor is `c1` and, in base64, the places by broker as JSON; null: that broker's list has ended.
"""

from __future__ import annotations

import base64
import binascii
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

_VERSION = "c1"
#: characters of a cursor at most: so many brokers with long names have room
LONGEST = 4_096

Row = TypeVar("Row")
#: where a broker's list goes on: an offset, or that broker's own cursor
Place = int | str
Places = Mapping[str, Place | None]


@dataclass(frozen=True, slots=True)
class Part(Generic[Row]):
    """A page of one broker, in order; `following` is the place behind it, None: it was the last."""

    broker: str
    rows: Sequence[Row]
    following: Place | None


@dataclass(frozen=True, slots=True)
class Whole(Generic[Row]):
    """A page of all of them. `places`: where each goes on; None: it was the last."""

    rows: tuple[Row, ...]
    places: Places | None

    @property
    def cursor(self) -> str | None:
        """The places as a text, which `read_cursor` reads."""
        return None if self.places is None else write_cursor(self.places)


def merged(
    parts: Iterable[Part[Row]],
    *,
    before: Places,
    key: Callable[[Row], Any],
    place: Callable[[Row], Place],
    count: int,
) -> Whole[Row]:
    """Return the first `count` rows of the parts by `key`, and of those with the same by broker.

    Each part keeps its own order. `before` has the places that they were read from, none for a list's beginning;
    `place` gives the one behind a row. A broker without a part (it is away) keeps its place.
    """
    listed = {part.broker: part for part in parts}
    taken = dict.fromkeys(listed, 0)
    rows: list[Row] = []
    heads: list[tuple[Any, str]] = []

    def offer(broker: str) -> bool:
        """Put the next row of a part among the heads; False: it has more, and nobody knows which."""
        part = listed[broker]
        if taken[broker] < len(part.rows):
            heapq.heappush(heads, (key(part.rows[taken[broker]]), broker))
            return True
        return part.following is None

    is_known = all(offer(broker) for broker in listed)
    while is_known and heads and len(rows) < count:
        _, broker = heapq.heappop(heads)
        rows.append(listed[broker].rows[taken[broker]])
        taken[broker] += 1
        is_known = offer(broker)
    places = dict(before)
    for broker, part in listed.items():
        if taken[broker] == len(part.rows):
            places[broker] = part.following
        elif taken[broker]:
            places[broker] = place(part.rows[taken[broker] - 1])
    is_over = all(taken[broker] == len(part.rows) and part.following is None for broker, part in listed.items())
    return Whole(tuple(rows), None if is_over else places)


def write_cursor(places: Places) -> str:
    """Return the places as a text."""
    return _VERSION + base64.urlsafe_b64encode(msgspec.json.encode(dict(places))).decode().rstrip("=")


def read_cursor(text: str | None) -> Places | None:
    """Return the places of a cursor, of none those of the beginning; None for a text that is no cursor."""
    if not text:
        return {}
    if not text.startswith(_VERSION) or len(text) > LONGEST:
        return None
    packed = text.removeprefix(_VERSION)
    try:
        raw = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=dict[str, int | str | None])
    except (binascii.Error, ValueError):
        return None
