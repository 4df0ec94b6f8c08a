"""Transactional messages as one service of the engine.

    begin        a half message goes in                      engine/intake.py
    end          commit, rollback, or "not known yet"        decision.py
    tick         what is due: asked about, or parked         check.py
    before_sync  op and note records of the moment           records.py
    open         from the last snapshot and the log          recovery.py

A half is taken in when it is visible: nobody can decide about one that might still be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ...rocketmq.message import Message
from ...rocketmq.topics import CHECKS_TOPIC, HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC
from ..config import EngineConfig
from ..disk import Files, join
from ..errors import StoreRefused, TransactionNotFound
from ..log.append import Copy
from ..log.ticket import Ticket
from ..store import Store
from . import recovery
from .check import Checker, Checks
from .decision import Decider, Ending
from .halves import ENDING, Parked
from .records import RESUME_TAG, Begun, BegunAll, resume_record
from .recovery import TOPICS, Recovering, reopen
from .state import Added, Copied, Decided, MadeAgain, Note, RecentHalf, Resumed, TransactionTable

#: Retry after the store refused what is to be made good.
_REFUSED_PAUSE_MS = 100
#: A snapshot is written anew when so many changes were made; when few are open an eighth of them, when very many are a
#: sixteenth. Less is read from the log.
_CHANGES_WORTH_A_SNAPSHOT = 20_000


class SnapshotWrite:
    """A snapshot on its way to the disk."""

    def __init__(self, path: str, sequence: int, dumped: recovery.Dump, done: Callable[[bool], None]) -> None:
        self._path = path
        self._sequence = sequence
        self._dumped = dumped
        self._done = done

    def run(self, files: Files) -> None:
        """Write the snapshot, durable on return. Raises OSError."""
        recovery.save(files, self._path, self._sequence, self._dumped)

    def done(self, *, saved: bool, now_ms: int) -> None:
        """Say whether a checkpoint names it."""
        self._done(saved)


class Transactions:
    """The transactions of a store. ``commit(half, now_ms)`` appends the copy of a committed half;
    ``plan_copies(halves)`` says what they are for some that need not be read."""

    name = "transactions"
    topics = frozenset({HALF_TOPIC, OP_TOPIC, PARKED_HALF_TOPIC, CHECKS_TOPIC})

    def __init__(
        self,
        store: Store,
        config: EngineConfig,
        commit: Callable[[Message, int], Ticket],
        plan_copies: Callable[[Sequence[RecentHalf]], list[Copy]],
    ) -> None:
        self._store = store
        self.table = TransactionTable(store, config)
        self._note: Callable[[Note], None] = partial(store.note, self)
        self._decider = Decider(self.table, self._note, commit, plan_copies)
        self._checker = Checker(self.table, self._note)
        self._recovering = Recovering(self.table)
        self._resuming: set[int] = set()
        self._state: dict[str, Any] = {"sequence": 0, "marks": [0, 0, 0, 0]}
        self._writing: dict[str, Any] | None = None

    # halves

    def began(self, ticket: Ticket, begun: Begun, recent: RecentHalf | None) -> None:
        """Hear that the record of a half was appended just now; ``recent``: what its copy needs, if that is plain."""
        offset, store_ms = ticket.queue_offset, ticket.store_ms
        due_ms = store_ms + (self.table.timeout_ms if begun.immunity_ms is None else begun.immunity_ms)
        self._note(Added((offset,), (ticket.position,), (store_ms,), (due_ms,), (begun.group,)))
        if recent is not None:
            self.table.recent.put(offset, recent)

    def began_all(self, tickets: Sequence[Ticket], begun: BegunAll, recent: Iterable[RecentHalf]) -> None:
        """Hear that the records of halves were appended just now, all of which ask for no delay."""
        offsets, store_ms = [ticket.queue_offset for ticket in tickets], tickets[0].store_ms
        timeout_ms = self.table.timeout_ms
        due_ms = [store_ms + (timeout_ms if each_ms is None else each_ms) for each_ms in begun.immunities_ms]
        positions = [ticket.position for ticket in tickets]
        self._note(Added(offsets, positions, [store_ms] * len(offsets), due_ms, begun.groups))
        self.table.recent.put_all(offsets, recent)

    # decisions and checks

    def end(self, asked: Ending, now_ms: int, owner: object = None) -> bool:
        """Carry out a decision (see Decider.end)."""
        return self._decider.end(asked, now_ms, owner)

    def end_together(self, asked: Sequence[Ending], owners: Sequence[object]) -> list[bool | None]:
        """Carry out decisions about halves that need not be read (see Decider.end_together)."""
        return self._decider.end_together(asked, owners)

    def take_checks(self, now_ms: int, is_alive: Callable[[str], bool], count: int) -> list[Checks]:
        """Return up to ``count`` questions for producers about their halves now (see Checker.take)."""
        return self._checker.take(now_ms, is_alive, count)

    def checked(self, asked: list[int], not_asked: list[int], now_ms: int) -> None:
        """Hear of which halves (by offset) a producer was really asked."""
        self._checker.checked(asked, not_asked, now_ms)

    def come(self, group: str) -> None:
        """Hear that other producers of a group are there than when nobody could be asked (see Checker.come)."""
        self._checker.come(group)

    def check_now(self, offset: int, position: int, now_ms: int) -> None:
        """Have the producer of an open half asked as soon as one is there. Raises TransactionNotFound."""
        row = self.table.halves.get(offset)
        if row is None or row.position != position:
            raise TransactionNotFound(offset, position)
        if not row.flags:
            self.table.plan(offset, now_ms)

    def resume_checks(
        self, offset: int, position: int, by: str, reason: str, now_ms: int, owner: object = None
    ) -> bool:
        """Open a parked half again, or begin to count an open one's checks anew; it is asked about at once.

        With True ``owner`` is told when it is durable. Raises TransactionNotFound, StoreRefused.
        """
        if (row := self.table.halves.get(offset)) is not None and row.position == position:
            if not row.flags & ENDING:
                self._checker.restart(offset, now_ms)
            return False
        parked = self.table.parked.get(offset)
        if parked is None or parked.position != position:
            raise TransactionNotFound(offset, position)
        if offset in self._resuming:
            return False
        self._checker.append(resume_record(offset, by, reason), RESUME_TAG, now_ms, owner)
        self._resuming.add(offset)
        self._note(Resumed(offset, now_ms))
        return True

    def summary(self) -> dict[str, int]:
        """Return the counts that a follower is told with every change."""
        table = self.table
        return {
            "open": len(table.halves),
            "parked": len(table.parked),
            "halfTotal": table.half_total,
            "commitTotal": table.commit_total,
            "rollbackTotal": table.rollback_total,
            "checkTotal": table.check_total,
        }

    def before_sync(self, now_ms: int) -> None:
        """Append what was decided and counted since the last call; what the store refuses waits for the next."""
        try:
            self._decider.write(now_ms)
            self._checker.write(now_ms)
        except StoreRefused:
            return

    # recovery and checkpoints (see Derived in log/checkpoint.py)

    def resume(self, saved: Any | None, *, whole: bool) -> None:
        """Take over the last snapshot, and what the queues hold beyond it."""
        if whole:
            return
        self._state = saved if isinstance(saved, dict) else self._state
        marks = [int(mark) for mark in self._state["marks"]]
        sequence = int(self._state["sequence"])
        content = recovery.load(self._store.files, self._path(sequence), sequence) if sequence else None
        if sequence and content is None:
            marks = [0, 0, 0, 0]
        if content is not None:
            recovery.parse(content, self.table.halves, self.table.parked)
            for chunk in self.table.halves.chunks():
                for offset, planned_ms in zip(chunk.offsets, chunk.next_ms, strict=True):
                    self.table.calendar.put(offset, planned_ms)
        self._recovering.replay(marks)

    def walked(self, message: Message) -> None:
        """Hear of a record from recovery."""
        self._recovering.walked(message)

    def heard(self, parked: Message) -> None:
        """Hear that the copy of a half is in the log."""
        if parked.topic == HALF_TOPIC:
            self._recovering.heard(parked)

    def start(self, now_ms: int) -> None:
        """Know what is to be made good after the last stop."""
        self.table.calendar.see(now_ms)
        self._decider.recover(*self._recovering.finish(now_ms))

    def synced(self, notes: Sequence[Note], now_ms: int) -> None:
        """Take over what is visible now."""
        table = self.table
        table.open_all([note for note in notes if type(note) is Added])
        for note in notes:
            if isinstance(note, Added):
                continue
            if isinstance(note, Copied):
                self._decider.copied(note.copies)
            elif isinstance(note, Decided):
                table.settle_all(note.decisions, note.at_ms)
                self._decider.written(note.decisions)
            elif isinstance(note, MadeAgain):
                table.settle(note.decision, note.at_ms)
                self._decider.made_again(note.decision)
            elif isinstance(note, Parked):
                table.close(note.offset)
                table.parked.add(note)
                table.parked_total += 1
            else:
                self._resuming.discard(note.offset)
                reopen(table, note.offset, note.at_ms)

    def tick(self, now_ms: int) -> int | None:
        """Make good what was lost, then look at what is due."""
        if self._decider.needs_repair:
            try:
                self._decider.repair(now_ms)
            except StoreRefused:
                return now_ms + _REFUSED_PAUSE_MS
        return self._checker.tick(now_ms)

    @property
    def may_checkpoint(self) -> bool:
        """False while a copy is in the log without its op record, or an op record without its copy."""
        return self._decider.is_covered

    def state(self) -> Any:
        """Return which snapshot counts, and how far the queues went into it."""
        return self._writing or self._state

    def writes(self, *, clean: bool) -> SnapshotWrite | None:
        """Return a snapshot if enough has changed since the last one."""
        table = self.table
        count = len(table.halves)
        worth = max(min(_CHANGES_WORTH_A_SNAPSHOT, count // 8), count // 16, 1)
        if table.changes < worth and not (clean and table.changes):
            return None
        sequence = int(self._state["sequence"]) + 1
        queues = [self._store.queues.get(topic, 0) for topic in TOPICS]
        self._writing = {"sequence": sequence, "marks": [queue.max_offset if queue else 0 for queue in queues]}
        changes = table.changes
        dumped = recovery.dump(table.halves, table.parked, table.calendar)
        return SnapshotWrite(self._path(sequence), sequence, dumped, lambda saved: self._saved(saved, changes))

    def _saved(self, saved: bool, changes: int) -> None:
        if saved and self._writing is not None:
            self._state = self._writing
            self.table.changes -= changes
        self._writing = None

    def _path(self, sequence: int) -> str:
        return join(self._store.config.root, f"escapement.halves.{sequence % 2}")

    def oldest_position(self) -> int | None:
        """Return the position of the oldest half that is open or parked."""
        first, parked = self.table.halves.first(), self.table.parked.oldest_position()
        known = [position for position in (first.position if first else None, parked) if position is not None]
        return min(known, default=None)
