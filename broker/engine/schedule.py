"""The delay levels: a message sent with level n waits in queue n-1 of SCHEDULE_TOPIC_XXXX until its moment has come.

Each level is first in, first out, because all its messages wait equally long. The queue entry's tags code is the due
time, so the next moment of a level is known without reading the message, and nothing is polled.

A message goes out as a new record on its real topic which names the parked one (property ESC_SOURCE): after a crash
recovery sees in the log what went out already, and repeats nothing. How far each level has come is kept in memory, in
the checkpoint and in ``config/delayOffset.json``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..rocketmq.message import Message
from ..rocketmq.properties import (
    DELAY,
    KEYS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SOURCE,
    TAGS,
    UNIQUE_KEY,
    format_properties,
    parse_properties,
)
from ..rocketmq.topics import SCHEDULE_TOPIC
from .config import parse_delay_levels
from .disk import Files, join, save_file
from .errors import BrokerError, CorruptRecord, RecordNotFound, StoreRefused
from .lateness import LATENCY_BOUNDS_MS, Histogram, Lateness
from .log.ticket import Ticket
from .message_header import Facts
from .queues.queues import QueueEntry
from .queues.repair import QueueRepair
from .store import Store
from .tables import json_file


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """A level, counted from 1, and how long it delays."""

    number: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class LevelStatus:
    """A delay level as an operator sees it. Lateness: visible to consumers minus due, of the last five minutes."""

    number: int
    delay_ms: int
    min_offset: int
    offset: int
    max_offset: int
    persisted_offset: int
    persisted_ms: int | None
    next_due_ms: int | None
    oldest_store_ms: int | None
    released_total: int
    released_per_s: float
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None
    early_total: int


#: Messages released in one tick, so that a herd does not keep the broker from answering.
RELEASES_PER_TICK = 500
#: Due times read ahead of a level at once.
_READ_AHEAD = 512
#: Retry after the store refused a release.
_REFUSED_PAUSE_MS = 100
#: How long a level delays that is configured no more: each message as long as it was told when it came.
_AS_TOLD_MS = 1 << 62


class Lane:
    """The progress of one level. ``next_offset`` is released next, all below ``offset`` is durably out."""

    __slots__ = (
        "ahead",
        "delay_ms",
        "early_total",
        "gone",
        "kept_offset",
        "lateness",
        "level",
        "next_offset",
        "offset",
        "persisted_ms",
        "persisted_offset",
        "released_total",
        "unreadable_total",
    )

    def __init__(self, level: int, delay_ms: int) -> None:
        self.level = level
        self.delay_ms = delay_ms
        self.next_offset = 0
        self.offset = 0
        #: what the last checkpoint knew of ``offset``; None without one
        self.kept_offset: int | None = None
        self.persisted_offset = 0
        self.persisted_ms: int | None = None
        self.released_total = 0
        self.early_total = 0
        #: messages passed over since the start because they could not be read or did not say where they belong
        self.unreadable_total = 0
        self.lateness = Lateness()
        self.ahead: deque[QueueEntry] = deque()
        #: offsets from ``offset`` on that are out already: recovery found their releases in the log
        self.gone: set[int] = set()

    def pass_gone(self) -> None:
        """Count what recovery found released, as far as nothing before it is missing."""
        while self.offset in self.gone:
            self.gone.remove(self.offset)
            self.offset += 1
        while self.next_offset < self.offset:
            self.step()

    def pass_over(self) -> None:
        """Go on behind a head that is not released: it counts as out once all before it are."""
        self.gone.add(self.next_offset)
        self.step()
        self.pass_gone()

    def step(self) -> None:
        """Go on to the message behind the head."""
        if self.ahead:
            self.ahead.popleft()
        self.next_offset += 1


class ProgressWrite:
    """``config/delayOffset.json`` as RocketMQ keeps it: a level (one with a queue) and its next offset."""

    def __init__(self, path: str, offsets: dict[str, int], persisted: Callable[[dict[str, int], int], None]) -> None:
        self._path = path
        self._offsets = offsets
        self._persisted = persisted

    def run(self, files: Files) -> None:
        """Save the file, durable on return. Raises OSError."""
        version = {"counter": sum(self._offsets.values()), "stateVersion": 0, "timestamp": 0}
        save_file(files, self._path, json_file.dump({"dataVersion": version, "offsetTable": self._offsets}))

    def done(self, *, saved: bool, now_ms: int) -> None:
        """Note that it is on disk."""
        if saved:
            self._persisted(self._offsets, now_ms)


class Schedule:
    """Parks and releases. ``release(message, topic, queue_id, facts, now_ms)`` appends it to its real topic."""

    name = "levels"
    topics = frozenset({SCHEDULE_TOPIC})

    def __init__(
        self, store: Store, repair: QueueRepair, release: Callable[[Message, str, int, Facts, int], Ticket]
    ) -> None:
        self._store = store
        self._repair = repair
        self._release = release
        #: how late messages left since the start, in ms
        self.released = Histogram(LATENCY_BOUNDS_MS)
        delays = parse_delay_levels(store.config.delay_levels)
        self.levels = tuple(DelayLevel(number, delay_ms) for number, delay_ms in enumerate(delays, 1))
        #: those of the levels, and behind them those of former levels on which something may still wait
        self._lanes = [Lane(level.number, level.delay_ms) for level in self.levels]
        self._refused_until_ms = 0
        self._path = join(store.config.root, "config", "delayOffset.json")

    # parking

    def park(self, topic: str, queue_id: int, facts: Facts) -> tuple[int, Facts]:
        """Return (level, facts) of the record for SCHEDULE_TOPIC_XXXX; a level above the highest is the highest."""
        level = min(facts.delay_level, len(self.levels))
        properties = {
            **parse_properties(facts.stored),
            DELAY: str(level),
            REAL_TOPIC: topic,
            REAL_QUEUE_ID: str(queue_id),
        }
        properties.pop(SOURCE, None)
        return level, facts._replace(stored=format_properties(properties))

    def due_ms(self, level: int, store_ms: int) -> int:
        """Return when a message stored now on a level is due."""
        return store_ms + self._lanes[level - 1].delay_ms

    # progress (see Derived in log/checkpoint.py)

    def resume(self, saved: dict[str, int] | None, *, whole: bool) -> None:
        """Take over the next offset to release by level: what delayOffset.json or the checkpoint says."""

        def read(content: dict[str, Any]) -> dict[int, int]:
            return {int(level): int(offset) for level, offset in (content.get("offsetTable") or {}).items()}

        offsets = json_file.load(self._store.files, self._path, read) or {}
        self._add_former_levels()
        for lane in self._lanes:
            lane.kept_offset = None if saved is None else saved.get(str(lane.level), 0)
            lane.next_offset = max(offsets.get(lane.level, 0), lane.kept_offset or 0)

    def _add_former_levels(self) -> None:
        """Go on with levels that were configured once: nobody is left behind on them, and retention keeps it."""
        known = [queue_id for topic, queue_id in self._store.queues.known if topic == SCHEDULE_TOPIC]
        for level in range(len(self._lanes) + 1, max(known, default=-1) + 2):
            self._lanes.append(Lane(level, _AS_TOLD_MS))

    def walked(self, message: Message) -> None:
        """Do nothing, as parked messages stand in the queues."""

    def heard(self, parked: Message) -> None:
        """Hear from recovery that a parked record went out."""
        if 0 <= parked.queue_id < len(self._lanes):
            # one by one: of releases written together a power loss may take the first and leave the second
            self._lanes[parked.queue_id].gone.add(parked.queue_offset)

    def start(self, now_ms: int) -> None:
        """Fit progress to what the queues hold."""
        self._add_former_levels()
        for lane in self._lanes:
            queue = self._store.queues.get(SCHEDULE_TOPIC, lane.level - 1)
            low, high = (queue.min_offset, queue.max_offset) if queue else (0, 0)
            if lane.next_offset > high and lane.kept_offset is not None:
                # a file that tells of more than ever waited is another store's, or damaged: who believes a part of it
                # passes over what still waits. The checkpoint and the log behind it know better.
                lane.next_offset = lane.kept_offset
            lane.offset = min(max(lane.next_offset, low), high)
            lane.gone = {offset for offset in lane.gone if offset >= lane.offset}
            lane.pass_gone()
            lane.next_offset = lane.persisted_offset = lane.offset

    def state(self) -> dict[str, int]:
        """Return the next offset by level, as far as it is durable, of levels that were ever used."""
        used = (lane for lane in self._lanes if self._store.queues.get(SCHEDULE_TOPIC, lane.level - 1))
        return {str(lane.level): lane.offset for lane in used}

    def writes(self, *, clean: bool) -> ProgressWrite:
        """Return the write of ``delayOffset.json`` as of now."""
        return ProgressWrite(self._path, self.state(), self.persisted)

    @property
    def may_checkpoint(self) -> bool:
        """Tell whether no release is out while an earlier one of its level was lost, and not made again yet.

        Progress as one offset cannot say so: until it is made good only the log knows, so no checkpoint may pass it.
        """
        return not any(lane.gone for lane in self._lanes)

    def persisted(self, offsets: dict[str, int], now_ms: int) -> None:
        """Note what is saved on disk."""
        for lane in self._lanes:
            if (offset := offsets.get(str(lane.level))) is not None:
                lane.persisted_offset = offset
                lane.persisted_ms = now_ms

    def oldest_position(self) -> int | None:
        """Return the lowest position of a parked record that is not durably out: what retention must keep."""
        found = []
        for lane in self._lanes:
            queue = self._store.queues.get(SCHEDULE_TOPIC, lane.level - 1)
            found.append(self._repair.oldest_position(queue, lane.offset) if queue is not None else None)
        return min((position for position in found if position is not None), default=None)

    # releasing

    def tick(self, now_ms: int) -> int | None:
        """Release what is due; return when the next one is, None if nothing waits."""
        if now_ms < self._refused_until_ms <= now_ms + _REFUSED_PAUSE_MS:
            return self._refused_until_ms
        room = RELEASES_PER_TICK
        following: int | None = None
        for lane in self._lanes:
            due_ms = self._next_due(lane, now_ms)
            while due_ms is not None and due_ms <= now_ms and room:
                try:
                    self._release_head(lane, now_ms)
                except (StoreRefused, OSError):
                    self._refused_until_ms = now_ms + _REFUSED_PAUSE_MS
                    return self._refused_until_ms
                room -= 1
                due_ms = self._next_due(lane, now_ms)
            if due_ms is not None and (following is None or due_ms < following):
                following = due_ms
        return following

    def _next_due(self, lane: Lane, now_ms: int) -> int | None:
        if not lane.ahead:
            queue = self._store.queues.get(SCHEDULE_TOPIC, lane.level - 1)
            if queue is None or lane.next_offset >= queue.max_offset:
                return None
            lane.ahead.extend(queue.entries(lane.next_offset, _READ_AHEAD))
            if not lane.ahead:
                if self._repair.mend(queue, lane.next_offset, lane.next_offset + 1):
                    return self._next_due(lane, now_ms)
                # the entries are gone with their file: go on where the queue begins
                for _ in range(lane.next_offset, max(lane.next_offset + 1, queue.min_offset)):
                    self._pass_over_unreadable(lane)
                return now_ms
        due_ms = lane.ahead[0].tags_code
        # the clock was set back, or the level was shortened: never wait longer than the level says
        return due_ms if due_ms <= now_ms + lane.delay_ms else now_ms

    def _release_head(self, lane: Lane, now_ms: int) -> None:
        if not lane.ahead:
            return
        if lane.next_offset in lane.gone:
            lane.step()
            return
        entry = lane.ahead[0]
        try:
            message = self._repair.message_of(SCHEDULE_TOPIC, lane.level - 1, lane.next_offset)
            if message.position != entry.position:
                lane.ahead.clear()  # the entry was damaged, its due time too
                return
            topic = message.properties.get(REAL_TOPIC)
            queue_id = message.properties.get(REAL_QUEUE_ID, "")
            if topic is None or not queue_id.isdigit():
                raise CorruptRecord(entry.position, "its topic and queue are missing")
        except (RecordNotFound, CorruptRecord):
            self._pass_over_unreadable(lane)
            return
        if self._store.topics.is_cancelled(topic, entry.position):
            lane.pass_over()
            self._touch(lane.level)
            return
        properties = {**message.properties, SOURCE: str(entry.position)}
        stored = format_properties(properties)
        facts = Facts(stored, properties.get(UNIQUE_KEY), properties.get(TAGS), properties.get(KEYS))
        try:
            self._release(message, topic, int(queue_id), facts, now_ms)
        except StoreRefused:
            raise
        except BrokerError:
            self._pass_over_unreadable(lane)
            return
        lane.step()
        self._store.note(self, (lane.level, lane.next_offset, entry.tags_code))

    def _pass_over_unreadable(self, lane: Lane) -> None:
        """Go on behind a head that can never be released, and say so in the health of the store."""
        lane.unreadable_total += 1
        lane.pass_over()
        self._touch(lane.level)
        self._store.changes.touch("broker", "")

    def _touch(self, level: int) -> None:
        """Have followers told of a level; of former ones they know nothing."""
        if level <= len(self.levels):
            self._store.changes.touch("level", level)

    def synced(self, notes: Sequence[tuple[int, int, int]], now_ms: int) -> None:
        """Count releases that are visible now: (level, next offset, due_ms)."""
        for level, next_offset, due_ms in notes:
            lane = self._lanes[level - 1]
            lane.offset = next_offset
            lane.pass_gone()
            lane.released_total += 1
            lane.lateness.add(now_ms, now_ms - due_ms)
            self.released.add(max(0, now_ms - due_ms))
            if now_ms < due_ms:
                lane.early_total += 1
        for level in {level for level, _, _ in notes}:
            self._touch(level)

    # seeing

    def next_offset(self, level: int) -> int:
        """Return the offset in a level's queue that is released next."""
        return self._lanes[level - 1].next_offset

    def unreadable(self) -> dict[int, int]:
        """Return how many messages of each level were passed over since the start; levels without any are left out."""
        return {lane.level: lane.unreadable_total for lane in self._lanes if lane.unreadable_total}

    def status(self, now_ms: int) -> list[LevelStatus]:
        """Return every level as of now."""
        return [self._status(lane, now_ms) for lane in self._lanes[: len(self.levels)]]

    def _status(self, lane: Lane, now_ms: int) -> LevelStatus:
        queue = self._store.queues.get(SCHEDULE_TOPIC, lane.level - 1)
        low, high = (queue.min_offset, queue.max_offset) if queue else (0, 0)
        due_ms = stored_ms = None
        if queue is not None and lane.offset < high and (head := queue.entries(lane.offset, 1)):
            due_ms = head[0].tags_code
            stored_ms = due_ms - lane.delay_ms
        return LevelStatus(
            number=lane.level,
            delay_ms=lane.delay_ms,
            min_offset=low,
            offset=lane.offset,
            max_offset=high,
            persisted_offset=lane.persisted_offset,
            persisted_ms=lane.persisted_ms,
            next_due_ms=due_ms,
            oldest_store_ms=stored_ms,
            released_total=lane.released_total,
            released_per_s=lane.lateness.per_second(now_ms),
            lateness_p50_ms=lane.lateness.percentile(now_ms, 0.50),
            lateness_p99_ms=lane.lateness.percentile(now_ms, 0.99),
            early_total=lane.early_total,
        )
