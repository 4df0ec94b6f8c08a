"""The timers as one service of the engine: messages that wait for any moment up to ten years, to the ms.

They wait until they are released, cancelled or moved:

    parking     a message becomes a record of rmq_sys_wheel_timer               parking.py, keys.py
    synced      visible: into timer log and wheel, what it ends is over         core.py, wheel.py, log.py, done.py
    tick        seconds about to come are read and encoded, what is due goes    due.py, prepared.py, release.py
    steering    cancelled, moved or delivered now                               steer.py
    seeing      what waits, in order or in numbers                              listing.py, stats.py
    checkpoint  timer log, wheel, what is over                                  checkpoint.py
    open        the last state, and what the log says since                     recovery.py

Exactly once: a released record names its timer (ESC_SOURCE), a record that ends one names it too (ESC_CANCELS,
ESC_REPLACES); whatever is lost of everything else follows from these.

Timers that alone keep an old segment of the log are appended again, so that the segment can go. The copy names the old
record (ESC_REPLACES) and is due at the same moment; nothing else changes. This is done only where what waits is a small
part of the segment, and only so many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, cast

from ...rocketmq.message import Message
from ...rocketmq.topics import TIMER_TOPIC
from ..errors import BrokerError, StoreRefused
from ..queues.repair import Mender
from ..store import Store
from .checkpoint import Keeper, StateWrite
from .clock_steps import ClockWatch
from .core import Core, Pace
from .keys import Keys
from .listing import Life, Listing
from .parked import Deleted, Parked, Replaced
from .parking import Deletes, Parking
from .prepared import Preparer
from .recovery import Revival
from .release import RELEASES_PER_TICK, Released, Releaser, count_released
from .stats import Views
from .steer import Steering

#: Retry after the store refused a release.
_REFUSED_PAUSE_MS = 100


class Timers:
    """All timers of a store. ``place(topic, queue id)`` says where a released message goes now."""

    name = "timers"
    topics = frozenset({TIMER_TOPIC})
    may_checkpoint = True

    def __init__(self, store: Store, mender: Mender, place: Callable[[str, int], tuple[str, int]]) -> None:
        self._store = store
        self._mender = mender
        self.core = Core(store)
        self.keys = Keys(self.core)
        note = partial(store.note, self)
        deletes = Deletes(self.core, self.keys, note)
        self.parking = Parking(self.core, self.keys, deletes, note)
        self.clock = ClockWatch()
        self._releaser = Releaser(self.core, mender, Preparer(store, mender, place), self._went)
        self.steering = Steering(self.core, self.keys, self.parking, deletes, self._releaser)
        self._keeper = Keeper(self.core, self.clock)
        self._revival = Revival(self.core, self.keys, self._keeper.paths)
        self._changes = 0
        self._now_ms = 0
        self._refused_until_ms = 0
        #: portions released and not visible yet: queue offset and moment of the first timer of each
        self._flying: dict[int, int] = {}
        self._overdue_since_ms = 0
        self._overdue_room = RELEASES_PER_TICK
        self.survivors = Survivors(self.core, self.keys, self.steering)
        self.pace = Pace()
        self.listing = Listing(self.core, self.keys)
        self.views = Views(self.core, self.clock, self.pace)
        self.life = Life(self.core, self.keys, self.steering)

    def _went(self, note: Released) -> None:
        """Hear of a portion that was appended; its second is looked at again by a start until it is visible."""
        self._flying[note.first_offset] = note.ready.dues[note.begin]
        self._store.note(self, note)

    # recovery (see engine/derived.py)

    def close(self) -> None:
        """Give the memory of the wheel back."""
        self.core.wheel.close()

    def resume(self, saved: object, *, whole: bool) -> None:
        """Take over the last state, if there is one that is sound and the log goes on from it."""
        self._revival.resume(whole=whole)

    def walked(self, message: Message) -> None:
        """Hear of a record of ``rmq_sys_wheel_timer``."""
        self._revival.walked(message)

    def heard(self, parked: Message) -> None:
        """Hear that a timer was released."""
        self._revival.heard(parked)

    def start(self, now_ms: int) -> None:
        """Put what the walk found into the wheel; begin to read where it was left."""
        kept = self._revival.start(now_ms)
        self._keeper.start(kept, self._revival.sequence, now_ms)
        self.clock.start(now_ms, kept.steps)
        self._now_ms = self._overdue_since_ms = now_ms

    # the heart beat

    def synced(self, notes: Sequence[Parked | Replaced | Deleted | Released], now_ms: int) -> None:
        """Take over what is visible now."""
        core = self.core
        came: list[Parked] = []
        self._changes += 1
        if {*map(type, notes)} == {Parked}:
            self._accept(cast(Sequence[Parked], notes), now_ms)
            return
        for note in notes:
            if isinstance(note, Parked):
                came.append(note)
                continue
            if came:
                self._accept(came, now_ms)
                came = []
            if isinstance(note, Released):
                self._flying.pop(note.first_offset, None)
                self._count_lateness(note, now_ms)
            elif isinstance(note, Replaced):
                self._accept([note.timer], now_ms)
                core.is_over(note.old.offset, note.old.topic)
                core.totals.rescheduled += note.timer.due_ms != note.old.due_ms
            elif isinstance(note, Deleted):
                self._delete(note, now_ms)
        if came:
            self._accept(came, now_ms)

    def _accept(self, timers: Sequence[Parked], now_ms: int) -> None:
        core = self.core
        core.done.extend(timers[-1].offset + 1)
        core.forget_fresh(timers[-1].position)
        by_topic = core.by_topic
        for timer in timers:
            by_topic[timer.topic] = by_topic.get(timer.topic, 0) + 1
        core.pending += len(timers)
        core.index(timers, now_ms)

    def _delete(self, note: Deleted, now_ms: int) -> None:
        core, victim = self.core, note.victim
        core.done.extend(note.offset + 1)
        core.done.add(note.offset)
        if victim is None:
            return
        if note.cancels and core.is_over(victim.offset, victim.topic):
            core.totals.cancelled += 1
        core.index_delete(note.position, note.size, victim, now_ms)

    def _count_lateness(self, note: Released, now_ms: int) -> None:
        for (topic, due_ms), count in count_released(self.core, note, now_ms).items():
            self.pace.late(topic, now_ms, now_ms - due_ms, count)
            if now_ms < due_ms:
                self.core.totals.early += count

    def tick(self, now_ms: int) -> int | None:
        """Release what is due; read and encode ahead; return when to come again."""
        core = self.core
        step = self.clock.saw(now_ms)
        self._now_ms = now_ms
        if step == "back":
            self._turn_back(now_ms)
        elif step == "forward":
            self._part_overdue(now_ms)
        if core.paused:
            self.clock.promise(None)
            return None
        if now_ms < self._refused_until_ms <= now_ms + _REFUSED_PAUSE_MS:
            return self._refused_until_ms
        try:
            count = self._releaser.release(core.due, now_ms, RELEASES_PER_TICK)
            busy = count >= RELEASES_PER_TICK
            self.pace.released(now_ms, count, more=busy)
            if core.overdue is not None:
                busy |= self._release_overdue(now_ms)
        except (StoreRefused, OSError):
            self._refused_until_ms = now_ms + _REFUSED_PAUSE_MS
            return self._refused_until_ms
        busy |= self._releaser.get_ready(core.due, now_ms)
        if core.due.broken or (core.overdue is not None and core.overdue.broken):
            self._revival.repair(now_ms)
            self._keeper.renew()
            busy = True
        following = now_ms if busy else self._next_moment(now_ms)
        self.clock.promise(following)
        return following

    def _next_moment(self, now_ms: int) -> int | None:
        """Return when the next timer is due, or when its second is to be read."""
        core = self.core
        moments = []
        for due in (core.due, core.overdue):
            if due is not None and (head := due.head()) is not None:
                moments.append(max(head[0], now_ms + 1))
        second = core.due.next_second()
        if second is not None:
            moments.append(max((second - core.due.ahead.of(second)) * 1000, now_ms + 1))
        if core.overdue is not None:
            moments.append(now_ms + 1)
        return min(moments, default=None)

    def _release_overdue(self, now_ms: int) -> bool:
        """Release some of what was overdue, at a rate that leaves room; return whether more may go at once."""
        core, due = self.core, self.core.overdue
        assert due is not None
        rate = self._store.config.timer_overdue_per_s
        gained = max(now_ms - self._overdue_since_ms, 0) * rate // 1000
        if gained or now_ms < self._overdue_since_ms:
            self._overdue_room = min(self._overdue_room + gained, RELEASES_PER_TICK)
            self._overdue_since_ms = now_ms
        if self._overdue_room:
            self._overdue_room -= self._releaser.release(due, now_ms, self._overdue_room)
        more = self._releaser.get_ready(due, now_ms)
        if due.is_finished:
            core.overdue = None
            return False
        return more

    def _turn_back(self, now_ms: int) -> None:
        """The clock was set back: read again from where it stands now; what is over stays over."""
        core = self.core
        second = min(core.due.lowest_second(), now_ms // 1000)
        if core.overdue is not None:
            second = min(second, core.overdue.lowest_second())
            core.overdue = None
        core.due.reset(second)

    def _part_overdue(self, now_ms: int) -> None:
        """Much time passed at once: what was due in it goes its own way, so that it holds nothing up."""
        core, now_second = self.core, now_ms // 1000
        begin = core.due.lowest_second()
        if core.overdue is not None:
            begin = min(begin, core.overdue.lowest_second())
        if begin < now_second:
            core.due.reset(now_second)
            core.part_overdue(begin, now_second)

    # steering and seeing

    def pause(self, paused: bool, now_ms: int) -> None:
        """Stop releasing, or go on; what became due in between goes oldest first. Raises OSError."""
        core = self.core
        self._keeper.save_paused(paused)
        if core.paused and not paused:
            self._part_overdue(now_ms)
            self._overdue_since_ms = now_ms
        core.paused = paused
        self._changes += 1

    def drop(self, topic: str) -> None:
        """Hear that all that waited for a topic is cancelled (tables/topics.py): what is encoded already, too."""
        for due in (self.core.due, self.core.overdue):
            if due is not None:
                self._releaser.drop(due, topic)
        self._changes += 1

    def backlog(self, now_ms: int) -> int:
        """Return how many are overdue, about."""
        core = self.core
        count = core.far_overdue(now_ms)
        for due in (core.due, core.overdue):
            if due is not None:
                count += due.count_until(now_ms)
        return count

    def status(self, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14004: how it goes."""
        next_due_ms = self.listing.first_due_ms(now_ms) if self.core.pending else None
        if next_due_ms is None and self.core.pending:
            dues, second = (self.core.due, self.core.overdue), self.core.due.next_second()
            moments = [head[0] for due in dues if due is not None and (head := due.head())]
            next_due_ms = min([*moments, (second + 1) * 1000] if second is not None else moments, default=None)
        return self.views.status(now_ms, next_due_ms, self.backlog(now_ms))

    def check_point(self, now_ms: int) -> bytes:
        """Return the 56 bytes of ``config/timercheck`` as of now (request 60)."""
        return self._keeper.check_point(list(self._flying.values()), now_ms)

    def metrics(self) -> dict[str, Any]:
        """Return RocketMQ's TimerMetrics: counts by real topic (request 61)."""
        counts = {topic: {"count": count, "timeStamp": self._now_ms} for topic, count in self.core.by_topic.items()}
        version = {"counter": self._changes, "stateVersion": 0, "timestamp": self._now_ms}
        return {"timingCount": counts, "dataVersion": version}

    # checkpoints (see engine/derived.py)

    def state(self) -> int:
        """Return a number that changes with every change."""
        return self._changes

    def writes(self, *, clean: bool) -> StateWrite:
        """Return timer log, wheel and what is over, as of now."""
        return self._keeper.writes(list(self._flying.values()), self._now_ms, clean=clean)

    def oldest_position(self) -> int | None:
        """Return the position of the oldest timer that waits."""
        lowest = self.core.done.lowest()
        entries = self.core.queue.entries(lowest, 1) if lowest is not None else []
        return entries[0].position if entries else None


# Timers that alone keep an old segment.

#: Timers moved in one pass, and the largest part of a segment that is worth moving.
_MOVES_PER_PASS = 500
_SMALL_PART = 4


class Survivors:
    """Moves timers from the oldest segment to the end of the log."""

    def __init__(self, core: Core, keys: Keys, steering: Steering) -> None:
        self._core = core
        self._keys = keys
        self._steering = steering

    def move(self, end_position: int, now_ms: int) -> int:
        """Append again what waits below a position, the end of a segment that is old; return how many. Raises OSError.

        A store that takes nothing now is asked again with the next pass.
        """
        core = self._core
        lowest = core.done.lowest()
        if lowest is None or end_position > core.store.visible_position:
            return 0
        queue = core.queue
        end_offset = queue.search(lowest, queue.max_offset, end_position)
        offsets = [o for o in islice(core.done.open_offsets(lowest, end_offset), 100_000) if o not in core.claimed]
        entries = [entry for offset in offsets[:_MOVES_PER_PASS] for entry in queue.entries(offset, 1)]
        size = sum(entry.size for entry in entries) * max(1, len(offsets) // max(1, len(entries)))
        if size * _SMALL_PART > core.store.log.chain.segment_size:
            return 0
        moved = 0
        for entry in entries:
            message = self._keys.message_at(entry.position)
            timer = self._keys.at(entry.position)
            if message is None or timer is None or not core.waits(timer.offset):
                continue
            if core.store.topics.is_cancelled(timer.topic, timer.position):
                core.is_over(timer.offset, timer.topic)
                continue
            try:
                self._steering.append_again(timer, message, now_ms)
            except BrokerError:
                break
            moved += 1
        return moved
