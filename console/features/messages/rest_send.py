"""Sending messages by REST: one, or up to a thousand that are each stored or refused on their own."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from broker.client import ClientError, Outgoing, SendResult
from broker.client.errors import ScheduleKeyTaken, TimerTooFar
from console.operations.actor import SEND_MESSAGES
from console.rest.access import Topic
from console.rest.errors import MomentPast, RequestError, TooManyRequests, problem_for
from console.rest.identifiers import written
from console.rest.records import position_in
from console.rest.request_body import (
    MAX_BATCH_BYTES,
    MAX_SINGLE_BYTES,
    NewMessage,
    NewMessages,
    check_topic_to_send_to,
    outgoing,
)
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.state import ApiState
from console.security.tokens import PUBLISH
from console.site.slow_requests import AskingBroker


class Sent(Struct, kw_only=True):
    """The place of a message that was sent. `flushed`: it is on disk. `queue_offset` is that of the level's queue while
    it waits."""

    id: Annotated[str, Meta(description="Opaque; good for GET /api/v1/messages/{id}.")]
    message_id: Annotated[str, Meta(description="RocketMQ's message id, which consumers see.")]
    topic: str
    broker: str
    queue: int
    queue_offset: int
    flushed: bool
    due_ms: Annotated[int | None, Meta(description="When a delayed message is due, ms since 1970.")] = None
    recall_handle: Annotated[str | None, Meta(description="RocketMQ's name of a pending timer.")] = None
    conflict: Annotated[
        Literal["replaced", "kept"] | None,
        Meta(description="A message with this schedule_key waited: replaced by this one, or kept (all is told of it)."),
    ] = None


class ItemProblem(Struct, kw_only=True):
    """The reason why one message of a batch was not stored."""

    status: int
    code: str
    detail: str
    remedy: str
    field: str | None = None
    due_ms: int | None = None


class SentItem(Struct, kw_only=True, omit_defaults=True):
    """The outcome of one message of a batch: `sent` or `problem`."""

    index: int
    status: int
    sent: Sent | None = None
    problem: ItemProblem | None = None


class SentBatch(Struct, kw_only=True):
    """The outcomes of a batch, in the order of the request."""

    stored: int
    refused: int
    results: list[SentItem]


@route(
    "POST",
    "/topics/{topic}/messages",
    "Send a message",
    action=PUBLISH,
    permission=SEND_MESSAGES,
    on=Topic(),
    answers=(
        (201, "It is on disk.", Sent),
        (202, "Accepted, not known to be on disk.", Sent),
        (200, "Nothing was stored: the one with this schedule_key stays.", Sent),
    ),
    errors=(ScheduleKeyTaken, MomentPast, TimerTooFar, TooManyRequests),
    most_body_bytes=MAX_SINGLE_BYTES,
    example={"body": "hello", "tag": "created", "keys": ["order-42"], "delay_level": 3},
    takes_key=True,
)
async def send_one(call: Call, body: NewMessage) -> Response:
    """Send one message; 201 when it is on disk, 202 when it is not known to be, 200 when another one was kept."""
    topic, state = call.named["topic"], call.state
    check_topic_to_send_to(topic)
    with state.sending(1, call.body_bytes), AskingBroker():
        result = await state.producer.send_prepared(topic, outgoing(body))
    sent = _sent(result, body, await state.flushes_first(result.broker))
    return json_answer(sent, _status(sent))


@route(
    "POST",
    "/topics/{topic}/messages:batch",
    "Send up to 1,000 messages, each on its own",
    action=PUBLISH,
    permission=SEND_MESSAGES,
    on=Topic(),
    answers=((207, "One answer a message, in order.", SentBatch),),
    errors=(TooManyRequests,),
    most_body_bytes=MAX_BATCH_BYTES,
    example={"messages": [{"body": "one"}, {"body": "two", "delay_level": 1}]},
    takes_key=True,
)
async def send_several(call: Call, body: NewMessages) -> Response:
    """Send each message on its own, all in one write; 207 with one answer a message."""
    topic, state = call.named["topic"], call.state
    check_topic_to_send_to(topic)
    with state.sending(len(body.messages), call.body_bytes):
        items = await _send_each(topic, body.messages, state)
    refused = sum(item.problem is not None for item in items)
    return json_answer(SentBatch(stored=len(items) - refused, refused=refused, results=items), 207)


async def _send_each(topic: str, wanted: list[NewMessage], state: ApiState) -> list[SentItem]:
    ready: list[Outgoing] = []
    places: list[int] = []
    items: list[SentItem | None] = [None] * len(wanted)
    for index, each in enumerate(wanted):
        try:
            ready.append(outgoing(each))
            places.append(index)
        except (RequestError, ClientError) as error:
            items[index] = _refused(index, error)
    with AskingBroker():
        results = await state.producer.send_each(topic, ready)
    brokers = {result.broker for result in results if isinstance(result, SendResult)}
    flushes_first = {broker: await state.flushes_first(broker) for broker in brokers}
    for index, result in zip(places, results, strict=True):
        if isinstance(result, ClientError):
            items[index] = _refused(index, result)
        else:
            sent = _sent(result, wanted[index], flushes_first[result.broker])
            items[index] = SentItem(index=index, status=_status(sent), sent=sent)
    return [item for item in items if item is not None]


def _refused(index: int, error: RequestError | ClientError) -> SentItem:
    rule, problem = problem_for(error)
    shown = ItemProblem(
        status=rule.status,
        code=rule.code,
        detail=problem.detail,
        remedy=rule.remedy,
        field=problem.field,
        due_ms=problem.due_ms,
    )
    return SentItem(index=index, status=rule.status, problem=shown)


def _status(sent: Sent) -> int:
    if sent.conflict == "kept":
        return 200
    return 201 if sent.flushed else 202


def _sent(result: SendResult, wanted: NewMessage, flushes_first: bool) -> Sent:
    position = position_in(result.offset_message_id)
    return Sent(
        id=written(result.broker, result.topic, position, result.message_id),
        message_id=result.message_id,
        topic=result.topic,
        broker=result.broker,
        queue=result.queue_id,
        queue_offset=result.queue_offset,
        flushed=flushes_first and wanted.durability == "sync" and result.status == "SEND_OK",
        due_ms=result.due_ms,
        recall_handle=result.recall_handle,
        conflict=result.conflict,
    )
