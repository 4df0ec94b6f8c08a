"""The form of a half record, and of the copy that it may become.

The halves of one producer differ in little but their unique key: what the properties around it mean is remembered.
"""

from __future__ import annotations

from typing import NamedTuple

from ...rocketmq.properties import (
    CHECK_IMMUNITY_S,
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SOURCE,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    format_properties,
    parse_properties,
)
from ..message_header import Facts, value_in

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
    """``half``: what is stored now; ``copy``: what will be, if it is committed, but for the property that names the
    half. ``immunity_ms``: how long its producer wants not to be asked; None is as long as usual."""

    half: Facts
    copy: Facts
    group: str
    immunity_ms: int | None
    asks_for_delay: bool


class _Kind(NamedTuple):
    """What halves have in common whose properties differ in the unique key only."""

    tags: str | None
    keys: str | None
    group: str
    immunity_ms: int | None


class Beginning:
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
        tail = self._tails.get((topic, queue_id)) or self._tail_of(topic, queue_id)
        return Begun(
            Facts(stored + tail, key, tags, keys), Facts(stored, key, tags, keys), group, immunity_ms, False
        )  # fmt: skip

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
        tail = self._tails.get((topic, queue_id)) or self._tail_of(topic, queue_id)
        half = Facts(stored + tail, facts.unique_key, facts.tags, facts.keys)
        copy = Facts(stored, facts.unique_key, facts.tags, facts.keys)
        begun = Begun(half, copy, group, immunity_ms, bool(facts.delay_level or facts.timer))
        if group:
            self._learn(raw, begun)
        return begun

    def _tail_of(self, topic: str, queue_id: int) -> bytes:
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
