"""The messages that wait for one topic, wherever they are parked: counted a portion at a time.

Timers are counted as they come and go. The lanes of the delay levels and the halves are looked through: only their
records say for which topic they are. What came meanwhile is looked through until nothing is new; so the moment at which
``look`` ends is the one of which the count is true, and who deletes the topic then has missed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..rocketmq.message import decode
from ..rocketmq.properties import REAL_TOPIC
from ..rocketmq.topics import HALF_TOPIC, PARKED_HALF_TOPIC, SCHEDULE_TOPIC
from .errors import CorruptRecord, RecordNotFound
from .schedule import Schedule
from .store import Store
from .timer.state import TimerStates
from .transaction.halves import COMMITTING, ROLLING_BACK, Parked
from .transaction.state import TransactionTable

#: Records looked at for one count, so that it ends.
MOST_LOOKED_AT = 500_000
_ENTRIES_AT_ONCE = 128


class Waiting:
    """A count. ``complete`` is False while it goes on, and stays so if there is more than may be looked at."""

    def __init__(
        self, store: Store, schedule: Schedule, table: TransactionTable, timers: TimerStates, topic: str
    ) -> None:
        self._store = store
        self._schedule = schedule
        self._table = table
        self._timers = timers
        self._topic = topic
        self._mark = f"{REAL_TOPIC}\x01{topic}".encode()
        self.delayed = 0
        #: (offset, position) of halves that are open, and of those that were parked after the last check
        self.open_halves: list[tuple[int, int]] = []
        self.parked_halves: list[tuple[int, int]] = []
        self.complete = False
        #: offsets of the halves in both: one that is parked, or opened again, meanwhile counts as what it was
        self._halves: set[int] = set()
        #: where to go on: in each lane, behind which half, from which copy of a parked one; and how many halves had
        #: been opened again by then, which are old ones
        self._next_in_lane: dict[int, int] = {}
        self._last_half = -1
        self._next_copy: int | None = None
        self._reopened = table.reopened_total
        self._number = self._looked_at = 0
        self._steps = self._walk()

    @property
    def timers(self) -> int:
        """The number of timers that wait for the topic."""
        unseen = sum(timer.topic == self._topic for timer in self._timers.unseen)
        return self._timers.by_topic.get(self._topic, 0) + unseen

    @property
    def total(self) -> int:
        """The number that wait in all, as far as was counted."""
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
        """Count, and yield how many records were looked at. The last round has found nothing new, and so let nobody
        else have a turn."""
        before = -1
        while before != self._number:
            before = self._number
            for walk in (self._lanes, self._open, self._parked):
                for _ in walk():
                    self._number += 1
                    yield self._number
        self._add_unseen()

    def _lanes(self) -> Iterator[None]:
        for level in self._schedule.levels:
            at = self._next_in_lane.get(level.number)
            at = self._schedule.next_offset(level.number) if at is None else at
            queue = self._store.queues.get(SCHEDULE_TOPIC, level.number - 1)
            while queue is not None and at < queue.max_offset:
                entries = queue.entries(at, _ENTRIES_AT_ONCE)
                for entry in entries:
                    self.delayed += self._is_for_it(entry.position, entry.size)
                    yield
                # without entries they are gone with their file, or damaged
                at = at + len(entries) if entries else max(at + 1, queue.min_offset)
                self._number += 1
            self._next_in_lane[level.number] = at

    def _open(self) -> Iterator[None]:
        if self._reopened != self._table.reopened_total:
            self._reopened, self._last_half = self._table.reopened_total, -1
        halves = self._table.halves
        # asked anew for each: they come and go meanwhile
        while (half := next(halves.since(self._last_half + 1), None)) is not None:
            self._last_half = half.offset
            # one that is about to be parked is open until it is
            if not half.flags & (COMMITTING | ROLLING_BACK):
                self._take(half.offset, half.position, self.open_halves)
            yield

    def _parked(self) -> Iterator[None]:
        queue = self._store.queues.get(PARKED_HALF_TOPIC, 0)
        begin, self._next_copy = self._next_copy, queue.max_offset if queue is not None else 0
        if begin == self._next_copy:
            return
        for row in self._all_parked() if begin is None else self._table.parked.copied_since(begin):
            self._take(row.offset, row.position, self.parked_halves)
            yield

    def _all_parked(self) -> Iterator[Parked]:
        last = -1
        while (row := next(self._table.parked.since(last + 1), None)) is not None:
            last = row.offset
            yield row

    def _take(self, offset: int, position: int, halves: list[tuple[int, int]]) -> None:
        if offset not in self._halves and self._is_for_it(position):
            self._halves.add(offset)
            halves.append((offset, position))

    def _add_unseen(self) -> None:
        """Count what is on its way to the disk: it was accepted, though nobody can read it yet."""
        queues, topics = self._store.queues, self._store.topics
        lanes = [queues.get(SCHEDULE_TOPIC, level.number - 1) for level in self._schedule.levels]
        parked = {position for lane in lanes if lane is not None for position in lane.unseen_positions()}
        half_queue = queues.get(HALF_TOPIC, 0)
        begun = set(half_queue.unseen_positions()) if half_queue is not None else set()
        for ticket in self._store.unseen() if parked or begun else ():
            if ticket.topic != self._topic or topics.is_cancelled(self._topic, ticket.position):
                continue
            self.delayed += ticket.position in parked
            if ticket.position in begun:
                self.open_halves.append((ticket.queue_offset, ticket.position))

    def _is_for_it(self, position: int, size: int | None = None) -> bool:
        """Tell whether a record is parked for the topic and may still come out."""
        if self._store.topics.is_cancelled(self._topic, position):
            return False
        try:
            raw = self._store.look_at(position, size)
            return self._mark in raw and decode(raw, verify=False).properties.get(REAL_TOPIC) == self._topic
        except (RecordNotFound, CorruptRecord):
            return False
