"""Dead letters as the broker has them: one by one from the newest on, and what was done with each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from broker.client import Admin, BrokerRefused, Message, RouteNotFound
from console.features.dead_letters.shapes import DLQ_PREFIX, DeadLetter
from console.features.topics.queue import row_of
from console.operations.models import OperationItem
from console.site.queue_contents import pull_all

#: records read at once
STEP = 32
#: operations whose outcome is shown beside a dead letter
FAMILY = "dead_letters."
SENT_AGAIN = ("sent_back", "sent_as_new")


def bounds_of(admin: Admin, group: str) -> dict[int, tuple[int, int]]:
    """First offset and end of each queue of the group's dead letters; none without such a topic."""
    try:
        stats = admin.topic_stats(DLQ_PREFIX + group)
    except (BrokerRefused, RouteNotFound):
        return {}
    return {part.queue.queue_id: (part.min_offset, part.max_offset) for part in stats.queues}


def message_at(admin: Admin, group: str, queue_id: int, offset: int) -> Message | None:
    """The record itself; None if it is not there any more."""
    found = [each for each in admin.pull(DLQ_PREFIX + group, queue_id, offset, 1) if each.queue_offset == offset]
    return found[0] if found else None


def newest_first(
    admin: Admin, group: str, bounds: dict[int, tuple[int, int]], after: tuple[int, int] | None
) -> Iterator[DeadLetter]:
    """From the end of the last queue backwards, or from before `after`. Brokers give a group one queue."""
    for queue_id in sorted(bounds, reverse=True):
        low, high = bounds[queue_id]
        if after is not None:
            if queue_id > after[0]:
                continue
            high = min(high, after[1]) if queue_id == after[0] else high
        while high > low:
            first = max(low, high - STEP)
            for message in reversed(pull_all(admin, DLQ_PREFIX + group, queue_id, first, high - first)):
                yield letter_of(message)
            high = first


def letter_of(message: Message) -> DeadLetter:
    """A record as a dead letter."""
    row = row_of(message)
    topic = message.properties.get("DLQ_ORIGIN_TOPIC") or message.properties.get("RETRY_TOPIC") or ""
    group = message.topic.removeprefix("%DLQ%")
    # on Apache RocketMQ what was popped more than once is said to be of the topic it was popped from then
    for popped in (f"%RETRY%{group}_", f"%RETRY%{group}+"):
        topic = topic.removeprefix(popped)
    return DeadLetter(
        queue_id=message.queue_id, offset=row.offset, position=row.position, offset_message_id=row.offset_message_id,
        topic=topic, unique_key=row.unique_key or "", keys=row.keys, tag=row.tag or "", born_ms=row.born_ms,
        died_ms=row.store_ms, attempts=row.reconsume_times, size_bytes=row.size_bytes, preview=row.preview,
    )  # fmt: skip


def marked(group: str, rows: Sequence[DeadLetter]) -> tuple[DeadLetter, ...]:
    """With what was done with them here before."""
    items = OperationItem.objects.filter(
        operation__kind__startswith=FAMILY, operation__parameters__group=group, outcome__in=SENT_AGAIN,
        target__offset__in=[row.offset for row in rows],
    )  # fmt: skip
    done = {
        (target["queueId"], target["offset"]): outcome
        for target, outcome in items.order_by("operation__created_at").values_list("target", "outcome")
    }
    return tuple(replace(row, sent_again=done.get((row.queue_id, row.offset), "")) for row in rows)
