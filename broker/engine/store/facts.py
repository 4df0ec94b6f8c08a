"""The few properties the broker acts on, taken from the stored form of a message's properties in one pass."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import FeatureMissing, InvalidDelayLevel, InvalidProperties
from ..properties import DELAY, KEYS, TAGS, UNIQUE_KEY

_WELL_FORMED = re.compile("(?:[^\x01\x02]+\x01[^\x02]*\x02)*")
#: Marks of messages that wait for a moment; taken as ordinary ones they would be delivered too early.
_TIMER = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DEL_UNIQKEY")


class Facts(NamedTuple):
    """What routing and indexing need. ``stored`` ends with the separator; ``delay_level`` 0 is none."""

    stored: bytes
    properties: dict[str, str]
    unique_key: str | None
    tags: str | None
    keys: str | None
    delay_level: int


def facts_of(raw: bytes) -> Facts:
    """Read properties. Raises InvalidProperties, InvalidDelayLevel, FeatureMissing."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidProperties(f"The properties are not UTF-8 at byte {error.start}.") from None
    if text and text[-1] != "\x02":
        text += "\x02"
        raw += b"\x02"
    if _WELL_FORMED.fullmatch(text) is None:
        raise InvalidProperties
    if text.count("\x01") == text.count("\x02"):
        parts = text.replace("\x02", "\x01").split("\x01")
        properties = dict(zip(parts[::2], parts[1::2], strict=False))
    else:
        properties = {name: value for name, _, value in (pair.partition("\x01") for pair in text.split("\x02") if pair)}
    level = 0
    if DELAY in properties:
        level = _delay_level(properties[DELAY])
    if level == 0 and "TIMER_" in text and any(name in properties for name in _TIMER):
        raise FeatureMissing(
            "This broker keeps no timers yet; send with a delay level, or without the TIMER_ properties."
        )
    get = properties.get
    return Facts(raw, properties, get(UNIQUE_KEY), get(TAGS), get(KEYS), level)


def _delay_level(value: str) -> int:
    if not value:
        return 0
    if not value.isascii() or not value.isdigit() or len(value) > 10:
        raise InvalidDelayLevel(value)
    return int(value)
