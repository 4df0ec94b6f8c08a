"""Tickets, which an append hands back at once, and the job that makes appends durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...rocketmq.message import offset_message_id, offset_message_ids
from ..queues.queues import ConsumeQueue
from .checkpoint import Derived
from .commit_log import Writes


class Ticket:
    """A place in the log, durable once ``synced`` returns it.

    ``queue_id`` is the one asked for; ``queue_offset`` counts in the queue the record stands in (for a delayed message
    its level's queue). ``due_ms`` is None unless the message was parked. ``owner`` is the caller's.
    """

    __slots__ = (
        "conflict",
        "due_ms",
        "is_timer",
        "owner",
        "position",
        "queue_id",
        "queue_offset",
        "size",
        "store_host",
        "store_ms",
        "topic",
        "unique_key",
        "waits",
    )

    def __init__(
        self,
        owner: object,
        topic: str,
        queue_id: int,
        queue_offset: int,
        position: int,
        size: int,
        store_ms: int,
        store_host: bytes,
        due_ms: int | None,
        unique_key: str | None,
    ) -> None:
        self.owner = owner
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.position = position
        self.size = size
        self.store_ms = store_ms
        self.store_host = store_host
        self.due_ms = due_ms
        self.unique_key = unique_key
        #: whether it waits in the wheel, so that it can be recalled
        self.is_timer = False
        #: what became of a schedule key that was taken: "replaced", or "kept": then all is said of the timer that stays
        self.conflict: str | None = None
        #: False: there is nothing to wait for, ``synced`` will not return it
        self.waits = True

    def answered_to(self, owner: object) -> Ticket:
        """Return the same ticket with another owner: for senders who do not wait until it is durable."""
        other = Ticket(
            owner,
            self.topic,
            self.queue_id,
            self.queue_offset,
            self.position,
            self.size,
            self.store_ms,
            self.store_host,
            self.due_ms,
            self.unique_key,
        )
        other.conflict, other.waits, other.is_timer = self.conflict, self.waits, self.is_timer
        return other

    @property
    def count(self) -> int:
        """The number of messages it stands for."""
        return 1

    def each(self) -> list[Ticket]:
        """Return a ticket for each message it stands for."""
        return [self]

    @property
    def offset_message_id(self) -> str:
        """RocketMQ's offset message id of the record."""
        return offset_message_id(self.store_host, self.position)


#: Is told of tickets that are durable.
Stored = Callable[[list[Ticket]], None]


class BatchTicket(Ticket):
    """The places of messages that were appended together, in order: durable, and answered, at once.

    Position and queue offset are the first one's, ``size`` is that of all.
    """

    __slots__ = ("positions", "sizes")

    def __init__(
        self,
        owner: object,
        topic: str,
        queue_id: int,
        queue_offset: int,
        positions: Sequence[int],
        sizes: Sequence[int],
        store_ms: int,
        store_host: bytes,
    ) -> None:
        super().__init__(
            owner, topic, queue_id, queue_offset, positions[0], sum(sizes), store_ms, store_host, None, None
        )
        self.positions = positions
        self.sizes = sizes

    @property
    def count(self) -> int:
        """The number of messages it stands for."""
        return len(self.positions)

    def each(self) -> list[Ticket]:
        """Return a ticket for each message it stands for."""
        return [
            Ticket(
                self.owner,
                self.topic,
                self.queue_id,
                self.queue_offset + number,
                position,
                size,
                self.store_ms,
                self.store_host,
                None,
                None,
            )
            for number, (position, size) in enumerate(zip(self.positions, self.sizes, strict=True))
        ]

    @property
    def offset_message_id(self) -> str:
        """RocketMQ's offset message ids of all records, joined by commas."""
        return offset_message_ids(self.store_host, self.positions)


class SyncJob:
    """A group commit. ``run`` may be called in any thread; everything else belongs to the engine."""

    __slots__ = (
        "bare_bytes",
        "end_position",
        "index_mark",
        "notes",
        "queue_ends",
        "store_ms",
        "sync",
        "tickets",
        "writes",
    )

    def __init__(self) -> None:
        self.writes: Writes | None = None
        self.sync = True
        self.tickets: list[Ticket] = []
        #: bytes of records that nobody waits for
        self.bare_bytes = 0
        #: how far each touched queue becomes visible
        self.queue_ends: dict[ConsumeQueue, int] = {}
        #: what the services are to be told when it is visible
        self.notes: dict[Derived, list[Any]] = {}
        self.end_position = 0
        #: how far the index has come with it
        self.index_mark = ("", 1)
        self.store_ms = 0

    @property
    def size_bytes(self) -> int:
        """What it writes to the log."""
        return 0 if self.writes is None else self.writes.size_bytes

    def run(self) -> None:
        """Write the batch and make it durable (unless flush=async). Raises OSError."""
        if self.writes is not None:
            self.writes.run(sync=self.sync)
