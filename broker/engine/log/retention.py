"""Which segments of the log may go.

A segment goes when its last record is older than the retention time and nothing in it is still pending: parked
messages that are not released, and (unless switched off) messages that a group has not consumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...rocketmq.message import decode
from ..derived import Derived
from ..errors import CorruptRecord, RecordNotFound
from ..store import Store

#: Segments removed in one pass.
_SEGMENTS_PER_PASS = 4


def expire(store: Store, now_ms: int, services: Sequence[Derived]) -> None:
    """Remove the segments whose time has come, and what points into them. Raises OSError; what is left to do then is
    done by the next call."""
    if store.trimmed_position is None:
        store.trimmed_position = store.log.min_position
    for _ in range(removable(store, now_ms, services)):
        store.log.chain.remove_first()
    if store.trimmed_position != store.log.min_position:
        _trim(store)
        store.trimmed_position = store.log.min_position


def oldest_expired(store: Store, now_ms: int) -> int | None:
    """Return the end of the oldest segment if only what is pending keeps it, None if it is not old enough."""
    segments = store.log.chain.segments()
    if len(segments) < 2:
        return None
    stored_ms = _first_stored_ms(store, segments[1])
    border_ms = now_ms - int(store.config.retention_hours * 3_600_000)
    return segments[1] if stored_ms is not None and stored_ms <= border_ms else None


def removable(store: Store, now_ms: int, services: Sequence[Derived]) -> int:
    """Return how many of the oldest segments may be removed now. The services are asked only if some are old."""
    border_ms = now_ms - int(store.config.retention_hours * 3_600_000)
    ends = []
    for start, following in pairwise(store.log.chain.segments()):
        # a segment is as old as the record after it
        stored_ms = _first_stored_ms(store, following)
        if stored_ms is None or stored_ms > border_ms or start + store.log.chain.segment_size != following:
            break
        ends.append(following)
    if not ends:
        return 0
    pin = store.visible_position
    for service in services:
        pinned = service.oldest_position()
        pin = pin if pinned is None else min(pin, pinned)
    if store.config.keep_unconsumed:
        pin = min(pin, oldest_unconsumed(store))
    return min(sum(end <= pin for end in ends), _SEGMENTS_PER_PASS)


def oldest_unconsumed(store: Store) -> int:
    """Return the lowest position that a known group has still to consume."""
    pin = store.visible_position
    for (_, topic), queues in store.offsets.all().items():
        for queue_id, offset in queues.items():
            queue = store.queues.get(topic, queue_id)
            if queue is not None and (entries := queue.entries(max(offset, queue.min_offset), 1)):
                pin = min(pin, entries[0].position)
    return pin


def _trim(store: Store) -> None:
    """Remove what points below the log. Raises OSError."""
    low = store.log.min_position
    store.index.trim(low)
    store.topics.forget_deleted(low)
    store.damaged = [known for known in store.damaged if known.end > low]
    for queue in store.queues.all():
        if queue.trim(low, store.files):
            store.changes.touch("queue", (queue.topic, queue.queue_id))


def _first_stored_ms(store: Store, position: int) -> int | None:
    """Return when the first readable record of the segment at ``position`` was stored, None if none is readable.

    Damaged bytes say nothing about time: read as a moment they would let everything before them go.
    """
    log = store.log
    end = min(store.visible_position, position + log.chain.segment_size)
    try:
        return decode(log.record_at(position), verify=False).store_ms if position < end else None
    except (RecordNotFound, CorruptRecord):
        found = log.next_sound(position, end)
    try:
        return decode(log.record_at(found), verify=False).store_ms if found is not None and found < end else None
    except (RecordNotFound, CorruptRecord):
        return None
