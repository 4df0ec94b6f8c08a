"""Decisions: checked, carried out once, and written down together.

    commit     copy on the real topic (names the half: ESC_SOURCE, prepared position), then the op record
    rollback   the op record

The op records of one moment are written when the batch is closed (``write``), so they share a sync with their copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple, Protocol, cast

from ...rocketmq.message import Message
from ...rocketmq.properties import PRODUCER_GROUP, REAL_TOPIC, UNIQUE_KEY, format_properties
from ...rocketmq.topics import OP_TOPIC
from ..errors import (
    CorruptRecord,
    StoreRefused,
    TransactionDecided,
    TransactionMismatch,
    TransactionNotFound,
)
from ..log.append import Copy, append_burst
from ..log.ticket import Ticket
from ..message_header import Facts
from .halves import COMMITTING, ENDING, ROLLING_BACK, Chunk
from .records import OP_TAG, Decision, op_records
from .state import Copied, Decided, MadeAgain, Note, RecentHalf, TransactionTable, successor

#: By whom a half is rolled back whose topic is deleted with all that waits for it.
TOPIC_DELETED = "the deletion of its topic"


class Ending(NamedTuple):
    """A request to decide a half. ``commit`` None: its sender does not know yet.

    ``group``, ``transaction_id``: if given they must be the half's.
    """

    offset: int
    position: int
    commit: bool | None
    by: str
    reason: str = ""
    group: str | None = None
    transaction_id: str | None = None


class Waiting(Protocol):
    """A caller that wants to know when its decision is durable."""

    def stored(self, ticket: Ticket) -> None:
        """Hear that the decision is durable."""

    def refused(self, code: int, remark: str) -> None:
        """Hear that the decision may be lost."""


class _Owners:
    """Owner of an op record's ticket: all who wait for a decision in it."""

    __slots__ = ("_owners",)

    def __init__(self, owners: list[list[object]]) -> None:
        self._owners = owners

    def stored(self, ticket: Ticket) -> None:
        for owner in chain.from_iterable(self._owners):
            cast(Waiting, owner).stored(ticket)

    def refused(self, code: int, remark: str) -> None:
        for owner in chain.from_iterable(self._owners):
            cast(Waiting, owner).refused(code, remark)


class Decider:
    """Takes decisions, and carries each out once.

    ``commit(half, now_ms)`` appends the copy where the message belongs, ``plan_copies(halves)`` says what they are for
    halves that need not be read: those of one moment are appended together. ``note`` is told of what was appended.
    """

    def __init__(
        self,
        table: TransactionTable,
        note: Callable[[Note], None],
        commit: Callable[[Message, int], Ticket],
        plan_copies: Callable[[Sequence[RecentHalf]], list[Copy]],
    ) -> None:
        self._table = table
        self._note = note
        self._commit = commit
        self._plan_copies = plan_copies
        #: decided, the op record is not visible yet
        self._pending: dict[int, tuple[Decision, list[object]]] = {}
        #: of these the copy is planned and not appended yet
        self._copies: list[Copy] = []
        #: of these the op record is not appended yet, in order
        self._unwritten: list[int] = []
        #: copies that are visible while their op record is not
        self.uncovered = 0
        #: commits whose copy a power failure took: to be made again
        self._lost: list[Decision] = []
        self._again_open = 0

    def end(self, asked: Ending, now_ms: int, owner: object = None) -> bool:
        """Carry out a decision; False if it changes nothing (not known yet, or decided so before and durable).

        With True ``owner`` is told when it is durable. Raises TransactionNotFound, TransactionMismatch,
        TransactionDecided, CorruptRecord, StoreRefused; then nothing was changed.
        """
        kept = self._kept(asked)
        if kept is not None:
            half, chunk, at = kept
            if asked.commit:
                self._copies += self._plan_copies((half,))
            if asked.commit is not None:
                self._decided_at(chunk, at, asked, owner)
            return asked.commit is not None
        return self._end_closely(asked, now_ms, owner)

    def _end_closely(self, asked: Ending, now_ms: int, owner: object) -> bool:
        table, offset = self._table, asked.offset
        half = self._half_meant(asked)
        if (pending := self._pending.get(offset)) is not None:
            return self._again(pending[0], None, asked, pending[1], owner)
        if table.undecided(offset) is None:
            settled = table.settled_at(offset, asked.position)
            if settled is not None:
                return self._again(settled.decision, settled.at_ms, asked, None, owner)
            newer = successor(table, half)
            if newer is None:
                raise TransactionDecided(offset, "decided", "", None)
            # Apache RocketMQ put it back: the newest record stands for the transaction
            return self.end(asked._replace(offset=newer.queue_offset, position=newer.position), now_ms, owner)
        if asked.commit is None:
            return False
        if asked.commit:
            self._check_topic(asked, half.properties.get(REAL_TOPIC, ""))
            self._commit(half, now_ms)
            self._note(Copied(1))
        self.decided(Decision(offset, asked.commit, asked.by, asked.reason), owner)
        return True

    def end_together(self, asked: Sequence[Ending], owners: Sequence[object]) -> list[bool | None]:
        """Carry out decisions about halves that need not be read: nothing is appended yet. Return of each what ``end``
        would, None if its half is not kept as it was sent, or something about it is to be looked at closely: then
        nothing was changed, and ``end`` is to be called, in the same order."""
        outcomes: list[bool | None] = [None] * len(asked)
        chosen: dict[int, tuple[int, Chunk, int]] = {}
        commits: list[RecentHalf] = []
        kept = self._kept
        for number, each in enumerate(asked):
            found = kept(each)
            if found is None:
                continue
            offset, _, commit, _, _, _, _ = each
            half, chunk, at = found
            if commit is None:
                outcomes[number] = False
            elif offset not in chosen:
                if commit:
                    commits.append(half)
                chosen[offset] = number, chunk, at
        if commits:
            try:
                self._copies += self._plan_copies(commits)
            except StoreRefused:
                return [None] * len(asked)
        for number, chunk, at in chosen.values():
            outcomes[number] = True
            self._decided_at(chunk, at, asked[number], owners[number])
        return outcomes

    def _kept(self, asked: Ending) -> tuple[RecentHalf, Chunk, int] | None:
        """Return a half that is open and kept as it was sent, and its place, if all that is said of it is right and
        nothing stands in the way of its copy."""
        offset, position, commit, _, _, group, key = asked
        table = self._table
        half = table.recent.get(offset)
        if (
            half is None
            or half.position != position
            or offset in self._pending
            or (group is not None and group != half.group)
            or (key and key != half.copy.unique_key)
            or (found := table.halves.place(offset)) is None
        ):
            return None
        chunk, at = found
        if chunk.flags[at] & ENDING:
            return None
        topics = table.store.topics
        if commit and (topics.get(half.topic) is None or topics.is_cancelled(half.topic, position)):
            return None
        return half, chunk, at

    def _decided_at(self, chunk: Chunk, at: int, asked: Ending, owner: object) -> None:
        offset, _, commit, by, reason, _, _ = asked
        decision = tuple.__new__(Decision, (offset, commit, by, reason))
        self._pending[offset] = decision, [] if owner is None else [owner]
        self._unwritten.append(offset)
        chunk.flags[at] = COMMITTING if commit else ROLLING_BACK

    def _check_topic(self, asked: Ending, topic: str) -> None:
        """Roll a half back, and raise TransactionDecided, if its topic was deleted with all that waited for it."""
        if self._table.store.topics.is_cancelled(topic, asked.position):
            self.decided(Decision(asked.offset, False, TOPIC_DELETED, ""))
            raise TransactionDecided(asked.offset, "rolled back", TOPIC_DELETED, None)

    def _half_meant(self, asked: Ending) -> Message:
        known = self._table.undecided(asked.offset)
        try:
            half = self._table.half_at(asked.position) if asked.position >= 0 else None
        except CorruptRecord:
            if known is not None and known.position == asked.position:
                raise
            half = None
        if half is None:
            raise TransactionNotFound(asked.offset, asked.position)
        check_meant(half, asked)
        return half

    def decided(self, decision: Decision, owner: object = None) -> None:
        """Note a decision whose copy (if it needs one) is in the log; its op record is written with the next batch."""
        self._pending[decision.offset] = (decision, [] if owner is None else [owner])
        self._unwritten.append(decision.offset)
        self._table.halves.mark(decision.offset, COMMITTING if decision.commit else ROLLING_BACK)

    def _again(
        self, decision: Decision, at_ms: int | None, asked: Ending, owners: list[object] | None, owner: object
    ) -> bool:
        """Answer a decision that was taken before: the same once more is fine, the opposite raises TransactionDecided.

        ``owners`` wait for the decision to be durable; None where it is.
        """
        if asked.commit is not None and decision.commit is not asked.commit:
            raise TransactionDecided(asked.offset, decision.word, decision.by, at_ms)
        if owners is None or asked.commit is None:
            return False
        if owner is not None:
            owners.append(owner)
        return True

    def write(self, now_ms: int) -> None:
        """Append copies and op records of what was decided since the last call. Raises StoreRefused; then some wait."""
        if not self._unwritten:
            return
        store = self._table.store
        while self._copies:
            count = append_burst(store, self._copies, now_ms)
            del self._copies[:count]
            self._note(Copied(count))
            store.seal_if_full()
        for record in op_records([self._pending[offset][0] for offset in self._unwritten]):
            # more may join each list until the record is durable
            owners = _Owners([self._pending[decision.offset][1] for decision in record.decisions])
            facts, tags_code = Facts(format_properties(record.properties), None, OP_TAG, None), store.tags_code(OP_TAG)
            host = store.store_host
            store.append(OP_TOPIC, 0, record.body, facts, tags_code, 0, 0, now_ms, host, now_ms, owner=owners)
            self._note(Decided(record.decisions, now_ms))
            del self._unwritten[: len(record.decisions)]

    # after a start

    def recover(self, bare: list[Decision], lost: list[Decision]) -> None:
        """Take over commits whose op record (``bare``) or whose copy (``lost``) is not in the log."""
        for decision in bare:
            self.uncovered += 1
            self.decided(decision)
        for decision in lost:
            self._pending[decision.offset] = (decision, [])
            self._table.halves.mark(decision.offset, COMMITTING)
        self._lost = lost
        self._again_open = len(lost)

    def repair(self, now_ms: int) -> None:
        """Make lost copies again. Raises StoreRefused; then the rest waits."""
        while self._lost:
            decision = self._lost[0]
            row = self._table.undecided(decision.offset)
            try:
                half = self._table.half_at(row.position) if row is not None else None
                if half is not None and self._is_cancelled(half):
                    half = None
                if half is not None:
                    self._commit(half, now_ms)
                    self._note(MadeAgain(decision, now_ms))
            except CorruptRecord as error:
                self._table.store.note_damage(error.position, error.position + 1)
                half = None
            if half is None:
                self.made_again(decision)
                self._table.settle(decision, now_ms)
            self._lost.pop(0)

    def _is_cancelled(self, half: Message) -> bool:
        return self._table.store.topics.is_cancelled(half.properties.get(REAL_TOPIC, ""), half.position)

    @property
    def needs_repair(self) -> bool:
        """Tell whether lost copies wait to be made again."""
        return bool(self._lost)

    # what is visible now

    def copied(self, count: int) -> None:
        """Hear that so many copies are visible; their op records are to come."""
        self.uncovered += count

    def written(self, decisions: Sequence[Decision]) -> None:
        """Hear that the op record of these decisions is visible."""
        for decision in decisions:
            self._pending.pop(decision.offset, None)
            if decision.commit:
                self.uncovered -= 1

    def made_again(self, decision: Decision) -> None:
        """Hear that a lost copy is visible again."""
        self._pending.pop(decision.offset, None)
        self._again_open -= 1

    @property
    def is_covered(self) -> bool:
        """Tell whether every copy in the log has its op record, and every op record its copy."""
        return not self.uncovered and not self._again_open


def check_meant(half: Message, asked: Ending) -> None:
    """Raise TransactionMismatch unless this is the half that is meant."""
    if half.queue_offset != asked.offset:
        raise TransactionMismatch(asked.offset, f"the one at position {asked.position} has offset {half.queue_offset}")
    group = half.properties.get(PRODUCER_GROUP, "")
    if asked.group is not None and asked.group != group:
        raise TransactionMismatch(asked.offset, f"it is of producer group {group!r}, not {asked.group[:260]!r}")
    key = half.properties.get(UNIQUE_KEY, "")
    if asked.transaction_id and asked.transaction_id != key:
        raise TransactionMismatch(asked.offset, "the transaction id is another one")
