"""The state of a queue at a glance, the list of queues, and their waiting members page by page.

Members come in the order in which they are due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from redis.cluster import RedisCluster

from . import scripts
from .codecs import Packing, detect, guess_codec, unpack
from .queue import MODE_PREFIX, TIMEOUT_PREFIX, DelayedQueue, QueueKeys, name_of
from .server import Server, whole
from .values import Handle, Page, Survey, Waiting

#: Bytes of each sampled member; a larger one shows its packing only.
SAMPLE_BYTES = 4096


def survey(queue: DelayedQueue) -> Survey:
    """Return what is known of a queue without reading all of it: one script, and one question about listeners.

    Raises WrongType when a key holds something else.
    """
    answer = cast("list[bytes | int]", queue.script(scripts.SURVEY, inspected_keys(queue), (SAMPLE_BYTES,)))
    numbers = [whole(part) for part in answer[:11]]
    samples = list(zip(cast("list[bytes]", answer[11::2]), cast("list[int]", answer[12::2]), strict=True))
    likely = queue.likely([member for member, _ in samples], [size for _, size in samples])
    packings = [detect(member, likely, size) for member, size in samples]
    values = [unpack(member, likely).value for member, size in samples if len(member) == size and detect(member)]
    return Survey(
        name=queue.name,
        now_ms=numbers[0],
        list_size=numbers[1],
        set_size=numbers[2],
        overdue=numbers[3],
        never_due=numbers[4],
        oldest_due_ms=numbers[5] if numbers[5] >= 0 else None,
        next_due_ms=numbers[6] if numbers[6] >= 0 else None,
        target_size=numbers[7],
        index_size=numbers[8],
        values_size=numbers[9],
        aside=numbers[10],
        listeners=listeners(queue.server, queue.keys),
        packings=sorted({packing for packing in packings if packing is not None}),
        # The last one in the list is the last sample; what is offered next follows it.
        written=packings[-1] if numbers[1] else None,
        sampled_poison=packings.count(None),
        codec_guess=guess_codec(values),
    )


def listeners(server: Server, keys: QueueKeys) -> int:
    """Return how many clients have subscribed to the channel of a queue: Java's live RDelayedQueues.

    Services of ours subscribe to a pattern, which the server does not count here.
    """
    answer = cast("list[tuple[bytes, int] | bytes | int]", server.run("PUBSUB", "NUMSUB", keys.channel))
    # Redis answers name, number; redis-py may have made pairs of them, and a cluster one for each node.
    return sum(part[1] if isinstance(part, tuple) else part for part in answer if not isinstance(part, bytes))


#: Queues that one script counts: Redis does nothing else meanwhile.
DUE_TOGETHER = 20


def due_counts(server: Server, names: Sequence[str], moments_ms: Sequence[int]) -> tuple[list[int], int]:
    """Return how many values of all these queues are due at or before each moment, and how many keys are no queue's.

    Some queues a script; in a cluster, where they may be on several nodes, one. No value is read.
    """
    sums, strange = [0] * len(moments_ms), 0
    together = 1 if isinstance(server.client, RedisCluster) else DUE_TOGETHER
    moments = [str(each) for each in moments_ms]
    for first in range(0, len(names), together):
        keys = [QueueKeys(name).timeout for name in names[first : first + together]]
        answer = cast("list[int]", server.script(scripts.DUE, keys, moments))
        strange += answer[0]
        sums = [before + count for before, count in zip(sums, answer[1:], strict=True)]
    return sums, strange


def queue_names(server: Server, configured: Iterable[str] = ()) -> list[str]:
    """Return the configured names and those found by SCAN, each once, sorted. A queue that has a mode is one too."""
    found = (name_of(key, prefix) for key in _scanned(server) for prefix in (TIMEOUT_PREFIX, MODE_PREFIX))
    return sorted({*configured, *(name for name in found if name is not None)})


def inspected_keys(queue: DelayedQueue) -> tuple[bytes, ...]:
    """Return the keys of the queue, with what was moved aside and the channel."""
    return (*queue.script_keys(), queue.keys.aside, queue.keys.channel)


def _scanned(server: Server) -> Iterator[bytes]:
    scan = getattr(server.client, "scan_iter", None)
    assert scan is not None  # redis-py's clients have it, and a cluster's asks every node
    yield from cast("Iterator[bytes]", scan(match="*_delay_*:*", count=1000))


# Waiting members page by page.

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
    """Return members due between two moments; `aside`: those that were moved aside instead. Writes nothing.

    A cursor holds the last score and how many of it were seen. So what leaves the queue meanwhile may let a page leave
    out a member of the same millisecond, never one of another.
    """
    return _page(queue, from_ms, to_ms, min(limit, PAGE_LIMIT), cursor, shown_bytes, "all", aside)


def find_poison(queue: DelayedQueue) -> Iterator[Waiting]:
    """Iterate over every member with neither packing; walk the whole set, 1000 members a script. Write nothing."""
    return _walk(queue, "poison")


def find_packed(queue: DelayedQueue, packing: Packing) -> Iterator[Waiting]:
    """Iterate over every member in this packing, poison for clients that write the other one. Write nothing."""
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
