"""POST: one message, or up to a thousand."""

from __future__ import annotations

import base64
import binascii

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from broker.client import ClientError, InvalidArgument, Outgoing, SendResult, Timing, prepare
from broker.client.names import check_writable_topic
from console.security.tokens import Grant

from ...rest.errors import RequestError
from ...rest.identifiers import written
from ...rest.moments import moment_ms
from ...rest.problems import problem_for
from ...rest.request_body import MAX_BATCH_BYTES, MAX_SINGLE_BYTES, decode, read_body
from ...rest.responses import json_answer
from ...rest.schemas import ItemProblem, NewMessage, NewMessages, Sent, SentBatch, SentItem
from ...rest.state import Room

_single = msgspec.json.Decoder(NewMessage)
_several = msgspec.json.Decoder(NewMessages)


async def send_one(request: Request, grant: Grant, room: Room) -> Response:
    """Send one message; 201 when it is on disk, 202 when it is not known to be, 200 when another one was kept."""
    topic = _topic(request)
    body = await read_body(request, MAX_SINGLE_BYTES)
    with room.under_way(1, len(body)):
        wanted = decode(body, _single)
        result = await room.producer.send_prepared(topic, outgoing(wanted))
    sent = _sent(result, wanted, await room.flushes_first(result.broker))
    return json_answer(sent, _status(sent))


async def send_several(request: Request, grant: Grant, room: Room) -> Response:
    """Send each message on its own, all in one write; 207 with one answer a message."""
    topic = _topic(request)
    body = await read_body(request, MAX_BATCH_BYTES)
    wanted = decode(body, _several).messages
    with room.under_way(len(wanted), len(body)):
        items = await _send_each(topic, wanted, room)
    refused = sum(item.problem is not None for item in items)
    return json_answer(SentBatch(stored=len(items) - refused, refused=refused, results=items), 207)


async def _send_each(topic: str, wanted: list[NewMessage], room: Room) -> list[SentItem]:
    ready: list[Outgoing] = []
    places: list[int] = []
    items: list[SentItem | None] = [None] * len(wanted)
    for index, each in enumerate(wanted):
        try:
            ready.append(outgoing(each))
            places.append(index)
        except (RequestError, ClientError) as error:
            items[index] = _refused(index, error)
    results = await room.producer.send_each(topic, ready)
    brokers = {result.broker for result in results if isinstance(result, SendResult)}
    flushes_first = {broker: await room.flushes_first(broker) for broker in brokers}
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
        status=rule.status, code=rule.code, detail=problem.detail, remedy=rule.remedy, field=problem.field,
        due_ms=problem.due_ms,
    )  # fmt: skip
    return SentItem(index=index, status=rule.status, problem=shown)


def _topic(request: Request) -> str:
    topic: str = request.path_params["topic"]
    check_writable_topic(topic)
    if topic.startswith("%"):
        raise InvalidArgument(f"Topic {topic} belongs to the broker; send to a topic of your own.", field="topic")
    return topic


def outgoing(wanted: NewMessage) -> Outgoing:
    """The message to send; raises RequestError or InvalidArgument."""
    return prepare(
        _body(wanted),
        tag=wanted.tag,
        keys=wanted.keys,
        properties=wanted.properties,
        delay_level=wanted.delay_level,
        wait_for_disk=wanted.durability == "sync",
        group=wanted.group,
        queue_id=wanted.queue,
        sharding_key=wanted.sharding_key,
        **_timing(wanted),
    )


def _timing(wanted: NewMessage) -> Timing:
    """When it is to be delivered, empty for at once; raises InvalidArgument, InvalidMoment, ZoneMissing."""
    _check_moments(wanted)
    timing: Timing = {}
    if wanted.deliver_at is not None:
        timing["deliver_at_ms"] = moment_ms(wanted.deliver_at, "deliver_at")
    if wanted.delay_ms is not None:
        timing["delay_ms"] = wanted.delay_ms
    if wanted.schedule_key is not None:
        timing["schedule_key"] = wanted.schedule_key
    if wanted.on_conflict is not None:
        timing["on_conflict"] = wanted.on_conflict
    if wanted.reject_past:
        timing["reject_past"] = True
    return timing


def _check_moments(wanted: NewMessage) -> None:
    """The names are those of the request, not those that the client has for them."""
    asked = {
        "delay_level": bool(wanted.delay_level),
        "deliver_at": wanted.deliver_at is not None,
        "delay_ms": wanted.delay_ms is not None,
    }
    given = [name for name, is_given in asked.items() if is_given]
    if len(given) > 1:
        raise InvalidArgument(f"Give one of delay_level, deliver_at and delay_ms, not {len(given)}.", field=given[-1])
    if asked["deliver_at"] or asked["delay_ms"]:
        return
    if wanted.schedule_key is not None:
        raise InvalidArgument("A schedule_key needs deliver_at or delay_ms.", field="schedule_key")
    if wanted.reject_past:
        raise InvalidArgument("reject_past needs deliver_at or delay_ms.", field="reject_past")


def _body(wanted: NewMessage) -> str | bytes:
    text, encoded = wanted.body, wanted.body_base64
    if text is not UNSET and encoded is not UNSET:
        raise InvalidArgument("Give body or body_base64, not both.", field="body")
    if text is not UNSET:
        return text
    if encoded is UNSET:
        raise InvalidArgument("Give body (text) or body_base64 (bytes).", field="body")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("body_base64 is not base64.", field="body_base64") from None


def _status(sent: Sent) -> int:
    if sent.conflict == "kept":
        return 200
    return 201 if sent.flushed else 202


def _sent(result: SendResult, wanted: NewMessage, flushes_first: bool) -> Sent:
    # the last 16 digits of an offset message id are the position
    position = int(result.offset_message_id[-16:], 16)
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
