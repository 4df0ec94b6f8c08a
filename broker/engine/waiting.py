"""What waits for one topic, wherever it is parked: counted a portion at a time, and ended where the topic is deleted.

Timers are counted as they come and go. The lanes of the delay levels and the halves are looked through: only their
records say for which topic they are.
"""

from __future__ import annotations

from collections.abc import Iterator

from .errors import CorruptRecord, RecordNotFound
from .message import decode
from .properties import REAL_TOPIC
from .schedule import Schedule
from .store.store import Store
from .store.topics import SCHEDULE_TOPIC
from .timer.core import Core
from .transaction.book import Book
from .transaction.halves import ENDING

#: Records looked at for one count, so that it ends.
MOST_LOOKED_AT = 500_000
_ENTRIES_AT_ONCE = 128


class Waiting:
    """A count. ``complete`` is False while it goes on, and stays so if there is more than may be looked at."""

    def __init__(self, store: Store, schedule: Schedule, book: Book, core: Core, topic: str) -> None:
        self._store = store
        self._schedule = schedule
        self._book = book
        self._core = core
        self._topic = topic
        self._mark = f"{REAL_TOPIC}\x01{topic}".encode()
        self.delayed = 0
        #: (offset, position) of halves that are open, and of those that were parked after the last check
        self.open_halves: list[tuple[int, int]] = []
        self.parked_halves: list[tuple[int, int]] = []
        self.complete = False
        self._looked_at = 0
        self._steps = self._walk()

    @property
    def timers(self) -> int:
        """How many timers wait."""
        core = self._core
        return core.by_topic.get(self._topic, 0) + sum(timer.topic == self._topic for timer in core.fresh)

    @property
    def total(self) -> int:
        """How many wait in all, as far as was counted."""
        return self.timers + self.delayed + len(self.open_halves) + len(self.parked_halves)

    def look(self, count: int) -> bool:
        """Look at about so many more records; return whether there are more to look at."""
        until = self._looked_at + count
        for number in self._steps:
            self._looked_at = number
            if number >= MOST_LOOKED_AT:
                return False
            if number >= until:
                return True
        self.complete = True
        return False

    def _walk(self) -> Iterator[int]:
        """Count, and yield how many records were looked at."""
        number = 0
        for level in self._schedule.levels:
            at = self._schedule.next_offset(level.number)
            queue = self._store.queues.get(SCHEDULE_TOPIC, level.number - 1)
            while queue is not None and at < queue.max_offset:
                entries = queue.entries(at, _ENTRIES_AT_ONCE)
                for entry in entries:
                    number += 1
                    self.delayed += self._is_for_it(entry.position, entry.size)
                    yield number
                # without entries they are gone with their file, or damaged
                at = at + len(entries) if entries else max(at + 1, queue.min_offset)
                number += 1
        halves, parked, after = self._book.halves, self._book.parked, -1
        # asked anew for each: they come and go meanwhile
        while (half := next(halves.since(after + 1), None)) is not None:
            number, after = number + 1, half.offset
            if not half.flags & ENDING and self._is_for_it(half.position):
                self.open_halves.append((half.offset, half.position))
            yield number
        after = -1
        while (row := next(parked.since(after + 1), None)) is not None:
            number, after = number + 1, row.offset
            if self._is_for_it(row.position):
                self.parked_halves.append((row.offset, row.position))
            yield number

    def _is_for_it(self, position: int, size: int | None = None) -> bool:
        """Tell whether a record is parked for the topic and may still come out."""
        if self._store.topics.is_cancelled(self._topic, position):
            return False
        try:
            raw = self._store.look_at(position, size)
            return self._mark in raw and decode(raw, verify=False).properties.get(REAL_TOPIC) == self._topic
        except (RecordNotFound, CorruptRecord):
            return False
