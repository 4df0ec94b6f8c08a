"""The timers that come next: seconds about to come, read ahead from wheel and timer log and ordered by exact ms.

    wheel -> seconds (one at a time, bounded) --+
    accepted with little time left -> heap -----+--> in order of (due ms, offset) -> ready (encoded ahead) -> released

Equal moments keep their order of arrival. What is loaded is bounded; what waits further off stays on disk. A second is
read two seconds before its moment, and earlier the more timers it holds (``ReadAhead``). A roll slot, where far timers
stand on their way, is read like any other, and each of them goes on to its next place (``RollingUnits``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import repeat
from typing import NamedTuple

from ..log.append import Run
from .log import MAGIC_DELETE, MAGIC_ROLL, TimerLog, Unit
from .state import TimerStates
from .wheel import Reach, RollCounts, Slot, Wheel

#: A second beyond all others: no used one is known.
NEVER = 1 << 62
#: Units of a second that are read in one step.
_PORTION = 128


class Entry(NamedTuple):
    """A timer whose second was read: when it is due, its offset, and where its record stands."""

    due_ms: int
    offset: int
    position: int
    size: int


class Second:
    """The timers of one second by ms; each array holds offset, position, size of one after another."""

    __slots__ = ("at", "buckets", "moments", "second")

    def __init__(self, second: int, buckets: dict[int, array[int]]) -> None:
        self.second = second
        self.buckets = buckets
        self.moments = deque(sorted(buckets))
        self.at = 0


def put_in_order(bucket: array[int]) -> None:
    """Order the timers of one ms by offset, each once: re-indexed ones stand behind younger ones, or twice."""
    offsets = bucket[0::3].tolist()
    if all(map(int.__lt__, offsets, offsets[1:])):
        return
    triples = sorted(set(zip(offsets, bucket[1::3], bucket[2::3], strict=True)))
    bucket[:] = array("q", [number for triple in triples for number in triple])


class Ready:
    """Records encoded ahead and the timers they release, in order. All before ``at`` were appended or are over."""

    __slots__ = ("at", "dues", "offsets", "run")

    def __init__(self) -> None:
        self.run = Run()
        self.dues = array("q")
        self.offsets = array("q")
        self.at = 0

    @property
    def head(self) -> tuple[int, int]:
        """Return (due ms, offset) of the next timer."""
        return self.dues[self.at], self.offsets[self.at]

    def __len__(self) -> int:
        return len(self.dues)


class Sources(NamedTuple):
    """The parts that a second is read from: where timers stand, which of them wait, the count of roll units to come."""

    wheel: Wheel
    log: TimerLog
    reach: Reach
    states: TimerStates
    roll_counts: RollCounts


class Due:
    """The seconds that were read from the wheel, and their timers in order.

    All seconds below ``read_second`` were read; ``next_used`` is the next that is not empty, as far as known.
    """

    def __init__(self, sources: Sources, begin: int = 0, end: int = NEVER) -> None:
        self._sources = sources
        self._wheel = sources.wheel
        self.end_second = end
        self.ahead = ReadAhead(self._wheel)
        self.reset(begin)

    def reset(self, second: int) -> None:
        """Hold nothing, and read from a second on: at first, or because the clock was set back."""
        self.read_second = self.next_used = second
        self.ready: deque[Ready] = deque()
        self.ready_bytes = 0
        self.loaded = 0
        self.broken = False
        self.rolling = RollingUnits(self._wheel)
        self._heap: list[tuple[int, int, int, int]] = []
        self._seconds: deque[Second] = deque()
        self._only: deque[int] | None = None
        self._loading: Iterator[int] | None = None
        self._loading_second = 0
        #: how many units the second that is read (or was read last) holds, about
        self.loading_number = 0
        self.ahead.reset()

    def insert(self, due_ms: int, offset: int, position: int, size: int) -> None:
        """Add a timer of a second that was read already."""
        heappush(self._heap, (due_ms, offset, position, size))

    def insert_or_expect(self, second: int, due_ms: int, offset: int, position: int, size: int) -> None:
        """Add a timer that was just put into the wheel: where its second is still to be read, it is read there."""
        if second < self.read_second:
            self.insert(due_ms, offset, position, size)
        elif self._only is not None:
            at = bisect_left(self._only, second)
            if at == len(self._only) or self._only[at] != second:
                self._only.insert(at, second)

    def only(self, seconds: Iterable[int]) -> None:
        """Read these seconds and no others: they are all there are."""
        self._only = deque(seconds)

    @property
    def is_finished(self) -> bool:
        """Tell whether all up to the end was read and taken."""
        return self.read_second >= self.end_second and not self.is_loading and self.head() is None

    # when

    def head(self) -> tuple[int, int] | None:
        """Return (due ms, offset) of the next timer in memory."""
        found = [(self._heap[0][0], self._heap[0][1])] if self._heap else []
        if self.ready:
            found.append(self.ready[0].head)
        if self._seconds:
            first = self._seconds[0]
            moment = first.moments[0]
            found.append((moment, first.buckets[moment][first.at]))
        return min(found, default=None)

    def heap_head(self) -> tuple[int, int] | None:
        """Return (due ms, offset) of the first of those that came late."""
        return (self._heap[0][0], self._heap[0][1]) if self._heap else None

    @property
    def has_unready(self) -> bool:
        """Tell whether something is loaded that could be made ready."""
        return bool(self._seconds) or self._is_heap_next()

    def _is_heap_next(self) -> bool:
        """Tell whether the first that came late belongs behind all that is ready: one that belongs before it waits for
        its moment in the heap, or it would be released only when what is ready before it has gone."""
        if not self._heap or not self.ready:
            return bool(self._heap)
        last = self.ready[-1]
        return self._heap[0][:2] > (last.dues[-1], last.offsets[-1])

    @property
    def is_loading(self) -> bool:
        """Tell whether a second is read in part."""
        return self._loading is not None or bool(self.rolling)

    def is_at(self, second: int) -> bool:
        """Tell whether a second is read in part, or far timers of it have no next place yet."""
        return self.is_loading and second == self._loading_second

    def lowest_second(self) -> int:
        """Return the lowest second that may hold something that is not over."""
        head = self.head()
        seconds = [self.read_second]
        if self._only is not None:
            seconds = [next((second for second in self._only if second >= self.read_second), self.end_second)]
        if head is not None:
            seconds.append((head[0] - 1) // 1000)
        if self.is_loading:
            seconds.append(self._loading_second)
        return min(seconds)

    def count_until(self, now_ms: int) -> int:
        """Return how many are due up to a moment: those in memory, and what the numbers say of the rest."""
        count = sum(1 for entry in self._heap if entry[0] <= now_ms)
        for ready in self.ready:
            count += bisect_right(ready.dues, now_ms, ready.at) - ready.at
        for loaded in self._seconds:
            count += sum(len(bucket) // 3 for due_ms, bucket in loaded.buckets.items() if due_ms <= now_ms)
        if self._only is not None:
            return count + sum(map(self._wheel.due_in, self._only))
        return count + self._wheel.count(self.read_second, (now_ms - 1) // 1000)

    # loading

    def next_second(self) -> int | None:
        """Return the next used second that is not read yet, None if there is none within a turn of the wheel."""
        if self._only is not None:
            return None
        begin = max(self.next_used, self.read_second)
        until = max(begin, self.read_second + self._wheel.places - 1)
        found = self._wheel.next_used(begin, until) if begin <= until else None
        self.next_used = until + 1 if found is None else found
        return found

    def find_next(self, until: int) -> int | None:
        """Return the next used second up to ``until``; where there is none, everything up to there counts as read."""
        until = min(until, self.end_second - 1)
        if self._only is not None:
            while self._only and self._only[0] < self.read_second:
                self._only.popleft()
            if self._only and self._only[0] <= until:
                return self._only[0]
            self.read_second = max(self.read_second, until + 1)
            return None
        if self.next_used > until:
            self.read_second = max(self.read_second, until + 1)
            return None
        found = self._wheel.next_used(max(self.next_used, self.read_second), until)
        if found is None:
            self.next_used = max(self.next_used, until + 1)
            self.read_second = max(self.read_second, until + 1)
        else:
            self.next_used = found
        return found

    def load(self, until: int, budget: int) -> int:
        """Read up to ``budget`` units of seconds up to ``until``; return how many were read."""
        used = 0
        while used < budget:
            if self._loading is None:
                if self.rolling:
                    return used
                second = self.find_next(until)
                if second is None:
                    break
                self._loading = self._read(second)
                self._loading_second = second
                self.read_second = self.next_used = second + 1
            step = next(self._loading, None)
            if step is None:
                self._loading = None
            else:
                used += step
        return used

    def _read(self, second: int) -> Iterator[int]:
        """Read one second in portions, newest unit first; yield how many units each had."""
        slot = self._wheel.get(second)
        if slot is None:
            return
        self.loading_number = slot.number
        _, log, reach, states, roll_counts = self._sources
        if slot.rolls:
            roll_counts.add(second, -slot.rolls)
        start_ms, plain_of, waits = second * 1000, reach.plain_of, states.waits
        buckets: dict[int, array[int]] = {}
        normal = deletes = rolls = passing = portion = 0
        at = -1
        for at, unit in log.chain(slot.first, slot.last):  # noqa: B007 - where the chain ended is looked at below
            portion += 1
            if portion == _PORTION:
                yield portion
                portion = 0
            if unit.write_ms + unit.delay_ms != start_ms:
                self.broken = True
                break
            if unit.magic & MAGIC_DELETE:
                deletes += 1
                passing -= unit.magic & MAGIC_ROLL
                continue
            normal += 1
            if unit.magic & MAGIC_ROLL:
                rolls += 1
                passing += MAGIC_ROLL
                self.rolling.add(unit, second)
                continue
            offset, due_ms = plain_of(second, unit.reserved, unit.position)
            if offset < 0:
                self.broken = True
                break
            if not waits(offset):
                continue
            bucket = buckets.get(due_ms)
            if bucket is None:
                bucket = buckets[due_ms] = array("q")
            bucket.extend((unit.record_size, unit.position, offset))
        if at != slot.first or normal - deletes != slot.number or passing != slot.rolls * MAGIC_ROLL:
            self.broken = True
        elif rolls == normal and not self.broken:
            self.rolling.leave(slot)
        yield portion
        if buckets:
            for bucket in buckets.values():
                bucket.reverse()
                put_in_order(bucket)
                self.loaded += len(bucket) // 3
            self._seconds.append(Second(second, buckets))

    # taking

    def take(self, count: int) -> list[Entry]:
        """Take the next timers in order, at most ``count``."""
        found: list[tuple[int, int, int, int]] = []
        seconds = self._seconds
        heap = self._heap if self._is_heap_next() else []
        while len(found) < count:
            if not seconds:
                if not heap:
                    break
                found.append(heappop(heap))
                continue
            first = seconds[0]
            moment = first.moments[0]
            bucket, at = first.buckets[moment], first.at
            if heap and heap[0][:2] < (moment, bucket[at]):
                found.append(heappop(heap))
                continue
            many = (len(bucket) - at) // 3
            step = 1 if heap and heap[0][0] <= moment else min(many, count - len(found))
            stop = at + 3 * step
            part = bucket[at:stop]
            found.extend(zip(repeat(moment), part[0::3], part[1::3], part[2::3], strict=False))
            self.loaded -= step
            first.at = stop
            if step == many:
                del first.buckets[first.moments.popleft()]
                first.at = 0
                if not first.moments:
                    seconds.popleft()
        return [Entry._make(entry) for entry in found]

    def take_late(self, now_ms: int, before: tuple[int, int], count: int) -> list[Entry]:
        """Take timers that came late and are due now, as long as they are before ``before``."""
        found: list[Entry] = []
        heap = self._heap
        while heap and len(found) < count and heap[0][0] <= now_ms and heap[0][:2] < before:
            found.append(Entry._make(heappop(heap)))
        return found


# How far ahead is read.

#: A second is read so many seconds before its moment; one that holds many timers is read earlier, a second for each
#: 15,000, as reading and encoding takes its time.
_AHEAD_SECONDS, _AHEAD_MOST_SECONDS, _READ_PER_SECOND = 2, 30, 15_000


class ReadAhead:
    """Says how far to read ahead, from the numbers in the wheel; these are looked at once a second of the clock."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self.reset()

    def reset(self) -> None:
        """Look at the numbers again, because what was read is to be read anew."""
        self._looked_at = self._until = -1

    def until(self, now_second: int, read_second: int) -> int:
        """Return the second up to which is to be read now; all below ``read_second`` are read."""
        if now_second != self._looked_at:
            self._looked_at = now_second
            least, most = now_second + _AHEAD_SECONDS, now_second + _AHEAD_MOST_SECONDS
            self._until = least
            for second in range(max(least + 1, read_second), most + 1):
                if second <= now_second + self.of(second):
                    self._until = second
        return self._until

    def of(self, second: int) -> int:
        """Return how many seconds before its moment a second is to be read."""
        return min(_AHEAD_SECONDS + self._wheel.number_of(second) // _READ_PER_SECOND, _AHEAD_MOST_SECONDS)


# Far timers on their way.


class RollingUnits:
    """Units of far timers that were read in their roll slot and are to be put on to their next place; false if there
    are none."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self._units: list[tuple[Unit, int]] = []
        self._left: Slot | None = None

    def __len__(self) -> int:
        return len(self._units)

    def add(self, unit: Unit, second: int) -> None:
        """Keep a unit that stood in the slot of this second."""
        self._units.append((unit, second))

    def leave(self, slot: Slot) -> None:
        """Clear a slot that was read to its end as soon as all its units stand elsewhere.

        Until then a start would have to read it again. It stays if a timer came to it meanwhile.
        """
        self._left = slot
        self.forget()

    def take(self) -> tuple[Unit, int]:
        """Take one unit out, with the second it stood in; the caller puts it on, and then calls ``forget``."""
        return self._units.pop()

    def forget(self) -> None:
        """Clear the slot that was left, if all that were kept stand elsewhere by now."""
        slot = self._left
        if slot is not None and not self._units:
            self._left = None
            if self._wheel.get(slot.second) == slot:
                self._wheel.clear(slot.second)
