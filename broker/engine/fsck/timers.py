"""Timers: state, wheel and timer log against each other and against the records they lead to. Nothing is changed."""

from __future__ import annotations

from ...rocketmq.message import string_hash
from ..disk.files import Files, join
from ..timer.done import Done
from ..timer.due_moments import Reach
from ..timer.log import MAGIC_DELETE, MAGIC_ROLL, TimerLog, Unit
from ..timer.state import Kept, load_state
from ..timer.wheel import Slot, Wheel
from .report import Damage, Report


class TimerCheck:
    """Is told of each timer record in log order, and judges the rest at the end."""

    def __init__(self, files: Files, root: str, report: Report) -> None:
        self._files = files
        self._root = root
        self._report = report
        self._state_path = join(root, "escapement.timers")
        found = load_state(files, self._state_path)
        self._kept: Kept | None = None
        self._done = Done()
        #: by queue offset: position, size and hash of the real topic of what waits
        self._waiting: dict[int, tuple[int, int, int]] = {}
        if found is not None:
            _, self._kept, chunks = found
            self._done.load(self._kept.end_offset, chunks)
        elif files.exists(self._state_path):
            self._damage(self._state_path, 0, 0, "it cannot be read; the next start makes it anew from the log")

    def expect(self, offset: int, position: int, size: int, real_topic: str) -> None:
        """Hear of a timer that the log holds."""
        if self._kept is not None and offset < self._kept.end_offset and not self._done.has(offset):
            self._waiting[offset] = (position, size, string_hash(real_topic))

    def finish(self) -> None:
        """Follow every second that is still to come."""
        kept = self._kept
        if kept is None:
            return
        wheel, log = Wheel(kept.slots), TimerLog(self._files, join(self._root, "timerlog"), kept.file_size)
        log.start_at(kept.log_min, kept.log_end)
        self._report.counts["timers pending"] += len(self._waiting)
        begin = self._load_wheel(kept, wheel)
        if begin is None:
            return
        self._put_units(wheel, log, begin)
        reach = Reach(kept.slots, 0)
        for slot in wheel.used():
            if slot.second > kept.safe_second:
                self._follow(slot, log, reach)
        log.close()
        if self._waiting:
            low, high = min(self._waiting), max(self._waiting)
            self._damage(log.directory, low, high + 1, f"{len(self._waiting)} timers that wait stand in no second")

    def _load_wheel(self, kept: Kept, wheel: Wheel) -> int | None:
        """Load the wheel's file; return the position in the timer log that it stands for, None if it is damaged."""
        if not kept.wheels:
            return kept.log_min
        path = join(self._root, "timerwheel")
        found = wheel.load(self._files, path)
        known = [at for at, checksum in kept.wheels if checksum == found]
        if not known:
            self._damage(path, 0, 0, "it is not the one that was written")
            return None
        wheel.displaced = {slot[0]: Slot(*slot) for slot in kept.displaced}
        return max(known[-1], kept.log_min)

    def _put_units(self, wheel: Wheel, log: TimerLog, begin: int) -> None:
        for at, units in log.portions(begin):
            if not wheel.put_units(at, units):
                return

    def _follow(self, slot: Slot, log: TimerLog, reach: Reach) -> None:
        """Walk the chain of one second."""
        for at, unit in log.chain(slot.first, slot.last):
            self._report.counts["timer units"] += 1
            if unit.write_ms + unit.delay_ms != slot.second * 1000:
                self._damage(log.directory, at, at + unit.size, "the unit stands in another second than it says")
                return
            if not unit.magic & MAGIC_DELETE:
                self._meet(unit, log, at, reach)

    def _meet(self, unit: Unit, log: TimerLog, at: int, reach: Reach) -> None:
        """Compare a unit with the record it leads to."""
        if not unit.reserved:
            offset = next((o for o, timer in self._waiting.items() if timer[0] == unit.position), -1)
        else:
            offset = unit.reserved >> (28 if unit.magic & MAGIC_ROLL else 16)
        expected = self._waiting.pop(offset, None)
        if expected is not None and expected != (unit.position, unit.record_size, unit.topic_hash):
            self._damage(log.directory, at, at + unit.size, "the unit does not lead to its timer")

    def _damage(self, path: str, start: int, end: int, why: str) -> None:
        self._report.damages.append(Damage(path, start, end, why))
