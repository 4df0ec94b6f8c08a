"""The check of the services: timers and transactions against the records of the log. Nothing is changed.

Of the timers, state, wheel and timer log are checked against each other and against the records they lead to. Of the
transactions, each commit must have its one copy, and each copy its op record.
"""

from __future__ import annotations

from ...rocketmq.layout import FLAG_TRANSACTION_COMMIT, FLAG_TRANSACTION_MASK
from ...rocketmq.message import Message, string_hash
from ...rocketmq.properties import SOURCE
from ...rocketmq.topics import HALF_TOPIC, OP_TOPIC
from ..disk.files import Files, join
from ..timer.checkpoint import Kept, load_state
from ..timer.log import MAGIC_DELETE, MAGIC_ROLL, TimerLog, Unit
from ..timer.state import OverMap
from ..timer.wheel import Reach, Slot, Wheel
from ..transaction.records import read_op
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
        self._over = OverMap()
        #: by queue offset: position, size and hash of the real topic of what waits
        self._waiting: dict[int, tuple[int, int, int]] = {}
        if found is not None:
            _, self._kept, chunks = found
            self._over.load(self._kept.end_offset, chunks)
        elif files.exists(self._state_path):
            self._damage(self._state_path, 0, 0, "it cannot be read; the next start makes it anew from the log")

    def expect(self, offset: int, position: int, size: int, real_topic: str) -> None:
        """Hear of a timer that the log holds."""
        if self._kept is not None and offset < self._kept.end_offset and not self._over.has(offset):
            self._waiting[offset] = (position, size, string_hash(real_topic))

    def finish(self) -> None:
        """Follow every second that is still to come."""
        kept = self._kept
        if kept is None:
            return
        wheel, log = Wheel(kept.slots), TimerLog(self._files, join(self._root, "timerlog"), kept.file_size)
        log.start_at(max(kept.log_min, self._first_of_log(log)), kept.log_end)
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

    def _first_of_log(self, log: TimerLog) -> int:
        """Return where the timer log begins: files that nothing leads to are removed after the state was kept, and a
        power loss may bring one of them back."""
        starts = sorted((int(name) for name in self._files.list(log.directory) if name.isdigit()), reverse=True)
        first = starts[0] if starts else 0
        for start in starts[1:]:
            if start != first - log.file_size:
                break
            first = start
        return first

    def _load_wheel(self, kept: Kept, wheel: Wheel) -> int | None:
        """Load the wheel's file; return the position in the timer log that it stands for, None if it is damaged."""
        if not kept.wheels:
            return kept.log_min
        path = join(self._root, "timerwheel")
        known = self._wheels_at(path, kept, wheel)
        if not known and len(kept.wheels) == 1 and not self._files.exists(path):
            why = "the first one is still to be put in its place; the next start makes it anew"
            self._report.unfinished.append(Damage(path, 0, 0, why))
            known = self._wheels_at(path + ".tmp", kept, wheel)
            if not known:
                return None
        if not known:
            self._damage(path, 0, 0, "it is not the one that was written")
            return None
        wheel.displaced = {slot[0]: Slot(*slot) for slot in kept.displaced}
        return max(known[-1], kept.log_min)

    def _wheels_at(self, path: str, kept: Kept, wheel: Wheel) -> list[int]:
        """Load a file of the wheel; return the positions in the timer log that it may stand for, none if it may not."""
        found = wheel.load(self._files, path)
        return [at for at, checksum in kept.wheels if checksum == found]

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


class TransactionCheck:
    """Is told of each record in log order, and judges at the end.

    Only what Escapement wrote can be judged: an op record of Apache RocketMQ does not say what was decided, and its
    copies may well be two.
    """

    def __init__(self, directory: str, report: Report) -> None:
        self._directory = directory
        self._report = report
        #: position by offset of halves without a decision so far
        self._open: dict[int, int] = {}
        #: position by offset of halves whose op record says "commit", without a copy so far
        self._uncopied: dict[int, int] = {}
        #: offset by position of halves with a copy
        self._copied: dict[int, int] = {}
        self._offsets: dict[int, int] = {}

    def see(self, message: Message) -> None:
        """Take note of what one record says of halves."""
        if message.topic == HALF_TOPIC:
            self._report.counts["half messages"] += 1
            self._open[message.queue_offset] = message.position
            self._offsets[message.position] = message.queue_offset
        elif message.topic == OP_TOPIC:
            for offset, commit, _, _ in read_op(message.body, message.properties):
                self._decided(offset, commit)
        elif message.sys_flag & FLAG_TRANSACTION_MASK == FLAG_TRANSACTION_COMMIT:
            source = message.properties.get(SOURCE, "")
            if source == str(message.prepared_position):
                self._copy(message)

    def _decided(self, offset: int, commit: bool | None) -> None:
        position = self._open.pop(offset, None)
        if position is None:
            return
        self._report.counts["decisions"] += 1
        if commit and position not in self._copied:
            self._uncopied[offset] = position
        elif commit is not True:
            self._offsets.pop(position, None)

    def _copy(self, message: Message) -> None:
        position = message.prepared_position
        offset = self._offsets.get(position)
        if position in self._copied:
            self._damage(message.position, message.size, f"a second copy of the half message at {position:,}")
        elif offset is not None:
            self._copied[position] = offset
            self._uncopied.pop(offset, None)

    def finish(self) -> None:
        """Judge what is without its other half."""
        for offset, position in self._uncopied.items():
            why = f"the half message with offset {offset} is committed, its copy is still to be written"
            self._report.unfinished.append(Damage(self._directory, position, position + 1, why))
        for position, offset in self._copied.items():
            if offset in self._open:
                why = f"the half message with offset {offset} has a copy, its op record is still to be written"
                self._report.unfinished.append(Damage(self._directory, position, position + 1, why))

    def _damage(self, position: int, size: int, why: str) -> None:
        self._report.damages.append(Damage(self._directory, position, position + size, why))
