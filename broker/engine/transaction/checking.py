"""Checks: producers that said nothing are asked, and halves nobody could tell about are parked.

    time-out or immunity over ──► due ──► a producer of the group is there: asked, counted, again after the interval
                                  └──────► none is there: waits, counts nothing
    asked as often as allowed, and the interval is over ──► parked in TRANS_CHECK_MAX_TIME_TOPIC

The engine says whom to ask about what (``take``); whoever can reach producers asks, and says about which it did
(``checked``). Only those count. Counts are written down together, with the next batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

from ..errors import CorruptRecord, EngineError, StoreRefused
from ..message import Message, pack_host
from ..properties import CHECK_TIMES, KEYS, PARKED_HALF, TAGS, UNIQUE_KEY, format_properties
from ..store.derived import Derived
from ..store.facts import Facts
from ..store.topics import CHECKS_TOPIC, PARKED_HALF_TOPIC
from .book import Book
from .halves import DUE, PARKING
from .notes import CHECK_TAG, NoteRecord, check_records
from .parked import Parked

#: Calendar entries looked at in one tick, so that a million of them do not keep the broker from answering.
LOOKED_AT_PER_TICK = 500
#: Halves parked in one tick; each is an append.
_PARKED_PER_TICK = 100
#: Retry after the store refused.
_REFUSED_PAUSE_MS = 1_000


class Check(NamedTuple):
    """One question: the half, whose producers to ask, and how often they were asked."""

    half: Message
    group: str
    checks: int


class Checker:
    """Finds out what is due, and keeps count."""

    def __init__(self, book: Book, service: Derived) -> None:
        self._book = book
        self._service = service
        #: (half offset, count) that is not written down yet
        self._counts: list[tuple[int, int]] = []

    def tick(self, now_ms: int) -> int | None:
        """Look at what the calendar has for now; return when it has more."""
        book = self._book
        room = _PARKED_PER_TICK
        taken = book.calendar.take(now_ms, LOOKED_AT_PER_TICK)
        planned_ms = book.calendar.planned(now_ms)
        for number, offset in enumerate(taken):
            found = book.halves.place(offset)
            if found is None:
                continue
            chunk, at = found
            if chunk.flags[at] or chunk.next_ms[at] > planned_ms:
                continue  # it is seen to already, or stands in the calendar once more
            if chunk.checks[at] < book.most_checks:
                chunk.flags[at] = DUE
                self._ask(book.halves.groups.name(chunk.groups[at]), offset)
                continue
            if not room or not self._park(offset, now_ms):
                for later in taken[number:]:
                    book.calendar.put(later, planned_ms + (_REFUSED_PAUSE_MS if room else 0))
                break
            room -= 1
        return book.calendar.next_ms()

    def _ask(self, group: str, offset: int) -> None:
        asking = self._book.asking.get(group)
        if asking is None:
            asking = self._book.asking[group] = array("q")
        asking.append(offset)

    # asking

    def take(self, now_ms: int, is_alive: Callable[[str], bool], count: int) -> list[Check]:
        """Return up to ``count`` questions for producers that are there; each must be given to ``checked``."""
        book = self._book
        checks: list[Check] = []
        for group in [group for group in book.asking if is_alive(group)]:
            waiting = book.asking[group]
            room = count - len(checks)
            offsets = waiting[:room]
            del waiting[:room]
            if not waiting:
                del book.asking[group]
            checks += [check for offset in offsets if (check := self._question(offset, group, now_ms)) is not None]
            if len(checks) >= count:
                break
        return checks

    def _question(self, offset: int, group: str, now_ms: int) -> Check | None:
        row = self._book.halves.get(offset)
        if row is None or row.flags != DUE or row.group != group:
            return None
        try:
            half = self._book.half_at(row.position)
        except CorruptRecord:
            half = None
        if half is None:
            # it cannot be asked about; those behind it can
            self._book.store.note_damage(row.position, row.position + 1)
            self._book.plan(offset, now_ms + self._book.interval_ms)
            return None
        return Check(half, group, row.checks)

    def checked(self, asked: list[int], not_asked: list[int], now_ms: int) -> None:
        """Hear of which halves (by offset) a producer was really asked now, and of which after all not."""
        book = self._book
        for offset in asked:
            found = book.halves.place(offset)
            if found is None or found[0].flags[found[1]] != DUE:
                continue
            chunk, at = found
            chunk.checks[at] += 1
            self._counts.append((offset, chunk.checks[at]))
            book.check_total += 1
            book.plan(offset, now_ms + book.interval_ms)
        for offset in not_asked:
            row = book.halves.get(offset)
            if row is not None and row.flags == DUE:
                self._ask(row.group, offset)

    def restart(self, offset: int, now_ms: int) -> None:
        """Begin to count the checks of an open half anew."""
        if (found := self._book.halves.place(offset)) is not None:
            found[0].checks[found[1]] = 0
            self._counts.append((offset, 0))
            self._book.plan(offset, now_ms)

    def write(self, now_ms: int) -> None:
        """Append what was counted since the last call. Raises StoreRefused; then it waits."""
        if self._counts:
            for record in check_records(self._counts):
                self.append(record, CHECK_TAG, now_ms)
            self._counts = []

    def append(self, record: NoteRecord, tag: str, now_ms: int, owner: object = None) -> None:
        """Append one note record. Raises StoreRefused."""
        store = self._book.store
        facts = Facts(format_properties(record.properties), None, tag, None)
        store.append(
            CHECKS_TOPIC, 0, record.body, facts, store.tags_code(tag), 0, 0, now_ms, store.store_host, now_ms,
            owner=owner,
        )  # fmt: skip

    # parking

    def _park(self, offset: int, now_ms: int) -> bool:
        """Append the copy for the parked ones; False if the store takes nothing now."""
        book, row = self._book, self._book.halves.get(offset)
        assert row is not None
        try:
            half = book.half_at(row.position)
            if half is None:
                raise CorruptRecord(row.position, "it is no half message any more")
            ticket = self._append_parked(half, row.checks, now_ms)
        except StoreRefused:
            return False
        except EngineError:
            book.plan(offset, now_ms + book.interval_ms)
            return True
        book.halves.mark(offset, PARKING)
        parked = Parked(offset, row.position, row.store_ms, ticket[0], ticket[1], now_ms)
        book.store.note(self._service, ("parked", parked))
        return True

    def _append_parked(self, half: Message, checks: int, now_ms: int) -> tuple[int, int]:
        store = self._book.store
        properties = {**half.properties, CHECK_TIMES: str(checks), PARKED_HALF: str(half.position)}
        facts = Facts(
            format_properties(properties), properties.get(UNIQUE_KEY), properties.get(TAGS), properties.get(KEYS)
        )
        ticket = store.append(
            PARKED_HALF_TOPIC, 0, half.body, facts, store.tags_code(facts.tags), half.flag, half.sys_flag,
            half.born_ms, pack_host(*half.born_host), now_ms, half.reconsume_times,
        )  # fmt: skip
        return ticket.queue_offset, ticket.position
