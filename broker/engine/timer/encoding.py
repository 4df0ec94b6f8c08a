"""Timers encoded for their real topic, as soon as their second was read: what is missing then is place, time and
checksum, and they can be appended as a run (log/append.py).

Those that are as usual are encoded together by a compiled twin, where there is one; every other one by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...rocketmq.compiled import FAST
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
from ..log.append import Run
from ..queues.repair import QueueRepair
from ..store import Store
from .due import Entry, Ready
from .state import due_ms_of

#: Records so close to each other are read together, up to so many bytes.
_NEAR_BYTES, _RUN_BYTES = 4 << 10, 512 << 10
_OWN_TOPIC = bytes([len(TIMER_TOPIC)]) + TIMER_TOPIC.encode()
_CHECKSUM_PLACE = CRC_NAME + b"0" * 10 + b"\x02"
_QUEUE_ID = struct.Struct(">i")
_TIME_AT = bytes([STORE_TIME_AT])
#: A topic's name of 127 bytes or less has one byte for its length, and makes no wide record (v2).
_SHORT_HEAD = 128
_FULL_LIMIT = 32_767
_TAG_LIMIT = 4_096


class Group(NamedTuple):
    """A queue that timers of a run go to: its number in the run, the topic as it stands in a record, length and name,
    the queue's id, and the topic's name."""

    number: int
    head: bytes
    queue_id: int
    topic: str


#: The queue of a timer, by what its record says of where it goes.
Groups = dict[bytes, Group]


class Preparer:
    """Reads parked records and encodes them for where they belong now, which ``place(topic, queue id)`` says."""

    def __init__(self, store: Store, repair: QueueRepair, place: Callable[[str, int], tuple[str, int]]) -> None:
        self._store = store
        self._repair = repair
        self._place = place
        self._tags: dict[tuple[str, bytes], tuple[int, int]] = {}
        host = store.store_host
        #: records are encoded the fast way only where they come from an IPv4 address and go to one
        self._host, self._is_v4 = host, len(host) == 8

    def prepare(self, entries: Sequence[Entry], misfits: list[Entry]) -> Ready:
        """Return the entries as records; ``misfits`` takes those that are not what the timer log says."""
        ready = Ready()
        groups: Groups = {}
        for near, data, start in self._read(entries):
            at = 0
            while at < len(near):
                at += self._add_usual(ready, groups, near, at, data, start)
                if at == len(near):
                    break
                entry = near[at]
                begin = entry.position - start
                if not self._add(ready, groups, entry, data[begin : begin + entry.size]):
                    misfits.append(entry)
                at += 1
        return ready

    def _read(self, entries: Sequence[Entry]) -> Iterator[tuple[Sequence[Entry], bytes, int]]:
        """Read what stands where the entries lead, in few calls; yield entries with bytes and where these begin."""
        chain = self._store.log.chain
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
            yield entries[at:stop], data, start
            at = stop

    def _add_usual(
        self, ready: Ready, groups: Groups, entries: Sequence[Entry], at: int, data: bytes, start: int
    ) -> int:
        """Add the records of entries from ``at`` on, as far as they are usual and their queues are known, by a compiled
        twin; return how many."""
        if FAST is None or not self._is_v4 or self._store.topics.cancelled:
            return 0
        run = ready.run
        made = FAST.due_records(data, start, entries, at, groups, self._host, len(run.data), len(run.hashes))
        if made is None:
            return 0
        run.data += made[0]
        count = len(ready)
        columns = (
            run.starts, run.sizes, run.groups, run.tags_codes, ready.dues, ready.offsets, run.hash_ends, run.hashes,
        )  # fmt: skip
        for column, more in zip(columns, made[1:], strict=True):
            column.frombytes(more)
        count = len(ready) - count
        run.time_at.frombytes(_TIME_AT * count)
        return count

    def _add(self, ready: Ready, groups: Groups, entry: Entry, raw: bytes) -> bool:
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
        group = groups.get(raw[where:when]) or self._group_of(run, groups, raw[where:when])
        properties = raw[at + 22 : -CRC_SIZE]
        source = _SOURCE_IS % position
        length = len(properties) + len(source) + CRC_SIZE
        if length > _FULL_LIMIT or group is None:
            return self._add_slowly(ready, groups, entry, raw)
        record = b"".join((raw[:at], group.head, U16.pack(length), properties, source, _CHECKSUM_PLACE))
        data = run.data
        start = len(data)
        data += record
        PREFIX.pack_into(data, start, len(record), MAGIC_V2 if len(group.head) > _SHORT_HEAD else MAGIC_V1)
        _QUEUE_ID.pack_into(data, start + QUEUE_ID_AT, group.queue_id)
        data[start + STORE_HOST_AT : start + STORE_HOST_AT + HOST_SIZE] = self._host
        run.starts.append(start)
        run.sizes.append(len(record))
        run.time_at.append(STORE_TIME_AT)
        run.groups.append(group.number)
        self._add_keys(run, group.topic, properties)
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

    def _group_of(self, run: Run, groups: Groups, where: bytes) -> Group | None:
        """Return the queue that a record names, None if it does not say where it belongs."""
        name, queue_id = field_of(where, _REAL_TOPIC), field_of(where, _REAL_QID)
        if not name or queue_id is None or not queue_id.isdigit():
            return None
        place = self._place(name.decode(), int(queue_id))
        if place not in run.places:
            run.places.append(place)
        head = (bytes([len(name)]) if len(name) < _SHORT_HEAD else U16.pack(len(name))) + name
        group = groups[where] = Group(run.places.index(place), head, place[1], place[0])
        return group

    def _add_slowly(self, ready: Ready, groups: Groups, entry: Entry, raw: bytes) -> bool:
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
        if group is None:
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
        run.groups.append(group.number)
        run.data += self._encoded(message, name, group.queue_id, stored, born_host, size)
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
