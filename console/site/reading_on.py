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


def fill(
    read: Callable[[Place | None, int], Page],
    of: Callable[[Page], tuple[Sequence[Row], Place | None]],
    keep: Callable[[Row], bool],
    place: Place | None,
    count: int,
    most_step: int = MOST_STEP,
    patience_s: float = PATIENCE_S,
) -> Filled[Page, Place, Row]:
    """A page of `count` kept rows from `place` on. `read` gives so many at a place, `of` a page's rows and next place.

    A step that has more than there is room for is read again as far as there is: only its end names the next place.
    """
    until_s = time.monotonic() + patience_s
    kept: list[Row] = []
    looked, step = 0, min(count, most_step)
    while True:
        page = read(place, step)
        rows, following = of(page)
        hits = [number for number, row in enumerate(rows, 1) if keep(row)]
        room = count - len(kept)
        if len(hits) > room:
            page = read(place, hits[room - 1])
            rows, following = of(page)
        kept += filter(keep, rows)
        looked, place = looked + len(rows), following
        if following is None or len(kept) >= count:
            return Filled(page, tuple(kept), following)
        if looked >= MOST_LOOKED or time.monotonic() > until_s:
            return Filled(page, tuple(kept), following, max(looked, 1))
        step = min(2 * step, most_step)


async def fill_waiting(
    read: Callable[[Place | None, int], Awaitable[Page]],
    of: Callable[[Page], tuple[Sequence[Row], Place | None]],
    keep: Callable[[Row], bool],
    place: Place | None,
    count: int,
) -> tuple[Page, list[Row], Place | None]:
    """Return the page that was read last, `count` rows that are kept (fewer where a bound ended it), and the place
    behind them.

    A step that has more than there is room for is read again as far as there is: only its end names the next place.
    """
    until_s = time.monotonic() + PATIENCE_S
    kept: list[Row] = []
    looked, step = 0, min(count, MOST_STEP)
    while True:
        page = await read(place, step)
        rows, following = of(page)
        hits = [number for number, row in enumerate(rows, 1) if keep(row)]
        room = count - len(kept)
        if len(hits) > room:
            page = await read(place, hits[room - 1])
            rows, following = of(page)
        kept += filter(keep, rows)
        looked, place = looked + len(rows), following
        if following is None or len(kept) >= count or looked >= MOST_LOOKED or time.monotonic() > until_s:
            return page, kept, following
        step = min(2 * step, MOST_STEP)
