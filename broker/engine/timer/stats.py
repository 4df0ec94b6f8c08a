"""Timers in numbers: the wheel, the forecast, the status, and steps of the clock.

Counts come from the wheel, by second and by minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..store import Store
from .index import TimerIndex
from .log import MAGIC_DELETE, MAGIC_ROLL
from .pace import Pace
from .state import TimerStates
from .wheel import HOUR_MS, second_of

MOST_BUCKETS = 2_000
_MINUTE_MS = 60_000
#: Next rolls shown, herds named, units of a herd looked at for its topics.
_ROLLS_SHOWN, _HERDS_SHOWN, _HERD_SAMPLE = 20, 20, 2_000
_USED_LOOKED_AT = 5_000
#: Hours beyond reach whose roll slots are looked at one by one, on each of seven days.
_RESTS_LOOKED_AT = 1_000
#: Timers whose bytes are added up for one answer: one unit is read for each.
_ADDED_UP = 1_000


class Views:
    """Answers how many timers are due when, what can go of them, and how it goes."""

    def __init__(self, store: Store, states: TimerStates, index: TimerIndex, clock: ClockWatch, pace: Pace) -> None:
        self._store = store
        self._states = states
        self._index = index
        self._clock = clock
        self._pace = pace

    def buckets(self, from_ms: int, to_ms: int, step_ms: int, now_ms: int) -> list[tuple[int, int]]:
        """Return (start, count) of each step that is not empty."""
        index = self._index
        counts: Counter[int] = Counter()
        begin_ms, end_ms = max(from_ms, now_ms), min(to_ms, (index.furthest + 2) * 1000)
        if step_ms >= _MINUTE_MS:
            next_minute_ms = (now_ms // _MINUTE_MS + 1) * _MINUTE_MS
            end_ms = min(end_ms, next_minute_ms)
            self._count_minutes(counts, max(next_minute_ms, from_ms), to_ms, from_ms, step_ms)
        self._count_seconds(counts, begin_ms, end_ms, from_ms, step_ms)
        for hour, count in self._far_hours(now_ms):
            counts[(hour * HOUR_MS - from_ms) // step_ms] += count
        last = (to_ms - 1 - from_ms) // step_ms
        return [(from_ms + n * step_ms, counts[n]) for n in sorted(counts) if 0 <= n <= last and counts[n] > 0]

    def _count_minutes(self, counts: Counter[int], begin_ms: int, to_ms: int, from_ms: int, step_ms: int) -> None:
        """Count minute by minute to the end of the last step; second by second only those that two steps share."""
        steps = (to_ms - 1 - from_ms) // step_ms + 1
        end = (from_ms + steps * step_ms - 1) // _MINUTE_MS + 1
        for minute, count in _between(self._index.minutes, begin_ms // _MINUTE_MS, end):
            start_ms = minute * _MINUTE_MS
            step = (start_ms - from_ms) // step_ms
            if step == (start_ms + _MINUTE_MS - 1000 - from_ms) // step_ms:
                counts[step] += count
            else:
                self._count_seconds(counts, start_ms, start_ms + _MINUTE_MS, from_ms, step_ms)

    def _count_seconds(self, counts: Counter[int], begin_ms: int, end_ms: int, from_ms: int, step_ms: int) -> None:
        """Count slot by slot, each where it ends: whole seconds, which people choose, then stand in their own step."""
        for second, number, rolls in self._index.wheel.numbers(second_of(begin_ms), second_of(end_ms) - 1):
            counts[((second + 1) * 1000 - from_ms) // step_ms] += number - rolls

    def wheel(self, from_ms: int, to_ms: int, step_ms: int, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14003. Raises ValueError for more than 2,000 steps, or steps below 1,000 ms."""
        _check_steps(from_ms, to_ms, step_ms)
        index = self._index
        buckets = self.buckets(from_ms, to_ms, step_ms, now_ms)
        sizes = self._sizes(buckets, from_ms, to_ms, step_ms, now_ms)
        near = to_ms // _MINUTE_MS
        far = sum(index.minutes.values()) - sum(
            count for _, count in _between(index.minutes, min(index.minutes, default=near), near)
        )
        far += sum(count for hour, count in self._far_hours(now_ms) if hour * HOUR_MS >= to_ms)
        return {
            "nowMs": now_ms,
            "readMs": index.due.read_second * 1000,
            "paused": self._states.paused,
            "stepMs": step_ms,
            "buckets": [[start, count, sizes.get(start)] for start, count in buckets],
            "rolls": self._rolls(now_ms),
            "pending": self._states.pending,
            "far": far,
            "precisionMs": 1000,
            "slots": index.reach.slots,
        }

    def _sizes(
        self, buckets: list[tuple[int, int]], from_ms: int, to_ms: int, step_ms: int, now_ms: int
    ) -> dict[int, int]:
        """Return the bytes of each step's records, added up from the units; of no step where there are too many of them
        in all, and of none whose timers stand elsewhere because they are further than the wheel reaches."""
        index, sizes = self._index, dict[int, int]()
        if sum(count for _, count in buckets) > _ADDED_UP:
            return sizes
        second, until = second_of(max(from_ms, now_ms)), min(second_of(to_ms) - 1, index.furthest)
        while second <= until and (used := index.wheel.next_used(second, until)) is not None:
            start_ms = from_ms + ((used + 1) * 1000 - from_ms) // step_ms * step_ms
            sizes[start_ms] = sizes.get(start_ms, 0) + self._bytes_in(used)
            second = used + 1
        for hour, _ in self._far_hours(now_ms):
            sizes.pop(from_ms + (hour * HOUR_MS - from_ms) // step_ms * step_ms, None)
        return sizes

    def _far_hours(self, now_ms: int) -> list[tuple[int, int]]:
        """Return (hour, count) of what waits in roll slots, without hours that are over."""
        return [each for each in self._index.far_hours(now_ms) if each[0] >= now_ms // HOUR_MS]

    def _bytes_in(self, second: int) -> int:
        """Return the bytes of the records that wait in a second."""
        index, slot, found = self._index, self._index.wheel.get(second), dict[int, int]()
        for _, unit in index.log.chain(slot.first, slot.last) if slot is not None else ():
            if not unit.magic & (MAGIC_DELETE | MAGIC_ROLL):
                offset, _ = index.reach.plain_of(second, unit.reserved, unit.position)
                if offset >= 0 and self._states.waits(offset):
                    found[offset] = unit.record_size
        return sum(found.values())

    def _rolls(self, now_ms: int) -> list[list[int]]:
        """Return the next seconds with roll units, and how many each has: looked for only where hours that are known to
        be far have their roll slots, as a wheel full of timers has hundreds of thousands of used seconds."""
        index = self._index
        rests, begin = index.roll_counts.by_rest, index.due.read_second
        if len(rests) > _RESTS_LOOKED_AT:
            return self._rolls_among_all(now_ms)
        found: list[list[int]] = []
        turn, until = index.reach.rolls, now_ms // 1000 + index.reach.slots
        ahead = sorted((rest - begin) % turn for rest in rests)
        for start in range(begin, until + 1, turn):
            for rest in ahead:
                slot = index.wheel.get(start + rest)
                if slot is not None and slot.rolls > 0 and start + rest <= until:
                    found.append([(start + rest) * 1000, slot.rolls])
                    if len(found) >= _ROLLS_SHOWN:
                        return found
        return found

    def _rolls_among_all(self, now_ms: int) -> list[list[int]]:
        """Return what ``_rolls`` does, second by second: of so many far hours most seconds nearby have roll units."""
        index = self._index
        found: list[list[int]] = []
        until = now_ms // 1000 + index.reach.slots
        second = index.wheel.next_used(index.due.read_second, until)
        for _ in range(_USED_LOOKED_AT):
            if second is None or len(found) >= _ROLLS_SHOWN:
                break
            slot = index.wheel.get(second)
            if slot is not None and slot.rolls > 0:
                found.append([second * 1000, slot.rolls])
            second = index.wheel.next_used(second + 1, until)
        return found

    def forecast(self, from_ms: int, to_ms: int, step_ms: int, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14008: what is due against what can go. Raises ValueError as ``wheel``."""
        _check_steps(from_ms, to_ms, step_ms)
        capacity_per_s = self._pace.capacity_per_s
        buckets = self.buckets(from_ms, to_ms, step_ms, now_ms)
        return {
            "nowMs": now_ms,
            "capacityPerS": capacity_per_s,
            "stepMs": step_ms,
            "buckets": [list(bucket) for bucket in buckets],
            "herds": self._herds(from_ms, to_ms, capacity_per_s) if capacity_per_s else [],
        }

    def _herds(self, from_ms: int, to_ms: int, capacity_per_s: float) -> list[dict[str, Any]]:
        """Return the seconds that hold more than is released in one."""
        index = self._index
        found: list[tuple[int, int]] = []
        for minute in sorted(m for m, count in index.minutes.items() if count > capacity_per_s):
            second, until = minute * 60 - 1, minute * 60 + 58
            while (used := index.wheel.next_used(second, until)) is not None:
                slot = index.wheel.get(used)
                if slot is not None and slot.number - slot.rolls > capacity_per_s and from_ms <= used * 1000 < to_ms:
                    found.append((used, slot.number - slot.rolls))
                second = used + 1
        return [
            {
                "dueMs": (second + 1) * 1000,
                "count": count,
                "topics": self._topics(second, count),
                "lastLateMs": int(count * 1000 / capacity_per_s),
            }
            for second, count in found[:_HERDS_SHOWN]
        ]

    def _topics(self, second: int, count: int) -> list[list[object]]:
        """Return how many of a second belong to each topic, from those that came last if they are many."""
        index, slot = self._index, self._index.wheel.get(second)
        names = {index.hash_of(name): name for name in self._states.by_topic}
        seen: Counter[str] = Counter()
        for _, unit in index.log.chain(slot.first, slot.last) if slot is not None else ():
            if not unit.magic & MAGIC_DELETE:
                seen[names.get(unit.topic_hash, "")] += 1
            if seen.total() >= _HERD_SAMPLE:
                break
        total = max(seen.total(), 1)
        return [[name, number * count // total] for name, number in seen.most_common() if name]

    def status(self, now_ms: int, next_due_ms: int | None, backlog: int) -> dict[str, Any]:
        """Return the body of request 14004."""
        index, states, config, totals = self._index, self._states, self._store.config, self._states.totals
        queue = index.queue
        return {
            "nowMs": now_ms,
            "paused": states.paused,
            "pending": states.pending,
            "byTopic": [{"topic": t, "pending": n} for t, n in sorted(states.by_topic.items(), key=lambda i: -i[1])],
            "nextDueMs": next_due_ms,
            "readMs": index.due.read_second * 1000,
            "backlog": backlog,
            "releasedTotal": totals.released,
            "cancelledTotal": totals.cancelled,
            "rescheduledTotal": totals.rescheduled,
            "rolledTotal": totals.rolled,
            "earlyTotal": totals.early,
            **self._pace.to_json(now_ms),
            "clockBackMs": self._clock.back_ms,
            "clockForwardMs": self._clock.forward_ms,
            "clockStepAtMs": self._clock.step_at_ms,
            "limits": {
                "maxDelayMs": config.timer_max_delay_ms,
                "maxPending": config.timer_max_pending,
                "maxPerSlot": config.timer_max_per_slot,
            },
            "logSizeBytes": index.log.end_position - index.log.min_position,
            "enqueueOffset": states.end_offset,
            "queueMaxOffset": queue.max_offset,
        }


def _check_steps(from_ms: int, to_ms: int, step_ms: int) -> None:
    if step_ms < 1_000 or to_ms < from_ms or (to_ms - from_ms) // step_ms > MOST_BUCKETS:
        raise ValueError("A range has at most 2,000 steps of at least 1,000 ms, and ends after it begins.")


def _between(minutes: Mapping[int, int], begin: int, end: int) -> Iterable[tuple[int, int]]:
    """Return (minute, count) of what is known of ``begin``..``end`` (not included): days of minutes may be known, and
    an hour of them asked for."""
    if end - begin < len(minutes):
        return [(minute, minutes[minute]) for minute in range(begin, end) if minute in minutes]
    return [each for each in minutes.items() if begin <= each[0] < end]


# Steps of the wall clock.

#: A tick so much later than promised is a step forward (or the machine slept, which is the same to a timer).
_STEP_MS = 5_000


class ClockWatch:
    """Remembers the largest steps, in ms, and when the last one was seen."""

    def __init__(self) -> None:
        self.back_ms = 0
        self.forward_ms = 0
        self.step_at_ms: int | None = None
        self._last_ms: int | None = None
        self._promised_ms = 0

    def start(self, now_ms: int, steps: dict[str, int]) -> None:
        """Take over what was seen before the last stop, which itself may have been long."""
        self.back_ms = steps.get("back", 0)
        self.forward_ms = steps.get("forward", 0)
        self.step_at_ms = steps.get("at")
        before_ms = steps.get("now", now_ms)
        if now_ms < before_ms:
            self._stepped_back(before_ms - now_ms, now_ms)
        self._last_ms = self._promised_ms = now_ms

    def saw(self, now_ms: int) -> str:
        """Look at the clock; return ``back`` or ``forward`` for a step, else an empty string."""
        last_ms, promised_ms = self._last_ms, self._promised_ms
        self._last_ms = now_ms
        if last_ms is None:
            return ""
        if now_ms < last_ms:
            self._stepped_back(last_ms - now_ms, now_ms)
            return "back" if last_ms - now_ms >= _STEP_MS else ""
        late_ms = now_ms - max(promised_ms, last_ms)
        if late_ms < _STEP_MS:
            return ""
        self.forward_ms = max(self.forward_ms, late_ms)
        self.step_at_ms = now_ms
        return "forward"

    def promise(self, following_ms: int | None) -> None:
        """Note when the next tick is wanted; without one, any time is right."""
        self._promised_ms = (1 << 62) if following_ms is None else following_ms

    def _stepped_back(self, step_ms: int, now_ms: int) -> None:
        if step_ms > self.back_ms:
            self.back_ms = step_ms
        self.step_at_ms = now_ms

    def steps(self) -> dict[str, int]:
        """Return what a checkpoint is to keep of the steps."""
        found = {"back": self.back_ms, "forward": self.forward_ms}
        if self.step_at_ms is not None:
            found["at"] = self.step_at_ms
        if self._last_ms is not None:
            found["now"] = self._last_ms
        return found
