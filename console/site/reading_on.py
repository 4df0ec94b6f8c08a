"""Lists for who sees some topics only: reading past rows that are hidden from them, until a page is full.

The look is bounded. Where the bound ends it, the page says how much was looked through, and goes on from there; a list
of REST goes on from its cursor.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

#: rows that are looked through for one page, rows of one question, and for how long
MOST_LOOKED, MOST_STEP, PATIENCE_S = 20_000, 1_000, 1.5

Page = TypeVar("Page")
Place = TypeVar("Place")
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Filled(Generic[Page, Place, Row]):
    """`page`: the last one that was read; `rows` those of all pages that are kept; `following` is the place behind."""

    page: Page
    rows: tuple[Row, ...]
    following: Place | None
    #: rows that were looked through; 0: the page is full, or the list has ended
    looked: int = 0


class _Look(Generic[Place, Row]):
    """The reading of a list for one page of `count` kept rows.

    A step that has more than there is room for is read again as far as there is: only its end names the next place.
    """

    def __init__(
        self, keep: Callable[[Row], bool], place: Place | None, count: int, most_step: int, patience_s: float
    ) -> None:
        self._keep, self._count, self._most_step = keep, count, most_step
        self._until_s = time.monotonic() + patience_s
        self.place, self.step = place, min(count, most_step)
        self.kept: list[Row] = []
        self.looked = 0

    def most_of(self, rows: Sequence[Row]) -> int | None:
        """Return how many of these rows are to be read again, because there is no room for all; None: none."""
        hits = [number for number, row in enumerate(rows, 1) if self._keep(row)]
        room = self._count - len(self.kept)
        return hits[room - 1] if len(hits) > room else None

    def take(self, rows: Sequence[Row], following: Place | None) -> bool:
        """Take the rows up to the next place. Returns whether that is all."""
        self.kept += filter(self._keep, rows)
        self.looked, self.place = self.looked + len(rows), following
        self.step = min(2 * self.step, self._most_step)
        return self.is_full or self.looked >= MOST_LOOKED or time.monotonic() > self._until_s

    @property
    def is_full(self) -> bool:
        """Tell whether the page is full, or the list has ended."""
        return self.place is None or len(self.kept) >= self._count


def fill(
    read: Callable[[Place | None, int], Page],
    of: Callable[[Page], tuple[Sequence[Row], Place | None]],
    keep: Callable[[Row], bool],
    place: Place | None,
    count: int,
    most_step: int = MOST_STEP,
    patience_s: float = PATIENCE_S,
) -> Filled[Page, Place, Row]:
    """Return a page of `count` kept rows from `place` on.

    `read` gives so many at a place, `of` the rows of a page and the next place.
    """
    look = _Look[Place, Row](keep, place, count, most_step, patience_s)
    while True:
        page = read(look.place, look.step)
        if (most := look.most_of(of(page)[0])) is not None:
            page = read(look.place, most)
        if look.take(*of(page)):
            return Filled(page, tuple(look.kept), look.place, 0 if look.is_full else max(look.looked, 1))


async def fill_waiting(
    read: Callable[[Place | None, int], Awaitable[Page]],
    of: Callable[[Page], tuple[Sequence[Row], Place | None]],
    keep: Callable[[Row], bool],
    place: Place | None,
    count: int,
) -> tuple[Page, list[Row], Place | None]:
    """Return the page that was read last, `count` rows that are kept (fewer where a bound ended it), and the place
    behind them."""
    look = _Look[Place, Row](keep, place, count, MOST_STEP, PATIENCE_S)
    while True:
        page = await read(look.place, look.step)
        if (most := look.most_of(of(page)[0])) is not None:
            page = await read(look.place, most)
        if look.take(*of(page)):
            return page, look.kept, look.place
