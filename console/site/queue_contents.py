"""Reading messages of a queue from the broker, however few it gives at once."""

from __future__ import annotations

from broker.client import Admin, Message

#: Apache RocketMQ gives 32 messages from memory and 8 from disk at once (maxTransferCountOnMessageIn...)
MAX_PULLS = 8


def pull_all(admin: Admin, topic: str, queue_id: int, offset: int, count: int) -> list[Message]:
    """Return up to `count` messages from `offset` on, by at most MAX_PULLS requests."""
    found: list[Message] = []
    wanted = offset
    for _ in range(MAX_PULLS):
        part = admin.pull(topic, queue_id, wanted, offset + count - wanted)
        found.extend(part)
        if not part or part[-1].queue_offset + 1 >= offset + count:
            break
        wanted = part[-1].queue_offset + 1
    return [message for message in found if message.queue_offset < offset + count]
