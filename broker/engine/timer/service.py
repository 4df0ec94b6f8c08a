"""The timers as one service of the engine: messages that wait for any moment up to ten years, to the ms.

They wait until they are released, cancelled or moved. Whether one still waits is said in state.py alone:

    parking     a message becomes a record of rmq_sys_wheel_timer               parking.py, keys.py
    synced      visible: into timer log and wheel, what it ends is over         index.py, wheel.py, log.py
    tick        seconds about to come are read and encoded, what is due goes    due.py, release.py
    steering    cancelled, moved or delivered now                               steer.py
    acts        the same by the commit of a half                                acts.py
    seeing      what waits, in order or in numbers                              listing.py, stats.py
    checkpoint  timer log, wheel, what is over                                  checkpoint.py
    pace        how late they left, how fast they can                           pace.py
    open        the last state, and what the log says since                     recovery.py

Exactly once: a released record names its timer (ESC_SOURCE), a record that ends one names it too (ESC_CANCELS,
ESC_REPLACES); whatever is lost of everything else follows from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from ...rocketmq.message import Message
from ...rocketmq.topics import TIMER_TOPIC
from ..errors import StoreRefused
from ..queues.repair import QueueRepair
from ..store import Store
from .acts import Acts
from .checkpoint import StateWrite, TimerCheckpoints
from .encoding import Preparer
from .index import TimerIndex
from .keys import HalfOrder, Keys
from .listing import Life, Listing
from .pace import KeptPace, Pace
from .parking import Deletes, Parking
from .recovery import TimerRecovery
from .release import RELEASES_PER_TICK, Released, Releaser
from .state import Deleted, Replaced, Timer, TimerStates
from .stats import ClockWatch, Views
from .steer import Compaction, Steering

#: Retry after the store refused a release.
_REFUSED_PAUSE_MS = 100


class Timers:
    """The timers of a store. ``place(topic, queue id)`` says where a released message goes now."""

    name = "timers"
    topics = frozenset({TIMER_TOPIC})
    may_checkpoint = True

    def __init__(self, store: Store, repair: QueueRepair, place: Callable[[str, int], tuple[str, int]]) -> None:
        self._store = store
        self._repair = repair
        self.states = states = TimerStates()
        self.index = index = TimerIndex(store, states)
        self.keys = keys = Keys(store, states)
        note, note_all = partial(store.note, self), partial(store.note_all, self)
        order = HalfOrder(store, keys)
        deletes = Deletes(store, states, keys, order, note)
        self.parking = Parking(store, states, index, keys, order, deletes, note, note_all)
        self.acts = Acts(keys, order, self.parking, deletes)
        self._releaser = Releaser(store, states, index, repair, Preparer(store, repair, place), note)
        self.steering = Steering(store, states, keys, self.parking, deletes, self._releaser)
        self.compaction = Compaction(store, states, index, keys, self.steering)
        self._checkpoints = TimerCheckpoints(store, states, index)
        self._recovery = TimerRecovery(store, states, index, keys, repair, self._checkpoints.paths)
        self.clock = ClockWatch()
        self.pace = Pace()
        self.kept_pace = KeptPace(store.config, store.files, self.pace)
        self.listing = Listing(store, states, index, keys)
        self.views = Views(store, states, index, self.clock, self.pace)
        self.life = Life(states, index, keys, self.steering)
        self._changes = 0
        self._now_ms = 0
        self._refused_until_ms = 0
        self._overdue_since_ms = 0
        self._overdue_room = RELEASES_PER_TICK

    # recovery (see Derived in log/checkpoint.py)

    def close(self) -> None:
        """Give the memory of the wheel back."""
        self.index.wheel.close()

    def resume(self, saved: object, *, whole: bool) -> None:
        """Take over the last state, if there is one that is sound and the log goes on from it."""
        self._recovery.resume(whole=whole)

    def walked(self, message: Message) -> None:
        """Hear of a record of ``rmq_sys_wheel_timer``."""
        self._recovery.walked(message)

    def heard(self, parked: Message) -> None:
        """Hear that a timer was released."""
        self._recovery.heard(parked)

    def start(self, now_ms: int) -> None:
        """Put what the walk found into the wheel; begin to read where it was left."""
        kept = self._recovery.start(now_ms)
        self._checkpoints.start(kept, self._recovery.sequence, now_ms)
        self.states.paused = self._checkpoints.load_paused()
        self.kept_pace.load()
        self.clock.start(now_ms, kept.steps)
        self._now_ms = self._overdue_since_ms = now_ms

    # what became visible, and what is due

    def synced(self, notes: Sequence[Timer | Replaced | Deleted | Released], now_ms: int) -> None:
        """Take over what is visible now."""
        states = self.states
        came: list[Timer] = []
        self._changes += 1
        if {*map(type, notes)} == {Timer}:
            self._accept(cast(Sequence[Timer], notes), now_ms)
            return
        for note in notes:
            if isinstance(note, Timer):
                came.append(note)
                continue
            if came:
                self._accept(came, now_ms)
                came = []
            if isinstance(note, Released):
                self._count_lateness(self._releaser.released(note), now_ms)
            elif isinstance(note, Replaced):
                self._accept([note.timer], now_ms)
                states.end(note.old.offset, note.old.topic)
                states.totals.rescheduled += note.timer.due_ms != note.old.due_ms
            elif isinstance(note, Deleted):
                self._delete(note, now_ms)
        if came:
            self._accept(came, now_ms)

    def _accept(self, timers: Sequence[Timer], now_ms: int) -> None:
        self.states.accept(timers)
        self.index.add(timers, now_ms)

    def _delete(self, note: Deleted, now_ms: int) -> None:
        states, victim = self.states, note.victim
        states.pass_over(note.offset + 1)
        if victim is None:
            return
        if note.cancels and states.end(victim.offset, victim.topic):
            states.totals.cancelled += 1
        self.index.add_delete(note.position, note.size, victim, now_ms)

    def _count_lateness(self, released: dict[tuple[str, int], int], now_ms: int) -> None:
        for (topic, due_ms), count in released.items():
            self.pace.late(topic, now_ms, now_ms - due_ms, count)
            if now_ms < due_ms:
                self.states.totals.early += count

    def tick(self, now_ms: int) -> int | None:
        """Release what is due; read and encode ahead; return when to come again."""
        index = self.index
        step = self.clock.saw(now_ms)
        self._now_ms = now_ms
        if step == "back":
            self._turn_back(now_ms)
        elif step == "forward":
            self._part_overdue(now_ms)
        if self.states.paused:
            self.clock.promise(None)
            return None
        if now_ms < self._refused_until_ms <= now_ms + _REFUSED_PAUSE_MS:
            return self._refused_until_ms
        try:
            count = self._releaser.release(index.due, now_ms, RELEASES_PER_TICK)
            busy = count >= RELEASES_PER_TICK
            self.pace.released(now_ms, count, more=busy)
            if index.overdue is not None:
                busy |= self._release_overdue(now_ms)
        except (StoreRefused, OSError):
            self._refused_until_ms = now_ms + _REFUSED_PAUSE_MS
            return self._refused_until_ms
        busy |= self._releaser.get_ready(index.due, now_ms)
        if index.due.broken or (index.overdue is not None and index.overdue.broken):
            self._recovery.repair(now_ms)
            self._checkpoints.renew()
            busy = True
        following = now_ms if busy else self._next_moment(now_ms)
        self.clock.promise(following)
        return following

    def _next_moment(self, now_ms: int) -> int | None:
        """Return when the next timer is due, or when its second is to be read."""
        index = self.index
        moments = []
        for due in (index.due, index.overdue):
            if due is not None and (head := due.head()) is not None:
                moments.append(max(head[0], now_ms + 1))
        second = index.due.next_second()
        if second is not None:
            moments.append(max((second - index.due.ahead.of(second)) * 1000, now_ms + 1))
        if index.overdue is not None:
            moments.append(now_ms + 1)
        return min(moments, default=None)

    def _release_overdue(self, now_ms: int) -> bool:
        """Release some of what was overdue, at a rate that leaves room; return whether more may go at once."""
        index, due = self.index, self.index.overdue
        assert due is not None
        rate = self._store.config.timer_overdue_per_s
        gained = max(now_ms - self._overdue_since_ms, 0) * rate // 1000
        if gained or now_ms < self._overdue_since_ms:
            self._overdue_room = min(self._overdue_room + gained, RELEASES_PER_TICK)
            self._overdue_since_ms = now_ms
        if self._overdue_room:
            self._overdue_room -= self._releaser.release(due, now_ms, self._overdue_room)
        more = self._releaser.get_ready(due, now_ms)
        if due.is_finished and not due.broken:
            index.overdue = None
            return False
        return more

    def _turn_back(self, now_ms: int) -> None:
        """Read again from where the clock stands now, as it was set back; what is over stays over."""
        index = self.index
        second = min(index.due.lowest_second(), now_ms // 1000)
        if index.overdue is not None:
            second = min(second, index.overdue.lowest_second())
            index.overdue = None
        index.due.reset(second)

    def _part_overdue(self, now_ms: int) -> None:
        """Release what became due while much time passed at once beside the rest, so that it holds nothing up."""
        index, now_second = self.index, now_ms // 1000
        begin = index.due.lowest_second()
        if index.overdue is not None:
            begin = min(begin, index.overdue.lowest_second())
        if begin < now_second:
            index.due.reset(now_second)
            index.part_overdue(begin, now_second)

    # steering and seeing

    def pause(self, paused: bool, now_ms: int) -> None:
        """Stop releasing, or go on; what became due in between goes oldest first. Raises OSError."""
        states = self.states
        self._checkpoints.save_paused(paused)
        if states.paused and not paused:
            self._part_overdue(now_ms)
            self._overdue_since_ms = now_ms
        states.paused = paused
        self._changes += 1

    def drop(self, topic: str) -> None:
        """End what is encoded already for a topic, as all that waited for it is cancelled (tables/topics.py)."""
        for due in (self.index.due, self.index.overdue):
            if due is not None:
                self._releaser.drop(due, topic)
        self._changes += 1

    def backlog(self, now_ms: int) -> int:
        """Return how many are overdue, about."""
        index = self.index
        count = index.far_overdue(now_ms)
        for due in (index.due, index.overdue):
            if due is not None:
                count += due.count_until(now_ms)
        return count

    def status(self, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14004: counts, lateness and limits."""
        next_due_ms = self.listing.first_due_ms(now_ms) if self.states.pending else None
        if next_due_ms is None and self.states.pending:
            dues, second = (self.index.due, self.index.overdue), self.index.due.next_second()
            moments = [head[0] for due in dues if due is not None and (head := due.head())]
            next_due_ms = min([*moments, (second + 1) * 1000] if second is not None else moments, default=None)
        return self.views.status(now_ms, next_due_ms, self.backlog(now_ms))

    def check_point(self, now_ms: int) -> bytes:
        """Return the 56 bytes of ``config/timercheck`` as of now (request 60)."""
        return self._checkpoints.check_point(now_ms)

    def metrics(self) -> dict[str, Any]:
        """Return RocketMQ's TimerMetrics: counts by real topic (request 61)."""
        counts = {topic: {"count": count, "timeStamp": self._now_ms} for topic, count in self.states.by_topic.items()}
        version = {"counter": self._changes, "stateVersion": 0, "timestamp": self._now_ms}
        return {"timingCount": counts, "dataVersion": version}

    # checkpoints (see Derived in log/checkpoint.py)

    def state(self) -> int:
        """Return a number that changes with every change."""
        return self._changes

    def writes(self, *, clean: bool) -> StateWrite:
        """Return timer log, wheel and what is over, as of now."""
        return self._checkpoints.writes(self._now_ms, self.clock.steps(), clean=clean)

    def oldest_position(self) -> int | None:
        """Return the position of the oldest timer that waits."""
        lowest = self.states.lowest()
        return None if lowest is None else self._repair.oldest_position(self.index.queue, lowest)
