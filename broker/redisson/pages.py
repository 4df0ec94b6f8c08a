"""Waiting members page by page, in the order in which they are due."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from . import scripts
from .member_format import Packing
from .queue import DelayedQueue
from .server import whole
from .survey import inspected_keys
from .values import Handle, Page, Waiting

#: Bytes of each value that a page carries.
SHOWN_BYTES = 4096
PAGE_LIMIT = 1000


def page(
    queue: DelayedQueue,
    *,
    from_ms: float = float("-inf"),
    to_ms: float = float("inf"),
    limit: int = 100,
    cursor: str | None = None,
    shown_bytes: int = SHOWN_BYTES,
    aside: bool = False,
) -> Page:
    """Members due between two moments; `aside`: those that were moved aside instead. Writes nothing.

    A cursor holds the last score and how many of it were seen. So what leaves the queue meanwhile may let a page leave
    out a member of the same millisecond, never one of another.
    """
    return _page(queue, from_ms, to_ms, min(limit, PAGE_LIMIT), cursor, shown_bytes, "all", aside)


def find_poison(queue: DelayedQueue) -> Iterator[Waiting]:
    """Every member that has neither packing; walks the whole set, 1000 members a script. Writes nothing."""
    return _walk(queue, "poison")


def find_packed(queue: DelayedQueue, packing: Packing) -> Iterator[Waiting]:
    """Every member in this packing, which is poison for clients that write the other one. Writes nothing."""
    return _walk(queue, packing.value)


def _walk(queue: DelayedQueue, which: str) -> Iterator[Waiting]:
    cursor: str | None = None
    while True:
        found = _page(queue, float("-inf"), float("inf"), PAGE_LIMIT, cursor, SHOWN_BYTES, which, False)
        yield from found.items
        cursor = found.cursor
        if cursor is None:
            return


def _page(
    queue: DelayedQueue,
    from_ms: float,
    to_ms: float,
    limit: int,
    cursor: str | None,
    shown_bytes: int,
    which: str,
    aside: bool,
) -> Page:
    low, left_out = _bound(from_ms), 0
    if cursor is not None:
        low, _, number = cursor.partition("~")
        left_out = int(number)
        float(low)
    arguments = (low, _bound(to_ms), left_out, limit, shown_bytes, which, "aside" if aside else "timeout")
    answer = cast("list[bytes | int]", queue.script(scripts.PAGE, inspected_keys(queue), arguments))
    now_ms, seen = whole(answer[0]), whole(answer[1])
    last, last_count = cast("bytes", answer[2]).decode(), whole(answer[3])
    fields = answer[4:]
    items = [_waiting(fields[first : first + 6]) for first in range(0, len(fields), 6)]
    if seen == 0:
        return Page(now_ms, items, None)
    # Of the score with which this page ends, all seen so far are left out next time.
    before = left_out if float(last) == float(low) else 0
    return Page(now_ms, items, f"{last}~{before + last_count}")


def _bound(score: float) -> str:
    if score in (float("inf"), float("-inf")):
        return "+inf" if score > 0 else "-inf"
    return str(int(score))


def _waiting(fields: list[bytes | int]) -> Waiting:
    score, size, identity, at, packing, value = fields
    size_bytes = whole(size)
    head = max(0, whole(cast("int", at)) - 1)
    text = cast("bytes", score).decode()
    return Waiting(
        due_ms=float(text),
        handle=Handle(text, cast("bytes", identity), size_bytes),
        packing=Packing(cast("bytes", packing).decode()) if packing else None,
        value=cast("bytes", value),
        value_bytes=size_bytes - head,
    )
