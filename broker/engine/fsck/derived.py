"""The checks of what is derived from the log: queues and index, timers and transactions. Nothing is changed.

Each record must have its entry in its consume queue, and each entry its record. Each record's keys must be in the
index, and each entry of the index must lead to a record that has the key. Of the timers, state, wheel and timer log are
checked against each other and against the records they lead to. Of the transactions, each commit must have its one
copy, and each copy its op record.
"""

from __future__ import annotations

import sys
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from ...rocketmq.layout import FLAG_TRANSACTION_COMMIT, FLAG_TRANSACTION_MASK
from ...rocketmq.message import Message, string_hash
from ...rocketmq.properties import REPLACES, SOURCE
from ...rocketmq.topics import HALF_TOPIC, OP_TOPIC
from ..disk import File, Files, join
from ..queues.index import ENTRY as INDEX_ENTRY
from ..queues.index import ENTRY_SIZE as INDEX_ENTRY_SIZE
from ..queues.index import HEADER, HEADER_SIZE
from ..queues.queues import ENTRY, ENTRY_SIZE
from ..timer.checkpoint import Kept, load_state
from ..timer.log import MAGIC_DELETE, MAGIC_ROLL, TimerLog, Unit
from ..timer.state import OverMap
from ..timer.wheel import Reach, Slot, Wheel
from ..transaction.records import read_op
from . import Damage, Report, Vouched

# Consume queues.

#: Queue files kept in memory at once.
_OPEN_LIMIT = 64
#: RocketMQ fills a queue that does not start at offset 0 with entries of this size.
_FILLER_SIZE = 0x7FFFFFFF


@dataclass(slots=True)
class _Seen:
    """A queue as the log describes it, compared so far."""

    directory: str
    file_size: int
    matched: int = 0
    #: offset, and position of the record, of the first without an entry
    missing_from: tuple[int, int] | None = None
    missing_count: int = 0


class QueueCheck:
    """Is told of each record in log order, and judges the queues at the end."""

    def __init__(self, files: Files, directory: str, report: Report, vouched: Vouched) -> None:
        self._files = files
        self._directory = directory
        self._report = report
        self._vouched = vouched
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._open: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def expect(self, topic: str, queue_id: int, offset: int, entry: tuple[int, int, int | None]) -> None:
        """Compare the entry (position, size, tags code or None for any) of a record."""
        seen = self._queue(topic, queue_id)
        position, size, tags_code = entry
        found = self._entry(seen, offset)
        if found is None or found[1] == 0:
            seen.missing_from = seen.missing_from or (offset, position)
            seen.missing_count += 1
            return
        if seen.missing_from is not None:
            first, at = seen.missing_from
            self._damage(seen, first, offset, "no entry, though later ones are there", at)
            seen.missing_from, seen.missing_count = None, 0
        seen.matched += 1
        if found[:2] != (position, size):
            why = (
                f"the entry leads to {found[0]:,} with {found[1]:,} bytes, the record is at {position:,} with {size:,}"
            )
            self._damage(seen, offset, offset + 1, why, position)
        elif tags_code is not None and found[2] != tags_code:
            why = f"the tags code is {found[2]}, the record says {tags_code}"
            self._damage(seen, offset, offset + 1, why, position)

    def allow(self, topic: str, queue_id: int, offset: int, position: int) -> None:
        """Accept the entry of a record that needs none, if it is there still."""
        seen = self._queue(topic, queue_id)
        found = self._entry(seen, offset)
        seen.matched += found is not None and found[0] == position

    def finish(self, log_min: int, damaged: list[tuple[int, int]]) -> None:
        """Judge what no record asked for, and count; entries of damaged parts of the log are as they must be."""
        for seen in self._seen.values():
            if seen.missing_from is not None:
                begin, _ = seen.missing_from
                self._report.unfinished.append(
                    Damage(seen.directory, begin, begin + seen.missing_count, "entries are still to be written")
                )
        for topic in self._files.list(self._directory):
            for name in self._files.list(join(self._directory, topic)):
                if name.isdigit():
                    self._count(topic, int(name), log_min, damaged)

    def _count(self, topic: str, queue_id: int, log_min: int, damaged: list[tuple[int, int]]) -> None:
        seen = self._queue(topic, queue_id)
        live = 0
        for name in self._files.list(seen.directory):
            raw = self._load(join(seen.directory, name)) if name.isdigit() else b""
            whole = raw[: len(raw) - len(raw) % ENTRY_SIZE]
            for position, size, _ in ENTRY.iter_unpack(whole) if whole.strip(b"\0") else ():
                lost = any(start <= position < end for start, end in damaged)
                live += 0 < size < _FILLER_SIZE and position >= log_min and not lost
        self._report.counts["queues"] += 1
        self._report.counts["queue entries"] += live
        if live > seen.matched:
            why = f"{live - seen.matched} entries lead to no record"
            self._report.unfinished.append(Damage(seen.directory, seen.matched, live, why))

    def _queue(self, topic: str, queue_id: int) -> _Seen:
        seen = self._seen.get((topic, queue_id))
        if seen is None:
            directory = join(self._directory, topic, str(queue_id))
            names = [name for name in self._files.list(directory) if name.isdigit()]
            size = len(self._load(join(directory, names[0]))) if names else 0
            seen = self._seen[topic, queue_id] = _Seen(directory, size - size % ENTRY_SIZE)
        return seen

    def _entry(self, seen: _Seen, offset: int) -> tuple[int, int, int] | None:
        if not seen.file_size:
            return None
        at = offset * ENTRY_SIZE
        start = at - at % seen.file_size
        key = (seen.directory, start)
        content = self._open.get(key)
        if content is None:
            content = self._open[key] = self._load(join(seen.directory, f"{start:020d}"))
            if len(self._open) > _OPEN_LIMIT:
                self._open.popitem(last=False)
        if at - start + ENTRY_SIZE > len(content):
            return None
        position, size, tags_code = ENTRY.unpack_from(content, at - start)
        return position, size, tags_code

    def _load(self, path: str) -> bytes:
        try:
            file = self._files.open(path)
        except FileNotFoundError:
            return b""
        try:
            return file.read(file.size(), 0)
        finally:
            file.close()

    def _damage(self, seen: _Seen, start: int, end: int, why: str, position: int) -> None:
        self._vouched.damages_of(self._report, position).append(Damage(seen.directory, start, end, why))


# Index files.

_READ_ENTRIES = 10_000
#: RocketMQ's default ratio of entries to slots first (MessageStoreConfig), then those of small test stores.
_RATIOS = (4, 2, 1)


def index_sizes(files: Files, paths: list[str]) -> tuple[int, int] | None:
    """Return (slots, entries) of these index files, from a full file's count or a usual ratio; None if nothing fits."""
    for path in paths:
        file = files.open(path)
        head, rest = file.read(HEADER_SIZE, 0), file.size() - HEADER_SIZE
        file.close()
        if len(head) < HEADER_SIZE:
            continue
        number = HEADER.unpack(head)[5]
        if path != paths[-1] and 0 < number * INDEX_ENTRY_SIZE < rest and (rest - number * INDEX_ENTRY_SIZE) % 4 == 0:
            return (rest - number * INDEX_ENTRY_SIZE) // 4, number
        for ratio in _RATIOS:
            slots, left = divmod(rest, 4 + ratio * INDEX_ENTRY_SIZE)
            if not left and slots:
                return slots, slots * ratio
    return None


class IndexCheck:
    """Is told of each record in log order, and walks beside it the entries of all index files: they have that order."""

    def __init__(
        self, files: Files, directory: str, sizes: tuple[int, int] | None, report: Report, vouched: Vouched
    ) -> None:
        """``sizes``: slots and entries a file; None: found out from the files themselves, if one can."""
        self._files = files
        self._directory = directory
        self._report = report
        self._damages = vouched.damages_of(report)
        self._mark = mark = vouched.index_mark
        names = [name for name in files.list(directory) if name.isdigit()]
        self._paths = [join(directory, name) for name in names if mark is None or name <= mark[0]]
        self._sizes = sizes or index_sizes(files, self._paths)
        self._groups = groupby(self._entries(), key=itemgetter(1))
        self._position = -1
        self._hashes: list[int] = []
        self._begun = False
        self._missing = 0
        self._advance()

    def expect(self, position: int, hashes: list[int]) -> None:
        """Compare the keys of a record."""
        self._pass_below(position)
        if self._hashes and self._position == position:
            if self._missing and self._begun:
                self._damage(f"{self._missing} records before it are not indexed", position)
            self._begun, self._missing = True, 0
            if sorted(self._hashes) != sorted(hashes):
                self._damage("the entries are not the record's keys", position)
            self._advance()
        elif hashes:
            self._missing += 1

    def allow(self, position: int) -> None:
        """Accept the entries of a record that needs none, if they are there still."""
        self._pass_below(position)
        if self._hashes and self._position == position:
            self._advance()

    def _pass_below(self, position: int) -> None:
        """Go on to the entries of a position; those of positions before it lead to no record."""
        while self._hashes and self._position < position:
            if self._begun:
                self._damage("entries lead to no record", self._position)
            self._advance()

    def finish(self, end_position: int) -> None:
        """Judge what no record of the log has asked for."""
        if self._missing:
            self._note(self._missing, "records are still to be indexed", end_position)
        left = 0
        while self._hashes:
            left += 1
            self._advance()
        if left:
            self._note(left, "records of the index lie behind the end of the log", end_position)

    def _advance(self) -> None:
        self._hashes = []
        for position, group in self._groups:
            self._position = position
            self._hashes = [entry[0] for entry in group]
            return

    def _entries(self) -> Iterator[tuple[int, int]]:
        """Yield (hash, position) of every entry, oldest first; the chains of each file are checked on the way."""
        for path in self._paths:
            self._report.counts["index files"] += 1
            file = self._files.open(path)
            try:
                yield from self._entries_of(file)
            finally:
                file.close()

    def _entries_of(self, file: File) -> Iterator[tuple[int, int]]:
        head = file.read(HEADER_SIZE, 0)
        if self._sizes is None or len(head) < HEADER_SIZE:
            self._bad(file, 0, file.size(), "no index file has this size")
            return
        slots, limit = self._sizes
        base = HEADER_SIZE + 4 * slots
        number = HEADER.unpack(head)[5]
        if self._mark is not None and file.path == join(self._directory, self._mark[0]):
            number = min(number, self._mark[1])
        if file.size() != base + INDEX_ENTRY_SIZE * limit or not 0 <= number <= limit:
            self._bad(file, 0, file.size(), "size or header are not those of the other index files")
            return
        newest = array("i", bytes(4 * slots))
        for first in range(1, number, _READ_ENTRIES):
            count = min(_READ_ENTRIES, number - first)
            raw = file.read(count * INDEX_ENTRY_SIZE, base + first * INDEX_ENTRY_SIZE)
            for own, (key_hash, position, _, previous) in enumerate(INDEX_ENTRY.iter_unpack(raw), first):
                slot = key_hash % slots
                if key_hash < 0 or previous != newest[slot]:
                    at = base + own * INDEX_ENTRY_SIZE
                    self._bad(file, at, at + INDEX_ENTRY_SIZE, "the entry is not chained to the one before")
                newest[slot] = own
                self._report.counts["index entries"] += 1
                yield key_hash, position
        self._check_slots(file, newest, number, limit)

    def _check_slots(self, file: File, newest: array[int], number: int, limit: int) -> None:
        found = array("i", file.read(4 * len(newest), HEADER_SIZE))
        if sys.byteorder == "little":
            found.byteswap()
        for slot, (has, needs) in enumerate(zip(found, newest, strict=True)) if found != newest else ():
            if has == needs:
                continue
            at = HEADER_SIZE + 4 * slot
            place = Damage(file.path, at, at + 4, f"the slot leads to entry {has}, the newest is {needs}")
            # an entry behind the count may be one that is being written now, or was when the power failed
            written_now = number <= has < limit
            (self._report.unfinished if written_now else self._damages).append(place)

    def _bad(self, file: File, start: int, end: int, why: str) -> None:
        self._damages.append(Damage(file.path, start, end, why))

    def _damage(self, why: str, position: int) -> None:
        self._damages.append(Damage(self._directory, position, position, why))

    def _note(self, count: int, why: str, position: int) -> None:
        self._report.unfinished.append(Damage(self._directory, position, position, f"{count:,} {why}"))


# Timers and transactions.


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
        if position in self._copied and REPLACES in message.properties:
            return  # the same timer, moved since
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
