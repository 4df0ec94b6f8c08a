"""What requests and answers about Redisson's delayed queues look like. All `_ms` are the Redis server's clock."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ...rest.schemas import DeliverAt, Text
from ..timers.rest_bulk_schemas import BulkReason, Moment

QueueName = Annotated[str, Meta(min_length=1, max_length=255)]
HandleText = Annotated[str, Meta(min_length=3, max_length=120, description="As a list of values gives it.")]


class DelayedQueueRow(Struct, kw_only=True):
    """One queue. `problem` says what is wrong; null figures: a key of it is not what Redisson puts there."""

    name: str
    waiting: int | None
    in_list: Annotated[int | None, Meta(description="Differs from waiting: damage, which :repair puts right.")]
    due_still_there: int | None
    stuck_ms: Annotated[int | None, Meta(description="For how long the oldest due value has not moved.")]
    next_due_ms: int | None
    in_plain_list: Annotated[int | None, Meta(description="Due, not taken by a consumer yet.")]
    listeners: Annotated[int | None, Meta(description="Live RDelayedQueues of Java on its channel.")]
    packings: list[str]
    codec: str | None
    has_poison: bool
    mode: str
    topic: str | None
    sent: Annotated[int | None, Meta(description="In the topic, since reliable mode or the import began.")] = None
    sending: Annotated[int | None, Meta(description="On their way to the topic.")] = None
    refused: Annotated[int | None, Meta(description="Set aside, because the topic cannot take them.")] = None
    taken_over: Annotated[int | None, Meta(description="Moved to the plain list by Java, and taken from there.")] = None
    moved: int | None
    late_ms: int | None
    problem: str | None


class DelayedQueueList(Struct, kw_only=True):
    """Queues by name, 50 at a time, and how many there are."""

    now_ms: int
    total: int
    queues: list[DelayedQueueRow]
    transfer_services: int


class DelayedValue(Struct, kw_only=True):
    """One waiting value. `handle` names it; `is_hex`: no codec reads it, `value` is its bytes in hex."""

    handle: str
    due_ms: int | None
    value: str
    codec: str
    packing: str | None
    size_bytes: int
    is_hex: bool
    is_whole: bool
    is_poison: bool


class DelayedValues(Struct, kw_only=True):
    """Values in the order in which they are due; `cursor` for the next page, null at the end."""

    now_ms: int
    values: list[DelayedValue]
    cursor: str | None


class NewValue(Struct, forbid_unknown_fields=True, kw_only=True):
    """A value to offer; give `delay_ms` or `deliver_at`. JSON codecs take it as JSON, StringCodec as text."""

    value: Annotated[str, Meta(max_length=65_536)]
    codec: Annotated[str, Meta(max_length=40)] = "StringCodec"
    delay_ms: Annotated[int, Meta(ge=0, le=316_224_000_000)] | None = None
    deliver_at: DeliverAt | None = None


class Offered(Struct, kw_only=True):
    """It waits, in list and set."""

    queue: str
    due_ms: int
    packing: str


class ValueRange(Struct, forbid_unknown_fields=True, kw_only=True):
    """Values due from `due_from` to before `due_before`."""

    due_from: Moment | None = None
    due_before: Moment | None = None


class ManyValues(Struct, forbid_unknown_fields=True, kw_only=True):
    """Chosen values (`handles`, up to 1,000), or a `range` of up to 10,000; `all: true` for one without bounds."""

    reason: BulkReason
    handles: list[HandleText] | None = None
    range: ValueRange | None = None
    all: bool = False


class PoisonValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """As ManyValues; `all: true` means poison, or with a `packing` every value in it."""

    packing: (
        Annotated[str, Meta(description="old or new: the one that the clients of the queue do not read.")] | None
    ) = None


class MovedValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """As ManyValues, and to which queue."""

    to: QueueName


class LaterValues(ManyValues, forbid_unknown_fields=True, kw_only=True):
    """As ManyValues, and where to: `deliver_at` for all, or `shift_ms` later (earlier if negative) each."""

    deliver_at: DeliverAt | None = None
    shift_ms: Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)] | None = None


class QueueReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why."""

    reason: BulkReason


class QueueTopic(QueueReason, forbid_unknown_fields=True, kw_only=True):
    """Why, and the topic that values go to."""

    topic: Text
