"""The state of all transactions: the tables shared by those who decide, check, recover and list.

Open and parked halves, the calendar and the latest decisions stand in the table. Halves of the last moments are kept as
they were sent: most are decided at once, and then need not be read again.

Apache RocketMQ puts halves back: each check (and each round of an immune half) makes the half a new record there. The
records of one transaction have the same unique key and producer group; only the newest may be open, and a decision
about any of them is one about all. Escapement puts nothing back, and takes the marks of it from what clients send, so
two halves with one key (a client that sends the same message twice) stay two transactions.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import CHECK_IMMUNITY_S, CHECK_TIMES, PREPARED_QUEUE_OFFSET, PRODUCER_GROUP
from ...rocketmq.topics import HALF_TOPIC, OP_TOPIC
from ..config import EngineConfig
from ..errors import CorruptRecord, RecordNotFound
from ..message_header import Facts
from ..queues.queues import ConsumeQueue
from ..store import Store
from .halves import Calendar, Half, OffsetQueue, OpenHalves, Parked, ParkedHalves
from .records import Decision, immunity_of, read_op

#: Decisions remembered by half offset, 400 bytes each: who repeats one does so soon, or waited for his time-out, and
#: then it is read from the op records.
_REMEMBERED = 5_000
#: Checks that a start makes good from the notes in the time of one other change.
_CHECKS_PER_CHANGE = 32
#: Op records read to find one decision.
_LONGEST_SEARCH = 4_096


# Halves kept as they were sent.

#: Halves kept; those that are not decided soon are read from the log.
_MOST = 2_000
#: Larger bodies are read from the log.
_LARGEST_BODY_BYTES = 4_096


class RecentHalf(NamedTuple):
    """A new half; ``copy``: the facts of its copy, without the property that names the half."""

    position: int
    group: str
    topic: str
    queue_id: int
    body: bytes
    copy: Facts
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int


class RecentHalves:
    """The newest halves by offset; the oldest one goes when there are too many."""

    def __init__(self) -> None:
        self._halves: dict[int, RecentHalf] = {}

    def put(self, offset: int, half: RecentHalf) -> None:
        """Keep a half, unless it is large."""
        if len(half.body) <= _LARGEST_BODY_BYTES:
            halves = self._halves
            halves[offset] = half
            if len(halves) > _MOST:
                del halves[next(iter(halves))]

    def put_all(self, offsets: Iterable[int], halves: Iterable[RecentHalf]) -> None:
        """Keep several as ``put`` does."""
        kept = self._halves
        rows = zip(offsets, halves, strict=True)
        kept.update([row for row in rows if len(row[1].body) <= _LARGEST_BODY_BYTES])
        while len(kept) > _MOST:
            del kept[next(iter(kept))]

    def get(self, offset: int) -> RecentHalf | None:
        """Return a half if it is kept."""
        return self._halves.get(offset)

    def drop(self, offset: int) -> None:
        """Forget a half that is decided."""
        self._halves.pop(offset, None)

    def drop_all(self, offsets: Iterable[int]) -> None:
        """Forget several that are decided."""
        pop = self._halves.pop
        for offset in offsets:
            pop(offset, None)


# What is noted on records, and taken over when they are visible.


class Added(NamedTuple):
    """Halves were added, column by column. ``due_ms``: when (wall clock) the producer of each may be asked first."""

    offsets: Sequence[int]
    positions: Sequence[int]
    store_ms: Sequence[int]
    due_ms: Sequence[int]
    groups: Sequence[str]


class Copied(NamedTuple):
    """So many copies of committed halves were appended; the op record is to come."""

    copies: int


class Decided(NamedTuple):
    """An op record says these decisions; stored at ``at_ms``."""

    decisions: Sequence[Decision]
    at_ms: int


class MadeAgain(NamedTuple):
    """A copy that a power failure took was appended again; the op record of its decision is in the log."""

    decision: Decision
    at_ms: int


class Resumed(NamedTuple):
    """A parked half is open again from ``at_ms`` on."""

    offset: int
    at_ms: int


#: ``Parked``: an open half was parked.
Note = Added | Copied | Decided | MadeAgain | Parked | Resumed


# The table.


class Settled(NamedTuple):
    """A decision that stands, and when its op record was stored."""

    decision: Decision
    at_ms: int


class TransactionTable:
    """Open and parked halves, when each is due, and the latest decisions."""

    def __init__(self, store: Store, config: EngineConfig) -> None:
        self.store = store
        self.timeout_ms = config.transaction_timeout_ms
        self.interval_ms = config.transaction_interval_ms
        self.most_checks = config.transaction_checks
        self.halves = OpenHalves()
        self.parked = ParkedHalves()
        self.calendar = Calendar()
        self.recent = RecentHalves()
        #: due halves of each producer group: to be asked about as soon as one of its producers is there
        self.asking: dict[str, OffsetQueue] = {}
        #: due halves of each producer group that none of those who are there may see, and since when (calendar, ms):
        #: looked at again after the interval, or when others have come
        self.unasked: dict[str, tuple[OffsetQueue, int]] = {}
        self.settled: OrderedDict[int, Settled] = OrderedDict()
        #: changes since the last snapshot
        self.changes = 0
        #: parked halves that were opened again since the start
        self.reopened_total = 0
        self.half_total = self.commit_total = self.rollback_total = self.check_total = self.parked_total = 0

    def open(self, offset: int, position: int, store_ms: int, due_ms: int, group: str, checks: int = 0) -> None:
        """Take in an open half that is to be looked at when ``due_ms`` (wall clock) has come."""
        planned_ms = self.calendar.planned(due_ms)
        self.halves.add(offset, position, store_ms, planned_ms, group, checks)
        self.calendar.put(offset, planned_ms)
        self.changes += 1

    def open_all(self, added: Sequence[Added]) -> None:
        """Take in new halves, newer than all that are known."""
        if not added:
            return
        first, *others = added
        columns = [list(chain.from_iterable(parts)) for parts in zip(*added, strict=True)] if others else first
        offsets, positions, store_ms, due_ms, groups = columns
        if len(offsets) == 1:
            self.half_total += 1
            self.open(offsets[0], positions[0], store_ms[0], due_ms[0], groups[0])
            return
        planned_ms = self.calendar.put_all(offsets, due_ms)
        self.halves.extend(offsets, positions, store_ms, planned_ms, groups)
        self.half_total += len(offsets)
        self.changes += len(offsets)

    def due(self, group: str) -> int:
        """Return how many of a group's halves wait to be asked about; a few of them may be decided already."""
        unasked = self.unasked.get(group)
        return len(self.asking.get(group, ())) + (len(unasked[0]) if unasked else 0)

    def plan(self, offset: int, due_ms: int) -> None:
        """Have an open half looked at when ``due_ms`` (wall clock) has come, and not before."""
        found = self.halves.place(offset)
        if found is not None:
            chunk, at = found
            chunk.own()
            chunk.flags[at] = 0
            chunk.next_ms[at] = planned_ms = self.calendar.planned(due_ms)
            self.calendar.put(offset, planned_ms)
            self.changes += 1

    def count(self, offsets: array[int], checks: int, due_ms: int) -> None:
        """Note how often a producer was asked about these by now, and when (wall clock) to look at them again."""
        planned_ms = self.calendar.planned(due_ms)
        planned = array("q")
        for chunk, begin, end in self.halves.runs(offsets):
            chunk.count(slice(begin, end), checks, planned_ms)
            planned += chunk.offsets[begin:end]
        self.calendar.put_many(planned, planned_ms)
        self.note_checks(len(planned))

    def note_checks(self, count: int) -> None:
        """Hear that so many were asked about: they are read again much quicker than other changes."""
        self.changes += -(-count // _CHECKS_PER_CHANGE)

    def close(self, offset: int) -> None:
        """Forget a half that is open or parked no more."""
        self.recent.drop(offset)
        self.halves.remove(offset)
        if len(self.parked):
            self.parked.remove(offset)
        self.changes += 1

    def settle(self, decision: Decision, at_ms: int) -> None:
        """Note that a decision stands, as its op record is visible."""
        self.close(decision.offset)
        self.settled[decision.offset] = Settled(decision, at_ms)
        if len(self.settled) > _REMEMBERED:
            self.settled.popitem(last=False)

    def settle_all(self, decisions: Sequence[Decision], at_ms: int) -> None:
        """Note the decisions of one op record: they stand now."""
        offsets = [decision.offset for decision in decisions]
        self.recent.drop_all(offsets)
        self.halves.remove_all(offsets)
        if len(self.parked):
            for offset in offsets:
                self.parked.remove(offset)
        self.changes += len(decisions)
        settled = self.settled
        rows = zip(decisions, repeat(at_ms), strict=False)
        settled.update(zip(offsets, map(tuple.__new__, repeat(Settled), rows), strict=True))
        while len(settled) > _REMEMBERED:
            settled.popitem(last=False)
        commits = sum([1 for decision in decisions if decision.commit])
        self.commit_total += commits
        self.rollback_total += len(decisions) - commits

    def undecided(self, offset: int) -> Half | Parked | None:
        """Return a half that is open or parked."""
        return self.halves.get(offset) or self.parked.get(offset)

    def settled_at(self, offset: int, position: int) -> Settled | None:
        """Return what was decided about a half, None if that cannot be found; ``position`` is the half's."""
        known = self.settled.get(offset)
        return known or find_decision(self.store, frozenset({offset}), position)

    def first_due_ms(self, store_ms: int, properties: dict[str, str]) -> int:
        """Return when the producer of a half may be asked first: after the time-out, or its own immunity."""
        immunity_ms = immunity_of(properties.get(CHECK_IMMUNITY_S))
        return store_ms + (self.timeout_ms if immunity_ms is None else immunity_ms)

    def half_at(self, position: int) -> Message | None:
        """Return the visible half message that stands at a position, None if none does. Raises CorruptRecord."""
        return self.half_in_log(position) if position < self.store.visible_position else None

    def half_in_log(self, position: int) -> Message | None:
        """Return the half message at a position as ``half_at`` does, also before recovery has made anything visible."""
        try:
            message = decode(self.store.log.record_at(position), verify=False)
        except RecordNotFound:
            return None
        return message if message.topic == HALF_TOPIC else None


def find_decision(store: Store, offsets: frozenset[int], position: int) -> Settled | None:
    """Return the first decision about one of these halves in the op records behind a position, None if not found."""
    queue = store.queues.get(OP_TOPIC, 0)
    if queue is None:
        return None
    at = queue.search(queue.min_offset, queue.max_offset, position)
    marks = [b",%d," % offset for offset in offsets]
    for message in records_of(store, queue, at, min(queue.max_offset, at + _LONGEST_SEARCH)):
        body = b"," + message.body
        if any(mark in body for mark in marks):
            for decision in read_op(message.body, message.properties):
                if decision.offset in offsets:
                    return Settled(decision, message.store_ms)
    return None


def records_of(store: Store, queue: ConsumeQueue, begin: int, end: int) -> list[Message]:
    """Return the readable records of a stretch of a queue."""
    found: list[Message] = []
    for entry in queue.entries(begin, end - begin):
        try:
            message = decode(store.log.record_at(entry.position), verify=False)
        except (RecordNotFound, CorruptRecord):
            continue
        if message.topic == queue.topic:
            found.append(message)
    return found


# Halves that Apache RocketMQ put back.

#: Records of one transaction looked at: RocketMQ's limit is 15 checks, and a few that were resumed.
_MOST_RECORDS = 256
_EVER_MS = (1 << 62) - 1


def was_put_back(half: Message) -> bool:
    """Tell whether Apache RocketMQ wrote this record in place of an older one."""
    return CHECK_TIMES in half.properties or PREPARED_QUEUE_OFFSET in half.properties


def relatives(table: TransactionTable, half: Message) -> list[Message]:
    """Return the other records of the same transaction that can be read, oldest first."""
    key = half.unique_key
    if not key:
        return []
    store = table.store
    found: dict[int, Message] = {}
    for position in store.index.find(HALF_TOPIC, key, _MOST_RECORDS, 0, _EVER_MS):
        if position == half.position or not store.log.min_position <= position < store.log.end_position:
            continue
        other = _half_at(table, position)
        if (
            other is not None
            and other.unique_key == key
            and other.properties.get(PRODUCER_GROUP) == half.properties.get(PRODUCER_GROUP)
        ):
            found[position] = other
    return [found[position] for position in sorted(found)]


def predecessors(table: TransactionTable, half: Message) -> list[Message]:
    """Return the older records of a transaction that was put back, oldest first."""
    return [other for other in relatives(table, half) if other.position < half.position]


def successor(table: TransactionTable, half: Message) -> Message | None:
    """Return the newer record that took the place of this one and is undecided, None if there is none."""
    for other in reversed(relatives(table, half)):
        if other.position > half.position and was_put_back(other) and table.undecided(other.queue_offset) is not None:
            return other
    return None


def is_decided(table: TransactionTable, records: list[Message]) -> bool:
    """Tell whether an op record names one of these."""
    if not records:
        return False
    offsets = frozenset(record.queue_offset for record in records)
    return any(offset in table.settled for offset in offsets) or (
        find_decision(table.store, offsets, records[0].position) is not None
    )


def _half_at(table: TransactionTable, position: int) -> Message | None:
    try:
        return table.half_in_log(position)
    except CorruptRecord:
        return None
