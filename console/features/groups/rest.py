"""Consumer groups by REST: list them, receive messages as one, and move one to other offsets.

Receiving gives messages to one receiver for a while: it acknowledges them, gives them back, or keeps them for longer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from broker.client import InvalidArgument, NotHeld, Receipt, Received, Sql, read_receipt
from broker.client.names import check_group, check_topic
from console.features.groups.operations import ALL_TOPICS
from console.operations.actor import RESET_OFFSETS
from console.rest.access import Group, InRows, Topic, visible_groups
from console.rest.database import token_actor
from console.rest.errors import InvalidParameter, InvalidReceipt, SchemaViolated, TooManyRequests
from console.rest.identifiers import written
from console.rest.operations import begun, in_thread
from console.rest.query import moment_ms
from console.rest.responses import body_texts, json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, PREVIEWED, Look, Moment, OfBroker, Place, Reason
from console.rest.several import Missing, rows_of
from console.security.tokens import CONSUME, READ, SETTINGS

LONGEST_INVISIBLE_MS = 12 * 3_600_000
MOST_RECEIPTS = 100

ReceiptWord = Annotated[str, Meta(min_length=1, max_length=1_000, description="As the message came with it.")]
Receipts = Annotated[list[ReceiptWord], Meta(min_length=1, max_length=MOST_RECEIPTS)]
Invisible = Annotated[
    int, Meta(ge=1, le=LONGEST_INVISIBLE_MS, description="Invisible time: how long nobody else gets the messages.")
]


class Receive(Struct, forbid_unknown_fields=True, kw_only=True):
    """A wish for messages: how many, of what kind, and how long to wait for the first."""

    max_messages: Annotated[int, Meta(ge=1, le=32)] = 16
    invisible_ms: Invisible = 30_000
    wait_ms: Annotated[
        int,
        Meta(ge=0, le=30_000, description="How long the answer may wait for the first message; 0: what is there now."),
    ] = 15_000
    expression: Annotated[
        str, Meta(max_length=8_192, description="Tags, joined by ||, or a filter over properties; * for all.")
    ] = "*"
    expression_type: Literal["tag", "sql92"] = "tag"
    in_order: Annotated[
        bool,
        Meta(
            description="Ordered: a queue gives nothing more until all received from it is acknowledged or due again."
        ),
    ] = False


class Acknowledge(Struct, forbid_unknown_fields=True, kw_only=True):
    """The messages that are done."""

    receipts: Receipts


class GiveBack(Struct, forbid_unknown_fields=True, kw_only=True):
    """The messages to deliver again, and when."""

    receipts: Receipts
    delay_ms: Annotated[int, Meta(ge=0, le=LONGEST_INVISIBLE_MS)] = 0


class Extend(Struct, forbid_unknown_fields=True, kw_only=True):
    """The messages to keep, and for how long from now."""

    receipts: Receipts
    invisible_ms: Invisible


class ReceivedMessage(Struct, kw_only=True):
    """A message that is the receiver's until `invisible_until_ms`, by the broker's clock."""

    receipt: Annotated[str, Meta(description="Opaque; good for :ack, :nack and :extend.")]
    id: Annotated[str, Meta(description="Opaque; good for GET /api/v1/messages/{id}.")]
    message_id: str | None
    topic: str
    broker: str
    queue: int
    queue_offset: int
    body: Annotated[str | None, Meta(description="The body, if it is UTF-8 text.")]
    body_base64: Annotated[str | None, Meta(description="The body, if it is not text.")]
    tag: str | None
    keys: list[str]
    properties: dict[str, str]
    born_ms: int
    attempt: Annotated[int, Meta(description="How often it was delivered, this time included.")]
    invisible_until_ms: int


class ReceivedList(Struct, kw_only=True):
    """The messages; none if none came in time."""

    messages: list[ReceivedMessage]


NotHeldReceipts = Annotated[list[str], Meta(description="Expired receipts: another consumer may have the message.")]


class Acknowledged(Struct, kw_only=True):
    """The number of messages that are done."""

    acknowledged: int
    not_held: NotHeldReceipts


class GivenBack(Struct, kw_only=True):
    """The number of messages that will be delivered again."""

    given_back: int
    not_held: NotHeldReceipts


class Kept(Struct, kw_only=True):
    """A message that is the receiver's for longer, by its new receipt."""

    was: str
    receipt: str
    invisible_until_ms: int


class Extended(Struct, kw_only=True):
    """The receipts to use from now on."""

    extended: list[Kept]
    not_held: NotHeldReceipts


class GroupRow(Struct, kw_only=True):
    """A consumer group of one broker."""

    name: str
    broker: str
    retry_max_times: int
    consume_enabled: bool


class GroupList(Struct, kw_only=True):
    """The consumer groups that the token may read, a row for each broker that has it."""

    groups: list[GroupRow]
    brokers_missing: Missing


class QueueOffset(Struct, array_like=True, forbid_unknown_fields=True):
    """A queue, the offset at which to go on, and of several brokers whose queue it is."""

    queue: Place
    offset: Place
    broker: Annotated[str, Meta(max_length=255)] = ""


class NewOffsets(Struct, forbid_unknown_fields=True, kw_only=True):
    """The place where a group is to go on in a topic: at the first message stored at or after `at`, at the first there
    is, behind the last (what is between is skipped), or at `offsets`, pairs of queue and offset (other queues stay)."""

    to: Literal["time", "first", "last", "offsets"]
    at: Moment | None = None
    offsets: Annotated[list[QueueOffset], Meta(min_length=1, max_length=1_000)] | None = None
    reason: Reason
    preview: Look = False


class NewPlace(Struct, forbid_unknown_fields=True, kw_only=True):
    """The place where a group is to go on in each topic that it reads: at the first message stored at or after `at`, at
    the first there is, or behind the last (what is between is skipped)."""

    to: Literal["time", "first", "last"]
    at: Moment | None = None
    reason: Reason
    preview: Look = False


_GROUP = "/topics/{topic}/groups/{group}"
_PLACE = (Topic(), Group())
_MOST_BYTES = 256 * 1024


@route(
    "POST",
    f"{_GROUP}:receive",
    "Receive messages",
    action=CONSUME,
    permission=RESET_OFFSETS,
    on=_PLACE,
    answers=((200, "Messages, or none if none came in time.", ReceivedList),),
    errors=(TooManyRequests,),
    most_body_bytes=_MOST_BYTES,
)
async def receive(call: Call, body: Receive) -> Response:
    """Answer up to 32 messages, which no other consumer gets for a while; an empty list if none came within `wait_ms`.

    Give your client a time-out that is longer than `wait_ms`.
    """
    topic, group = _topic_and_group(call)
    receivers = call.state.receivers
    expression = Sql(body.expression) if body.expression_type == "sql92" else body.expression
    received = await receivers.receive(
        call.request,
        receivers.of(group, in_order=body.in_order),
        topic,
        max_messages=body.max_messages,
        invisible_ms=body.invisible_ms,
        wait_ms=body.wait_ms,
        expression=expression,
    )
    return json_answer(ReceivedList(messages=[_shown(each) for each in received]))


@route(
    "POST",
    f"{_GROUP}:ack",
    "Acknowledge messages",
    action=CONSUME,
    permission=RESET_OFFSETS,
    on=_PLACE,
    answers=((200, "Acknowledged, except those that are no longer held.", Acknowledged),),
    errors=(InvalidReceipt,),
    most_body_bytes=_MOST_BYTES,
)
async def acknowledge(call: Call, body: Acknowledge) -> Response:
    """Acknowledge messages, which are done then."""
    topic, group = _topic_and_group(call)
    receipts = _receipts(body.receipts, topic)
    gone: list[str] = []
    try:
        await call.state.receivers.of(group).ack(*receipts.values())
    except NotHeld as refusal:
        gone = [word for word, receipt in receipts.items() if receipt in refusal.receipts]
    return json_answer(Acknowledged(acknowledged=len(receipts) - len(gone), not_held=gone))


@route(
    "POST",
    f"{_GROUP}:nack",
    "Return messages for redelivery (nack)",
    action=CONSUME,
    permission=RESET_OFFSETS,
    on=_PLACE,
    answers=((200, "To be redelivered, except those that are no longer held.", GivenBack),),
    errors=(InvalidReceipt,),
    most_body_bytes=_MOST_BYTES,
)
async def give_back(call: Call, body: GiveBack) -> Response:
    """Return messages for redelivery (nack), after a while if wanted."""
    topic, group = _topic_and_group(call)
    consumer, gone = call.state.receivers.of(group), []
    receipts = _receipts(body.receipts, topic)
    for word, receipt in receipts.items():
        try:
            await consumer.nack(receipt, body.delay_ms)
        except NotHeld:
            gone.append(word)
    return json_answer(GivenBack(given_back=len(receipts) - len(gone), not_held=gone))


@route(
    "POST",
    f"{_GROUP}:extend",
    "Extend the invisible time of messages",
    action=CONSUME,
    permission=RESET_OFFSETS,
    on=_PLACE,
    answers=((200, "Their new receipts.", Extended),),
    errors=(InvalidReceipt,),
    most_body_bytes=_MOST_BYTES,
)
async def extend(call: Call, body: Extend) -> Response:
    """Extend the invisible time of messages, by new receipts."""
    topic, group = _topic_and_group(call)
    consumer, kept, gone = call.state.receivers.of(group), [], []
    for word, receipt in _receipts(body.receipts, topic).items():
        try:
            new = await consumer.extend(receipt, body.invisible_ms)
        except NotHeld:
            gone.append(word)
        else:
            kept.append(Kept(was=word, receipt=str(new), invisible_until_ms=new.invisible_until_ms))
    return json_answer(Extended(extended=kept, not_held=gone))


@route("GET", "/groups", "List consumer groups", action=READ, on=InRows(), answers=((200, "Groups.", GroupList),))
async def groups(call: Call, query: OfBroker) -> Response:
    """List the groups that the token may read: by their own names, or because they read such a topic.

    Of a token with policies those of them that the policies let it read, too.
    """
    found, missing = await rows_of(call.state, query.broker, lambda admin: admin.groups())
    seen = await in_thread(lambda: visible_groups(call.grant, [each.name for each in found]))
    call.was_checked(READ)
    rows = [
        GroupRow(
            name=each.name,
            broker=each.broker,
            retry_max_times=each.retry_max_times,
            consume_enabled=each.consume_enabled,
        )
        for each in found
        if each.name in seen
    ]
    return json_answer(GroupList(groups=rows, brokers_missing=missing))


@route(
    "POST",
    f"{_GROUP}:reset-offsets",
    "Reset the offsets of a group in a topic",
    action=CONSUME,
    permission=RESET_OFFSETS,
    on=(Topic(), Group(), Group(SETTINGS)),
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def reset_offsets(call: Call, query: OfBroker, body: NewOffsets) -> Response:
    """Have the group go on elsewhere in the topic: messages are given out again, or skipped."""
    topic, group = call.named["topic"], call.named["group"]
    check_group(group)
    check_topic(topic)
    if (body.at is not None) != (body.to == "time") or (body.offsets is not None) != (body.to == "offsets"):
        raise SchemaViolated("`at` is given with to: time, `offsets` with to: offsets, and nothing else.")
    parameters: dict[str, Any] = {"group": group, "topic": topic, "to": body.to}
    if body.at is not None:
        parameters["at_ms"] = moment_ms(body.at, "at")
    if body.offsets is not None:
        parameters["offsets"] = [
            [each.queue, each.offset, *([each.broker] if each.broker else [])] for each in body.offsets
        ]
    actor = token_actor(call.grant, frozenset((RESET_OFFSETS,)))
    return await begun(
        "groups.reset_offsets", parameters, body.reason, actor, is_look=body.preview, broker=query.broker
    )


@route(
    "POST",
    "/groups/{group}:reset-offsets",
    "Reset the offsets of a group in all its topics",
    action=CONSUME,
    permission=RESET_OFFSETS,
    on=(Group(), Group(SETTINGS)),
    answers=(BEGUN_OR_WAITS, PREVIEWED),
)
async def reset_all_offsets(call: Call, query: OfBroker, body: NewPlace) -> Response:
    """Have the group go on elsewhere in every topic that it has offsets in; its retries and dead letters stay."""
    group = call.named["group"]
    check_group(group)
    if (body.at is not None) != (body.to == "time"):
        raise SchemaViolated("`at` is given with to: time, and not else.")
    parameters: dict[str, Any] = {"group": group, "topic": ALL_TOPICS, "to": body.to}
    if body.at is not None:
        parameters["at_ms"] = moment_ms(body.at, "at")
    actor, check = token_actor(call.grant, frozenset((RESET_OFFSETS,))), call.preview_check(CONSUME)

    def allow(topics: frozenset[str] | None) -> None:
        # where nothing changes in any topic the group alone is named, for which the token was asked already
        if topics is None or topics:
            check(topics)

    return await begun(
        "groups.reset_offsets", parameters, body.reason, actor, allow=allow, is_look=body.preview, broker=query.broker
    )


def _topic_and_group(call: Call) -> tuple[str, str]:
    """Return topic and group of the address; raises InvalidParameter."""
    topic, group = call.named["topic"], call.named["group"]
    try:
        check_topic(topic)
        check_group(group)
    except InvalidArgument as error:
        raise InvalidParameter(str(error)) from None
    return topic, group


def _receipts(words: list[str], topic: str) -> dict[str, Receipt]:
    """Return each word once with the receipt that it stands for; raises InvalidReceipt."""
    found: dict[str, Receipt] = {}
    for word in words:
        try:
            found[word] = read_receipt(word)
        except InvalidArgument as error:
            raise InvalidReceipt(str(error)) from None
        if found[word].topic != topic:
            raise InvalidReceipt(f"A receipt of topic {found[word].topic[:127]} was given for topic {topic}.")
    return found


def _shown(received: Received) -> ReceivedMessage:
    message, broker = received.message, received.receipt.broker
    text, base64_text = body_texts(message.body)
    return ReceivedMessage(
        receipt=str(received.receipt),
        id=written(broker, message.topic, message.position, message.unique_key or ""),
        message_id=message.unique_key,
        topic=message.topic,
        broker=broker,
        queue=message.queue_id,
        queue_offset=message.queue_offset,
        body=text,
        body_base64=base64_text,
        tag=message.tags,
        keys=message.keys,
        properties=dict(message.properties),
        born_ms=message.born_ms,
        attempt=received.attempt,
        invisible_until_ms=received.invisible_until_ms,
    )
