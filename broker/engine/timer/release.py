"""Releasing what is due: encoded ahead of its moment, appended in order at its moment, never before it, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from ...rocketmq.topics import TIMER_TOPIC
from ..errors import CorruptRecord, RecordNotFound
from ..log.append import append_run
from ..queues.repair import QueueRepair
from ..store import Store
from .due import Due, Entry, Ready
from .encoding import Preparer
from .index import TimerIndex
from .state import TimerStates, timer_of

#: Timers released, records encoded, units read in one tick: a herd does not keep the broker from answering, and where
#: there is none a tick takes about a millisecond, so that what is due meanwhile is not late.
RELEASES_PER_TICK = 1_000
_PREPARED_PER_TICK, _FEW_PREPARED = 250, 32
_LOADED_PER_TICK, _FEW_LOADED = 2_000, 128
#: A herd: what is loaded, or a second that holds, so many times the few.
_MANY = 128
#: How much may be loaded and encoded ahead.
LOADED_LIMIT = 600_000
READY_LIMIT_BYTES = 112 << 20


class Released(NamedTuple):
    """Noted on released records: timers ``begin``..``stop`` of a run; ``asked`` for before their moment."""

    ready: Ready
    begin: int
    stop: int
    asked: bool = False


class Releaser:
    """Moves timers from the wheel to their real topics, a portion with each tick.

    ``note`` is told of each portion when it was appended.
    """

    def __init__(
        self,
        store: Store,
        states: TimerStates,
        index: TimerIndex,
        repair: QueueRepair,
        preparer: Preparer,
        note: Callable[[Released], None],
    ) -> None:
        self._store = store
        self._states = states
        self._index = index
        self._repair = repair
        self._preparer = preparer
        self._note = note

    # ahead of the moment

    def get_ready(self, due: Due, now_ms: int) -> bool:
        """Read and encode a portion ahead; return whether there is more to do."""
        until = due.ahead.until(now_ms // 1000, due.read_second)
        budget = min(max(due.loading_number // _MANY, _FEW_LOADED), _LOADED_PER_TICK)
        used = self._load(due, until, budget, now_ms)
        more = due.is_loading or (due.loaded < LOADED_LIMIT and due.find_next(until) is not None)
        if due.has_unready and due.ready_bytes < READY_LIMIT_BYTES:
            if used < budget or budget > _FEW_LOADED:
                self._prepare(due, min(max(due.loaded // _MANY, _FEW_PREPARED), _PREPARED_PER_TICK))
            more |= due.has_unready and due.ready_bytes < READY_LIMIT_BYTES
        return more

    def _load(self, due: Due, until: int, budget: int, now_ms: int) -> int:
        """Read units, and put those further that only pass through; return how many were looked at."""
        used = 0
        while used < budget:
            if due.rolling:
                used += self._index.roll(due, budget - used, now_ms)
                continue
            step = due.load(until, budget - used) if due.loaded < LOADED_LIMIT else 0
            used += step
            if not step and not due.rolling:
                break
        return used

    def _prepare(self, due: Due, count: int) -> None:
        entries = due.take(count)
        ready = self._encode(due, entries)
        if len(ready):
            due.ready.append(ready)
            due.ready_bytes += len(ready.run.data)

    def _encode(self, due: Due, entries: list[Entry]) -> Ready:
        waits = self._states.waits
        misfits: list[Entry] = []
        ready = self._preparer.prepare([entry for entry in entries if waits(entry.offset)], misfits)
        for entry in misfits:
            self._put_right(due, entry)
        return ready

    def _put_right(self, due: Due, entry: Entry) -> None:
        """End a timer that can never be delivered; where a unit leads to another timer than it says, read all anew."""
        try:
            timer = timer_of(self._repair.message_of(TIMER_TOPIC, 0, entry.offset))
        except (RecordNotFound, CorruptRecord):
            # damaged, and reported as such: nothing can be delivered
            self._states.end(entry.offset, "")
            return
        if Entry(timer.due_ms, timer.offset, timer.position, timer.size) == entry:
            # a sound record that does not say where it belongs, or whose topic was deleted with all that waited
            self._states.end(entry.offset, timer.topic)
        else:
            due.broken = True

    def drop(self, due: Due, topic: str) -> None:
        """Mark the timers that are encoded for a topic as over, as it was deleted with all that waited for it."""
        states = self._states
        for ready in due.ready:
            places, groups = ready.run.places, ready.run.groups
            for number in range(ready.at, len(ready)):
                if places[groups[number]][0] == topic and states.waits(ready.offsets[number]):
                    states.end(ready.offsets[number], topic)

    # at the moment

    def release(self, due: Due, now_ms: int, room: int) -> int:
        """Append what is due, at most ``room``; return how many. Raises StoreRefused, OSError if nothing could be."""
        count = 0
        while count < room:
            if not due.ready:
                head = due.head()
                if head is None or head[0] > now_ms:
                    break
                self._prepare(due, min(room - count, _PREPARED_PER_TICK))
                continue
            ready = due.ready[0]
            late = due.heap_head()
            if late is not None and late[0] <= now_ms and late < ready.head:
                count += self._release_late(due, now_ms, ready.head, room - count)
                continue
            if ready.dues[ready.at] > now_ms:
                break
            stop = self._stop_of(ready, now_ms, late, room - count)
            count += stop - ready.at
            self._append(ready, stop, now_ms)
            if ready.at == len(ready):
                due.ready.popleft()
                due.ready_bytes -= len(ready.run.data)
            if ready.at < stop:
                break
        return count

    def _stop_of(self, ready: Ready, now_ms: int, late: tuple[int, int] | None, room: int) -> int:
        """Return the end of the part that may go now."""
        dues, stop = ready.dues, ready.at
        limit = min(len(dues), stop + room)
        if late is not None and late[0] <= now_ms:
            offsets = ready.offsets
            while stop < limit and dues[stop] <= now_ms and (dues[stop], offsets[stop]) <= late:
                stop += 1
            return stop
        if dues[limit - 1] <= now_ms:
            return limit
        while dues[stop] <= now_ms:
            stop += 1
        return stop

    def _release_late(self, due: Due, now_ms: int, before: tuple[int, int], room: int) -> int:
        entries = due.take_late(now_ms, before, min(room, _PREPARED_PER_TICK))
        ready = self._encode(due, entries)
        try:
            while ready.at < len(ready):
                at = ready.at
                self._append(ready, len(ready), now_ms)
                if ready.at == at:
                    break
        finally:
            # what the store did not take stays due
            by_offset = {entry.offset: entry for entry in entries}
            for offset in ready.offsets[ready.at :]:
                due.insert(*by_offset[offset])
        return len(entries)

    def _append(self, ready: Ready, stop: int, now_ms: int) -> None:
        """Append timers up to ``stop``, but not those that are over meanwhile."""
        if self._states.all_wait(ready.offsets[ready.at : stop]):
            self._append_part(ready, stop, now_ms)
            return
        for number in range(ready.at, stop):
            if self._states.waits(ready.offsets[number]):
                self._append_part(ready, number + 1, now_ms)
                if ready.at <= number:
                    return
            else:
                ready.at = number + 1

    def release_one(self, entry: Entry, now_ms: int) -> bool:
        """Release a timer before its moment; False if its record is not what it must be. Raises StoreRefused."""
        ready = self._preparer.prepare([entry], [])
        if not len(ready):
            return False
        self._append_part(ready, 1, now_ms, asked=True)
        return True

    def _append_part(self, ready: Ready, stop: int, now_ms: int, *, asked: bool = False) -> None:
        begin = ready.at
        reached = append_run(self._store, ready.run, begin, stop, now_ms)
        self._states.claim_portion(ready.offsets[begin:reached], ready.dues[begin])
        ready.at = reached
        self._note(Released(ready, begin, reached, asked))
        self._store.seal_if_full()

    def released(self, note: Released) -> dict[tuple[str, int], int]:
        """Mark the timers of a portion as over, as it is visible now; return how many it has of each (topic, due ms).

        Nothing is returned of what was asked for before its moment: that is neither late nor early.
        """
        ready, begin, stop, asked = note
        places = ready.run.places
        found: dict[tuple[str, int], int] = {}
        by_topic: dict[str, int] = {}
        together = Counter(zip(ready.run.groups[begin:stop], ready.dues[begin:stop], strict=True))
        for (group, due_ms), number in together.items():
            topic = places[group][0]
            by_topic[topic] = by_topic.get(topic, 0) + number
            found[topic, due_ms] = found.get((topic, due_ms), 0) + number
        self._states.end_portion(ready.offsets[begin:stop], by_topic)
        return {} if asked else found
