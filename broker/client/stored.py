"""The answer to a send, read the short way.

Escapement answers a binary send with a binary header whose fields have one order:

    1 serialisation 1 | 3 header length | 2 code 0 | 1 language | 2 version | 4 opaque | 4 flag | 4 remark length 0 |
    4 fields length | msgId | queueId | queueOffset | transactionId | ...

Anything else (a refusal, a delayed message's due time, Apache RocketMQ's JSON) is read the long way by the codec.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SHORT = re.compile(
    rb"\x01...\0\0...(....)....\0\0\0\0....\0\x05msgId\0\0\0.([0-9A-F]+)\0\x07queueId\0\0\0.(\d+)"
    rb"\0\x0bqueueOffset\0\0\0.(\d+)\0\x0dtransactionId\0",
    re.DOTALL,
).match
#: how such an answer ends; a delayed message's due time would stand behind it
_END = b"\0\x08TRACE_ON\0\0\0\x04true"


class Stored(NamedTuple):
    """A message is stored: its offset message id, its queue, its offset there."""

    offset_message_id: str
    queue_id: int
    queue_offset: int


def read_stored(frame: bytes) -> tuple[int, Stored] | None:
    """Opaque and place if this is such an answer, else None."""
    match = _SHORT(frame) if frame.endswith(_END) else None
    if match is None:
        return None
    opaque, offset_message_id, queue_id, queue_offset = match.groups()
    return int.from_bytes(opaque, "big"), Stored(offset_message_id.decode(), int(queue_id), int(queue_offset))
