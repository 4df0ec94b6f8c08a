"""The few properties the broker acts on, found in the stored form of a message's properties without unpacking it."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import FeatureMissing, InvalidDelayLevel, InvalidProperties
from ..properties import DELAY, KEYS, RESERVED, TAGS, UNIQUE_KEY, format_properties, parse_properties

_WELL_FORMED = re.compile("(?:[^\x01\x02]+\x01[^\x02]*+\x02)*+").fullmatch
#: Marks of messages that wait for a moment; taken as ordinary ones they would be delivered too early.
_TIMER = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DEL_UNIQKEY")


class Facts(NamedTuple):
    """What routing and indexing need. ``stored`` ends with the separator; ``delay_level`` 0 is none."""

    stored: bytes
    unique_key: str | None
    tags: str | None
    keys: str | None
    delay_level: int = 0


def facts_of(raw: bytes) -> Facts:
    """Read properties, without those that only the broker writes.

    Raises InvalidProperties, InvalidDelayLevel, FeatureMissing.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidProperties(f"The properties are not UTF-8 at byte {error.start}.") from None
    if text and text[-1] != "\x02":
        text += "\x02"
        raw += b"\x02"
    if _WELL_FORMED(text) is None:
        raise InvalidProperties
    if "ESC_" in text and any(_value(text, name) is not None for name in RESERVED):
        raw = format_properties({name: value for name, value in parse_properties(raw).items() if name not in RESERVED})
        text = raw.decode()
    level = 0
    if "DELAY" in text and (value := _value(text, DELAY)) is not None:
        level = _delay_level(value)
    if level == 0 and "TIMER_" in text and any(_value(text, name) is not None for name in _TIMER):
        raise FeatureMissing(
            "This broker keeps no timers yet; send with a delay level, or without the TIMER_ properties."
        )
    tags = _value(text, TAGS) if "TAGS" in text else None
    keys = _value(text, KEYS) if "KEYS" in text else None
    return Facts(raw, _value(text, UNIQUE_KEY), tags, keys, level)


def _value(text: str, name: str) -> str | None:
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
