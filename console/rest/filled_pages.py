"""Pages of lists from the broker, for tokens that may read some topics only: read on past others' rows, within bounds.

As console.site.reading_on does it for pages; a list that the bound ended goes on from its cursor.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from console.site.reading_on import MOST_LOOKED, MOST_STEP, PATIENCE_S

Page = TypeVar("Page")
Place = TypeVar("Place")
Row = TypeVar("Row")


async def fill(
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
