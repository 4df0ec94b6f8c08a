"""The state of one queue as one group pops it, in any order or strictly in order.

    base_offset <= ... <= next_offset      everything below base_offset is over, the next pop begins at next_offset;
                                           what lies between is over, or out: a check point or the block holds it

A check point is what one pop took out of the queue (RocketMQ's PopCheckPoint): its offsets, and until when nobody else
gets them. Bit n of a mask stands for offset ``start + n``. A consumer names a check point by ``start`` and ``pop_ms``,
which are part of the handle of every message it got.

Popped in order, a queue has one pop out at a time, and the next one begins at the first message that is not done:

    block    the pop that is out: nothing else leaves the queue until all of it is acknowledged or visible again
    counts   how often an offset was handed out before, for those offsets that a next pop may get

As in RocketMQ (ConsumerOrderInfoManager), progress is the first message that is not acknowledged: what was acknowledged
behind it is handed out again, in its place, if the pop ends before the rest of it is done. The same attempt (a client
that asks again because it got no answer) gets its messages again at once.

The same methods carry out what clients ask and what the log says after a start. Hearing something twice changes
nothing, so a snapshot may be newer than the place from which the log is read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain, count
from operator import attrgetter
from typing import Any

from ..queues.reader import Reader
from ..queues.repair import QueueRepair
from ..store import Store

#: What nobody can be given now stays out for so long: until somebody pops its topic, or pulls it.
FOR_EVER_MS = 10 * 365 * 86_400_000
_NOT_ZERO = re.compile(rb"[^\0]").finditer
#: Places of the bits of each byte.
_BITS = [tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]


# Check points, and the masks they hold.


class CheckPoint:
    """``held``: offsets that this handle still speaks for; ``reviving``: those whose copy is on its way to the disk.

    A message whose time was changed gets a check point of its own with the first one as ``parent``. The parent's
    ``pinned`` keeps every offset that is not over yet, whoever speaks for it.
    """

    __slots__ = ("due_ms", "held", "parent", "pinned", "pop_ms", "reviving", "start")

    def __init__(self, start: int, pop_ms: int, due_ms: int, mask: int, parent: CheckPoint | None = None) -> None:
        self.start = start
        self.pop_ms = pop_ms
        self.due_ms = due_ms
        self.held = mask
        self.reviving = 0
        self.pinned = mask if parent is None else 0
        self.parent = parent

    @property
    def root(self) -> CheckPoint:
        """The check point that pins these offsets."""
        return self.parent or self

    def offsets(self) -> Iterator[int]:
        """Yield the offsets it speaks for, lowest first."""
        return offsets_in(self.start, self.held)

    def lowest_pinned(self) -> int:
        """Return the lowest offset that is not over; there must be one."""
        return self.start + lowest_bit(self.pinned)


def lowest_bit(mask: int) -> int:
    """Return the place of the lowest bit of a mask that is not 0."""
    return (mask & -mask).bit_length() - 1


def offsets_in(start: int, mask: int) -> Iterator[int]:
    """Yield the offsets of a mask, lowest first: byte by byte, as a long number is copied whole with each bit taken
    out of it."""
    raw = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    for found in _NOT_ZERO(raw):
        at = start + 8 * found.start()
        for bit in _BITS[raw[found.start()]]:
            yield at + bit


def mask_of(start: int, offsets: list[int]) -> int:
    """Return the mask of ascending offsets from ``start`` on."""
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        return ((1 << len(offsets)) - 1) << (offsets[0] - start)
    mask = 0
    for offset in offsets:
        mask |= 1 << (offset - start)
    return mask


# Popping in order.


class Block:
    """A single pop. ``offsets``: what it got; ``open``: those not acknowledged yet; ``visible_ms`` holds offsets whose
    time is another than the usual one."""

    __slots__ = ("attempt", "invisible_ms", "offsets", "open", "pop_ms", "visible_ms")

    def __init__(self, pop_ms: int, invisible_ms: int, attempt: str, offsets: list[int]) -> None:
        self.pop_ms = pop_ms
        self.invisible_ms = invisible_ms
        self.attempt = attempt
        self.offsets = offsets
        self.open = list(offsets)
        self.visible_ms: dict[int, int] = {}

    def free_ms(self) -> int:
        """Return the moment from which all that is open is visible again."""
        usual_ms = self.pop_ms + self.invisible_ms
        return max((self.visible_ms.get(offset, usual_ms) for offset in self.open), default=0)


class Orderly:
    """The messages of one queue that are out in order for one group, and how often each was."""

    __slots__ = ("block", "counts")

    def __init__(self) -> None:
        self.block: Block | None = None
        self.counts: dict[int, int] = {}

    def blocked_until(self, attempt: str, now_ms: int) -> int | None:
        """Return when the queue gives out something again, None if it does now."""
        block = self.block
        if block is None or not block.open or (attempt and attempt == block.attempt):
            return None
        free_ms = block.free_ms()
        return free_ms if free_ms > now_ms else None

    def hand_out(self, block: Block, until_offset: int) -> list[int]:
        """Note the next pop, which looked at every offset below ``until_offset``; return how often each of its messages
        was handed out before. The same attempt is no other time."""
        before, counts = self.block, self.counts
        if before is not None and not (block.attempt and block.attempt == before.attempt):
            for offset in before.offsets:
                counts[offset] = counts.get(offset, 0) + 1
        first = block.offsets[0] if block.offsets else until_offset
        self.counts = {offset: count for offset, count in counts.items() if offset >= first}
        self.block = block
        return [counts.get(offset, 0) for offset in block.offsets]

    def ack(self, pop_ms: int, offset: int) -> bool:
        """Note that a message is done; False if this pop does not speak for it."""
        block = self.block
        if block is None or block.pop_ms != pop_ms or offset not in block.open:
            return False
        block.open.remove(offset)
        return True

    def change(self, pop_ms: int, offset: int, visible_ms: int) -> bool:
        """Say when a message is visible again; False if this pop does not speak for it."""
        block = self.block
        if block is None or block.pop_ms != pop_ms or offset not in block.open:
            return False
        block.visible_ms[offset] = visible_ms
        return True

    def cut(self, offset: int) -> None:
        """Forget everything from an offset on."""
        self.counts = {known: count for known, count in self.counts.items() if known < offset}
        if (block := self.block) is not None:
            block.offsets = [known for known in block.offsets if known < offset]
            block.open = [known for known in block.open if known < offset]

    def lowest(self) -> int | None:
        """Return the lowest offset that is out, None if nothing is."""
        return self.block.open[0] if self.block is not None and self.block.open else None

    def offsets(self) -> list[int]:
        """Return what is out and not acknowledged, lowest first."""
        return self.block.open if self.block is not None else []

    def clamp(self, now_ms: int) -> None:
        """Shorten waits after the clock was set back: nobody waits longer than was asked for."""
        block = self.block
        if block is not None and block.pop_ms > now_ms:
            limit_ms = now_ms + block.invisible_ms
            block.visible_ms = {offset: min(block.visible_ms.get(offset, limit_ms), limit_ms) for offset in block.open}

    def to_json(self) -> dict[str, Any]:
        """Return everything as a plain value."""
        block = self.block
        value: dict[str, Any] = {
            "counts": {str(offset): count for offset, count in self.counts.items()},
            "block": block
            and {
                "pop": block.pop_ms,
                "invisible": block.invisible_ms,
                "attempt": block.attempt,
                "open": block.open,
                "visible": {str(offset): visible_ms for offset, visible_ms in block.visible_ms.items()},
            },
        }
        if block is not None and len(block.open) < len(block.offsets):
            value["block"]["offsets"] = block.offsets
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Orderly:
        """Read what ``to_json`` returned. Raises ValueError, KeyError, TypeError."""
        orderly = cls()
        orderly.counts = {int(offset): int(count) for offset, count in value["counts"].items()}
        if (kept := value["block"]) is not None:
            offsets = [int(offset) for offset in kept["open"]]
            block = orderly.block = Block(int(kept["pop"]), int(kept["invisible"]), str(kept["attempt"]), offsets)
            block.offsets = [int(offset) for offset in kept.get("offsets", offsets)]
            block.visible_ms = {int(offset): int(visible_ms) for offset, visible_ms in kept["visible"].items()}
        return orderly


def next_offset_in(value: dict[str, Any], next_offset: int) -> int:
    """Return where the queue of such a value goes on behind its pop.

    In stores of earlier versions what a pop had left stood in ``todo``, and the queue went on behind all of it. Raises
    ValueError, TypeError.
    """
    return min([next_offset, *map(int, value.get("todo", ()))])


# The queue.

_START = attrgetter("start")
#: group, topic as it stands in the log (a retry topic, too), queue id
Key = tuple[str, str, int]


#: With fewer check points of a queue nobody looks whether some of them are over.
_LEAST_ROOTS = 64


class PopQueue:
    """State of one (group, topic, queue id)."""

    __slots__ = ("_tidied_at", "in_flight", "key", "name", "next_offset", "orderly", "packed", "points", "roots")

    def __init__(self, key: Key, offset: int) -> None:
        self.key = key
        #: as the pop records and the snapshot write it; the parts hold no zero byte
        self.name = "\0".join((key[0], key[1], str(key[2]))).encode()
        self.next_offset = offset
        self.points: dict[tuple[int, int], CheckPoint] = {}
        #: those that pin offsets, lowest first, none within another; some may pin none any more
        self.roots: list[CheckPoint] = []
        self._tidied_at = _LEAST_ROOTS
        self.orderly: Orderly | None = None
        #: messages that are out and neither acknowledged nor given out again
        self.in_flight = 0
        #: the row of the snapshot, as long as nothing has changed
        self.packed: bytes | None = None

    @property
    def base_offset(self) -> int:
        """The offset below which everything is over."""
        roots = self.roots
        if roots and not roots[0].pinned:
            del roots[: next((number for number, root in enumerate(roots) if root.pinned), len(roots))]
        base = roots[0].lowest_pinned() if roots else self.next_offset
        if self.orderly is not None and (lowest := self.orderly.lowest()) is not None:
            return min(base, lowest)
        return base

    def pop(self, start: int, next_offset: int, pop_ms: int, due_ms: int, mask: int) -> CheckPoint | None:
        """Hand out the offsets of a mask, and pass all below ``next_offset``; None if that was done already."""
        if start < self.next_offset:
            return None
        point = CheckPoint(start, pop_ms, due_ms, mask)
        self.points[start, pop_ms] = point
        if len(self.roots) >= self._tidied_at:
            # one that is out for hours must not keep all that came behind it and is over
            self.roots = [root for root in self.roots if root.pinned]
            self._tidied_at = max(2 * len(self.roots), _LEAST_ROOTS)
        self.roots.append(point)
        self.next_offset = next_offset
        self.in_flight += mask.bit_count()
        self.packed = None
        return point

    def ack(self, point: CheckPoint, mask: int) -> int:
        """Note that messages are done; return those that this check point spoke for."""
        taken = point.held & mask
        if taken:
            self._let_go(point, taken)
            root = point.root
            root.pinned &= ~(taken << (point.start - root.start))
        return taken

    def change(self, point: CheckPoint, offset: int, pop_ms: int, due_ms: int) -> CheckPoint | None:
        """Give a message another time and so another handle; None if this check point does not speak for it."""
        bit = 1 << (offset - point.start) if offset >= point.start else 0
        if not point.held & bit:
            return None
        self._let_go(point, bit)
        changed = CheckPoint(offset, pop_ms, due_ms, 1, point.root)
        self.points[offset, pop_ms] = changed
        self.in_flight += 1
        return changed

    def revive(self, point: CheckPoint, offset: int) -> None:
        """Note that a copy of a message is on its way: this handle speaks for it no more."""
        bit = 1 << (offset - point.start)
        self._let_go(point, bit)
        point.reviving |= bit

    def revived(self, point: CheckPoint, offset: int) -> None:
        """Note that the copy is there: the message is over."""
        root = point.root
        point.reviving &= ~(1 << (offset - point.start))
        root.pinned &= ~(1 << (offset - root.start))
        self.packed = None

    def heard_copy(self, start: int, pop_ms: int, offset: int) -> None:
        """Hear from recovery that a copy of a message is in the log, made when this handle's time was over."""
        point = self.points.get((start, pop_ms))
        points = [point] if point is not None else list(self.points.values())
        for known in points:
            if offset >= known.start:
                self.ack(known, 1 << (offset - known.start))

    def place(self, offset: int) -> None:
        """Begin again at an offset: nothing is out."""
        self.points.clear()
        self.roots.clear()
        self.orderly = None
        self.in_flight = 0
        self.next_offset = offset
        self.packed = None

    def order(self, orderly: Orderly, next_offset: int) -> None:
        """Take over from the log what an orderly pop left the queue with.

        A snapshot that is newer may hold what was popped behind it: the log goes on to say that.
        """
        for key, point in list(self.points.items()):
            if point.root.start >= next_offset:
                self.in_flight -= point.held.bit_count()
                del self.points[key]
        self.roots = [root for root in self.roots if root.start < next_offset]
        self.orderly = orderly
        self.next_offset = next_offset
        self.packed = None

    def cut(self, offset: int) -> None:
        """Forget all that was handed out from an offset on."""
        for point in list(self.points.values()):
            self.ack(point, _mask_from(point, offset))
        self.roots = [root for root in self.roots if root.start < offset]
        for root in self.roots:
            root.pinned &= ~_mask_from(root, offset)
        if self.orderly is not None:
            self.orderly.cut(offset)
        self.next_offset = min(self.next_offset, offset)
        self.packed = None

    def is_open(self, offset: int) -> bool:
        """Tell whether a message was not handed out yet, or is not over."""
        if offset >= self.next_offset:
            return True
        # looked for, as a queue may have as many of them as messages that are out
        at = bisect_right(self.roots, offset, key=_START) - 1
        if at >= 0 and self.roots[at].pinned >> (offset - self.roots[at].start) & 1:
            return True
        return self.orderly is not None and offset in self.orderly.offsets()

    def restore(self, point: CheckPoint) -> None:
        """Take over a check point of a snapshot; those that pin come first, lowest first."""
        if point.held:
            self.points[point.start, point.pop_ms] = point
        self.in_flight += point.held.bit_count()
        if point.parent is None:
            self.roots.append(point)

    def open_offsets(self) -> list[int]:
        """Return the offsets that are out, lowest first."""
        known = [offsets_in(root.start, root.pinned) for root in self.roots]
        return sorted(chain(*known, self.orderly.offsets() if self.orderly is not None else ()))

    def _let_go(self, point: CheckPoint, bits: int) -> None:
        point.held &= ~bits
        self.in_flight -= bits.bit_count()
        self.packed = None
        if not point.held:
            self.points.pop((point.start, point.pop_ms), None)


def _mask_from(point: CheckPoint, offset: int) -> int:
    """Return the bits of a check point from an offset on."""
    return -1 << max(offset - point.start, 0)


# The state that all parts of popping share: the queues of all groups, and the order in which messages become due.

Due = tuple[int, int, PopQueue, CheckPoint]
"""When, in which order, and what."""


class PopTable:
    """The pops of one store: its popped queues, and when each is due."""

    def __init__(self, store: Store, reader: Reader, repair: QueueRepair) -> None:
        self.store = store
        self.reader = reader
        self.repair = repair
        #: by group, topic and queue id; read-only for others, see ``add`` and ``remove``
        self.queues: dict[Key, PopQueue] = {}
        #: queues whose base offset is to be told to the table of offsets
        self.moved: set[PopQueue] = set()
        #: no pop may say it happened earlier: a handle of before would fit again
        self.pop_floor_ms = 0
        #: True if a snapshot would be another one than the last
        self.is_changed = False
        self._due: list[Due] = []
        self._order = count()
        self._last_ms = 0

    def add(self, queue: PopQueue) -> PopQueue:
        """Take in a queue that recovery has found."""
        self.queues[queue.key] = queue
        return queue

    def queue_at(self, key: Key, offset: int) -> PopQueue:
        """Return a queue, one that begins at ``offset`` if it is new."""
        return self.queues.get(key) or self.add(PopQueue(key, offset))

    def remove(self, key: Key) -> None:
        """Forget a queue and all that is out of it."""
        queue = self.queues.pop(key, None)
        if queue is not None:
            self.void(queue)
            queue.place(queue.next_offset)
            self.moved.discard(queue)
            self.is_changed = True

    def void(self, queue: PopQueue) -> None:
        """Have no handle of a queue fit what is popped from now on."""
        latest_ms = max((pop_ms for _, pop_ms in queue.points), default=0)
        block = queue.orderly.block if queue.orderly is not None else None
        self.pop_floor_ms = max(self.pop_floor_ms, latest_ms + 1, block.pop_ms + 1 if block else 0)

    def bounds(self, key: Key) -> tuple[int, int]:
        """Return (min, max) offset of the log's queue, (0, 0) if there is none."""
        queue = self.store.queues.known.get((key[1], key[2]))
        return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def touch(self, queue: PopQueue) -> None:
        """Note that a queue's state has changed."""
        self.moved.add(queue)
        self.is_changed = True

    def tell_offsets(self) -> None:
        """Tell the table of offsets how far everything is over, as RocketMQ has it: groups that pull go on there."""
        offsets = self.store.offsets
        for queue in self.moved:
            offsets.note(*queue.key, queue.base_offset)
        self.moved.clear()

    # what is due

    def plan(self, queue: PopQueue, point: CheckPoint) -> None:
        """Have a check point looked at when its time is over."""
        if len(self._due) > 1000 + 4 * sum(len(known.points) for known in self.queues.values()):
            self._replan()
        heappush(self._due, (point.due_ms, next(self._order), queue, point))

    def _replan(self) -> None:
        self._due = [
            (point.due_ms, next(self._order), queue, point)
            for queue in self.queues.values()
            for point in queue.points.values()
        ]
        heapify(self._due)

    def next_due(self) -> tuple[PopQueue, CheckPoint] | None:
        """Return what is due first, None if nothing is out."""
        while self._due:
            due_ms, _, queue, point = self._due[0]
            if point.held and point.due_ms == due_ms and queue.points.get((point.start, point.pop_ms)) is point:
                return queue, point
            heappop(self._due)
        return None

    def see(self, now_ms: int) -> None:
        """Look at the clock: if it was set back, nobody waits longer than was asked for."""
        if now_ms < self._last_ms:
            for queue in self.queues.values():
                for point in queue.points.values():
                    point.due_ms = min(point.due_ms, now_ms + max(point.due_ms - point.pop_ms, 0))
                if queue.orderly is not None:
                    queue.orderly.clamp(now_ms)
                queue.packed = None
            self.is_changed = True
            self._replan()
        self._last_ms = now_ms
