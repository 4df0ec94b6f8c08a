"""What of the timers goes to disk with a checkpoint, and what may go from memory and disk with it."""

from __future__ import annotations

from dataclasses import asdict

from ..disk import atomic
from ..disk.files import join
from ..tables import json_file
from .clock_steps import ClockWatch
from .core import Core
from .log import UNIT_SIZE
from .state import CHECK_BYTES, Kept, Paths, StateWrite, check_bytes

#: A slot may be used once more shortly after its second: so far behind it is looked at again.
_LOOK_BACK = 120


class Keeper:
    """Puts the writes together and takes over their outcome."""

    def __init__(self, core: Core, clock: ClockWatch) -> None:
        root = core.store.config.root
        self.paths = Paths(
            join(root, "escapement.timers"), join(root, "timerwheel"), join(root, "config", "timercheck")
        )
        self._pause_path = join(root, "config", "escapementTimers.json")
        self._core = core
        self._clock = clock
        self._sequence = 0
        self._wheels: list[tuple[int, int]] = []
        self._wheel_ms = 0
        self._wheel_log_end = -1
        self._cleared = 0

    def start(self, kept: Kept, sequence: int, now_ms: int) -> None:
        """Go on from what was kept."""
        self._sequence = sequence
        self._wheels = kept.wheels
        self._wheel_log_end = kept.wheels[-1][0] if kept.wheels else -1
        self._wheel_ms = now_ms
        self._cleared = kept.safe_second
        self._core.paused = self.load_paused()

    def writes(self, flying_ms: list[int], now_ms: int, *, clean: bool) -> StateWrite:
        """Return what a checkpoint taken now writes; ``flying_ms``: due times of releases that are not visible yet."""
        core = self._core
        safe = self.safe_second(flying_ms)
        self._clear(safe)
        self._sequence += 1
        kept = Kept(
            end_offset=core.done.end,
            log_min=core.log.min_position,
            log_end=core.log.end_position,
            safe_second=safe,
            wheels=self._wheels[-3:],
            slots=core.wheel.slots,
            file_size=core.log.file_size,
            by_topic=dict(core.by_topic),
            displaced=[(s.second, s.first, s.last, s.number, s.rolls) for s in core.wheel.displaced.values()],
            totals=asdict(core.totals),
            steps=self._clock.steps(),
            recalled=core.recalled.kept(now_ms),
        )
        write = StateWrite(self.paths, self._sequence, kept, core.done.copy())
        write.log_write = core.log.unwritten()
        write.now_ms, write.check_counter, write.on_done = now_ms, self._sequence, self._done
        if self._wants_wheel(now_ms, clean=clean):
            write.pages = core.wheel.pages()
            write.wheel_size = len(core.wheel.raw)
            write.wheel_position = core.log.end_position
            self._wheel_ms = now_ms
        return write

    def check_point(self, flying_ms: list[int], now_ms: int) -> bytes:
        """Return the first 56 bytes of ``timercheck`` as of now."""
        kept = Kept(end_offset=self._core.done.end, safe_second=self.safe_second(flying_ms))
        return check_bytes(kept, self._core.log.end_position, now_ms, self._sequence)[:CHECK_BYTES]

    def renew(self) -> None:
        """Have the wheel written with the next checkpoint: it was made anew."""
        self._wheel_log_end = -1

    def save_paused(self, paused: bool) -> None:
        """Remember that releases are paused. Raises OSError."""
        atomic.save(self._core.store.files, self._pause_path, json_file.dump({"paused": paused}))

    def load_paused(self) -> bool:
        """Tell whether releases were paused when the broker stopped."""
        read = json_file.load(self._core.store.files, self._pause_path, lambda value: bool(value["paused"]))
        return bool(read)

    def safe_second(self, flying_ms: list[int]) -> int:
        """Return the second up to which everything is over."""
        core = self._core
        return min([core.lowest_second(), *((due_ms - 1) // 1000 for due_ms in flying_ms)]) - 1

    def _wants_wheel(self, now_ms: int, *, clean: bool) -> bool:
        config, fresh = self._core.store.config, self._core.log.end_position - self._wheel_log_end
        if self._wheel_log_end < 0:
            return clean or fresh > 1
        if clean or fresh >= config.timer_wheel_units * UNIT_SIZE:
            return fresh > 0 or clean
        return fresh > 0 and not self._wheel_ms <= now_ms < self._wheel_ms + config.timer_wheel_interval_ms

    def _clear(self, safe: int) -> None:
        wheel = self._core.wheel
        second = max(self._cleared - _LOOK_BACK, safe - wheel.places + 1)
        while (found := wheel.next_used(second, safe)) is not None:
            wheel.clear(found)
            second = found + 1
        for old in [old for old in wheel.displaced if old <= safe]:
            del wheel.displaced[old]
        for minute in [minute for minute in self._core.minutes if minute < safe // 60]:
            del self._core.minutes[minute]
        self._cleared = safe

    def _done(self, write: StateWrite, saved: bool) -> None:
        core = self._core
        self._wheels = write.kept.wheels
        if not saved:
            return
        if write.log_write is not None:
            core.log.wrote(write.log_write)
        if write.pages is not None:
            self._wheel_log_end = write.wheel_position
        self._trim(write.kept.safe_second)

    def _trim(self, safe: int) -> None:
        """Remove a file of the timer log that nothing leads to any more."""
        core = self._core
        log = core.log
        end = log.min_position - log.min_position % log.file_size + log.file_size
        last = log.last_unit_of(end - log.file_size) if end < log.end_position else None
        if last is None or last.write_ms // 1000 + core.wheel.slots > safe:
            return
        if end <= self._wheel_log_end and min((slot.first for slot in core.wheel.used()), default=end) >= end:
            log.trim(end)
