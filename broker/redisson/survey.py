"""What can be said of a queue at a glance, and which queues there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from . import scripts
from .codec_guess import guess_codec
from .keys import MODE_PREFIX, TIMEOUT_PREFIX, QueueKeys, name_of
from .member_format import detect, unpack
from .queue import DelayedQueue
from .server import Server, whole
from .values import Survey

#: Bytes of each sampled member; a larger one shows its packing only.
SAMPLE_BYTES = 4096


def survey(queue: DelayedQueue) -> Survey:
    """What is known of a queue without reading all of it, in one script and one question about listeners.

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
    """How many clients have subscribed to the channel of a queue: Java's live RDelayedQueues.

    Services of ours subscribe to a pattern, which the server does not count here.
    """
    answer = cast("list[tuple[bytes, int] | bytes | int]", server.run("PUBSUB", "NUMSUB", keys.channel))
    # Redis answers name, number; redis-py may have made pairs of them, and a cluster one for each node.
    return sum(part[1] if isinstance(part, tuple) else part for part in answer if not isinstance(part, bytes))


def queue_names(server: Server, configured: Iterable[str] = ()) -> list[str]:
    """The configured names and those found by SCAN, each once, sorted. A queue that has a mode is one too."""
    found = (name_of(key, prefix) for key in _scanned(server) for prefix in (TIMEOUT_PREFIX, MODE_PREFIX))
    return sorted({*configured, *(name for name in found if name is not None)})


def inspected_keys(queue: DelayedQueue) -> tuple[bytes, ...]:
    """The keys of the queue, with what was moved aside and the channel."""
    return (*queue.script_keys(), queue.keys.aside, queue.keys.channel)


def _scanned(server: Server) -> Iterator[bytes]:
    scan = getattr(server.client, "scan_iter", None)
    assert scan is not None  # redis-py's clients have it, and a cluster's asks every node
    yield from cast("Iterator[bytes]", scan(match="*_delay_*:*", count=1000))
