"""The POP service of the engine: messages are handed out for a while, and given out again unless they are acknowledged.

    pop              first takes what was given back to the group    revive.py
                     hands out, and notes what                       take.py, records.py
    ack, change      what consumers say of what they hold
    tick             gives out again what nobody acknowledged        revive.py
    before_sync      appends the pop records of the moment           records.py
    open             from the last snapshot and the log              recovery.py

A pop is answered at once: if its entry is lost in a crash, its messages are given out again. An acknowledgement is
answered when it is durable.

Beside it stands the table of request modes: whether the clients of a group are told to consume a topic by pulling or by
popping. It is ``config/messageRequestMode.json`` in RocketMQ's shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

from ...rocketmq.message import Message
from ...rocketmq.topics import POP_TOPIC, check_group_name, check_topic_name
from ...rocketmq.values import INT_MAX, check_table, check_whole
from ..disk import Files, join
from ..errors import HandleGone, InvalidValue, StoreRefused
from ..queues.reader import Reader
from ..queues.repair import QueueRepair
from ..store import Store
from ..tables.json_file import Kept
from . import recovery
from .popqueue import Key, PopQueue, PopTable, offsets_in
from .records import PopWriter, Written
from .recovery import Recovering
from .revive import GivenBack, Revived, Reviver
from .take import Popped, Taker, Wanted


class Handle(NamedTuple):
    """The name of one pop in a consumer's words: where it began, when, and for how long."""

    key: Key
    start: int
    pop_ms: int
    invisible_ms: int


class Acked(NamedTuple):
    """The outcome of acknowledgements, as masks from the handle's start on."""

    taken: int
    refused: int


class SnapshotWrite:
    """A snapshot on its way to the disk."""

    def __init__(self, path: str, sequence: int, parts: list[bytes], done: Callable[[bool], None]) -> None:
        self._path = path
        self._sequence = sequence
        self._parts = parts
        self._done = done

    def run(self, files: Files) -> None:
        """Write the snapshot, durable on return. Raises OSError."""
        recovery.save(files, self._path, self._sequence, self._parts)

    def done(self, *, saved: bool, now_ms: int) -> None:
        """Say whether a checkpoint names it."""
        self._done(saved)


class Pops:
    """The POP service of one store."""

    name = "pops"
    topics = frozenset({POP_TOPIC})
    may_checkpoint = True

    def __init__(self, store: Store, reader: Reader, repair: QueueRepair) -> None:
        self._store = store
        self.table = PopTable(store, reader, repair)
        self.modes = RequestModes(store.files, join(store.config.root, "config", "messageRequestMode.json"))
        note = partial(store.note, self)
        self._writer = PopWriter(store, note)
        self.taker = Taker(self.table, self._writer)
        self.reviver = Reviver(self.table, self._writer, note)
        self._given_back = GivenBack(self.table, self._writer, self.taker, self.reviver.tick)
        self._recovering = Recovering(self.table)
        self._state: dict[str, int] = {"sequence": 0, "position": 0}
        self._writing: dict[str, int] | None = None
        store.offsets.watch = self

    # what consumers ask

    def pop(self, wanted: Wanted, read_queues: int, now_ms: int) -> Popped:
        """Hand out messages of a topic that is there. Raises InvalidTopicName, InvalidValue (see Taker.check); then
        nothing is out."""
        self.taker.check(wanted)
        is_more = wanted.given_back and self._given_back.take(wanted.group, wanted.topic, now_ms)
        popped = self.taker.pop(wanted, read_queues, now_ms)
        return popped._replace(again_ms=now_ms) if is_more else popped

    def has_messages(self, wanted: Wanted, read_queues: int, now_ms: int) -> tuple[bool, int | None]:
        """Tell whether a pop would look at messages, and if not, when to look again without an arrival. Raises
        InvalidTopicName and InvalidValue where a pop does."""
        self.taker.check(wanted)
        if wanted.given_back and self._given_back.waits(wanted.group):
            return True, None
        return self.taker.has_messages(wanted, read_queues, now_ms)

    def ack(self, handle: Handle, mask: int, now_ms: int) -> Acked:
        """Note that messages are done (bit n of ``mask`` is offset start + n); they are never given out again.

        What was done before by a handle whose time is not over is taken once more; what the handle does not speak for
        any more is refused. ``tell`` says when it is durable.
        """
        queue = self.table.queues.get(handle.key)
        if queue is None:
            return Acked(0, mask)
        point = queue.points.get((handle.start, handle.pop_ms))
        if point is not None and (taken := queue.ack(point, mask)):
            self._writer.acked(queue, point, taken)
            self.table.touch(queue)
        else:
            taken = self._ack_in_order(queue, handle, mask)
        if taken != mask:
            taken |= self._done_before(queue, handle, mask & ~taken, now_ms)
        return Acked(taken, mask & ~taken)

    def tell(self, key: Key, owner: object) -> bool:
        """Have somebody told when all that was noted so far is durable; False if it is already."""
        queue = self.table.queues.get(key)
        return queue is not None and self._writer.tell(queue, owner)

    def _ack_in_order(self, queue: PopQueue, handle: Handle, mask: int) -> int:
        orderly, taken = queue.orderly, 0
        if orderly is None or orderly.block is None or orderly.block.pop_ms != handle.pop_ms:
            return 0
        free_ms = orderly.block.free_ms()
        for offset in offsets_in(handle.start, mask):
            if orderly.ack(handle.pop_ms, offset):
                self._writer.order_acked(queue, handle.pop_ms, offset)
                taken |= 1 << (offset - handle.start)
        if taken:
            queue.packed = None
            self.table.touch(queue)
            if orderly.block.free_ms() < free_ms:
                # whoever waits for this queue may have the next ones, or what is left sooner
                self._store.arrivals.add(queue.key[1:])
        return taken

    def _done_before(self, queue: PopQueue, handle: Handle, mask: int, now_ms: int) -> int:
        """Return those of these offsets that are over because they were acknowledged under this very handle."""
        if handle.pop_ms + handle.invisible_ms <= now_ms:
            return 0
        again = 0
        for offset in offsets_in(handle.start, mask):
            if not queue.is_open(offset) and (queue.key, offset) not in self.reviver.gone:
                again |= 1 << (offset - handle.start)
        return again

    def change(self, handle: Handle, offset: int, invisible_ms: int, now_ms: int) -> tuple[int, int]:
        """Have a message visible again that long from now; return the (pop_ms, invisible_ms) of its handle from now
        on. ``tell`` says when it is durable. Raises HandleGone."""
        queue = self.table.queues.get(handle.key)
        point = queue.points.get((handle.start, handle.pop_ms)) if queue is not None else None
        if queue is not None and point is not None:
            pop_ms = max(now_ms, point.pop_ms + 1, self.table.pop_floor_ms)
            changed = queue.change(point, offset, pop_ms, now_ms + invisible_ms)
            if changed is not None:
                self._writer.changed(queue, point, changed)
                self.table.plan(queue, changed)
                self.table.touch(queue)
                return pop_ms, invisible_ms
        orderly = queue.orderly if queue is not None else None
        if queue is not None and orderly is not None and orderly.change(handle.pop_ms, offset, now_ms + invisible_ms):
            self._writer.order_changed(queue, handle.pop_ms, offset, now_ms + invisible_ms)
            queue.packed = None
            self.table.touch(queue)
            self._store.arrivals.add(queue.key[1:])
            return handle.pop_ms, max(now_ms + invisible_ms - handle.pop_ms, 0)
        raise HandleGone(handle.key[1], handle.key[2], offset)

    def given_out_to(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset up to which a group's pops have handed out a queue; None if it pops it not."""
        queue = self.table.queues.get((group, topic, queue_id))
        return queue.next_offset if queue is not None else None

    # the table of offsets and of topics say

    def placed(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Hand out again everything from an offset on that somebody has set for a group."""
        queue = self.table.queues.get((group, topic, queue_id))
        if queue is not None:
            self.taker.place(queue, offset)
            self._given_back.forget(queue)
            self._store.arrivals.add((topic, queue_id))

    def removed(self, group: str, topic: str, queue_id: int) -> None:
        """Hear that the offset of a group was removed."""
        queue = self.table.queues.get((group, topic, queue_id))
        if queue is not None:
            self._writer.placed(queue)
            self._given_back.forget(queue)
            self.table.remove(queue.key)

    def forget_topic(self, topic: str) -> None:
        """Forget what was popped of a topic that was deleted."""
        for key, queue in list(self.table.queues.items()):
            if key[1] == topic:
                self._given_back.forget(queue)
                self.table.remove(key)

    # the heart beat

    def before_sync(self, now_ms: int) -> None:
        """Append what happened since the last call; what the store refuses waits for the next."""
        if self.table.moved:
            self.table.tell_offsets()
        try:
            self._writer.write(now_ms)
        except StoreRefused:
            return

    def tick(self, now_ms: int) -> int | None:
        """Give out again what nobody acknowledged in time."""
        self.table.see(now_ms)
        return self.reviver.tick(now_ms)

    def synced(self, notes: Sequence[Written | Revived], now_ms: int) -> None:
        """Hear that copies, and pop records, are durable."""
        for note in notes:
            if isinstance(note, Written):
                self._writer.synced(note.records)
            else:
                self.reviver.synced(note)

    # recovery and checkpoints (see Derived in log/checkpoint.py)

    def resume(self, saved: Any | None, *, whole: bool) -> None:
        """Take over the last snapshot, as far as it counts."""
        self.modes.load()
        if whole:
            return
        self._state = saved if isinstance(saved, dict) else self._state
        self.table.pop_floor_ms = int(self._state.get("floor_ms", 0))
        sequence, position = int(self._state["sequence"]), int(self._state["position"])
        if not sequence:
            return
        content = recovery.load(self._store.files, self._path(sequence), sequence)
        if content is None:
            self._recovering.rebuild()
            return
        for queue in recovery.parse(content):
            if position >= self._store.topics.void_below(queue.key[1]):
                self.table.add(queue)

    def walked(self, message: Message) -> None:
        """Hear of a record from recovery."""
        self._recovering.walked(message)

    def heard(self, parked: Message) -> None:
        """Do nothing, as no pop record is ever released."""

    def start(self, now_ms: int) -> None:
        """Fit everything to what the log holds, and have it looked at when its time comes."""
        self.table.see(now_ms)
        # what recovery heard stands behind the checkpoint of before: the next one needs a snapshot of its own
        self.table.is_changed = bool(self.table.queues)
        self._recovering.fit(self.taker)
        for queue in self.table.queues.values():
            for point in queue.points.values():
                self.table.plan(queue, point)
            self.table.moved.add(queue)
        self.table.tell_offsets()

    def state(self) -> Any:
        """Return which snapshot counts, and where the log ended when it was taken."""
        return self._writing or self._state

    def writes(self, *, clean: bool) -> SnapshotWrite | None:
        """Return a snapshot if anything has changed since the last one."""
        if not self.table.is_changed:
            return None
        sequence = self._state["sequence"] + 1
        position, floor_ms = self._store.visible_position, self.table.pop_floor_ms
        self._writing = {"sequence": sequence, "position": position, "floor_ms": floor_ms}
        parts = recovery.dump(self.table.queues.values())
        self.table.is_changed = False
        return SnapshotWrite(self._path(sequence), sequence, parts, self._saved)

    def _saved(self, saved: bool) -> None:
        if saved and self._writing is not None:
            self._state = self._writing
        self.table.is_changed |= not saved
        self._writing = None

    def _path(self, sequence: int) -> str:
        return join(self._store.config.root, f"escapement.pops.{sequence % 2}")

    def oldest_position(self) -> int | None:
        """Return the position of the oldest message that is out."""
        found: list[int | None] = []
        for queue in self.table.queues.values():
            log_queue = self._store.queues.known.get(queue.key[1:])
            if log_queue is not None and (base := queue.base_offset) < queue.next_offset:
                found.append(self.table.repair.oldest_position(log_queue, base))
        return min((position for position in found if position is not None), default=None)


# The table of request modes.

#: The file is written anew with each change.
MOST_MODES = 100_000
MODES = ("PULL", "POP")
#: Bytes of a mode's row beside the names, with the longest number.
_AROUND_MODE = 140


class RequestMode(NamedTuple):
    """``mode`` is PULL or POP. Each client pops the queues of ``share_queues`` other clients, too; 0 or less: all."""

    mode: str
    share_queues: int = 0


class RequestModes(Kept):
    """Owner of ``messageRequestMode.json``. A change is durable when the call returns."""

    _memory = ("_modes",)

    def __init__(self, files: Files, path: str) -> None:
        super().__init__(files, path)
        self._modes: dict[tuple[str, str], RequestMode] = {}

    def _read(self, value: dict[str, Any]) -> bool:
        self._modes = {
            (str(group), str(topic)): RequestMode(str(mode["mode"]), int(mode.get("popShareQueueNum") or 0))
            for topic, groups in (value.get("messageRequestModeMap") or {}).items()
            for group, mode in groups.items()
        }
        return True

    def get(self, group: str, topic: str) -> RequestMode | None:
        """Return what was set, None if nothing was."""
        return self._modes.get((group, topic))

    def put(self, group: str, topic: str, mode: RequestMode) -> None:
        """Set it. Raises InvalidGroupName, InvalidTopicName, InvalidValue, OSError; then nothing has changed."""
        check_group_name(group)
        check_topic_name(topic)
        check_whole("The field 'popShareQueueNum'", mode.share_queues, -1, INT_MAX)
        if mode.mode not in MODES:
            raise InvalidValue("The field 'mode'", f"is none of {', '.join(MODES)}")
        if (group, topic) not in self._modes and len(self._modes) >= MOST_MODES:
            raise InvalidValue("The mode", f"is one more than allowed: there are {MOST_MODES:,} already")
        size, more = sum(starmap(_size_of, self._modes)), _size_of(group, topic)
        check_table("The table of modes", size, more * ((group, topic) not in self._modes), "set fewer")
        with self._changing():
            self._modes[group, topic] = mode

    def _content(self) -> dict[str, Any]:
        table: dict[str, dict[str, Any]] = {}
        for (group, topic), known in self._modes.items():
            table.setdefault(topic, {})[group] = {
                "consumerGroup": group,
                "mode": known.mode,
                "popShareQueueNum": known.share_queues,
                "topic": topic,
            }
        return {"messageRequestModeMap": table}


def _size_of(group: str, topic: str) -> int:
    """Return how many bytes a mode takes in the file, or a little more."""
    return 2 * (len(group) + len(topic)) + _AROUND_MODE
