"""Which queues a member of a group consumes: RocketMQ's AllocateMessageQueueAveragely.

Every member computes it for itself from the same two sorted lists, so they need not talk to each other.
"""

from __future__ import annotations

from collections.abc import Collection

from .types import MessageQueue


def allocate(client_id: str, clients: Collection[str], queues: Collection[MessageQueue]) -> tuple[MessageQueue, ...]:
    """The share of `client_id`: a run of neighbouring queues; the first members get one more if need be."""
    members = sorted(clients)
    if client_id not in members or not queues:
        return ()
    ordered = sorted(queues, key=lambda queue: (queue.topic, queue.broker, queue.queue_id))
    index = members.index(client_id)
    share, left_over = divmod(len(ordered), len(members))
    start = index * share + min(index, left_over)
    return tuple(ordered[start : start + share + (1 if index < left_over else 0)])
