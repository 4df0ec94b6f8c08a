"""A parked timer as a message to send once more: what its sender gave, and the queue that it was meant for."""

from __future__ import annotations

from collections.abc import Sequence

from broker.client import ClientError, InvalidArgument, Message, Outgoing, SendResult
from broker.rocketmq.properties import (
    BUYER_ID,
    CORRELATION_ID,
    INSTANCE_ID,
    KEYS,
    MESSAGE_REPLY_TO_CLIENT,
    MESSAGE_TTL,
    OWN_PREFIX,
    SHARDING_KEY,
    SYSTEM_PROPERTIES,
    TAGS,
    WAIT,
)
from console.operations.copies import producer

#: what a sender may have set among the properties that mean something to clients; the rest is the broker's
_SENDERS = frozenset(
    {KEYS, TAGS, WAIT, BUYER_ID, INSTANCE_ID, CORRELATION_ID, MESSAGE_REPLY_TO_CLIENT, MESSAGE_TTL, SHARDING_KEY}
)


def given_properties(record: Message) -> dict[str, str]:
    """Return the properties that the sender gave, without message id, moment and schedule key."""
    return {
        name: text
        for name, text in record.properties.items()
        if name in _SENDERS or not (name in SYSTEM_PROPERTIES or name.startswith(OWN_PREFIX))
    }


def sent_to_queue(topic: str, queue_id: int | None, messages: Sequence[Outgoing]) -> Sequence[SendResult | ClientError]:
    """Send to the queue that each was meant for, while the topic has it; return what came of each."""
    try:
        return producer().send_each(topic, messages, queue_id=queue_id)
    except InvalidArgument:
        pass
    except ClientError as error:
        return [error] * len(messages)
    try:
        return producer().send_each(topic, messages)
    except ClientError as error:
        return [error] * len(messages)
