"""A batch of messages for one queue, appended together: one piece of the log, one of the queue, one of the index.

What is the same in all of its records is made once, and the rest column by column.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, repeat
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ...rocketmq.layout import (
    BLANK_SIZE,
    BYTES,
    CRC_SIZE,
    MAGIC_V1,
    MASK31,
    NOT_IPV6,
    U16,
    crc_properties,
)
from ...rocketmq.message import encode, record_size
from ..message_header import Facts, also_indexed
from ..queues.consume_queue import ENTRY
from .ticket import BatchTicket

if TYPE_CHECKING:
    from ..store import Store

#: Total size, magic, body crc, queue id, flag, queue offset, position, what is the same in all, body length.
_START = Struct(">IIIiiqq48sI").pack
#: sysFlag, born time and host, store time and host, reconsume times, prepared position.
_SAME = Struct(">iq8sq8siq").pack
_TOPIC_LIMIT = len(BYTES) - 1
_ENTRY = ENTRY.pack


class Parts(NamedTuple):
    """Messages column by column. ``keys``: their unique ids if their properties say nothing else, else empty; then
    ``facts`` has what they say."""

    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    flags: Sequence[int]
    keys: Sequence[str]
    facts: Sequence[Facts]

    def cut(self, begin: int, stop: int) -> Parts:
        """Return some of them."""
        bodies, properties, flags, keys, facts = self
        here = slice(begin, stop)
        return Parts(bodies[here], properties[here], flags[here], keys[here], facts[here])


class Together(NamedTuple):
    """What holds for all messages of a batch."""

    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int


def append_batch(store: Store, topic: str, queue_id: int, parts: Parts, sent: Together, owner: object) -> BatchTicket:
    """Append messages that are known to be right, after ``Store.make_room``."""
    log, name = store.log, store.name_of(topic)
    bare = record_size(name, b"", b"", sent.born_host, store.store_host)
    sizes = [bare + len(body) + len(raw) for body, raw in zip(parts.bodies, parts.properties, strict=True)]
    queue = store.queues.ensure(topic, queue_id)
    first_offset = queue.end_offset
    positions: list[int] = []
    while (done := len(positions)) < len(sizes):
        begin = log.place(sizes[done])
        ends = list(accumulate(sizes[done:] if done else sizes, initial=begin))
        if ends[-1] + BLANK_SIZE - begin > log.room:
            # they do not all lie in this segment
            del ends[bisect_right(ends, begin + log.room - BLANK_SIZE) :]
        size = ends.pop() - begin
        stop = done + len(ends)
        here, sizes_here = (parts, sizes) if len(ends) == len(sizes) else (parts.cut(done, stop), sizes[done:stop])
        places = (queue_id, queue.end_offset, ends)
        log.push(b"".join(_records(store.store_host, name, places, sizes_here, here, sent)), size)
        tags = [store.tags_code(facts.tags) for facts in here.facts] or repeat(0)
        queue.append_many(b"".join(map(_ENTRY, ends, sizes_here, tags)), size)
        _index(store, topic, here, ends, sent.store_ms)
        positions += ends
    queue.last_ms = sent.store_ms
    ticket = BatchTicket(owner, topic, queue_id, first_offset, positions, sizes, sent.store_ms, store.store_host)
    store.appended(ticket.size, (queue,), sent.store_ms, (ticket,))
    store.seal_if_full()
    return ticket


def _records(
    host: bytes,
    name: bytes,
    places: tuple[int, int, Sequence[int]],
    sizes: Sequence[int],
    parts: Parts,
    sent: Together,
) -> Iterable[bytes]:
    """Return the bytes of records, as ``message.encode`` makes them."""
    queue_id, offset, positions = places
    bodies, properties, flags, _, _ = parts
    sys_flag, born_ms, born_host, store_ms = sent
    if len(born_host) != 8 or len(host) != 8 or len(name) > _TOPIC_LIMIT:
        rows = zip(positions, bodies, properties, flags, sizes, strict=True)
        return [
            encode(
                name, queue_id, offset + number, position, body, raw, flag, sys_flag, born_ms, born_host, store_ms,
                host, 0, 0, size,
            )
            for number, (position, body, raw, flag, size) in enumerate(rows)
        ]  # fmt: skip
    same = _SAME(sys_flag & NOT_IPV6, born_ms, born_host, store_ms, host, 0, 0)
    heads = map(
        _START, sizes, repeat(MAGIC_V1), [crc32(body) & MASK31 for body in bodies], repeat(queue_id), flags,
        range(offset, offset + len(sizes)), positions, repeat(same), map(len, bodies),
    )  # fmt: skip
    lengths = list(map(len, properties))
    middles = {length: BYTES[len(name)] + name + U16.pack(length + CRC_SIZE) for length in set(lengths)}
    records = list(map(b"".join, zip(heads, bodies, map(middles.__getitem__, lengths), properties, strict=True)))
    ends = crc_properties(list(map(crc32, records)))
    cut = [ends[at : at + CRC_SIZE] for at in range(0, len(ends), CRC_SIZE)]
    return chain.from_iterable(zip(records, cut, strict=True))


def _index(store: Store, topic: str, parts: Parts, positions: Sequence[int], store_ms: int) -> None:
    """Make records findable by unique id, keys and tags."""
    index = store.index
    if parts.keys:
        index.add_many(index.hashes_of(topic, parts.keys), positions, store_ms)
        return
    hashes, places = array("I"), []
    for (_, unique_key, tags, keys, _, _, _), position in zip(parts.facts, positions, strict=True):
        if unique_key:
            hashes.append(index.hash_of(f"{topic}#{unique_key}"))
            places.append(position)
        if keys or tags:
            for text in also_indexed(topic, tags, keys):
                hashes.append(index.hash_of(text))
                places.append(position)
    if places:
        index.add_many(hashes, places, store_ms)
