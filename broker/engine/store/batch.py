"""A batch of messages for one queue, appended together: one piece of the log, one of the queue, one of the index."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from ..layout import BLANK_SIZE
from ..message import encode, record_size
from .consumequeue import ENTRY
from .facts import Facts, also_indexed
from .ticket import Ticket

if TYPE_CHECKING:
    from .store import Store


def append_batch(
    store: Store,
    topic: str,
    queue_id: int,
    messages: list[tuple[bytes, Facts, int]],
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    store_ms: int,
    owner: object,
) -> list[Ticket]:
    """Append messages (body, facts, flag) that are known to be right, after ``Store.make_room``."""
    log, host, name = store.log, store.store_host, store.name_of(topic)
    bare = record_size(name, b"", b"", born_host, host)
    sizes = [bare + len(body) + len(facts.stored) for body, facts, _ in messages]
    total = sum(sizes)
    position = log.place(sizes[0])
    if total + BLANK_SIZE > log.room:
        # they do not all lie in this segment
        return [
            store.append(
                topic, queue_id, body, facts, store.tags_code(facts.tags), flag, sys_flag, born_ms, born_host, store_ms,
                owner=owner,
            )
            for body, facts, flag in messages
        ]  # fmt: skip
    queue = store.queues.ensure(topic, queue_id)
    offset = queue.end_offset
    hash_of, entry, prefix = store.index.hash_of, ENTRY.pack, topic + "#"
    records: list[bytes] = []
    entries = bytearray()
    hashes, places = array("I"), []
    tickets: list[Ticket] = []
    for (body, (stored, unique_key, tags, keys, _, _), flag), size in zip(messages, sizes, strict=True):
        records.append(
            encode(
                name, queue_id, offset, position, body, stored, flag, sys_flag, born_ms, born_host, store_ms, host, 0,
                0, size,
            )
        )  # fmt: skip
        entries += entry(position, size, store.tags_code(tags) if tags else 0)
        if unique_key:
            hashes.append(hash_of(prefix + unique_key))
            places.append(position)
        if keys or tags:
            for text in also_indexed(topic, tags, keys):
                hashes.append(hash_of(text))
                places.append(position)
        tickets.append(Ticket(owner, topic, queue_id, offset, position, size, store_ms, host, None, unique_key))
        offset += 1
        position += size
    log.push(b"".join(records), total)
    queue.append_many(entries, total)
    queue.last_ms = store_ms
    if places:
        store.index.add_many(hashes, places, store_ms)
    store.appended(total, (queue,), store_ms, tickets)
    store.seal_if_full()
    return tickets
