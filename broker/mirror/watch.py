"""The mirror's memory between two readings, which shows what grew: ends, offsets, rates and the marks of lanes.

Marks say where in a lane which due time lies, so that its whole backlog can be drawn without reading it. A lane is in
due order. A mark (offset, due_ms) says: entries before `offset` are due at `due_ms` or earlier, the entry at `offset`
at `due_ms` or later. A lane that ends at M at the moment T gives the mark (M, T + delay) without any reading; an
entry read by request 321 is a mark as well. Between two marks the number of messages is exact and their place is not.
Two marks with one offset are the two ends of a pause in which nothing arrived.

Rate histories are counts per slot of five seconds, kept in memory while a slot fills and written when it is whole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from operator import itemgetter

from ..rocketmq.topics import DLQ_PREFIX, SCHEDULE_TOPIC
from .changes import Changes, Flaw, is_system_topic, shown
from .models import SLOT_MS, SLOTS, ConsumerGroup, ConsumerOffset, MirrorRow, Queue, RateHistory, ScheduleLevel, Topic

#: a longer silence between two readings is a gap: its growth belongs to no slot and its dues are sampled
GAP_MS = 2 * SLOT_MS

#: queues of all topics that get a row although nothing was ever stored in them; our brokers have fewer queues, others
#: may have any number
MOST_EMPTY_QUEUES = 100_000

#: columns of a level that come from the broker
_SHOWN = tuple(
    column.attname
    for column in ScheduleLevel._meta.concrete_fields
    if column.name not in ("id", "broker", "level", "marks")
)

Range = tuple[int, int]


def _is_counted(topic: str, known: int | None, changes: Changes) -> bool:
    """Tell whether the growth of a polled broker's queue is counted: that of dead letters, of which it matters that
    there are some, not in which seconds. What a queue held before it was read first was not given up just now."""
    return topic.startswith(DLQ_PREFIX) and (known is not None or topic in changes.new_topics)


def _width(topic: Topic) -> int:
    return max(topic.read_queues, topic.write_queues)


@dataclass(slots=True)
class LaneMemory:
    """The last known shape of one lane."""

    delay_ms: int
    delay_offset: int
    end_offset: int
    marks: tuple[Mark, ...]


@dataclass(slots=True)
class Watch:
    """The memory of lanes, queues and rates of one broker: built from the rows at the start, then taken further by each
    reading. Dropped when a transaction fails."""

    broker: str
    rates: Rates
    #: epoch ms of the last reading; None: none yet in this life
    as_of_ms: int | None = None
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    consumed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    lanes: dict[int, LaneMemory] = field(default_factory=dict)
    #: connected consumers by group, -1 where the row does not know
    members: dict[str, int] = field(default_factory=dict)
    #: what the level rows hold, marks left out
    levels: dict[int, tuple[object, ...]] = field(default_factory=dict)

    @classmethod
    def load(cls, broker: str, now_ms: int) -> Watch:
        """Remember what the rows say."""
        kept = RateHistory.objects.filter(broker=broker).values_list("kind", "name", "slot", "counts")
        watch = cls(broker, Rates.begin(now_ms, {(kind, name): (slot, counts) for kind, name, slot, counts in kept}))
        queues = Queue.objects.filter(broker=broker, max_offset__isnull=False)
        for topic, queue_id, end in queues.values_list("topic", "queue_id", "max_offset"):
            watch.ends[topic, queue_id] = end or 0
        offsets = ConsumerOffset.objects.filter(broker=broker)
        for group, topic, queue_id, offset in offsets.values_list("group", "topic", "queue_id", "offset"):
            watch.consumed[group, topic, queue_id] = offset
        for row in ScheduleLevel.objects.filter(broker=broker):
            if row.delay_offset is not None and row.max_offset is not None:
                marks = paired(row.marks)
                watch.lanes[row.level] = LaneMemory(row.delay_ms, row.delay_offset, row.max_offset, marks)
        for name, members in ConsumerGroup.objects.filter(broker=broker).values_list("name", "members"):
            watch.members[name] = -1 if members is None else members
        return watch

    def with_empty_queues(self, changes: Changes) -> Changes:
        """A queue that nothing was ever stored in has no entry in request 14000, but a row: 0 to 0. Where they are too
        many, the topics with the most of them have none, which is a flaw."""
        topics = [topic for topic in changes.topics if not topic.is_system or topic.name == SCHEDULE_TOPIC]
        if not topics:
            return changes
        known = self.ends if not changes.complete else {}
        have = known.keys() | {(queue.topic, queue.queue_id) for queue in changes.queues}
        counts = Counter(topic for topic, _ in have)
        gone = frozenset(changes.deleted_topics)
        room = MOST_EMPTY_QUEUES - sum(not end for (name, _), end in known.items() if name not in gone)
        empty: list[Queue] = []
        flaws = []
        for topic in sorted(topics, key=_width):
            # counted first: a topic may claim to have any number
            missing = _width(topic) - counts[topic.name]
            if missing > max(room - len(empty), 0):
                why = f"shown without {missing:,} queues that hold nothing: {MOST_EMPTY_QUEUES:,} of these have rows"
                flaws.append(Flaw("topics", shown(topic.name), why))
                continue
            empty += [
                Queue(broker_id=self.broker, topic=topic.name, queue_id=queue_id, min_offset=0, max_offset=0)
                for queue_id in range(_width(topic))
                if (topic.name, queue_id) not in have
            ]
        return replace(changes, queues=(*changes.queues, *empty), flaws=(*changes.flaws, *flaws))

    def without_still_levels(self, changes: Changes) -> Changes:
        """Keep the levels that moved, as every reading tells all of them; marks of the others wait in memory."""
        moved = []
        for row in changes.levels:
            shown = tuple(getattr(row, name) for name in _SHOWN)
            if "levels" in changes.complete or self.levels.get(row.level) != shown:
                self.levels[row.level] = shown
                moved.append(row)
        return replace(changes, levels=tuple(moved))

    def meet(self, changes: Changes) -> dict[str, int]:
        """Return groups whose number of connected consumers is new; sets `members` of the group rows."""
        if changes.members is None:
            return {}
        for row in changes.groups:
            row.members = changes.members.get(row.name, 0)
            self.members[row.name] = row.members
        moved = {
            name: changes.members.get(name, 0)
            for name, count in self.members.items()
            if changes.members.get(name, 0) != count
        }
        self.members.update(moved)
        return moved

    def unmarked(self, changes: Changes) -> dict[int, Range]:
        """Return the lanes whose pending entries are not all between marks: level -> offsets to sample [from, to)."""
        missing = {}
        for row in changes.levels:
            if row.delay_offset is None or row.max_offset is None or row.delay_offset >= row.max_offset:
                continue
            known = self.lanes.get(row.level)
            if known is None or known.delay_ms != row.delay_ms or not covers(known.marks, row.delay_offset):
                missing[row.level] = (row.delay_offset, row.max_offset)
            elif self._gap(changes) and row.max_offset > known.marks[-1][0]:
                missing[row.level] = (max(known.marks[-1][0], row.delay_offset), row.max_offset)
        return missing

    def observe(self, changes: Changes, samples: Mapping[int, Iterable[Mark]]) -> list[RateHistory]:
        """Take in one reading; set `marks` of its level rows and return the histories that became whole."""
        if self._gap(changes):
            kept = self.rates.whole
            self.rates = Rates.begin(changes.as_of_ms, kept)
        changed = self.rates.roll(changes.as_of_ms)
        counting = not self._gap(changes)
        self._forget(changes)
        self._queues(changes, counting)
        self._offsets(changes, counting)
        self._levels(changes, samples, counting)
        self.as_of_ms = changes.as_of_ms
        return [self.rates.row(self.broker, key) for key in changed]

    def rows(self) -> dict[type[MirrorRow], int]:
        """Return how many rows there are of what is remembered singly."""
        return {
            Queue: len(self.ends),
            ConsumerOffset: len(self.consumed),
            ConsumerGroup: len(self.members),
            RateHistory: len(self.rates.whole),
        }

    def following_since_ms(self) -> int:
        """Return the moment from which on silence is 0."""
        return self.rates.since_slot * SLOT_MS

    def _gap(self, changes: Changes) -> bool:
        return self.as_of_ms is None or not 0 <= changes.as_of_ms - self.as_of_ms <= GAP_MS

    def _queues(self, changes: Changes, counting: bool) -> None:
        for row in changes.queues:
            end = row.max_offset or 0
            known = self.ends.get((row.topic, row.queue_id))
            self.ends[row.topic, row.queue_id] = end
            if changes.polling and not _is_counted(row.topic, known, changes):
                continue
            grown = end - (known or 0)
            if not counting or grown <= 0:
                continue
            self.rates.add("topic", row.topic, grown)
            if changes.polling:
                continue
            if row.topic == SCHEDULE_TOPIC or not is_system_topic(row.topic):
                self.rates.add("flow", "accepted", grown)

    def _offsets(self, changes: Changes, counting: bool) -> None:
        for row in changes.offsets:
            key = (row.group, row.topic, row.queue_id)
            grown = row.offset - self.consumed.get(key, row.offset)
            self.consumed[key] = row.offset
            if counting and not changes.polling and grown > 0:
                self.rates.add("group", row.group, grown)
                self.rates.add("flow", "consumed", grown)

    def _levels(self, changes: Changes, samples: Mapping[int, Iterable[Mark]], counting: bool) -> None:
        seen = set()
        for row in changes.levels:
            if row.delay_offset is None or row.max_offset is None:
                continue
            seen.add(row.level)
            known = self.lanes.get(row.level)
            released = row.delay_offset - known.delay_offset if known else 0
            if counting and released > 0:
                self.rates.add("level", str(row.level), released)
                self.rates.add("flow", "released", released)
                if not changes.polling:
                    # a release is stored again on its real topic, which counted it as accepted
                    self.rates.add("flow", "accepted", -released)
            marks = known.marks if known and known.delay_ms == row.delay_ms else ()
            if row.level in samples:
                reached = marks if covers(marks, row.delay_offset) else ()
                marks = merged(samples[row.level], reached)
            marks = appended(marks, row.max_offset, changes.as_of_ms + row.delay_ms)
            marks = trimmed(marks, row.delay_offset)
            self.lanes[row.level] = LaneMemory(row.delay_ms, row.delay_offset, row.max_offset, marks)
            row.marks = flat(marks)
        for level, lane in self.lanes.items():
            if level not in seen:
                lane.marks = appended(lane.marks, lane.end_offset, changes.as_of_ms + lane.delay_ms)

    def _forget(self, changes: Changes) -> None:
        for topic in changes.deleted_topics:
            self.rates.forget("topic", topic)
            self.ends = {key: end for key, end in self.ends.items() if key[0] != topic}
        for group in changes.deleted_groups:
            self.rates.forget("group", group)
            self.members.pop(group, None)
            self.consumed = {key: offset for key, offset in self.consumed.items() if key[0] != group}
        for key in changes.deleted_offsets:
            self.consumed.pop(key, None)


# Marks of lanes.

Mark = tuple[int, int]

#: marks kept for one lane: over 2 h one in 28 s
LIMIT = 256


def appended(marks: Sequence[Mark], offset: int, due_ms: int) -> tuple[Mark, ...]:
    """Return the marks with a new last one; one that contradicts them (clock set back) is lifted to keep the order."""
    if not marks:
        return ((offset, due_ms),)
    last_offset, last_due = marks[-1]
    if offset < last_offset:
        return ((offset, due_ms),)
    mark = (offset, max(due_ms, last_due))
    if len(marks) >= 2 and marks[-2][0] == last_offset == offset:
        return (*marks[:-1], mark)
    return _thinned((*marks, mark))


def trimmed(marks: Sequence[Mark], delay_offset: int) -> tuple[Mark, ...]:
    """Return the marks without what lies wholly behind `delay_offset`."""
    behind = bisect_right(marks, delay_offset, key=lambda mark: mark[0])
    return tuple(marks[max(0, behind - 1) :])


def covers(marks: Sequence[Mark], delay_offset: int) -> bool:
    """Tell whether the marks reach back to the first pending entry."""
    return bool(marks) and marks[0][0] <= delay_offset


def merged(samples: Iterable[Mark], marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """Return the samples read from the queue, then the marks that follow them, both made ascending."""
    ordered: list[Mark] = []
    for offset, due_ms in sorted({*samples, *marks}):
        ordered.append((offset, max(due_ms, ordered[-1][1]) if ordered else due_ms))
    return _thinned(tuple(ordered))


def flat(marks: Sequence[Mark]) -> list[int]:
    """Return the marks as the column holds them."""
    return list(chain.from_iterable(marks))


def paired(column: Sequence[int]) -> tuple[Mark, ...]:
    """Return the marks from the column's form."""
    return tuple(zip(column[::2], column[1::2], strict=True))


def due_by(moments_ms: Sequence[int], *, delay_offset: int, end_offset: int, points: Sequence[Mark]) -> list[int]:
    """Count the pending entries due at or before each of the ascending moments, in straight lines between the points.

    `points` must begin at or before the first pending entry; entries behind the last point count as due at its time.
    """
    backlog = end_offset - delay_offset
    first = bisect_left(points, moments_ms[0], key=itemgetter(1)) if moments_ms else 0
    counts: list[int] = []
    before: tuple[int, int] | None = None
    # of a page that asks for sixty seconds few of the points are needed
    for offset, due_ms in points[max(first - 1, 0) :]:
        begin = len(counts)
        if begin == len(moments_ms):
            break
        count = min(max(offset - delay_offset, 0), backlog)
        ahead = moments_ms[begin : bisect_left(moments_ms, due_ms, begin)]
        if before is None:
            counts.extend([0] * len(ahead))
        else:
            (left, below), width, rise = before, due_ms - before[0], count - before[1]
            # rounded up: just after a known due time its message counts
            counts.extend([below - rise * (left - moment) // width for moment in ahead])
        before = (due_ms, count)
    counts.extend([backlog] * (len(moments_ms) - len(counts)))
    return counts


def _thinned(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """Return at most LIMIT marks: when there are more, those go that stand closest to both neighbours in time."""
    if len(marks) <= LIMIT:
        return marks
    widths = [right[1] - left[1] for left, right in pairwise(marks)]
    inner = sorted(range(1, len(marks) - 1), key=lambda index: widths[index - 1] + widths[index])
    dropped: set[int] = set()
    for index in inner:
        if len(dropped) >= LIMIT // 2:
            break
        if index - 1 not in dropped and index + 1 not in dropped:
            dropped.add(index)
    return tuple(mark for index, mark in enumerate(marks) if index not in dropped)


# Rate histories.

#: (kind, name) of RateHistory
Key = tuple[str, str]


@dataclass(slots=True)
class Rates:
    """The slot that fills now, and the whole slots of every key that ever moved.

    `since_slot`: the first slot that was watched from its beginning without a gap; before it silence is unknown, not 0.
    """

    since_slot: int
    slot: int
    filling: dict[Key, int] = field(default_factory=dict)
    whole: dict[Key, tuple[int, list[int | None]]] = field(default_factory=dict)

    @classmethod
    def begin(cls, now_ms: int, kept: Mapping[Key, tuple[int, Sequence[int | None]]]) -> Rates:
        """Begin to watch; what is `kept` in the table stays, the time between is a gap."""
        slot = now_ms // SLOT_MS
        return cls(slot + 1, slot, {}, {key: (end, list(counts)) for key, (end, counts) in kept.items()})

    def add(self, kind: str, name: str, count: int) -> None:
        """Count into the slot that fills; a flow may take back what another flow claims (negative), nothing else."""
        if count:
            key = (kind, name)
            self.filling[key] = self.filling.get(key, 0) + count

    def roll(self, now_ms: int) -> list[Key]:
        """Close the slot when its time is over; return the keys whose history changed."""
        slot = now_ms // SLOT_MS
        if slot <= self.slot:
            return []
        changed = list(self._close())
        self.slot = slot
        return changed

    def row(self, broker: str, key: Key) -> RateHistory:
        """Return the row of one key."""
        slot, counts = self.whole[key]
        return RateHistory(broker_id=broker, kind=key[0], name=key[1], slot=slot, counts=counts)

    def forget(self, kind: str, name: str) -> None:
        """Forget a topic or group that is gone."""
        self.filling.pop((kind, name), None)
        self.whole.pop((kind, name), None)

    def _close(self) -> Iterator[Key]:
        filling, self.filling = self.filling, {}
        if self.slot < self.since_slot:
            return
        for key, count in filling.items():
            counts = aligned(*self.whole.get(key, (self.slot, [])), until=self.slot, since=self.since_slot)
            self.whole[key] = (self.slot, [*counts[-(SLOTS - 1) :], max(0, count)])
            yield key


def aligned(slot: int, counts: Sequence[int | None], *, until: int, since: int) -> list[int | None]:
    """Continue `counts`, which end with `slot`, up to but without `until`: 0 where watched, None before `since`.

    >>> aligned(10, [7], until=14, since=12)
    [7, None, 0, 0]
    """
    missing = range(max(slot + 1, until - SLOTS), until)
    joined = counts if missing.start == slot + 1 else ()
    return [*joined, *(0 if number >= since else None for number in missing)]
