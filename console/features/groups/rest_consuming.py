"""Receiving by REST: receive messages of a group, acknowledge them, give them back, or keep them longer."""

from __future__ import annotations

import base64

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from broker.client import InvalidArgument, NotHeld, Receipt, Received, Sql, read_receipt
from broker.client.names import check_group, check_topic
from console.features.groups.rest_consuming_schemas import (
    Acknowledge,
    Acknowledged,
    Extend,
    Extended,
    GiveBack,
    GivenBack,
    Kept,
    Receive,
    ReceivedList,
    ReceivedMessage,
)
from console.features.messages.rest import body_text
from console.rest.errors import InvalidParameter, InvalidReceipt
from console.rest.identifiers import written
from console.rest.request_body import decode, read_body
from console.rest.responses import json_answer
from console.rest.route import Operation
from console.rest.state import Room
from console.security.tokens import CONSUME, Grant

MAX_BYTES = 256 * 1024
_receive = msgspec.json.Decoder(Receive)
_acknowledge = msgspec.json.Decoder(Acknowledge)
_give_back = msgspec.json.Decoder(GiveBack)
_extend = msgspec.json.Decoder(Extend)


async def receive(request: Request, grant: Grant, room: Room) -> Response:
    """Up to 32 messages, each nobody else's for a while; an empty list if none came in time."""
    topic, group = _place(request)
    wanted = decode(await read_body(request, MAX_BYTES), _receive)
    expression = Sql(wanted.expression) if wanted.expression_type == "sql92" else wanted.expression
    received = await room.receivers.receive(
        request, room.receivers.of(group, in_order=wanted.in_order), topic, max_messages=wanted.max_messages,
        invisible_ms=wanted.invisible_ms, wait_ms=wanted.wait_ms, expression=expression,
    )  # fmt: skip
    return json_answer(ReceivedList(messages=[_shown(each) for each in received]))


async def acknowledge(request: Request, grant: Grant, room: Room) -> Response:
    """The messages are done."""
    topic, group = _place(request)
    receipts = _receipts(decode(await read_body(request, MAX_BYTES), _acknowledge).receipts, topic)
    gone: list[str] = []
    try:
        await room.receivers.of(group).ack(*receipts.values())
    except NotHeld as refusal:
        gone = [word for word, receipt in receipts.items() if receipt in refusal.receipts]
    return json_answer(Acknowledged(acknowledged=len(receipts) - len(gone), not_held=gone))


async def give_back(request: Request, grant: Grant, room: Room) -> Response:
    """The messages are to be delivered again, after a while if wanted."""
    topic, group = _place(request)
    wanted = decode(await read_body(request, MAX_BYTES), _give_back)
    consumer, gone = room.receivers.of(group), []
    receipts = _receipts(wanted.receipts, topic)
    for word, receipt in receipts.items():
        try:
            await consumer.nack(receipt, wanted.delay_ms)
        except NotHeld:
            gone.append(word)
    return json_answer(GivenBack(given_back=len(receipts) - len(gone), not_held=gone))


async def extend(request: Request, grant: Grant, room: Room) -> Response:
    """The messages stay the receiver's for longer, by new receipts."""
    topic, group = _place(request)
    wanted = decode(await read_body(request, MAX_BYTES), _extend)
    consumer, kept, gone = room.receivers.of(group), [], []
    for word, receipt in _receipts(wanted.receipts, topic).items():
        try:
            new = await consumer.extend(receipt, wanted.invisible_ms)
        except NotHeld:
            gone.append(word)
        else:
            kept.append(Kept(was=word, receipt=str(new), invisible_until_ms=new.invisible_until_ms))
    return json_answer(Extended(extended=kept, not_held=gone))


def _place(request: Request) -> tuple[str, str]:
    """Topic and group of the address."""
    topic, group = request.path_params["topic"], request.path_params["group"]
    try:
        check_topic(topic)
        check_group(group)
    except InvalidArgument as error:
        raise InvalidParameter(str(error)) from None
    return topic, group


def _receipts(words: list[str], topic: str) -> dict[str, Receipt]:
    """Each word once with the receipt that it is."""
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
    text = body_text(message.body)
    return ReceivedMessage(
        receipt=str(received.receipt),
        id=written(broker, message.topic, message.position, message.unique_key or ""),
        message_id=message.unique_key,
        topic=message.topic,
        broker=broker,
        queue=message.queue_id,
        queue_offset=message.queue_offset,
        body=text,
        body_base64=None if text is not None else base64.b64encode(message.body).decode(),
        tag=message.tags,
        keys=message.keys,
        properties=dict(message.properties),
        born_ms=message.born_ms,
        attempt=received.attempt,
        invisible_until_ms=received.invisible_until_ms,
    )


_GROUP = "/topics/{topic}/groups/{group}"

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", f"{_GROUP}:receive", "Receive messages", CONSUME, receive, Receive,
        ((200, "Messages, or none if none came in time.", ReceivedList),),
    ),
    Operation(
        "POST", f"{_GROUP}:ack", "Acknowledge messages", CONSUME, acknowledge, Acknowledge,
        ((200, "They are done, but those that are not held any more.", Acknowledged),),
    ),
    Operation(
        "POST", f"{_GROUP}:nack", "Have messages delivered again", CONSUME, give_back, GiveBack,
        ((200, "They are delivered again, but those that are not held any more.", GivenBack),),
    ),
    Operation(
        "POST", f"{_GROUP}:extend", "Keep messages for longer", CONSUME, extend, Extend,
        ((200, "Their new receipts.", Extended),),
    ),
)  # fmt: skip
