"""The message id of the REST interface: one opaque string that holds all it takes to find the message again.

    "m1" + base64url( 8 position | 1 broker length | broker | 1 topic length | topic | 1 kind | unique key )

The unique key is the rest: kind 0, 16 bytes for RocketMQ's 32 hex digits; kind 1, any other text. ``1`` is the version.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from functools import lru_cache

from .errors import InvalidIdentifier

_from_hex = bytes.fromhex
_to_base64 = binascii.b2a_base64
_PREFIX = "m1"
_is_hex_id = re.compile(r"[0-9A-F]{32}\Z").match
_LONGEST = 600
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


@dataclass(frozen=True, slots=True)
class MessageIdentifier:
    """The identity of a message: broker, real topic, position of the record made by the send, unique key."""

    broker: str
    topic: str
    position: int
    unique_key: str

    def __str__(self) -> str:
        return written(self.broker, self.topic, self.position, self.unique_key)


def written(broker: str, topic: str, position: int, unique_key: str) -> str:
    """Return the id of these parts as text."""
    key = b"\0" + _from_hex(unique_key) if _is_hex_id(unique_key) else b"\1" + unique_key.encode()
    raw = position.to_bytes(8, "big") + _place(broker, topic) + key
    return _PREFIX + _to_base64(raw, newline=False).translate(_URL_SAFE, b"=").decode()


@lru_cache(4096)
def _place(broker: str, topic: str) -> bytes:
    raw_broker, raw_topic = broker.encode(), topic.encode()
    return b"".join((bytes((len(raw_broker),)), raw_broker, bytes((len(raw_topic),)), raw_topic))


def parse(text: str) -> MessageIdentifier:
    """Read an id made by `str(MessageIdentifier)`; raises InvalidIdentifier."""
    if not text.startswith(_PREFIX) or len(text) > _LONGEST or not text.isascii():
        raise InvalidIdentifier
    try:
        raw = base64.b64decode(text[2:] + "=" * (-len(text[2:]) % 4), altchars=b"-_", validate=True)
        broker, at = _short_text(raw, 8)
        topic, at = _short_text(raw, at)
        unique_key = raw[at + 1 :].decode() if raw[at] == 1 else raw[at + 1 :].hex().upper()
    except (binascii.Error, UnicodeDecodeError, IndexError):
        raise InvalidIdentifier from None
    identifier = MessageIdentifier(broker, topic, int.from_bytes(raw[:8], "big"), unique_key)
    if str(identifier) != text:
        raise InvalidIdentifier
    return identifier


def _short_text(raw: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + raw[at]
    if end > len(raw):
        raise IndexError
    return raw[at + 1 : end].decode(), end
