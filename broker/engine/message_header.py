"""The few properties the broker acts on, found in the stored form of a message's properties without unpacking it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from struct import iter_unpack
from typing import NamedTuple

from ..rocketmq.compiled import FAST, twin
from ..rocketmq.layout import CRC_PROPERTY
from ..rocketmq.properties import (
    DELAY,
    KEYS,
    OWN_PREFIX,
    POP_HANDLE,
    REAL_TOPIC,
    RESERVED,
    SCHEDULE_KEY,
    SOURCE,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELETE,
    TIMER_DELIVER_MS,
    UNIQUE_KEY,
    format_properties,
    parse_properties,
)
from ..rocketmq.topics import TIMER_TOPIC
from .errors import InvalidDelayLevel, InvalidProperties

# What repeats below is no possessive group: Python before 3.11.5 takes those wrong in which alternatives or looks ahead
# stand. It never goes back for long: what one property is follows from its first bytes.
_WELL_FORMED = re.compile("(?:[^\x01\x02]++\x01[^\x02]*+\x02)*").fullmatch
#: Properties in which nothing needs a closer look, with an id, and without tags and keys. Group: the id.
_OTHER = (
    rb"(?:(?!UNIQ_KEY\x01|TAGS\x01|KEYS\x01|DELAY\x01|TIMER_D|ESC_|POP_CK\x01|__CRC32#|TRAN_MSG\x01)"
    rb"[ -~]++\x01[ -~]*+\x02)*"
)
_PLAIN = re.compile(_OTHER + rb"UNIQ_KEY\x01([!-~]++)\x02" + _OTHER).fullmatch
_KEYS = re.compile(rb"[!-~]*+").fullmatch
#: Marks of messages that wait for a moment; taken as ordinary ones they would be delivered too early.
_MOMENTS = frozenset({TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELETE})
#: How all of them begin.
_MOMENT = "TIMER_DE"
#: Well-formed properties in which nothing needs a closer look: at most one moment, in digits, no delay level, no
#: schedule key, nothing that only the broker writes. Groups: unique key, tags, keys, name and digits of the moment.
_USUAL = re.compile(
    "(?:(?:UNIQ_KEY\x01([^\x02]*+)|TAGS\x01([^\x02]*+)|KEYS\x01([^\x02]*+)"
    "|(?(4)(?!))(TIMER_DELAY_MS|TIMER_DELIVER_MS|TIMER_DELAY_SEC)\x01([0-9]{1,15}+)(?=\x02)"
    "|(?!UNIQ_KEY\x01|TAGS\x01|KEYS\x01|DELAY\x01|TIMER_D|ESC_|POP_CK\x01|__CRC32#)[^\x01\x02]++\x01[^\x02]*+)\x02)*"
).fullmatch


#: Not a client's to say; the check sum is that of the record which it received and passes on.
_DROPPED = RESERVED | {CRC_PROPERTY}


class Facts(NamedTuple):
    """The facts that routing and indexing need. ``stored`` ends with the separator; ``delay_level`` 0 is none.

    ``timer``: the properties as text if they ask for a moment (a delay level beats that), else empty; ``moment``: name
    and digits of the one property that asks for it, None where it takes more to understand them.
    """

    stored: bytes
    unique_key: str | None
    tags: str | None
    keys: str | None
    delay_level: int = 0
    timer: str = ""
    moment: tuple[str, str] | None = None


def facts_of(raw: bytes) -> Facts:
    """Read properties, without those that only the broker writes.

    Raises InvalidProperties, InvalidDelayLevel.
    """
    if FAST is not None and (found := FAST.usual_facts(raw)) is not None:
        return tuple.__new__(Facts, found)
    return read_facts(raw)


def read_facts(raw: bytes) -> Facts:
    """Do what ``facts_of`` does, in Python alone."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidProperties(f"The properties are not UTF-8 at byte {error.start}.") from None
    if text and text[-1] != "\x02":
        text += "\x02"
        raw += b"\x02"
    usual = _USUAL(text)
    if usual is not None:
        unique_key, tags, keys, name, digits = usual.groups()
        asked = (text, (name, digits)) if name is not None else ("", None)
        return tuple.__new__(Facts, (raw, unique_key, tags, keys, 0, *asked))
    if _WELL_FORMED(text) is None:
        raise InvalidProperties
    may_drop = OWN_PREFIX in text or POP_HANDLE in text or CRC_PROPERTY in text
    if may_drop and any(value_in(text, name) is not None for name in _DROPPED):
        raw = format_properties({name: value for name, value in parse_properties(raw).items() if name not in _DROPPED})
        text = raw.decode()
    level = 0
    if DELAY in text and (value := value_in(text, DELAY)) is not None:
        level = _delay_level(value)
    timer = text if _MOMENT in text and level == 0 and _asks_for_a_moment(text) else ""
    tags = value_in(text, TAGS) if TAGS in text else None
    keys = value_in(text, KEYS) if KEYS in text else None
    return Facts(raw, value_in(text, UNIQUE_KEY), tags, keys, level, timer)


def plain_facts(raw: bytes) -> Facts | None:
    """Return what ``facts_of`` would of properties that hold an id and nothing that counts, as in most batches; else
    None."""
    found = _PLAIN(raw)
    return Facts(raw, found[1].decode(), None, None) if found else None


def plain_keys(raws: Sequence[bytes]) -> list[str] | None:
    """Return the ids of properties that hold an id and nothing that counts, and are the same but for that, as in most
    batches; else None."""
    found = _PLAIN(raws[0])
    return keys_alike(raws, *found.span(1)) if found else None


@twin("keys_alike")
def keys_alike(raws: Sequence[bytes], begin: int, end: int) -> list[str] | None:
    """Return what stands between two places of each; None unless all are the same around it, and printable there."""
    first, count = raws[0], len(raws)
    length, size = len(first), end - begin
    if list(map(len, raws)).count(length) != count:
        return None
    befores, keys, afters = zip(*iter_unpack(f"{begin}s{size}s{length - end}s", b"".join(raws)), strict=True)
    joined = b"".join(keys)
    if befores.count(first[:begin]) != count or afters.count(first[end:]) != count or _KEYS(joined) is None:
        return None
    text = joined.decode()
    return [text[at : at + size] for at in range(0, len(text), size)]


def _asks_for_a_moment(text: str) -> bool:
    at = text.find(_MOMENT)
    while at >= 0:
        if (not at or text[at - 1] == "\x02") and text[at : text.find("\x01", at)] in _MOMENTS:
            return True
        at = text.find(_MOMENT, at + 1)
    return False


def value_in(text: str, name: str) -> str | None:
    """Return the value of a property; of one that stands there twice the last, as in RocketMQ."""
    mark = name + "\x01"
    at = text.rfind(mark)
    while at > 0 and text[at - 1] != "\x02":
        at = text.rfind(mark, 0, at)
    if at < 0:
        return None
    start = at + len(mark)
    return text[start : text.index("\x02", start)]


def _delay_level(value: str) -> int:
    if not value:
        return 0
    if not value.isascii() or not value.isdigit() or len(value) > 10:
        raise InvalidDelayLevel(value)
    return int(value)


def also_indexed(topic: str, tags: str | None, keys: str | None) -> list[str]:
    """Return what a record is indexed as beside its unique key."""
    entries = [f"{topic}#{key}" for key in keys.split()] if keys else []
    if tags:
        entries.append(f"{topic}#T#{tags}")
    return entries


def schedule_entry(topic: str, key: str) -> str:
    """Return what a timer's schedule key is indexed as, beside the keys that every message has."""
    return f"S#{topic}#{key}"


def extra_key_of(topic: str, properties: Mapping[str, str]) -> str | None:
    """Return the key that a stored record has beside unique key, keys and tags: a timer's schedule key, also of a
    delete that is the commit of a half."""
    if topic != TIMER_TOPIC or SCHEDULE_KEY not in properties:
        return None
    if TIMER_DELETE in properties and SOURCE not in properties:
        return None
    return schedule_entry(properties.get(REAL_TOPIC, ""), properties[SCHEDULE_KEY])
