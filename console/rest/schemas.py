"""What requests and answers look like. OpenAPI is made from these; requests refuse names that are not here."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Text = Annotated[str, Meta(min_length=1, max_length=127)]
Key = Annotated[str, Meta(min_length=1, max_length=1024, description="One word without blanks.")]
PropertyName = Annotated[str, Meta(min_length=1, max_length=1024)]
DeliverAt = Annotated[
    str | int, Meta(description="RFC 3339 with a zone (2027-01-31T08:00:00+01:00), or ms since 1970.")
]
DelayMs = Annotated[int, Meta(ge=0, le=2**63 - 1, description="From the moment at which the broker takes it.")]
ScheduleKey = Annotated[
    str, Meta(min_length=1, max_length=200, description="Your own key; unique in its topic while the message waits.")
]


class NewMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message to send: `body` (text) or `body_base64` (bytes), at most 4 MiB, and what goes with it."""

    body: Annotated[str, Meta(description="The body as text; sent as UTF-8.")] | UnsetType = UNSET
    body_base64: Annotated[str, Meta(description="The body as base64, for bytes that are not text.")] | UnsetType = (
        UNSET
    )
    tag: Annotated[Text, Meta(description="One word that subscriptions filter by.")] | None = None
    keys: Annotated[list[Key], Meta(max_length=64, description="Words to find the message by.")] = []
    properties: Annotated[dict[PropertyName, str], Meta(max_length=1024)] = {}
    group: Annotated[Text, Meta(description="Producer group; stored nowhere, shown while connected.")] | None = None
    queue: (
        Annotated[int, Meta(ge=0, le=2**31 - 1, description="The queue to send to; else they take turns.")] | None
    ) = None
    sharding_key: Annotated[Text, Meta(description="Messages of one key go to one queue, in order.")] | None = None
    delay_level: Annotated[int, Meta(ge=0, le=2**31 - 1, description="0 at once, 1 to 18 the broker's levels.")] = 0
    deliver_at: DeliverAt | None = None
    delay_ms: DelayMs | None = None
    schedule_key: ScheduleKey | None = None
    on_conflict: Annotated[
        Literal["error", "replace", "keep"] | None,
        Meta(description="If a message with this schedule_key waits: refuse (default), replace it, or keep that one."),
    ] = None
    reject_past: Annotated[bool, Meta(description="Refuse a moment that is past instead of delivering at once.")] = (
        False
    )
    durability: Annotated[
        Literal["sync", "async"], Meta(description="sync: answered when on disk; async: answered at once with 202.")
    ] = "sync"


class NewMessages(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 messages for one topic; each is stored, or refused, on its own."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=1000)]


class Sent(Struct, kw_only=True):
    """Where a message went. `flushed`: it is on disk. `queue_offset` is that of the level's queue while it waits."""

    id: Annotated[str, Meta(description="Opaque; good for GET /api/v1/messages/{id}.")]
    message_id: Annotated[str, Meta(description="RocketMQ's unique id, which consumers see.")]
    topic: str
    broker: str
    queue: int
    queue_offset: int
    flushed: bool
    due_ms: Annotated[int | None, Meta(description="When a delayed message is due, ms since 1970.")] = None
    recall_handle: Annotated[str | None, Meta(description="RocketMQ's name for a timer that waits.")] = None
    conflict: Annotated[
        Literal["replaced", "kept"] | None,
        Meta(description="A message with this schedule_key waited: replaced by this one, or kept (all is told of it)."),
    ] = None


class ItemProblem(Struct, kw_only=True):
    """Why one message of a batch was not stored."""

    status: int
    code: str
    detail: str
    remedy: str
    field: str | None = None
    due_ms: int | None = None


class SentItem(Struct, kw_only=True, omit_defaults=True):
    """What became of one message of a batch: `sent` or `problem`."""

    index: int
    status: int
    sent: Sent | None = None
    problem: ItemProblem | None = None


class SentBatch(Struct, kw_only=True):
    """Answers in the order of the request."""

    stored: int
    refused: int
    results: list[SentItem]


class RecordPlace(Struct, kw_only=True):
    """One physical record of a message."""

    topic: str
    queue: int
    queue_offset: int
    position: int
    stored_ms: int


class TracedStep(Struct, kw_only=True):
    """What a client with tracing told of a message, by its own clock; null where it does not say. Nobody checks it.

    consumed: given to a handler at `at_ms`, which was at work for `took_ms`; `succeeded` null: its end was not told.
    """

    what: Literal["sent", "consumed", "ended", "recalled"]
    at_ms: int | None
    group: str | None
    client: str | None
    took_ms: int | None
    succeeded: bool | None
    retries: Annotated[int | None, Meta(description="Tries before this one.")]
    state: Annotated[str | None, Meta(description="How a transaction ended.")]


class FoundMessage(Struct, kw_only=True):
    """A stored message. `state`: waiting, delivered, cancelled, or stored (it was never delayed)."""

    id: str
    message_id: str | None
    offset_message_id: str
    topic: str
    broker: str
    state: Literal["stored", "waiting", "delivered", "cancelled"]
    body: Annotated[str | None, Meta(description="The body, if it is UTF-8 text.")]
    body_base64: Annotated[str | None, Meta(description="The body, if it is not text.")]
    tag: str | None
    keys: list[str]
    properties: dict[str, str]
    born_ms: int
    reconsume_times: int
    due_ms: int | None
    records: list[RecordPlace]
    trace: Annotated[
        list[TracedStep] | None,
        Meta(description="What clients told in RMQ_SYS_TRACE_TOPIC, the first 100; null: it could not be read."),
    ]


class TopicRow(Struct, kw_only=True):
    """One topic of one broker."""

    name: str
    broker: str
    read_queues: int
    write_queues: int
    permission: Annotated[int, Meta(description="4 read, 2 write, 6 both.")]


class TopicList(Struct, kw_only=True):
    """The topics that the token may read."""

    topics: list[TopicRow]


class GroupRow(Struct, kw_only=True):
    """One consumer group of one broker."""

    name: str
    broker: str
    retry_max_times: int
    consume_enabled: bool


class GroupList(Struct, kw_only=True):
    """The consumer groups."""

    groups: list[GroupRow]


class LevelRow(Struct, kw_only=True):
    """One delay level: `backlog` messages wait, `offset` was released last, `max_offset` is the end of its queue."""

    level: int
    delay_ms: int
    offset: int
    max_offset: int
    backlog: int


class LevelList(Struct, kw_only=True):
    """The delay levels of the broker."""

    levels: list[LevelRow]
