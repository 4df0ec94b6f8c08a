"""RocketMQ's batch (request 320): many messages of one queue in one body, stored all or not at all.

one message: 4 size | 4 magic 0 | 4 CRC 0 | 4 flag | 4 body length | body | 2 properties length | properties
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from . import names
from .destinations import DEFAULT_QUEUES, TEMPLATE_TOPIC
from .errors import BadAnswer, InvalidArgument
from .outgoing import Outgoing
from .types import MessageQueue, SendResult

_FRONT = Struct(">iiiii")
_SHORT = Struct(">H")
_DELAYS = ("\x02DELAY\x01", "\x02TIMER_DELIVER_MS\x01", "\x02TIMER_DELAY_MS\x01")


def body(messages: Sequence[Outgoing]) -> bytes:
    """The request's body; raises InvalidArgument for an empty batch, delayed messages, or more than 4 MiB."""
    if not messages:
        raise InvalidArgument("A batch needs at least one message.", field="messages")
    if len({(message.queue_id, message.sharding_key) for message in messages}) > 1:
        raise InvalidArgument("Messages of a batch go to one queue; these ask for several.", field="messages")
    parts: list[bytes] = []
    for message in messages:
        if any(mark in message.properties for mark in _DELAYS):
            raise InvalidArgument("Messages of a batch cannot be delayed; send them one by one.", field="delay_level")
        properties = message.properties.encode()
        size = _FRONT.size + len(message.body) + _SHORT.size + len(properties)
        parts += (
            _FRONT.pack(size, 0, 0, 0, len(message.body)), message.body, _SHORT.pack(len(properties)), properties
        )  # fmt: skip
    whole = b"".join(parts)
    if len(whole) > names.MAX_BODY_BYTES:
        raise InvalidArgument(
            f"The batch has {len(whole):,} bytes, the limit is {names.MAX_BODY_BYTES:,}; make smaller batches.",
            field="messages",
        )
    return whole


def header(group: str, queue: MessageQueue, born_ms: int, unique_id: str) -> dict[str, str]:
    """The request's fields (SendMessageRequestHeaderV2)."""
    return {
        "a": group, "b": queue.topic, "c": TEMPLATE_TOPIC, "d": str(DEFAULT_QUEUES), "e": str(queue.queue_id),
        "f": "0", "g": str(born_ms), "h": "0", "i": f"UNIQ_KEY\x01{unique_id}\x02WAIT\x01true\x02", "j": "0",
        "k": "false", "m": "true", "n": queue.broker,
    }  # fmt: skip


def results(messages: Sequence[Outgoing], queue: MessageQueue, ext: Mapping[str, str], status: str) -> list[SendResult]:
    """One result a message: ids come joined by commas, the offset is the first one's."""
    ids = ext.get("msgId", "").split(",")
    if len(ids) != len(messages):
        raise BadAnswer(f"The broker answered {len(ids)} ids to a batch of {len(messages)}.")
    first = int(ext.get("queueOffset", -1))
    queue_id = int(ext.get("queueId", queue.queue_id))
    return [
        SendResult(message.unique_id, each, queue.topic, queue.broker, queue_id, first + nth, status)
        for nth, (message, each) in enumerate(zip(messages, ids, strict=True))
    ]
