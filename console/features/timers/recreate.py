"""A cancelled timer once more: its parked record as a message that waits for the same moment.

The record stays in the log until retention takes it; nothing is kept beside it. The new message has what its sender
gave, under a new unique id: Apache RocketMQ deletes by unique id within a second, so that the old one would be deleted
with it. The new id follows from the old record, so that the broker itself can be asked whether it was parked again.
"""

from __future__ import annotations

import hashlib
import re

from broker.client import Message
from broker.client.names import SYSTEM_PROPERTIES
from broker.client.outgoing import Outgoing
from console.features.messages.copies import COPY_OF, plain_body

#: what a sender may have set among the properties that mean something to clients; the rest is the broker's
_SENDERS = frozenset(
    {"KEYS", "TAGS", "WAIT", "BUYER_ID", "INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "__SHARDINGKEY"}
)
_SCHEDULE_KEY = "ESC_SCHEDULE_KEY"
#: RocketMQ's unique ids: 4 bytes of address, 2 of process, 4 of loader, 4 of time in the month, 2 of counter
_UNIQUE_ID = re.compile(r"[0-9A-F]{32}\Z")
_OF_SENDER = 20


def unique_id_again(position: int, unique_key: str) -> str:
    """The unique id of what takes the place of a cancelled record: the time of its birth stays readable in it."""
    made = hashlib.sha256(f"{position} {unique_key}".encode()).hexdigest().upper()
    return made[:_OF_SENDER] + (unique_key if _UNIQUE_ID.match(unique_key) else "0" * 32)[_OF_SENDER:]


def message_again(record: Message, due_ms: int) -> Outgoing:
    """The message to send; a moment that is past is refused by the broker. Raises NotReadable."""
    kept = {
        name: text
        for name, text in record.properties.items()
        if name in _SENDERS or not (name in SYSTEM_PROPERTIES or name.startswith("ESC_"))
    }
    if _SCHEDULE_KEY in record.properties:
        kept[_SCHEDULE_KEY] = record.properties[_SCHEDULE_KEY]
    unique_id = unique_id_again(record.position, record.unique_key or "")
    kept |= {
        "UNIQ_KEY": unique_id, "TIMER_DELIVER_MS": str(due_ms), "ESC_REJECT_PAST": "true",
        COPY_OF: record.offset_message_id,
    }  # fmt: skip
    stored = "".join(f"{name}\x01{text}\x02" for name, text in kept.items())
    return Outgoing(plain_body(record), stored, unique_id)
