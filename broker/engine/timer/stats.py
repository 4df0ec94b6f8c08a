"""Timers in numbers: the wheel, the forecast, how it goes. Counts come from the wheel, by second and by minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .clock_steps import ClockWatch
from .core import Core, Pace
from .log import MAGIC_DELETE, MAGIC_ROLL
from .parked import HOUR_MS, second_of

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
    """Counts timers."""

    def __init__(self, core: Core, clock: ClockWatch, pace: Pace) -> None:
        self._core = core
        self._clock = clock
        self._pace = pace

    def buckets(self, from_ms: int, to_ms: int, step_ms: int, now_ms: int) -> list[tuple[int, int]]:
        """Return (start, count) of each step that is not empty."""
        core = self._core
        counts: Counter[int] = Counter()
        begin_ms, end_ms = max(from_ms, now_ms), min(to_ms, (core.furthest + 2) * 1000)
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
        for minute, count in _between(self._core.minutes, begin_ms // _MINUTE_MS, end):
            start_ms = minute * _MINUTE_MS
            step = (start_ms - from_ms) // step_ms
            if step == (start_ms + _MINUTE_MS - 1000 - from_ms) // step_ms:
                counts[step] += count
            else:
                self._count_seconds(counts, start_ms, start_ms + _MINUTE_MS, from_ms, step_ms)

    def _count_seconds(self, counts: Counter[int], begin_ms: int, end_ms: int, from_ms: int, step_ms: int) -> None:
        """Count slot by slot, each where it ends: whole seconds, which people choose, then stand in their own step."""
        for second, number, rolls in self._core.wheel.numbers(second_of(begin_ms), second_of(end_ms) - 1):
            counts[((second + 1) * 1000 - from_ms) // step_ms] += number - rolls

    def wheel(self, from_ms: int, to_ms: int, step_ms: int, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14003. Raises ValueError for more than 2,000 steps, or steps below 1,000 ms."""
        _check_steps(from_ms, to_ms, step_ms)
        core = self._core
        buckets = self.buckets(from_ms, to_ms, step_ms, now_ms)
        sizes = self._sizes(buckets, from_ms, to_ms, step_ms, now_ms)
        near = to_ms // _MINUTE_MS
        far = sum(core.minutes.values()) - sum(
            count for _, count in _between(core.minutes, min(core.minutes, default=near), near)
        )
        far += sum(count for hour, count in self._far_hours(now_ms) if hour * HOUR_MS >= to_ms)
        return {
            "nowMs": now_ms,
            "readMs": core.due.read_second * 1000,
            "paused": core.paused,
            "stepMs": step_ms,
            "buckets": [[start, count, sizes.get(start)] for start, count in buckets],
            "rolls": self._rolls(now_ms),
            "pending": core.pending,
            "far": far,
            "precisionMs": 1000,
            "slots": core.reach.slots,
        }

    def _sizes(
        self, buckets: list[tuple[int, int]], from_ms: int, to_ms: int, step_ms: int, now_ms: int
    ) -> dict[int, int]:
        """Return the bytes of each step's records, added up from the units; of no step where there are too many of them
        in all, and of none whose timers stand elsewhere because they are further than the wheel reaches."""
        core, sizes = self._core, dict[int, int]()
        if sum(count for _, count in buckets) > _ADDED_UP:
            return sizes
        second, until = second_of(max(from_ms, now_ms)), min(second_of(to_ms) - 1, core.furthest)
        while second <= until and (used := core.wheel.next_used(second, until)) is not None:
            start_ms = from_ms + ((used + 1) * 1000 - from_ms) // step_ms * step_ms
            sizes[start_ms] = sizes.get(start_ms, 0) + self._bytes_in(used)
            second = used + 1
        for hour, _ in self._far_hours(now_ms):
            sizes.pop(from_ms + (hour * HOUR_MS - from_ms) // step_ms * step_ms, None)
        return sizes

    def _far_hours(self, now_ms: int) -> list[tuple[int, int]]:
        """Return (hour, count) of what waits in roll slots, without hours that are over."""
        return [each for each in self._core.far_hours(now_ms) if each[0] >= now_ms // HOUR_MS]

    def _bytes_in(self, second: int) -> int:
        """Return the bytes of the records that wait in a second."""
        core, slot, found = self._core, self._core.wheel.get(second), dict[int, int]()
        for _, unit in core.log.chain(slot.first, slot.last) if slot is not None else ():
            if not unit.magic & (MAGIC_DELETE | MAGIC_ROLL):
                offset, _ = core.reach.plain_of(second, unit.reserved, unit.position)
                if offset >= 0 and core.waits(offset):
                    found[offset] = unit.record_size
        return sum(found.values())

    def _rolls(self, now_ms: int) -> list[list[int]]:
        """Return the next seconds with roll units, and how many each has: looked for only where hours that are known to
        be far have their roll slots, as a wheel full of timers has hundreds of thousands of used seconds."""
        core = self._core
        rests, begin = core.roll_counts, core.due.read_second
        if len(rests) > _RESTS_LOOKED_AT:
            return self._rolls_among_all(now_ms)
        found: list[list[int]] = []
        turn, until = core.reach.rolls, now_ms // 1000 + core.reach.slots
        ahead = sorted((rest - begin) % turn for rest in rests)
        for start in range(begin, until + 1, turn):
            for rest in ahead:
                slot = core.wheel.get(start + rest)
                if slot is not None and slot.rolls > 0 and start + rest <= until:
                    found.append([(start + rest) * 1000, slot.rolls])
                    if len(found) >= _ROLLS_SHOWN:
                        return found
        return found

    def _rolls_among_all(self, now_ms: int) -> list[list[int]]:
        """The same, second by second: where so many hours are far, most days have one in every few seconds."""
        core = self._core
        found: list[list[int]] = []
        until = now_ms // 1000 + core.reach.slots
        second = core.wheel.next_used(core.due.read_second, until)
        for _ in range(_USED_LOOKED_AT):
            if second is None or len(found) >= _ROLLS_SHOWN:
                break
            slot = core.wheel.get(second)
            if slot is not None and slot.rolls > 0:
                found.append([second * 1000, slot.rolls])
            second = core.wheel.next_used(second + 1, until)
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
        core = self._core
        found: list[tuple[int, int]] = []
        for minute in sorted(m for m, count in core.minutes.items() if count > capacity_per_s):
            second, until = minute * 60 - 1, minute * 60 + 58
            while (used := core.wheel.next_used(second, until)) is not None:
                slot = core.wheel.get(used)
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
        core, slot = self._core, self._core.wheel.get(second)
        names = {core.hash_of(name): name for name in core.by_topic}
        seen: Counter[str] = Counter()
        for _, unit in core.log.chain(slot.first, slot.last) if slot is not None else ():
            if not unit.magic & MAGIC_DELETE:
                seen[names.get(unit.topic_hash, "")] += 1
            if seen.total() >= _HERD_SAMPLE:
                break
        total = max(seen.total(), 1)
        return [[name, number * count // total] for name, number in seen.most_common() if name]

    def status(self, now_ms: int, next_due_ms: int | None, backlog: int) -> dict[str, Any]:
        """Return the body of request 14004."""
        core, config, totals = self._core, self._core.store.config, self._core.totals
        queue = core.queue
        return {
            "nowMs": now_ms,
            "paused": core.paused,
            "pending": core.pending,
            "byTopic": [{"topic": t, "pending": n} for t, n in sorted(core.by_topic.items(), key=lambda i: -i[1])],
            "nextDueMs": next_due_ms,
            "readMs": core.due.read_second * 1000,
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
            "logSizeBytes": core.log.end_position - core.log.min_position,
            "enqueueOffset": core.done.end,
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
