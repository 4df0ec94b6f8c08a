"""Records that nobody waits for, appended together: copies of messages whose own record was acknowledged before."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...rocketmq.message import encode, record_size
from ..errors import StoreBusy
from ..message_header import Facts, also_indexed
from ..queues.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    from ..store import Store


class Copy(NamedTuple):
    """One record and the queue it belongs to, which is known to be right."""

    topic: str
    queue_id: int
    body: bytes
    facts: Facts
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int
    prepared_position: int


def append_burst(store: Store, copies: Sequence[Copy], store_ms: int) -> int:
    """Append copies until all are, or the batch is large enough for a sync; return how many. ``store.seal_if_full``
    is left to the caller, who may have something to note first.

    Raises StoreRefused; then nothing was appended.
    """
    if store.pending_bytes > store.config.pending_limit_bytes:
        raise StoreBusy
    host, log, index = store.store_host, store.log, store.index
    limit_bytes = store.config.sync_batch_bytes
    queues: set[ConsumeQueue] = set()
    hashes = array("I")
    positions: list[int] = []
    count = total_bytes = 0
    for topic, queue_id, body, facts, flag, sys_flag, born_ms, born_host, reconsume_times, prepared_position in copies:
        stored, unique_key, tags, keys = facts[:4]
        name = store.name_of(topic)
        size = record_size(name, body, stored, born_host, host)
        queue = store.queues.ensure(topic, queue_id)
        try:
            position = log.place(size)
        except Exception:
            if not count:
                raise
            break
        offset = queue.append(position, size, store.tags_code(tags) if tags else 0)
        log.push(
            encode(
                name, queue_id, offset, position, body, stored, flag, sys_flag, born_ms, born_host, store_ms, host,
                reconsume_times, prepared_position, size,
            ),
            size,
        )  # fmt: skip
        if unique_key:
            hashes.append(index.hash_of(f"{topic}#{unique_key}"))
            positions.append(position)
        if keys or tags:
            also = [index.hash_of(entry) for entry in also_indexed(topic, tags, keys)]
            hashes.extend(also)
            positions += [position] * len(also)
        queue.last_ms = store_ms
        queues.add(queue)
        total_bytes += size
        count += 1
        if log.batch.size_bytes >= limit_bytes:
            break
    if positions:
        index.add_many(hashes, positions, store_ms)
    store.appended(total_bytes, queues, store_ms)
    return count
