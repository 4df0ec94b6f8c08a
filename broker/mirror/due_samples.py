"""Marks: where in a lane which due time lies, so that its whole backlog can be drawn without reading it.

A lane is in due order. A mark (offset, due_ms) says: entries before `offset` are due at `due_ms` or earlier, the entry
at `offset` at `due_ms` or later. Whoever sees at the moment T that the lane ends at M knows the mark (M, T + delay) for
nothing; an entry read by request 321 is a mark as well. Between two marks the number of messages is exact and their
place is not. Two marks with one offset are the two ends of a pause in which nothing arrived.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

Mark = tuple[int, int]

#: marks kept for one lane: over 2 h one in 28 s
LIMIT = 256


def appended(marks: Sequence[Mark], offset: int, due_ms: int) -> tuple[Mark, ...]:
    """The marks with a new last one; one that contradicts them (clock set back) is lifted to keep the order."""
    if not marks:
        return ((offset, due_ms),)
    last_offset, last_due = marks[-1]
    if offset < last_offset:
        return ((offset, due_ms),)
    mark = (offset, max(due_ms, last_due))
    if len(marks) >= 2 and marks[-2][0] == last_offset == offset:
        return (*marks[:-1], mark)
    return _thinned((*marks, mark))


def trimmed(marks: Sequence[Mark], delay_offset: int) -> tuple[Mark, ...]:
    """Without what lies wholly behind `delay_offset`."""
    behind = bisect_right(marks, delay_offset, key=lambda mark: mark[0])
    return tuple(marks[max(0, behind - 1) :])


def covers(marks: Sequence[Mark], delay_offset: int) -> bool:
    """True when the marks reach back to the first pending entry."""
    return bool(marks) and marks[0][0] <= delay_offset


def merged(samples: Iterable[Mark], marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """Samples read from the queue, then the marks that follow them, both made ascending."""
    ordered: list[Mark] = []
    for offset, due_ms in sorted({*samples, *marks}):
        ordered.append((offset, max(due_ms, ordered[-1][1]) if ordered else due_ms))
    return _thinned(tuple(ordered))


def flat(marks: Sequence[Mark]) -> list[int]:
    """As the column holds them."""
    return list(chain.from_iterable(marks))


def paired(column: Sequence[int]) -> tuple[Mark, ...]:
    """Back from the column."""
    return tuple(zip(column[::2], column[1::2], strict=True))


def due_by(moments_ms: Sequence[int], *, delay_offset: int, end_offset: int, points: Sequence[Mark]) -> list[int]:
    """How many pending entries are due at or before each of the ascending moments; straight between the points.

    `points` must begin at or before the first pending entry; entries behind the last point count as due at its time.
    """
    backlog = end_offset - delay_offset
    curve = [(due, min(max(offset - delay_offset, 0), backlog)) for offset, due in points]
    counts: list[int] = []
    at = 0
    for moment in moments_ms:
        while at < len(curve) and curve[at][0] <= moment:
            at += 1
        counts.append(_between(curve, at, moment, backlog))
    return counts


def _between(curve: Sequence[tuple[int, int]], at: int, moment: int, backlog: int) -> int:
    if at == len(curve):
        return backlog
    if at == 0:
        return 0
    (left, below), (right, above) = curve[at - 1], curve[at]
    # rounded up: just after a known due time its message counts
    return below - (above - below) * (moment - left) // (left - right)


def _thinned(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """At most LIMIT marks: when there are more, those go that stand closest to both neighbours in time."""
    if len(marks) <= LIMIT:
        return marks
    widths = [right[1] - left[1] for left, right in pairwise(marks)]
    inner = sorted(range(1, len(marks) - 1), key=lambda index: widths[index - 1] + widths[index])
    dropped: set[int] = set()
    for index in inner:
        if len(dropped) >= LIMIT // 2:
            break
        if index - 1 not in dropped and index + 1 not in dropped:
            dropped.add(index)
    return tuple(mark for index, mark in enumerate(marks) if index not in dropped)
