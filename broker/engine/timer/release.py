"""Releasing what is due: encoded ahead of its moment, appended in order at its moment, never before it, each once.

Timers are encoded for their real topic as soon as their second was read: then only place, time and checksum are
missing. They are appended as a run (log/append.py).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...rocketmq.layout import (
    ANY_IPV6,
    BODY_LENGTH_AT,
    CRC_NAME,
    CRC_SIZE,
    HEAD,
    HOST_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX,
    QUEUE_ID_AT,
    STORE_HOST_AT,
    STORE_TIME_AT,
    U16,
    U32,
)
from ...rocketmq.message import Message, decode, encode, is_sound, pack_host, record_size
from ...rocketmq.properties import DUE_MS, KEYS, REAL_QUEUE_ID, REAL_TOPIC, SOURCE, TAGS, UNIQUE_KEY, format_properties
from ...rocketmq.topics import TIMER_TOPIC
from ..errors import CorruptRecord, RecordNotFound
from ..log.append import Run, append_run
from ..queues.repair import QueueRepair
from ..store import Store
from .due import Due, Entry, Ready
from .index import TimerIndex
from .state import TimerStates, due_ms_of, timer_of

# Encoding ahead.

#: Records so close to each other are read together, up to so many bytes.
_NEAR_BYTES, _RUN_BYTES = 4 << 10, 512 << 10
_OWN_TOPIC = bytes([len(TIMER_TOPIC)]) + TIMER_TOPIC.encode()
_CHECKSUM_PLACE = CRC_NAME + b"0" * 10 + b"\x02"
_QUEUE_ID = struct.Struct(">i")
_FULL_LIMIT = 32_767
_TAG_LIMIT = 4_096


class Preparer:
    """Reads parked records and encodes them for where they belong now, which ``place(topic, queue id)`` says."""

    def __init__(self, store: Store, repair: QueueRepair, place: Callable[[str, int], tuple[str, int]]) -> None:
        self._store = store
        self._repair = repair
        self._place = place
        #: by topic: its length and name as they stand in a record, and whether that takes a wide one (v2)
        self._topics: dict[str, tuple[bytes, bool]] = {}
        self._tags: dict[tuple[str, bytes], tuple[int, int]] = {}
        host = store.store_host
        #: records are encoded the fast way only where they come from an IPv4 address and go to one
        self._host, self._is_v4 = host, len(host) == 8

    def prepare(self, entries: Sequence[Entry], misfits: list[Entry]) -> Ready:
        """Return the entries as records; ``misfits`` takes those that are not what the timer log says."""
        ready = Ready()
        groups: dict[bytes, int] = {}
        for entry, raw in zip(entries, self._read(entries), strict=True):
            if not self._add(ready, groups, entry, raw):
                misfits.append(entry)
        return ready

    def _read(self, entries: Sequence[Entry]) -> list[bytes]:
        """Return what stands where the entries lead, in few calls."""
        chain = self._store.log.chain
        records: list[bytes] = []
        at, count = 0, len(entries)
        while at < count:
            start = entries[at].position
            end = start + entries[at].size
            border = start - start % chain.segment_size + chain.segment_size
            stop = at + 1
            while stop < count:
                following = entries[stop].position
                if not 0 <= following - end <= _NEAR_BYTES or following >= border or end - start > _RUN_BYTES:
                    break
                end = following + entries[stop].size
                stop += 1
            try:
                data = chain.read(start, end - start)
            except RecordNotFound:
                data = b""
            if stop == at + 1:
                records.append(data)
            else:
                records += [data[e.position - start : e.position - start + e.size] for e in entries[at:stop]]
            at = stop
        return records

    def _add(self, ready: Ready, groups: dict[bytes, int], entry: Entry, raw: bytes) -> bool:
        """Add one record; False if it is not the timer that the entry speaks of."""
        due_ms, offset, position, size = entry
        if len(raw) != size or is_sound(raw, position) is not None:
            return False
        _, _, _, _, _, own_offset, _, sys_flag, _ = HEAD.unpack_from(raw)
        at = BODY_LENGTH_AT + U32.size + U32.unpack_from(raw, BODY_LENGTH_AT)[0]
        # as parked here: the properties end with where and when, then the checksum
        where, when = raw.rfind(_WHERE, at), raw.rfind(_WHEN, at)
        if (
            own_offset != offset
            or not self._is_v4
            or sys_flag & ANY_IPV6
            or not 0 < where < when
            or raw[at : at + 20] != _OWN_TOPIC
            or raw[when + len(_WHEN) : -CRC_SIZE] != b"%d\x02" % due_ms
            or raw[-CRC_SIZE:-11] != CRC_NAME
        ):
            return self._add_slowly(ready, groups, entry, raw)
        if self._store.topics.cancelled and self._is_cancelled(raw[where:when], position):
            return False
        run = ready.run
        group = groups.get(raw[where:when])
        if group is None:
            group = self._group_of(run, groups, raw[where:when])
        properties = raw[at + 22 : -CRC_SIZE]
        source = _SOURCE_IS % position
        length = len(properties) + len(source) + CRC_SIZE
        if length > _FULL_LIMIT or group < 0:
            return self._add_slowly(ready, groups, entry, raw)
        topic, queue_id = run.places[group]
        topic_head, wide = self._topics[topic]
        record = b"".join((raw[:at], topic_head, U16.pack(length), properties, source, _CHECKSUM_PLACE))
        data = run.data
        start = len(data)
        data += record
        PREFIX.pack_into(data, start, len(record), MAGIC_V2 if wide else MAGIC_V1)
        _QUEUE_ID.pack_into(data, start + QUEUE_ID_AT, queue_id)
        data[start + STORE_HOST_AT : start + STORE_HOST_AT + HOST_SIZE] = self._host
        run.starts.append(start)
        run.sizes.append(len(record))
        run.time_at.append(STORE_TIME_AT)
        run.groups.append(group)
        self._add_keys(run, topic, properties)
        ready.dues.append(due_ms)
        ready.offsets.append(offset)
        return True

    def _is_cancelled(self, where: bytes, position: int) -> bool:
        """Tell whether the topic was deleted with all that waited for it; ``where`` names it."""
        name = field_of(where, _REAL_TOPIC)
        return name is not None and self._store.topics.is_cancelled(name.decode(), position)

    def _add_keys(self, run: Run, topic: str, properties: bytes) -> None:
        """Add index hashes and tags code."""
        hashes, hash_of = run.hashes, self._store.index.hash_of
        unique_key = field_of(properties, _UNIQUE_KEY)
        if unique_key:
            hashes.append(hash_of(f"{topic}#{unique_key.decode()}"))
        if _KEYS in properties and (keys := field_of(properties, _KEYS)):
            for key in keys.decode().split():
                hashes.append(hash_of(f"{topic}#{key}"))
        code = 0
        if _TAGS in properties and (tags := field_of(properties, _TAGS)):
            known = self._tags.get((topic, tags))
            if known is None:
                known = self._tag_of(topic, tags)
            hashes.append(known[0])
            code = known[1]
        run.tags_codes.append(code)
        run.hash_ends.append(len(hashes))

    def _tag_of(self, topic: str, tags: bytes) -> tuple[int, int]:
        """Return index hash and tags code of a tag, remembered: there are few of them."""
        if len(self._tags) >= _TAG_LIMIT:
            self._tags.clear()
        text = tags.decode()
        found = self._store.index.hash_of(f"{topic}#T#{text}"), self._store.tags_code(text)
        self._tags[topic, tags] = found
        return found

    def _group_of(self, run: Run, groups: dict[bytes, int], where: bytes) -> int:
        """Return the number of a queue in a run, -1 if the record does not say where it belongs."""
        name, queue_id = field_of(where, _REAL_TOPIC), field_of(where, _REAL_QID)
        if not name or queue_id is None or not queue_id.isdigit():
            return -1
        place = self._place(name.decode(), int(queue_id))
        if place[0] not in self._topics:
            wide = len(name) > 127
            self._topics[place[0]] = (U16.pack(len(name)) if wide else bytes([len(name)])) + name, wide
        if place not in run.places:
            run.places.append(place)
        number = groups[where] = run.places.index(place)
        return number

    def _add_slowly(self, ready: Ready, groups: dict[bytes, int], entry: Entry, raw: bytes) -> bool:
        """Add a record of any form: with IPv6 addresses, or written by Apache RocketMQ."""
        try:
            message = decode(raw, verify=False)
        except CorruptRecord:
            return False
        if (message.topic, message.queue_offset) != (TIMER_TOPIC, entry.offset) or due_ms_of(message) != entry.due_ms:
            return False
        properties = {**message.properties, SOURCE: str(entry.position)}
        if self._store.topics.is_cancelled(properties.get(REAL_TOPIC, ""), entry.position):
            return False
        name = properties.get(REAL_TOPIC, "").encode()
        where = b"%s%s\x02%s%s\x02" % (_REAL_TOPIC, name, _REAL_QID, properties.get(REAL_QUEUE_ID, "").encode())
        group = self._group_of(ready.run, groups, where)
        if group < 0:
            return False
        stored = format_properties(properties)
        if len(stored) + CRC_SIZE > _FULL_LIMIT:
            stored = format_properties({k: v for k, v in properties.items() if k not in (REAL_TOPIC, REAL_QUEUE_ID)})
        run = ready.run
        born_host = pack_host(*message.born_host)
        size = record_size(name, message.body, stored, born_host, self._host)
        run.starts.append(len(run.data))
        run.sizes.append(size)
        run.time_at.append(48 + len(born_host))
        run.groups.append(group)
        run.data += self._encoded(message, name, run.places[group][1], stored, born_host, size)
        self._add_keys(run, name.decode(), stored)
        ready.dues.append(entry.due_ms)
        ready.offsets.append(entry.offset)
        return True

    def _encoded(
        self, message: Message, name: bytes, queue_id: int, stored: bytes, born_host: bytes, size: int
    ) -> bytes:
        again, times = message.prepared_position, message.reconsume_times
        flags = (message.flag, message.sys_flag, message.born_ms, born_host)
        return encode(name, queue_id, 0, 0, message.body, stored, *flags, 0, self._host, times, again, size)


def field_of(properties: bytes, mark: bytes) -> bytes | None:
    """Return the value of a property in stored form; ``mark`` is its name and separator. The last one counts."""
    at = properties.rfind(mark)
    while at > 0 and properties[at - 1] != 2:
        at = properties.rfind(mark, 0, at)
    if at < 0:
        return None
    start = at + len(mark)
    end = properties.find(b"\x02", start)
    return properties[start:] if end < 0 else properties[start:end]


_SOURCE_IS = SOURCE.encode() + b"\x01%d\x02"
_WHERE, _WHEN = b"\x02%s\x01" % REAL_TOPIC.encode(), b"\x02%s\x01" % DUE_MS.encode()
_REAL_TOPIC, _REAL_QID = REAL_TOPIC.encode() + b"\x01", REAL_QUEUE_ID.encode() + b"\x01"
_UNIQUE_KEY, _TAGS, _KEYS = UNIQUE_KEY.encode() + b"\x01", TAGS.encode() + b"\x01", KEYS.encode() + b"\x01"


# Releasing.

#: Timers released, records encoded, units read in one tick: a herd does not keep the broker from answering, and where
#: there is none a tick takes about a millisecond, so that what is due meanwhile is not late.
RELEASES_PER_TICK = 1_000
_PREPARED_PER_TICK, _FEW_PREPARED = 250, 32
_LOADED_PER_TICK, _FEW_LOADED = 2_000, 128
#: A herd: what is loaded, or a second that holds, so many times the few.
_MANY = 128
#: How much may be loaded and encoded ahead.
LOADED_LIMIT = 600_000
READY_LIMIT_BYTES = 112 << 20


class Released(NamedTuple):
    """Noted on released records: timers ``begin``..``stop`` of a run; ``asked`` for before their moment."""

    ready: Ready
    begin: int
    stop: int
    asked: bool = False


class Releaser:
    """Moves timers from the wheel to their real topics, a portion with each tick.

    ``note`` is told of each portion when it was appended.
    """

    def __init__(
        self,
        store: Store,
        states: TimerStates,
        index: TimerIndex,
        repair: QueueRepair,
        preparer: Preparer,
        note: Callable[[Released], None],
    ) -> None:
        self._store = store
        self._states = states
        self._index = index
        self._repair = repair
        self._preparer = preparer
        self._note = note

    # ahead of the moment

    def get_ready(self, due: Due, now_ms: int) -> bool:
        """Read and encode a portion ahead; return whether there is more to do."""
        until = due.ahead.until(now_ms // 1000, due.read_second)
        budget = min(max(due.loading_number // _MANY, _FEW_LOADED), _LOADED_PER_TICK)
        used = self._load(due, until, budget, now_ms)
        more = due.is_loading or (due.loaded < LOADED_LIMIT and due.find_next(until) is not None)
        if due.has_unready and due.ready_bytes < READY_LIMIT_BYTES:
            if used < budget or budget > _FEW_LOADED:
                self._prepare(due, min(max(due.loaded // _MANY, _FEW_PREPARED), _PREPARED_PER_TICK))
            more |= due.has_unready and due.ready_bytes < READY_LIMIT_BYTES
        return more

    def _load(self, due: Due, until: int, budget: int, now_ms: int) -> int:
        """Read units, and put those further that only pass through; return how many were looked at."""
        used = 0
        while used < budget:
            if due.rolling:
                used += self._index.roll(due, budget - used, now_ms)
                continue
            step = due.load(until, budget - used) if due.loaded < LOADED_LIMIT else 0
            used += step
            if not step and not due.rolling:
                break
        return used

    def _prepare(self, due: Due, count: int) -> None:
        entries = due.take(count)
        ready = self._encode(due, entries)
        if len(ready):
            due.ready.append(ready)
            due.ready_bytes += len(ready.run.data)

    def _encode(self, due: Due, entries: list[Entry]) -> Ready:
        waits = self._states.waits
        misfits: list[Entry] = []
        ready = self._preparer.prepare([entry for entry in entries if waits(entry.offset)], misfits)
        for entry in misfits:
            self._put_right(due, entry)
        return ready

    def _put_right(self, due: Due, entry: Entry) -> None:
        """End a timer that can never be delivered; where a unit leads to another timer than it says, read all anew."""
        try:
            timer = timer_of(self._repair.message_of(TIMER_TOPIC, 0, entry.offset))
        except (RecordNotFound, CorruptRecord):
            # damaged, and reported as such: nothing can be delivered
            self._states.end(entry.offset, "")
            return
        if Entry(timer.due_ms, timer.offset, timer.position, timer.size) == entry:
            # a sound record that does not say where it belongs, or whose topic was deleted with all that waited
            self._states.end(entry.offset, timer.topic)
        else:
            due.broken = True

    def drop(self, due: Due, topic: str) -> None:
        """Mark the timers that are encoded for a topic as over, as it was deleted with all that waited for it."""
        states = self._states
        for ready in due.ready:
            places, groups = ready.run.places, ready.run.groups
            for number in range(ready.at, len(ready)):
                if places[groups[number]][0] == topic and states.waits(ready.offsets[number]):
                    states.end(ready.offsets[number], topic)

    # at the moment

    def release(self, due: Due, now_ms: int, room: int) -> int:
        """Append what is due, at most ``room``; return how many. Raises StoreRefused, OSError if nothing could be."""
        count = 0
        while count < room:
            if not due.ready:
                head = due.head()
                if head is None or head[0] > now_ms:
                    break
                self._prepare(due, min(room - count, _PREPARED_PER_TICK))
                continue
            ready = due.ready[0]
            late = due.heap_head()
            if late is not None and late[0] <= now_ms and late < ready.head:
                count += self._release_late(due, now_ms, ready.head, room - count)
                continue
            if ready.dues[ready.at] > now_ms:
                break
            stop = self._stop_of(ready, now_ms, late, room - count)
            count += stop - ready.at
            self._append(ready, stop, now_ms)
            if ready.at == len(ready):
                due.ready.popleft()
                due.ready_bytes -= len(ready.run.data)
            if ready.at < stop:
                break
        return count

    def _stop_of(self, ready: Ready, now_ms: int, late: tuple[int, int] | None, room: int) -> int:
        """Return the end of the part that may go now."""
        dues, stop = ready.dues, ready.at
        limit = min(len(dues), stop + room)
        if late is not None and late[0] <= now_ms:
            offsets = ready.offsets
            while stop < limit and dues[stop] <= now_ms and (dues[stop], offsets[stop]) <= late:
                stop += 1
            return stop
        if dues[limit - 1] <= now_ms:
            return limit
        while dues[stop] <= now_ms:
            stop += 1
        return stop

    def _release_late(self, due: Due, now_ms: int, before: tuple[int, int], room: int) -> int:
        entries = due.take_late(now_ms, before, min(room, _PREPARED_PER_TICK))
        ready = self._encode(due, entries)
        try:
            while ready.at < len(ready):
                at = ready.at
                self._append(ready, len(ready), now_ms)
                if ready.at == at:
                    break
        finally:
            # what the store did not take stays due
            by_offset = {entry.offset: entry for entry in entries}
            for offset in ready.offsets[ready.at :]:
                due.insert(*by_offset[offset])
        return len(entries)

    def _append(self, ready: Ready, stop: int, now_ms: int) -> None:
        """Append timers up to ``stop``, but not those that are over meanwhile."""
        if self._states.all_wait(ready.offsets[ready.at : stop]):
            self._append_part(ready, stop, now_ms)
            return
        for number in range(ready.at, stop):
            if self._states.waits(ready.offsets[number]):
                self._append_part(ready, number + 1, now_ms)
                if ready.at <= number:
                    return
            else:
                ready.at = number + 1

    def release_one(self, entry: Entry, now_ms: int) -> bool:
        """Release a timer before its moment; False if its record is not what it must be. Raises StoreRefused."""
        ready = self._preparer.prepare([entry], [])
        if not len(ready):
            return False
        self._append_part(ready, 1, now_ms, asked=True)
        return True

    def _append_part(self, ready: Ready, stop: int, now_ms: int, *, asked: bool = False) -> None:
        begin = ready.at
        reached = append_run(self._store, ready.run, begin, stop, now_ms)
        self._states.claim_portion(ready.offsets[begin:reached], ready.dues[begin])
        ready.at = reached
        self._note(Released(ready, begin, reached, asked))
        self._store.seal_if_full()

    def released(self, note: Released) -> dict[tuple[str, int], int]:
        """Mark the timers of a portion as over, as it is visible now; return how many it has of each (topic, due ms).

        Nothing is returned of what was asked for before its moment: that is neither late nor early.
        """
        ready, begin, stop, asked = note
        places = ready.run.places
        found: dict[tuple[str, int], int] = {}
        by_topic: dict[str, int] = {}
        together = Counter(zip(ready.run.groups[begin:stop], ready.dues[begin:stop], strict=True))
        for (group, due_ms), number in together.items():
            topic = places[group][0]
            by_topic[topic] = by_topic.get(topic, 0) + number
            found[topic, due_ms] = found.get((topic, due_ms), 0) + number
        self._states.end_portion(ready.offsets[begin:stop], by_topic)
        return {} if asked else found
