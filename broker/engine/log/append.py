"""Appending many records at once: one piece of the log, one of each queue, one of the index.

    append_batch   messages of one batch, for one queue: what is the same in all of their records is made once, and the
                   rest column by column
    append_encoded the same of batches as they were sent, in one pass of a compiled twin each
    append_sends   messages that one client sent singly, for one topic, and that came together: in the same way
    append_burst   records that nobody waits for: copies of messages whose own record was acknowledged before, each run
                   of one topic in the same way
    append_run     records made ready before their moment

A record depends on its place and time in four spots only. All else in the records of a run is encoded ahead, so that a
herd due in one millisecond needs little more than its checksums then:

    20  8 queue offset     28  8 position     56 | 68  8 store time     the ten digits of __CRC32#
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain, repeat
from operator import add, sub
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ...rocketmq.compiled import FAST, twin
from ...rocketmq.layout import (
    BLANK_SIZE,
    BYTES,
    CRC_SIZE,
    MAGIC_V1,
    MASK31,
    NOT_IPV6,
    QUEUE_OFFSET_AT,
    U16,
    crc_properties,
)
from ...rocketmq.message import encode, record_size
from ..errors import StoreBusy, StoreRefused
from ..message_header import Facts, also_indexed
from ..queues.queues import ENTRY, ConsumeQueue, pack_entries
from .ticket import BatchTicket, Ticket

if TYPE_CHECKING:
    from ..store import Store


# A batch.

#: Total size, magic, body crc, queue id, flag, queue offset, position, what is the same in all, body length.
_START = Struct(">IIIiiqq48sI").pack
#: sysFlag, born time and host, store time and host, reconsume times, prepared position.
_SAME = Struct(">iq8sq8siq").pack
_TOPIC_LIMIT = len(BYTES) - 1


class Parts(NamedTuple):
    """Messages column by column. ``keys``: their unique ids if their properties say nothing else, else empty; then
    ``facts`` has what they say."""

    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    flags: Sequence[int]
    keys: Sequence[str]
    facts: Sequence[Facts]

    def cut(self, begin: int, stop: int) -> Parts:
        """Return the messages from one number to another."""
        bodies, properties, flags, keys, facts = self
        here = slice(begin, stop)
        return Parts(bodies[here], properties[here], flags[here], keys[here], facts[here])


class Together(NamedTuple):
    """The facts that are the same for all messages of a batch."""

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
        count, offset = len(ends), queue.end_offset
        queue_ids, offsets = [queue_id] * count, list(range(offset, offset + count))
        if is_short(name, sent.born_host, store.store_host):
            sames = [_same(sent, store.store_host)] * count
            records = _records(
                name, queue_ids, offsets, ends, sizes_here, here.bodies, here.properties, here.flags, sames
            )
        else:
            places = Places(queue_ids, offsets, ends, sizes_here)
            records = b"".join(_records_one_by_one(name, places, here, sent, store.store_host))
        log.push(records, size)
        codes = [store.tags_code(facts.tags) for facts in here.facts] or None
        queue.append_many(pack_entries(ends, sizes_here, codes), size)
        _index(store, topic, here, ends, sent.store_ms)
        positions += ends
    ticket = BatchTicket(owner, topic, queue_id, first_offset, positions, sizes, sent.store_ms, store.store_host)
    queue.last_ms = ticket.store_ms
    store.appended(ticket.size, (queue,), ticket.store_ms, (ticket,))
    store.seal_if_full()
    return ticket


class Extremes(NamedTuple):
    """What is to be known of a batch before it is taken; bytes are those of bodies and properties as they are stored,
    of all messages and of the first."""

    messages: int
    stored_bytes: int
    first_bytes: int
    longest_body: int
    longest_properties: int
    lowest_flag: int
    highest_flag: int
    #: what the twin has read of it
    read: object


class Encoded(NamedTuple):
    """A batch as it was sent."""

    queue_id: int
    body: bytes
    born_ms: int
    owner: object


def append_encoded(
    store: Store, topic: str, batches: Sequence[Encoded], found: Sequence[Extremes], sent: Together
) -> list[BatchTicket] | None:
    """Append the messages of batches as they were sent, which are known to be right, after ``Store.make_room``; None,
    and nothing was appended, if they go as ``append_batch`` takes them. ``sent.born_ms`` says nothing."""
    log, name, host = store.log, store.name_of(topic), store.store_host
    if FAST is None or not (is_short(name, sent.born_host, host) and name.isascii()):
        return None
    bare = record_size(name, b"", b"", sent.born_host, host)
    sizes = [batch.stored_bytes + bare * batch.messages for batch in found]
    size, position = sum(sizes), log.place(found[0].first_bytes + bare)
    if size + BLANK_SIZE > log.room:
        return None
    sames = _sames([batch.born_ms for batch in batches], sent, host)
    hashes, places = [], []
    tickets: list[BatchTicket] = []
    queues: set[ConsumeQueue] = set()
    for batch, size_bytes, one, same in zip(batches, sizes, found, sames, strict=True):
        queue = store.queues.ensure(topic, batch.queue_id)
        offset = queue.end_offset
        made = FAST.batch_records(one.read, name, batch.queue_id, offset, position, same)
        records, entries, record_sizes, columns, keys, keys_places = made
        log.push(records, size_bytes)
        queue.append_many(entries, size_bytes)
        queue.last_ms = sent.store_ms
        queues.add(queue)
        hashes.append(keys)
        places.append(keys_places)
        positions = memoryview(columns).cast("q")
        about = (record_sizes, sent.store_ms, host)
        tickets.append(BatchTicket(batch.owner, topic, batch.queue_id, offset, positions, *about))
        position += size_bytes
    if all_hashes := b"".join(hashes):
        store.index.add_many(memoryview(all_hashes).cast("q"), memoryview(b"".join(places)).cast("q"), sent.store_ms)
    store.appended(size, queues, sent.store_ms, tickets)
    store.seal_if_full()
    return tickets


class Sends(NamedTuple):
    """Messages that one client sent singly to one topic, column by column; their system flags are the same."""

    queue_ids: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    flags: Sequence[int]
    born_ms: Sequence[int]
    owners: Sequence[object]


def append_sends(
    store: Store,
    topic: str,
    sends: Sends,
    parts: Parts,
    sent: Together,
    *,
    kept_in: str | None = None,
    dues_ms: Iterable[int | None] = repeat(None),
) -> list[Ticket] | None:
    """Append messages that are known to be right, each with a ticket of its own; None, and nothing was appended, if the
    segment has no room for all. ``sent.born_ms`` says nothing. ``kept_in``: the topic in whose only queue they stand
    until they may go where they were sent; ``dues_ms``: when. Raises StoreRefused; then nothing was appended."""
    if store.pending_bytes > store.config.pending_limit_bytes:
        raise StoreBusy
    at = topic if kept_in is None else kept_in
    queue_ids = sends.queue_ids if kept_in is None else [0] * len(sends.queue_ids)
    log, name, host = store.log, store.name_of(at), store.store_host
    bare = record_size(name, b"", b"", sent.born_host, host)
    sizes = [bare + len(body) + len(raw) for body, raw in zip(parts.bodies, parts.properties, strict=True)]
    size, begin = sum(sizes), log.place(sizes[0])
    if size + BLANK_SIZE > log.room:
        return None
    positions = list(accumulate(sizes[:-1], initial=begin))
    sames = _sames(sends.born_ms, sent, host)
    codes = [store.tags_code(facts.tags) for facts in parts.facts] or None
    offsets, queues = _enter(store, at, queue_ids, positions, sizes, codes)
    bodies, properties, flags, _, _ = parts
    log.push(_records(name, queue_ids, offsets, positions, sizes, bodies, properties, flags, sames), size)
    _index(store, at, parts, positions, sent.store_ms)
    for queue in queues:
        queue.last_ms = sent.store_ms
    keys: Sequence[str | None] = parts.keys or [facts.unique_key for facts in parts.facts]
    about = (repeat(sent.store_ms), repeat(host), dues_ms, keys)
    tickets = list(map(Ticket, sends.owners, repeat(topic), sends.queue_ids, offsets, positions, sizes, *about))
    store.appended(size, queues, sent.store_ms, tickets)
    store.seal_if_full()
    return tickets


def _enter(
    store: Store,
    topic: str,
    queue_ids: Sequence[int],
    positions: Sequence[int],
    sizes: Sequence[int],
    codes: Sequence[int] | None,
) -> tuple[Sequence[int], Collection[ConsumeQueue]]:
    """Enter records into the queues of a topic; return the offset of each, and the queues."""
    if queue_ids.count(queue_ids[0]) == len(queue_ids):
        queue = store.queues.ensure(topic, queue_ids[0])
        first = queue.end_offset
        queue.append_many(pack_entries(positions, sizes, codes), sum(sizes))
        return list(range(first, queue.end_offset)), (queue,)
    queues: dict[int, ConsumeQueue] = {}
    offsets = []
    for queue_id, position, size, code in zip(queue_ids, positions, sizes, codes or repeat(0), strict=False):
        if queue_id not in queues:
            queues[queue_id] = store.queues.ensure(topic, queue_id)
        offsets.append(queues[queue_id].append(position, size, code))
    return offsets, queues.values()


class Places(NamedTuple):
    """Where records stand, column by column."""

    queue_ids: Sequence[int]
    offsets: Sequence[int]
    positions: Sequence[int]
    sizes: Sequence[int]


def is_short(name: bytes, born_host: bytes, host: bytes) -> bool:
    """Tell whether records can be made column by column: as usual, with addresses of IPv4."""
    return len(born_host) == 8 and len(host) == 8 and len(name) <= _TOPIC_LIMIT


def _same(sent: Together, host: bytes) -> bytes:
    """Return what is the same in all records of the same time and hosts."""
    return _SAME(sent.sys_flag & NOT_IPV6, sent.born_ms, sent.born_host, sent.store_ms, host, 0, 0)


def _sames(born_ms: Sequence[int], sent: Together, host: bytes) -> list[bytes]:
    """Return of each record what is the same in all but for the time when it was sent."""
    flag, _, born_host, store_ms = sent
    flag &= NOT_IPV6
    if born_ms.count(born_ms[0]) == len(born_ms):
        return [_SAME(flag, born_ms[0], born_host, store_ms, host, 0, 0)] * len(born_ms)
    return [_SAME(flag, each_ms, born_host, store_ms, host, 0, 0) for each_ms in born_ms]


@twin("records")
def _records(
    name: bytes,
    queue_ids: Sequence[int],
    offsets: Sequence[int],
    positions: Sequence[int],
    sizes: Sequence[int],
    bodies: Sequence[bytes],
    properties: Sequence[bytes],
    flags: Sequence[int],
    sames: Sequence[bytes],
) -> bytes:
    """Return the bytes of records, as ``message.encode`` makes them of short names and addresses."""
    heads = map(
        _START,
        sizes,
        repeat(MAGIC_V1),
        [crc32(body) & MASK31 for body in bodies],
        queue_ids,
        flags,
        offsets,
        positions,
        sames,
        map(len, bodies),
    )
    lengths = list(map(len, properties))
    middles = {length: BYTES[len(name)] + name + U16.pack(length + CRC_SIZE) for length in set(lengths)}
    records = list(map(b"".join, zip(heads, bodies, map(middles.__getitem__, lengths), properties, strict=True)))
    ends = crc_properties(list(map(crc32, records)))
    cut = [ends[at : at + CRC_SIZE] for at in range(0, len(ends), CRC_SIZE)]
    return b"".join(map(add, records, cut))


def _records_one_by_one(name: bytes, places: Places, parts: Parts, sent: Together, host: bytes) -> Iterable[bytes]:
    """Return the bytes of records with long names or addresses."""
    rows = zip(*places, strict=True)
    messages = zip(parts.bodies, parts.properties, parts.flags, strict=True)
    for (queue_id, offset, position, size), (body, raw, flag) in zip(rows, messages, strict=True):
        yield encode(
            name, queue_id, offset, position, body, raw, flag, sent.sys_flag, sent.born_ms, sent.born_host,
            sent.store_ms, host, 0, 0, size,
        )  # fmt: skip


def _index(store: Store, topic: str, parts: Parts, positions: Sequence[int], store_ms: int) -> None:
    """Make records findable by unique id, keys and tags."""
    index = store.index
    if parts.keys:
        index.add_many(index.hashes_of(topic, parts.keys), positions, store_ms)
        return
    _, unique_keys, tags, keys, *_ = zip(*parts.facts, strict=True)
    _index_columns(store, topic, unique_keys, tags, keys, positions, store_ms)


def _index_columns(
    store: Store,
    topic: str,
    unique_keys: Sequence[str | None],
    tags: Sequence[str | None],
    keys: Sequence[str | None],
    positions: Sequence[int],
    store_ms: int,
) -> None:
    """Make records findable by unique id, tags and keys: in one column where all have an id and nothing else."""
    index = store.index
    ids = [each for each in unique_keys if each]
    if len(ids) == len(positions) and not any(tags) and not any(keys):
        index.add_many(index.hashes_of(topic, ids), positions, store_ms)
        return
    texts: list[str] = []
    places: list[int] = []
    for unique_key, tag, words, position in zip(unique_keys, tags, keys, positions, strict=True):
        if unique_key:
            texts.append(f"{topic}#{unique_key}")
            places.append(position)
        if words or tag:
            also = also_indexed(topic, tag, words)
            texts += also
            places += [position] * len(also)
    if places:
        index.add_many(index.hashes(texts), places, store_ms)


# A burst.


#: Fewer copies are made one by one: what they have in common costs more than it saves.
_LEAST_TOGETHER = 6


class Copy(NamedTuple):
    """A record to copy, and the queue it belongs to, which is known to be right."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    unique_key: str | None
    tags: str | None
    keys: str | None
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
    done = stop = 0
    count = len(copies)
    while done < count:
        if done == stop:
            topic = copies[done].topic
            stop = next((at for at in range(done + 1, count) if copies[at].topic != topic), count)
        try:
            if stop - done < _LEAST_TOGETHER:
                _append_copy(store, copies[done], store_ms)
                done += 1
            else:
                done += _append_copies(store, copies[done:stop], store_ms)
        except StoreRefused:
            if not done:
                raise
            break
        if store.log.batch.size_bytes >= store.config.sync_batch_bytes:
            break
    return done


def _append_copy(store: Store, copy: Copy, store_ms: int) -> None:
    topic, queue_id, body, properties, unique_key, tags, keys, _, _, _, born_host, _, _ = copy
    name, host, log, index = store.name_of(topic), store.store_host, store.log, store.index
    size = record_size(name, body, properties, born_host, host)
    position = log.place(size)
    queue = store.queues.ensure(topic, queue_id)
    offset = queue.append(position, size, store.tags_code(tags))
    log.push(_record(name, host, store_ms, copy, offset, position, size), size)
    if unique_key:
        index.add(f"{topic}#{unique_key}", position, store_ms)
    for entry in also_indexed(topic, tags, keys):
        index.add(entry, position, store_ms)
    queue.last_ms = store_ms
    store.appended(size, (queue,), store_ms)


def _record(name: bytes, host: bytes, store_ms: int, copy: Copy, offset: int, position: int, size: int) -> bytes:
    _, queue_id, body, properties, _, _, _, flag, sys_flag, born_ms, born_host, reconsume_times, prepared = copy
    return encode(
        name, queue_id, offset, position, body, properties, flag, sys_flag, born_ms, born_host, store_ms, host,
        reconsume_times, prepared, size,
    )  # fmt: skip


def _append_copies(store: Store, copies: Sequence[Copy], store_ms: int) -> int:
    """Append copies for one topic, as far as this segment and this batch have room; return how many."""
    topic, log, host = copies[0].topic, store.log, store.store_host
    name = store.name_of(topic)
    sizes = [record_size(name, each.body, each.properties, each.born_host, host) for each in copies]
    position = log.place(sizes[0])
    ends = list(accumulate(sizes, initial=position))
    fitting = bisect_right(ends, position + log.room - BLANK_SIZE) - 1
    wanted = bisect_left(ends, position + store.config.sync_batch_bytes - log.batch.size_bytes)
    count = min(fitting, max(wanted, 1), len(copies))
    here, sizes, positions, end = copies[:count], sizes[:count], ends[:count], ends[count]
    _, queue_ids, bodies, raws, unique_keys, tags, keys, flags, *sent = zip(*here, strict=True)
    codes = [store.tags_code(each) for each in tags] if any(tags) else None
    offsets, queues = _enter(store, topic, queue_ids, positions, sizes, codes)
    if all(is_short(name, each.born_host, host) for each in here):
        sames = [_SAME(a & NOT_IPV6, b, c, store_ms, host, d, e) for a, b, c, d, e in zip(*sent, strict=True)]
        records = _records(name, queue_ids, offsets, positions, sizes, bodies, raws, flags, sames)
    else:
        rows = zip(here, offsets, positions, sizes, strict=True)
        records = b"".join([_record(name, host, store_ms, *row) for row in rows])
    log.push(records, end - position)
    _index_columns(store, topic, unique_keys, tags, keys, positions, store_ms)
    for queue in queues:
        queue.last_ms = store_ms
    store.appended(end - position, queues, store_ms)
    return count


# A run.

_PLACE = struct.Struct(">qq")
_TIME = struct.Struct(">q")
#: Where the ten digits stand, from the end of a record.
_DIGITS_BEGIN, _DIGITS_END = 11, 1


class Run:
    """Records back to back in ``data``. ``places`` names the queues (topic, queue id) that ``groups`` counts in."""

    __slots__ = ("data", "groups", "hash_ends", "hashes", "places", "sizes", "starts", "tags_codes", "time_at")

    def __init__(self) -> None:
        self.data = bytearray()
        self.starts = array("I")
        self.sizes = array("I")
        self.time_at = array("B")
        self.groups = array("H")
        self.tags_codes = array("q")
        #: index hashes of all records, and where those of each end
        self.hashes = array("I")
        self.hash_ends = array("I")
        self.places: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return len(self.starts)


def append_run(store: Store, run: Run, begin: int, stop: int, now_ms: int) -> int:
    """Append the records ``begin``..``stop`` of a run; return where it stopped: before ``stop`` if the store is full.

    Raises StoreRefused, OSError; then nothing was appended.
    """
    queues = [store.queues.ensure(topic, queue_id) for topic, queue_id in run.places]
    at = begin
    while at < stop:
        try:
            at = _append_part(store, run, at, stop, now_ms, queues)
        except Exception:
            if at == begin:
                raise
            return at
    return at


def _append_part(store: Store, run: Run, begin: int, stop: int, now_ms: int, queues: list[ConsumeQueue]) -> int:
    """Append as much as fits the segment; return where it stopped."""
    log = store.log
    starts, sizes = run.starts, run.sizes
    position = log.place(sizes[begin])
    room = log.room - BLANK_SIZE
    first = starts[begin]
    if starts[stop - 1] + sizes[stop - 1] - first > room:
        stop = begin + 1
        while starts[stop] + sizes[stop] - first <= room:
            stop += 1
    last = starts[stop - 1] + sizes[stop - 1]
    _fill_in(run, begin, stop, position, now_ms, queues)
    size = last - first
    log.push(bytes(memoryview(run.data)[first:last]), size)
    base = position - first
    low, ends = run.hash_ends[begin - 1] if begin else 0, run.hash_ends[begin:stop]
    if ends[-1] > low:
        counts = map(sub, ends, chain((low,), ends))
        positions = list(chain.from_iterable(map(repeat, [base + start for start in starts[begin:stop]], counts)))
        store.index.add_many(list(run.hashes[low : ends[-1]]), positions, now_ms)
    store.appended(size, {queues[group] for group in set(run.groups[begin:stop])}, now_ms)
    return stop


def _fill_in(run: Run, begin: int, stop: int, position: int, now_ms: int, queues: list[ConsumeQueue]) -> None:
    """Write place, time and checksum into the records, and their queue entries."""
    columns = run.starts, run.sizes, run.time_at, run.groups, run.tags_codes
    following = [queue.end_offset for queue in queues]
    tails, totals = _place(run.data, *columns, begin, stop, position, now_ms, following)
    for queue, tail, size_bytes in zip(queues, tails, totals, strict=True):
        if tail:
            queue.append_many(tail, size_bytes)
            queue.last_ms = now_ms


@twin("place_records")
def _place(
    data: bytearray,
    starts: array[int],
    sizes: array[int],
    time_at: array[int],
    groups: array[int],
    codes: array[int],
    begin: int,
    stop: int,
    position: int,
    now_ms: int,
    following: Sequence[int],
) -> tuple[Sequence[bytes | bytearray], list[int]]:
    """Write place, time and checksum into the records ``begin``..``stop``; ``following`` is each queue's next offset.
    Return the entries of each queue, and how many bytes it got."""
    place_into, time_into, entry = _PLACE.pack_into, _TIME.pack_into, ENTRY.pack
    offsets, tails, totals = [*following], [bytearray() for _ in following], [0] * len(following)
    with memoryview(data) as view:
        for number in range(begin, stop):
            at, size, group = starts[number], sizes[number], groups[number]
            place_into(data, at + QUEUE_OFFSET_AT, offsets[group], position)
            offsets[group] += 1
            time_into(data, at + time_at[number], now_ms)
            end = at + size
            digits = b"%010d" % (crc32(view[at : end - CRC_SIZE]) & MASK31)
            view[end - _DIGITS_BEGIN : end - _DIGITS_END] = digits[::-1]
            tails[group] += entry(position, size, codes[number])
            totals[group] += size
            position += size
    return tails, totals
