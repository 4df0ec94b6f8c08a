"""When which half is to be looked at next: offsets by tenth of a second, eight bytes each.

The calendar goes by a clock of its own that never goes back, so a wall clock that is set back makes nothing wait
longer: ``planned`` turns a moment of the wall clock into one of the calendar's, ``wall`` turns it back.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush

from .offset_queue import Line

#: Offsets of so long a time share a page; they are looked at when it is over, so never early and at most this late.
_PAGE_MS = 100


class Calendar:
    """Offsets and the moment each is due. An offset may stand here more than once, or be long decided: ask."""

    def __init__(self) -> None:
        self._pages: dict[int, Line] = {}
        self._order: list[int] = []
        self._seen_ms = 0
        #: how far the wall clock was set back in all
        self._ahead_ms = 0

    def planned(self, wall_ms: int) -> int:
        """Return the calendar's moment for one of the wall clock."""
        return wall_ms + self._ahead_ms

    def wall(self, planned_ms: int) -> int:
        """Return the wall clock's moment for one of the calendar."""
        return planned_ms - self._ahead_ms

    def put(self, offset: int, planned_ms: int) -> None:
        """Have an offset looked at from a moment (of the calendar) on."""
        number = planned_ms // _PAGE_MS
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = Line()
            heappush(self._order, number)
        page.append(offset)

    def put_all(self, offsets: Sequence[int], walls_ms: Sequence[int]) -> list[int]:
        """As ``put`` for many with a moment of the wall clock each; return their moments of the calendar."""
        ahead_ms = self._ahead_ms
        planned = [wall_ms + ahead_ms for wall_ms in walls_ms]
        first = planned[0] // _PAGE_MS
        if first == min(planned) // _PAGE_MS == max(planned) // _PAGE_MS:
            self.put(offsets[0], planned[0])
            self._pages[first].extend(offsets[1:])
        else:
            for offset, planned_ms in zip(offsets, planned, strict=True):
                self.put(offset, planned_ms)
        return planned

    def see(self, now_ms: int) -> int:
        """Hear what the wall clock says; return the calendar's moment."""
        if now_ms < self._seen_ms:
            self._ahead_ms += self._seen_ms - now_ms
        self._seen_ms = now_ms
        return now_ms + self._ahead_ms

    def put_many(self, offsets: Sequence[int], planned_ms: int) -> None:
        """Have several offsets looked at from the same moment (of the calendar) on."""
        if offsets:
            self.put(offsets[0], planned_ms)
            self._pages[planned_ms // _PAGE_MS].extend(offsets[1:])

    def take(self, now_ms: int, count: int) -> array[int]:
        """Return up to ``count`` offsets whose moment has come, oldest first."""
        over = self.see(now_ms) // _PAGE_MS
        taken = array("q")
        while self._order and self._order[0] < over and len(taken) < count:
            page = self._pages[self._order[0]]
            taken += page.take(count - len(taken))
            if not len(page):
                del self._pages[heappop(self._order)]
        return taken

    def next_ms(self) -> int | None:
        """Return when (on the wall clock) ``take`` has something to give, None if it never has."""
        return self.wall((self._order[0] + 1) * _PAGE_MS) if self._order else None
