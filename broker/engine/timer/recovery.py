"""Recovery of the timers: the last state, what the log says since, or a rebuild from the log if the state is no use.

A store that Apache RocketMQ wrote (or wrote to, after us) is rebuilt too. What it has delivered, deleted or put back
does not name the timer, so it is found by unique key: pending is every timer that was not seen delivered in its real
topic, not deleted in its second, and not followed by a copy of itself that was put back more often.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import (
    CANCELS,
    DUE_MS,
    ECHO,
    REAL_TOPIC,
    RECALLED,
    SOURCE,
    TIMER_DELETE,
    TIMER_LEFT,
    TIMER_ROLLS,
)
from ...rocketmq.topics import TIMER_TOPIC
from ..errors import CorruptRecord, RecordNotFound
from ..queues.repair import QueueRepair
from ..store import Store
from .checkpoint import Kept, Paths, check_of_rocketmq, is_foreign, load_state
from .due import NEVER
from .index import TimerIndex
from .keys import Keys
from .state import OverMap, Timer, TimerStates, Totals, number_of, timer_of
from .wheel import Slot, second_of

#: Timers remembered from the walk; where there are more they are read again.
_TAIL_LIMIT = 300_000
_BLOCK = 512
#: Offsets further ahead than this were not lost in between: the offset itself is damaged.
_GAP_LIMIT = 1 << 22


class TimerRecovery:
    """Brings the timers of a store back, once for each opening; and makes the index anew while the store is open."""

    def __init__(
        self, store: Store, states: TimerStates, index: TimerIndex, keys: Keys, repair: QueueRepair, paths: Paths
    ) -> None:
        self._store = store
        self._states = states
        self._index = index
        self._keys = keys
        self._repair = repair
        self._paths = paths
        self._kept = Kept()
        self._usable = self._whole = self._foreign = self._rebuilds = False
        self._apache = ApacheHistory(store, states, keys)
        #: first offset of the queue while the walk goes on; a record with a damaged one may begin it anew
        self._min_offset: int | None = None
        self._tail = Tail()
        self._deletes: list[tuple[Message, int]] = []
        self._overflow = False
        #: which were over, and so are counted in its totals, when the last state was written
        self._counted = OverMap()
        self.sequence = 0

    # before and during the walk

    def resume(self, *, whole: bool) -> None:
        """Load the last state; where it is no use, or all of the log is walked, start from nothing."""
        files, states = self._store.files, self._states
        self._foreign = is_foreign(files, self._paths.check)
        self._whole = whole
        found = load_state(files, self._paths.state)
        if found is not None:
            self.sequence, kept, chunks = found
            self._kept.totals, self._kept.steps = kept.totals, kept.steps
            self._counted.load(kept.end_offset, chunks)
            if not whole and not self._foreign and self._take_over(kept):
                self._kept = kept
                self._usable = True
                self._min_offset = self._index.queue.min_offset
                states.restore(kept.end_offset, chunks, kept.by_topic)
                states.totals = Totals(**kept.totals)
                states.recalled.load(kept.recalled)
                return
        self._start_from_nothing(0)

    def _start_from_nothing(self, first_offset: int) -> None:
        self._index.wheel.reset()
        self._states.begin_at(first_offset)
        self._states.totals = Totals(**self._kept.totals)
        self._tail, self._deletes = Tail(), []

    def _take_over(self, kept: Kept) -> bool:
        """Load wheel and timer log of a state; False if they are not the ones it speaks of."""
        wheel, log = self._index.wheel, self._index.log
        if kept.slots != wheel.slots or kept.file_size != log.file_size or not log.open(kept.log_end):
            return False
        # a state older than the checkpoint does not know what came in between, and that is not walked
        if kept.end_offset < self._index.queue.max_offset:
            return False
        position, begin = 0, log.min_position
        if kept.wheels:
            checksum = wheel.load(self._store.files, self._paths.wheel)
            known = [at for at, expected in kept.wheels if expected == checksum]
            if not known:
                return False
            position = known[-1]
            wheel.displaced = {slot[0]: Slot(*slot) for slot in kept.displaced}
        # trimmed since: what waits does not lead there
        if begin > kept.log_min and (begin > position or wheel.leads_below(begin, kept.safe_second)):
            return False
        return self._put_units_again(max(position, kept.log_min))

    def _put_units_again(self, position: int) -> bool:
        """Put the units behind the wheel's file into the wheel; False if they are not all there."""
        log, end = self._index.log, position
        for at, raw in log.portions(position):
            if not self._index.wheel.put_units(at, raw):
                return False
            end = at + len(raw)
        return end >= log.end_position or log.is_blank(end)

    def walked(self, message: Message) -> None:
        """Hear of a record of ``rmq_sys_wheel_timer``."""
        states, offset = self._states, message.queue_offset
        if not self._fits(message) or offset < states.end_offset:
            return
        # what was lost in between left nothing that could be delivered
        states.pass_over(offset)
        if TIMER_DELETE in message.properties:
            states.pass_over(offset + 1)
            self._remember(message)
            cancels = number_of(message.properties.get(CANCELS))
            if cancels is not None and self._end(cancels) is not None:
                states.totals.cancelled += 1
            if len(self._deletes) < _TAIL_LIMIT:
                self._deletes.append((message, -1 if cancels is None else cancels))
            return
        timer = timer_of(message)
        if states.recalled.holds(timer.topic, timer.unique_key, message.store_ms):
            # its own end may have been lost
            states.pass_over(offset + 1)
            return
        states.found(offset, timer.topic)
        if timer.replaced >= 0 and self._end(timer.replaced) not in (None, timer.due_ms):
            states.totals.rescheduled += 1
        if len(self._tail) < _TAIL_LIMIT:
            self._tail.add(timer)
        else:
            self._overflow = True

    def _remember(self, message: Message) -> None:
        """Remember what a delete says that a recall wrote."""
        until_ms = number_of(message.properties.get(RECALLED))
        if until_ms is not None and message.unique_key:
            self._states.recalled.add(message.properties.get(REAL_TOPIC, ""), message.unique_key, until_ms)

    def _fits(self, message: Message) -> bool:
        """Tell whether a record goes on where the last one was; where it does not, all is looked at again later."""
        states, queue = self._states, self._index.queue
        if self._rebuilds:
            found = queue.entries(message.queue_offset, 1)
            if found and found[0].position == message.position:
                return True
            return self._repair.position_of(queue, message.queue_offset) == message.position
        if self._min_offset is None:
            self._min_offset = queue.min_offset
            states.begin_at(queue.min_offset)
        if queue.min_offset != self._min_offset or message.queue_offset - states.end_offset > _GAP_LIMIT:
            self._usable = self._whole = False
        return self._usable or self._whole

    def heard(self, parked: Message) -> None:
        """Hear that a timer was released."""
        if self._is_over(parked) is not None:
            self._states.totals.released += 1

    def _end(self, position: int) -> int | None:
        """Mark the timer parked at a position as over; return its moment if that is to be counted."""
        try:
            message = decode(self._store.log.record_at(position), verify=False)
        except (RecordNotFound, CorruptRecord):
            return None
        return self._is_over(message) if message.topic == TIMER_TOPIC else None

    def _is_over(self, parked: Message) -> int | None:
        timer = timer_of(parked)
        is_new = self._states.end(timer.offset, timer.topic)
        return timer.due_ms if is_new and not self._counted.has(timer.offset) else None

    # after the walk

    def start(self, now_ms: int) -> Kept:
        """Put what is pending into the wheel, and begin to read; return what was kept."""
        index, states, begin = self._index, self._states, 0
        # nothing is read yet, so what is indexed now is found in the wheel
        index.due.reset(0)
        index.due.next_used = NEVER
        if self._usable and states.end_offset == index.queue.max_offset:
            states.expire_below(index.queue.min_offset)
            self._index_tail(now_ms)
            begin = min(self._kept.safe_second + 1, index.due.next_used)
        else:
            self._rebuild(now_ms)
        index.due.reset(now_ms // 1000)
        index.part_overdue(begin, now_ms // 1000)
        # after the clock was set back a second may be used that was over once
        index.count_wheel(begin - 1 if self._usable else 0)
        self._tail, self._deletes, self._counted = Tail(), [], OverMap()
        return self._kept

    def repair(self, now_ms: int) -> None:
        """Make timer log and wheel anew while the store is open: a chain of units did not hold. Raises OSError."""
        index = self._index
        index.log.restart()
        index.wheel.reset()
        # what is overdue goes into the wheel, too: nothing is read yet
        index.overdue = None
        index.due.reset(0)
        index.due.next_used = NEVER
        for timers in self._pending(0):
            index.add(timers, now_ms)
        index.due.reset(now_ms // 1000)
        index.part_overdue(0, now_ms // 1000)
        index.count_wheel(0)

    def _index_tail(self, now_ms: int) -> None:
        index, known, first = self._index, self._kept.end_offset, self._kept.safe_second + 1
        for timers in self._pending(known) if self._overflow else self._tail.blocks(self._states.waits):
            index.add(timers, now_ms)
        for message, cancels in self._deletes:
            echo = number_of(message.properties.get(ECHO))
            position = cancels if cancels >= 0 else echo
            victim = self._keys.at(position) if position is not None else None
            if victim is not None and victim.offset < known:
                index.add_delete(message.position, message.size, victim, now_ms, first)

    def _rebuild(self, now_ms: int) -> None:
        index, states = self._index, self._states
        if not self._whole or states.end_offset != index.queue.max_offset:
            self._rebuilds = True
            self._start_from_nothing(index.queue.min_offset)
            self._walk()
        index.log.restart()
        index.wheel.reset()
        states.expire_below(index.queue.min_offset)
        self._apache.end_deleted([message for message, cancels in self._deletes if cancels < 0])
        for timers in self._pending(0):
            index.add(timers, now_ms)

    def _walk(self) -> None:
        """Walk the whole log as recovery would have."""
        log = self._store.log
        position, end = log.min_position, log.end_position
        while True:
            for reached, record in log.walk(position, end):
                position = reached
                if record is not None:
                    self._walk_record(record)
            following = log.next_sound(position, end)
            if following is None:
                return
            position = following

    def _walk_record(self, record: bytes) -> None:
        try:
            message = decode(record, verify=False)
        except CorruptRecord:
            return
        source = number_of(message.properties.get(SOURCE))
        if source is not None and self._end(source) is not None:
            self._states.totals.released += 1
        if message.topic == TIMER_TOPIC:
            self.walked(message)

    def _pending(self, begin: int) -> Iterator[list[Timer]]:
        """Yield the timers that wait, in blocks."""
        states = self._states
        read_ms = check_of_rocketmq(self._store.files, self._paths.check) if self._foreign else 0
        block: list[Timer] = []
        for offset in list(states.not_over(begin, states.end_offset)):
            message = self._message(offset)
            if message is None:
                states.end(offset, "")
                continue
            timer = timer_of(message)
            if (self._foreign or number_of(message.properties.get(TIMER_ROLLS))) and self._apache.is_gone(
                timer, message, read_ms
            ):
                states.end(offset, timer.topic)
                continue
            block.append(timer)
            if len(block) == _BLOCK:
                yield block
                block = []
        yield block

    def _message(self, offset: int) -> Message | None:
        try:
            return self._repair.message_of(TIMER_TOPIC, 0, offset)
        except (RecordNotFound, CorruptRecord):
            return None


class Tail:
    """Timers that the walk went by, in columns: 300,000 of them would take 100 MB as they are, so 12."""

    def __init__(self) -> None:
        #: offset, position, size and ms due of each
        self._numbers = array("q")
        self._topics: list[str] = []
        self._known: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def add(self, timer: Timer) -> None:
        """Remember a timer; its keys are not."""
        self._numbers.extend((timer.offset, timer.position, timer.size, timer.due_ms))
        self._topics.append(self._known.setdefault(timer.topic, timer.topic))

    def blocks(self, waits: Callable[[int], bool]) -> Iterator[list[Timer]]:
        """Yield those that wait, by offset, in blocks and without their keys."""
        for begin in range(0, len(self._topics), _BLOCK):
            numbers = self._numbers[4 * begin : 4 * (begin + _BLOCK)]
            columns = numbers[::4], numbers[1::4], numbers[2::4], numbers[3::4], self._topics[begin : begin + _BLOCK]
            yield [Timer(*row) for row in zip(*columns, strict=True) if waits(row[0])]


# What Apache RocketMQ did.


class ApacheHistory:
    """Finds out which timers Apache RocketMQ delivered, deleted or put back."""

    def __init__(self, store: Store, states: TimerStates, keys: Keys) -> None:
        self._store = store
        self._states = states
        self._keys = keys

    def end_deleted(self, deletes: list[Message]) -> None:
        """Mark as over what these delete records mean in their second."""
        for message in deletes:
            # ours: what it ended, if anything, it names, or it was found in the order of the log
            if DUE_MS in message.properties:
                continue
            second = second_of(timer_of(message).due_ms)
            for timer in self._meant(message.properties[TIMER_DELETE]):
                if second_of(timer.due_ms) == second:
                    self._states.end(timer.offset, timer.topic)

    def _meant(self, delete: str) -> list[Timer]:
        topic, plus, rest = delete.partition("+")
        return self._keys.by_unique_key(None, delete) + (self._keys.by_unique_key(topic, rest) if plus else [])

    def is_gone(self, timer: Timer, message: Message, read_ms: int) -> bool:
        """Tell whether RocketMQ delivered a timer, or put a copy of it back that counts instead."""
        if not timer.unique_key:
            return second_of(timer.due_ms) * 1000 <= read_ms
        # of a relative time only RocketMQ's second is the same in every copy
        second = second_of(timer.due_ms)
        rolls = number_of(message.properties.get(TIMER_ROLLS)) or 0
        for position in self._store.index.find(TIMER_TOPIC, timer.unique_key, 64, 0, 1 << 60):
            other = self._keys.message_at(position)
            if other is not None and other.topic == TIMER_TOPIC and other.unique_key == timer.unique_key:
                again = number_of(other.properties.get(TIMER_ROLLS)) or 0
                if again > rolls and second_of(timer_of(other).due_ms) == second:
                    return True
        for position in self._store.index.find(timer.topic, timer.unique_key, 64, 0, 1 << 60):
            other = self._keys.message_at(position)
            if other is None or other.topic != timer.topic or TIMER_LEFT not in other.properties:
                continue
            if other.unique_key == timer.unique_key and second_of(timer_of(other).due_ms) == second:
                return True
        return False
