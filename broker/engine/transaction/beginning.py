"""The form of a half record, and of the copy that it may become."""

from __future__ import annotations

from typing import NamedTuple

from ..properties import (
    CHECK_IMMUNITY_S,
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SOURCE,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    format_properties,
    parse_properties,
)
from ..store.facts import Facts, value_in

#: Properties that the broker writes itself: what a client says of them is dropped.
_OURS = (CHECK_TIMES, PREPARED_QUEUE_OFFSET, SOURCE, REAL_TOPIC, REAL_QUEUE_ID, TRANSACTION_ID)
_OUR_MARKS = tuple(f"{name}\x01".encode() for name in _OURS)
_PREPARED = f"{TRANSACTION_PREPARED}\x01true\x02".encode()
_IMMUNITY = CHECK_IMMUNITY_S.encode()
#: Nobody means more than ten years.
_LONGEST_IMMUNITY_S = 315_360_000
#: Endings of properties remembered, one for each queue of a real topic.
_TAIL_LIMIT = 10_000


class Begun(NamedTuple):
    """``half``: what is stored now; ``copy``: what will be, if it is committed, but for the property that names the
    half. ``immunity_ms``: how long its producer wants not to be asked; None is as long as usual."""

    half: Facts
    copy: Facts
    group: str
    immunity_ms: int | None


class Beginning:
    """Turns what a client sends into half records."""

    def __init__(self) -> None:
        self._tails: dict[tuple[str, int], bytes] = {}

    def begin(self, topic: str, queue_id: int, facts: Facts) -> Begun:
        """Return the half of a message for a queue. ``group`` is empty if the message names none."""
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
            stored += f"{TRANSACTION_ID}\x01{facts.unique_key}\x02".encode()
        tail = self._tails.get((topic, queue_id))
        if tail is None:
            if len(self._tails) >= _TAIL_LIMIT:
                self._tails.clear()
            tail = f"{REAL_TOPIC}\x01{topic}\x02{REAL_QUEUE_ID}\x01{queue_id}\x02".encode()
            self._tails[topic, queue_id] = tail
        half = Facts(stored + tail, facts.unique_key, facts.tags, facts.keys)
        return Begun(half, Facts(stored, facts.unique_key, facts.tags, facts.keys), group, immunity_ms)


def immunity_of(text: str | None) -> int | None:
    """Return the ms that a half wants not to be asked about, None if it does not say so in whole seconds."""
    if text and text.isascii() and text.isdigit() and len(text) < 12:
        return min(int(text), _LONGEST_IMMUNITY_S) * 1000
    return None
