"""One queue as one group pops it.

    base_offset <= ... <= next_offset      below base all is over; at next goes on who pops, behind what is out
                                           between them: what the check points (or the orderly block) hold, or over

The same methods carry out what clients ask and what the log says after a start. Hearing something twice changes
nothing, so a snapshot may be newer than the place from which the log is read.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from operator import attrgetter

from .checkpoint import CheckPoint, offsets_in
from .orderly import Orderly

_START = attrgetter("start")
#: group, topic as it stands in the log (a retry topic, too), queue id
Key = tuple[str, str, int]


class PopQueue:
    """State of one (group, topic, queue id)."""

    __slots__ = ("in_flight", "key", "name", "next_offset", "orderly", "packed", "points", "roots")

    def __init__(self, key: Key, offset: int) -> None:
        self.key = key
        #: as the ledger and the snapshot write it; the parts hold no zero byte
        self.name = "\0".join((key[0], key[1], str(key[2]))).encode()
        self.next_offset = offset
        self.points: dict[tuple[int, int], CheckPoint] = {}
        #: those that pin offsets, lowest first, none within another; the first may pin none any more
        self.roots: list[CheckPoint] = []
        self.orderly: Orderly | None = None
        #: messages that are out and neither acknowledged nor given out again
        self.in_flight = 0
        #: the row of the snapshot, as long as nothing has changed
        self.packed: bytes | None = None

    @property
    def base_offset(self) -> int:
        """Everything below it is over."""
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
