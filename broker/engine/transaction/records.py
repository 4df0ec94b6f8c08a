"""The forms of records of transactions: halves and the copies they may become, op records, note records.

A half is the client's message with the broker's own properties; its copy goes to the real topic when it is committed.
The halves of one producer differ in little but their unique key: what the properties around it mean is remembered.

An op record says which halves were decided, how, and by whom:

    topic RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0, tag "d"
    body             12,15,13,          half offsets in order of arrival, each followed by a comma (RocketMQ's form)
    ESC_DECISIONS    c0r1c0             ours: for each offset c (commit) or r (rollback), and who: a number in
    ESC_DECIDERS     [["producer 10.0.0.7:50112", ""], ["ann", "stuck since noon"]]    ours: [who, reason], JSON

RocketMQ says only that an offset was decided; a record without our properties is read so.

A note record says what happened to open halves beside a decision. Note records are ours; RocketMQ has no such topic:

    topic rmq_sys_esc_checks, queue 0
    tag "check"      body 12:3,15:1,    half offset and how often it was asked about by now, each followed by a comma
    tag "resume"     body 12,15,        half offsets that were parked and are open again; who and why in ESC_DECIDERS

One record holds the checks of one moment. The store time of the record is when they were sent.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import add
from typing import NamedTuple

from ...rocketmq.properties import (
    CHECK_IMMUNITY_S,
    CHECK_TIMES,
    DECIDERS,
    DECISIONS,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SOURCE,
    TAGS,
    TIMER_ACT,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    WAIT,
    format_properties,
    parse_properties,
)
from ..message_header import Facts, facts_of, keys_alike, value_in

# Half records, and their copies.

#: Properties that the broker writes itself: what a client says of them is dropped.
_OURS = (CHECK_TIMES, PREPARED_QUEUE_OFFSET, SOURCE, REAL_TOPIC, REAL_QUEUE_ID, TRANSACTION_ID)
_OUR_MARKS = tuple(f"{name}\x01".encode() for name in _OURS)
_PREPARED = f"{TRANSACTION_PREPARED}\x01true\x02".encode()
_IMMUNITY = CHECK_IMMUNITY_S.encode()
#: Nobody means more than ten years.
_LONGEST_IMMUNITY_S = 315_360_000
_ID_IS = f"{TRANSACTION_ID}\x01%b\x02".encode()
_UNIQUE = f"{UNIQUE_KEY}\x01".encode()
#: Endings of properties remembered, one for each queue of a real topic; and properties without their unique key.
_TAIL_LIMIT, _KIND_LIMIT = 10_000, 1_000


class Begun(NamedTuple):
    """A half message in its two forms, and what it asks for.

    ``half``: what is stored now. ``copy``: what will be, if it is committed, but for the property that names the half.
    ``immunity_ms``: how long its producer wants not to be asked; None is as long as usual. ``asks_for_delay``: its
    commit is more than a copy on the real topic.
    """

    half: Facts
    copy: Facts
    group: str
    immunity_ms: int | None
    asks_for_delay: bool


class BegunAll(NamedTuple):
    """Half messages that came together in their two forms, column by column; none of them asks for a delay."""

    stored: Sequence[bytes]
    copies: Sequence[Facts]
    groups: Sequence[str]
    immunities_ms: Sequence[int | None]
    plain_keys: Sequence[str]
    """Their unique ids if that is all they are found by, else nothing."""


class _Kind(NamedTuple):
    """The facts that halves share whose properties differ in the unique key only."""

    tags: str | None
    keys: str | None
    group: str
    immunity_ms: int | None


class HalfBuilder:
    """Turns what a client sends into half records."""

    def __init__(self) -> None:
        self._tails: dict[tuple[str, int], bytes] = {}
        self._kinds: dict[bytes, _Kind] = {}

    def begin_known(self, topic: str, queue_id: int, raw: bytes) -> Begun | None:
        """Return the half of a message with these properties as they were sent; None if no such one was begun yet."""
        at = raw.find(_UNIQUE)
        if at < 0:
            return None
        start = at + len(_UNIQUE)
        end = raw.find(b"\x02", start)
        kind = self._kinds.get(raw[:start] + raw[end:])
        if kind is None:
            return None
        unique_key = raw[start:end]
        if not unique_key.isalnum():
            return None
        tags, keys, group, immunity_ms = kind
        stored = raw + _ID_IS % unique_key
        key = unique_key.decode()
        tail = self._tail(topic, queue_id)
        half, copy = Facts(stored + tail, key, tags, keys), Facts(stored, key, tags, keys)
        return Begun(half, copy, group, immunity_ms, False)

    def begin_alike(self, topic: str, queue_ids: Sequence[int], raws: Sequence[bytes]) -> BegunAll | None:
        """Return halves as ``begin_known`` does of messages whose properties differ in their unique keys only; None if
        they differ in more, or no such one was begun yet."""
        first, count = raws[0], len(raws)
        at = first.find(_UNIQUE)
        start = at + len(_UNIQUE)
        end = first.find(b"\x02", start)
        kind = self._kinds.get(first[:start] + first[end:]) if at >= 0 else None
        keys = keys_alike(raws, start, end) if kind is not None else None
        if kind is None or keys is None or not "".join(keys).isalnum():
            return None
        ids = [_ID_IS % key.encode() for key in keys]
        copies = list(map(add, raws, ids))
        tails = {queue_id: self._tail(topic, queue_id) for queue_id in set(queue_ids)}
        stored = list(map(add, copies, map(tails.__getitem__, queue_ids)))
        rows = zip(
            copies, keys, repeat(kind.tags), repeat(kind.keys), repeat(0), repeat(""), repeat(None), strict=False
        )
        facts = list(map(tuple.__new__, repeat(Facts), rows))
        plain_keys = () if kind.tags or kind.keys else keys
        return BegunAll(stored, facts, [kind.group] * count, [kind.immunity_ms] * count, plain_keys)

    def begin_each(self, topic: str, queue_ids: Sequence[int], raws: Sequence[bytes]) -> BegunAll | None:
        """Return halves, each of which is read; None if one is more than a message that waits for its decision.

        Raises InvalidProperties, InvalidDelayLevel.
        """
        begun: list[Begun] = []
        for queue_id, raw in zip(queue_ids, raws, strict=True):
            half = self.begin_known(topic, queue_id, raw) or self.begin(topic, queue_id, facts_of(raw), raw)
            if half.asks_for_delay or not half.group:
                return None
            begun.append(half)
        halves, copies, groups, immunities_ms, _ = zip(*begun, strict=True)
        stored, keys, tags, words, *_ = zip(*halves, strict=True)
        plain_keys = keys if all(keys) and not (any(tags) or any(words)) else ()
        return BegunAll(stored, copies, groups, immunities_ms, plain_keys)

    def _learn(self, raw: bytes, begun: Begun) -> None:
        """Remember the properties of a half, if all that is special about them is what they say."""
        key = (begun.copy.unique_key or "").encode()
        at = raw.find(_UNIQUE)
        start = at + len(_UNIQUE)
        end = raw.find(b"\x02", start)
        if (
            begun.asks_for_delay
            or at < 0
            or raw.count(_UNIQUE) > 1
            or raw[start:end] != key
            or not key.isalnum()
            or begun.copy.stored != raw + _ID_IS % key
        ):
            return
        if len(self._kinds) >= _KIND_LIMIT:
            self._kinds.clear()
        kind = _Kind(begun.copy.tags, begun.copy.keys, begun.group, begun.immunity_ms)
        self._kinds[raw[:start] + raw[end:]] = kind

    def begin(self, topic: str, queue_id: int, facts: Facts, raw: bytes) -> Begun:
        """Return the half of a message for a queue. ``raw``: its properties as they were sent; ``group`` is empty if
        they name none."""
        stored = facts.stored
        if _PREPARED not in stored or any(mark in stored for mark in _OUR_MARKS):
            properties = parse_properties(stored)
            for name in _OURS:
                properties.pop(name, None)
            stored = format_properties(properties | {TRANSACTION_PREPARED: "true"})
        text = stored.decode()
        group = value_in(text, PRODUCER_GROUP) or ""
        immunity_ms = None
        if _IMMUNITY in stored:
            immunity_ms = immunity_of(value_in(text, CHECK_IMMUNITY_S))
        if facts.unique_key:
            stored += _ID_IS % facts.unique_key.encode()
        tail = self._tail(topic, queue_id)
        half = Facts(stored + tail, facts.unique_key, facts.tags, facts.keys)
        copy = Facts(stored, facts.unique_key, facts.tags, facts.keys)
        is_plain = not (facts.delay_level or facts.timer or TIMER_ACT in text)
        begun = Begun(half, copy, group, immunity_ms, not is_plain)
        if group:
            self._learn(raw, begun)
        return begun

    def _tail(self, topic: str, queue_id: int) -> bytes:
        tail = self._tails.get((topic, queue_id))
        if tail is None:
            if len(self._tails) >= _TAIL_LIMIT:
                self._tails.clear()
            tail = f"{REAL_TOPIC}\x01{topic}\x02{REAL_QUEUE_ID}\x01{queue_id}\x02".encode()
            self._tails[topic, queue_id] = tail
        return tail


def immunity_of(text: str | None) -> int | None:
    """Return the ms that a half wants not to be asked about, None if it does not say so in whole seconds."""
    if text and text.isascii() and text.isdigit() and len(text) < 12:
        return min(int(text), _LONGEST_IMMUNITY_S) * 1000
    return None


# Op records.

#: TransactionalMessageUtil.REMOVE_TAG
OP_TAG = "d"
#: Bytes of offsets in one op record (BrokerConfig.transactionOpMsgMaxSize).
OP_BODY_BYTES = 4096
#: Bytes of ESC_DECIDERS in one op record: properties have 32 KiB in all.
_DECIDERS_BYTES = 16_384
#: Who and why are cut to this many characters.
_NAME_LENGTH = 200

_PAIR = re.compile(r"([cr])(\d+)")


class Decision(NamedTuple):
    """The decision about one half. ``commit`` is None where an op record of Apache RocketMQ does not say."""

    offset: int
    commit: bool | None
    by: str
    reason: str = ""

    @property
    def word(self) -> str:
        """The decision as texts for people call it."""
        return "decided" if self.commit is None else "committed" if self.commit else "rolled back"


class OpRecord(NamedTuple):
    """Body and properties of an op record, and what it says."""

    body: bytes
    properties: dict[str, str]
    decisions: Sequence[Decision]


def op_records(decisions: Sequence[Decision]) -> Iterator[OpRecord]:
    """Yield the records that say these decisions, each as large as RocketMQ's may be."""
    whole = _record(decisions)
    if len(whole.body) <= OP_BODY_BYTES and len(whole.properties[DECIDERS]) <= _DECIDERS_BYTES:
        yield whole
        return
    waiting: list[Decision] = []
    deciders: set[tuple[str, str]] = set()
    size = deciders_size = 0
    for decision in decisions:
        named = len(str(decision.offset)) + 1
        decider = (decision.by[:_NAME_LENGTH], decision.reason[:_NAME_LENGTH])
        # a character takes at most twelve bytes of JSON
        most = 16 + 12 * (len(decider[0]) + len(decider[1]))
        more = 0 if decider in deciders else most
        if waiting and (size + named > OP_BODY_BYTES or deciders_size + more > _DECIDERS_BYTES):
            yield _record(waiting)
            waiting, size, deciders_size, more = [], 0, 0, most
            deciders.clear()
        waiting.append(decision)
        deciders.add(decider)
        size += named
        deciders_size += more
    yield _record(waiting)


def _record(decisions: Sequence[Decision]) -> OpRecord:
    numbers: dict[tuple[str, str], int] = {}
    body, said = "", ""
    for offset, commit, by, reason in decisions:
        number = numbers.setdefault((by[:_NAME_LENGTH], reason[:_NAME_LENGTH]), len(numbers))
        body += f"{offset},"
        said += f"{'c' if commit else 'r'}{number}"
    properties = {WAIT: "true", TAGS: OP_TAG, DECISIONS: said, DECIDERS: _written(*numbers)}
    return OpRecord(body.encode(), properties, decisions)


@lru_cache(maxsize=256)
def _written(*deciders: tuple[str, str]) -> str:
    """Return who and why as they stand in a record: mostly one, or the same few again and again."""
    return json.dumps(deciders)


def read_op(body: bytes, properties: dict[str, str]) -> list[Decision]:
    """Return what an op record says; one whose tag is not RocketMQ's says nothing."""
    if properties.get(TAGS) != OP_TAG:
        return []
    offsets = [int(word) for word in body.split(b",") if word.isdigit() and len(word) < 19]
    said = _PAIR.findall(properties.get(DECISIONS, ""))
    try:
        deciders = [(str(who), str(why)) for who, why in json.loads(properties.get(DECIDERS, "[]"))]
    except (ValueError, TypeError, RecursionError):
        deciders = []
    if len(said) != len(offsets):
        return [Decision(offset, None, "") for offset in offsets]
    return [
        Decision(offset, letter == "c", *(deciders[int(number)] if int(number) < len(deciders) else ("", "")))
        for offset, (letter, number) in zip(offsets, said, strict=True)
    ]


# Note records.

CHECK_TAG = "check"
RESUME_TAG = "resume"
#: Halves named by one record: at most some 60 KiB of body.
_MOST_NAMES = 4096
_CHECKS = re.compile(rb"(?:[0-9]{1,18}:[0-9]{1,18},)*")


class NoteRecord(NamedTuple):
    """Body and properties of a note record."""

    body: bytes
    properties: dict[str, str]


def check_records(counts: Iterable[tuple[Sequence[int], int]]) -> Iterator[NoteRecord]:
    """Yield records that say how often halves were asked about: (offsets, count of each of them)."""
    parts: list[str] = []
    free = _MOST_NAMES
    for offsets, count in counts:
        end = f":{count},"
        for at in range(0, len(offsets), _MOST_NAMES):
            part = offsets[at : at + _MOST_NAMES]
            if len(part) > free:
                yield _check_record(parts)
                parts, free = [], _MOST_NAMES
            parts.append(end.join(map(str, part)) + end)
            free -= len(part)
    if parts:
        yield _check_record(parts)


def _check_record(parts: Iterable[str]) -> NoteRecord:
    return NoteRecord("".join(parts).encode(), {WAIT: "true", TAGS: CHECK_TAG})


def resume_record(offset: int, by: str, reason: str) -> NoteRecord:
    """Return the record that opens a parked half again."""
    deciders = json.dumps([[by[:_NAME_LENGTH], reason[:_NAME_LENGTH]]])
    return NoteRecord(b"%d," % offset, {WAIT: "true", TAGS: RESUME_TAG, DECIDERS: deciders})


def read_checks(body: bytes) -> tuple[array[int], array[int]]:
    """Return offsets and counts of a record with tag "check"; what is no such pair is left out."""
    if not _CHECKS.fullmatch(body):
        body = b"".join(pair + b"," for pair in body.split(b",") if _CHECKS.fullmatch(pair + b","))
    numbers = array("q", map(int, body.replace(b":", b",").split(b",")[:-1]))
    return numbers[::2], numbers[1::2]


def read_resumed(body: bytes) -> list[int]:
    """Return the offsets of a record with tag "resume"."""
    return [int(word) for word in body.split(b",") if _is_number(word)]


def read_decider(properties: dict[str, str]) -> tuple[str, str]:
    """Return who and why of a record with tag "resume"."""
    try:
        who, why = json.loads(properties.get(DECIDERS, ""))[0]
        return str(who), str(why)
    except (ValueError, TypeError, IndexError, RecursionError):
        return "", ""


def _is_number(*words: bytes) -> bool:
    return all(word.isdigit() and len(word) < 19 for word in words)
