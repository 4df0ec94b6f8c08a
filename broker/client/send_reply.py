"""The answer to a send, read the short way.

Escapement answers a binary send with a binary header whose fields have one order:

    1 serialisation 1 | 3 header length | 2 code 0 | 1 language | 2 version | 4 opaque | 4 flag | 4 remark length 0 |
    4 fields length | msgId | queueId | queueOffset | transactionId | ...

What waits has escDueMs behind them, a timer also recallHandle. Anything else (a refusal, a schedule key that was
taken, Apache RocketMQ's JSON) is read the long way by the codec.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SHORT = re.compile(
    rb"\x01...\0\0...(....)....\0\0\0\0....\0\x05msgId\0\0\0.([0-9A-F]+)\0\x07queueId\0\0\0.(\d+)"
    rb"\0\x0bqueueOffset\0\0\0.(\d+)\0\x0dtransactionId\0",
    re.DOTALL,
).match
#: how such an answer ends, but for what waits
_END = b"\0\x08TRACE_ON\0\0\0\x04true"
_WAITING = re.compile(
    re.escape(_END) + rb"\0\x08escDueMs\0\0\0.(\d+)(?:\0\x0crecallHandle\0\0..([A-Za-z0-9_=-]+))?\Z", re.DOTALL
).search


class Stored(NamedTuple):
    """A message is stored: its offset message id, its queue, its offset there; of what waits also until when, and the
    name to take it back by."""

    offset_message_id: str
    queue_id: int
    queue_offset: int
    due_ms: int | None = None
    recall_handle: str | None = None


def read_stored(frame: bytes) -> tuple[int, Stored] | None:
    """Opaque and place if this is such an answer, else None."""
    waiting = None
    if not frame.endswith(_END):
        waiting = _WAITING(frame)
        if waiting is None:
            return None
    match = _SHORT(frame)
    if match is None:
        return None
    opaque, offset_message_id, queue_id, queue_offset = match.groups()
    stored = Stored(offset_message_id.decode(), int(queue_id), int(queue_offset))
    if waiting is not None:
        due, handle = waiting.groups()
        stored = stored._replace(due_ms=int(due), recall_handle=handle.decode() if handle else None)
    return int.from_bytes(opaque, "big"), stored
