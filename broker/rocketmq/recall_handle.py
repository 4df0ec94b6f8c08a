"""The recall handle: the name of one pending timer that a send is answered with (RecallMessageHandle.HandleV1).

    base64url( "v1 " real topic " " broker name " " ms " " unique key ), with padding

`ms` is TIMER_OUT_MS + 1 of the parked record: less than the due time, but in the same slot of the wheel, which is what
Apache RocketMQ looks in.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

#: Our own field of the answer to a recall: what became of it, in the words of 14005.
OUTCOME = "escOutcome"
_VERSION = "v1"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
#: A topic of 127 characters, a broker's name and a unique key of 255 each are well below.
LONGEST_HANDLE = 4096


class BadHandle(ValueError):
    """This is no recall handle."""


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """The timer that a handle names."""

    topic: str
    broker: str
    timestamp_ms: int
    unique_key: str

    def __str__(self) -> str:
        return written(self.topic, self.broker, self.timestamp_ms, self.unique_key).decode()


def written(topic: str, broker: str, timestamp_ms: int, unique_key: str) -> bytes:
    """Return the handle of a timer as text, in bytes."""
    raw = f"{_VERSION} {topic} {broker} {timestamp_ms} {unique_key}".encode()
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE)


def handle_of(topic: str, broker: str, due_ms: int, unique_key: str) -> bytes:
    """Return the handle of a timer that is due then."""
    return written(topic, broker, (due_ms - 1) // 1000 * 1000 + 1, unique_key)


def read_handle(text: str) -> RecallHandle:
    """Read a handle, with or without padding, as Java does; raises BadHandle."""
    if not isinstance(text, str) or not text or len(text) > LONGEST_HANDLE or not text.isascii():
        raise BadHandle("recall handle is invalid")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        words = raw.decode().split(" ")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise BadHandle("recall handle is invalid") from None
    if len(words) < 5 or words[0] != _VERSION:
        raise BadHandle("recall handle is invalid")
    _, topic, broker, moment, unique_key, *_ = words
    if not (moment.isascii() and moment.isdigit() and len(moment) < 19 and topic and broker and unique_key):
        raise BadHandle("recall handle is invalid")
    return RecallHandle(topic, broker, int(moment), unique_key)
