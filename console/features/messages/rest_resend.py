"""POST: a stored message once more, as a new one of its topic or back to one group.

It is an operation whose row is written before it is sent, so that the same call again (`idempotency_key`) finds it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from broker.client import InvalidArgument, Message, RouteNotFound
from broker.client.names import check_group, check_topic, check_writable_topic
from broker.rocketmq.properties import REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC, SCHEDULE_TOPIC
from console.operations import workflow
from console.operations.actor import RESEND_DEAD_LETTERS, Actor
from console.operations.kind import ItemResult
from console.operations.models import Operation
from console.operations.registry import kind_of
from console.security.tokens import CONSUME, PUBLISH, Grant

from ...rest.choice_schemas import Resend, Resent, SentAgain
from ...rest.errors import (
    IdempotencyKeyUsed,
    InvalidIdentifier,
    MessageNotFound,
    NotKnown,
    NotResendable,
    OperationRefused,
)
from ...rest.grants import require
from ...rest.identifiers import parse, written
from ...rest.moments import written_moment
from ...rest.operations_bridge import begun, in_thread, shown_of
from ...rest.request_body import decode, read_body
from ...rest.responses import json_answer
from ...rest.state import Room
from ..timers.rest_bulk import actor_of
from ..timers.rest_life import is_timer, life_of
from .rest import by_identifier, by_offset_id, by_unique_id, is_offset_id, only_parameters
from .rest import real_topic as topic_of

KIND = "messages.resend"
MAX_BODY_BYTES = 64 * 1024
_resend = msgspec.json.Decoder(Resend)
#: numbers of operations are made of this, the token and the key that the caller gave
_SPACE = uuid.UUID("6f1f7f2e-5d0c-4a54-9d27-3b5b1d6f0d11")


@dataclass(frozen=True, slots=True)
class _Done:
    row: Operation
    result: ItemResult | None
    repeated: bool


async def resend(request: Request, grant: Grant, room: Room) -> Response:
    """Send it again; 201 when that is done, 200 when this same call did it before."""
    only_parameters(request, "topic")
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _resend)
    if wanted.group is not None:
        check_group(wanted.group)
        require(grant, CONSUME, wanted.group, "group")
    message, broker = await _named(request, grant, room)
    parameters = {"message_id": message.offset_message_id, "topic": message.topic, "group": wanted.group or ""}
    actor = replace(actor_of(grant), permissions=frozenset((RESEND_DEAD_LETTERS,)))
    if wanted.preview:
        return await begun(KIND, parameters, wanted.reason, actor, is_look=True)
    done = await in_thread(lambda: _done(parameters, wanted, actor))
    if done.result is None:
        answer = json_answer(await in_thread(lambda: shown_of(done.row)), 202)
        answer.headers["location"] = f"/api/v1/operations/{done.row.pk}"
        return answer
    return json_answer(_told(done, message.topic, wanted, broker), 200 if done.repeated else 201)


async def _named(request: Request, grant: Grant, room: Room) -> tuple[Message, str]:
    """The record of the topic itself that the address names, and its broker where the id has it.

    Raises MessageNotFound, also for one of a topic that the token must not touch, and NotResendable.
    """
    text, topic, broker = request.path_params["id"], request.query_params.get("topic"), ""
    if topic is not None:
        check_topic(topic)
        require(grant, PUBLISH, topic)
        found = await _by_unique_id(topic, text, room)
    elif text.startswith("m1"):
        require(grant, PUBLISH, parse(text).topic)
        broker, found = await by_identifier(parse(text), room, is_half_wanted=True)
    elif is_offset_id(text):
        found = await by_offset_id(text.upper(), room)
    else:
        raise InvalidIdentifier("This is neither an id of ours nor an offset id; a unique id needs its ?topic=.")
    topic = topic_of(found) if found.topic != HALF_TOPIC else found.properties.get(REAL_TOPIC, "")
    if not grant.allows(PUBLISH, topic):
        raise MessageNotFound
    if found.topic == HALF_TOPIC:
        raise NotResendable("This is a half message: commit or roll back its transaction (/api/v1/transactions).")
    try:
        check_writable_topic(topic)
    except InvalidArgument as error:
        raise NotResendable(str(error)) from None
    if topic.startswith("%"):
        raise NotResendable("This is a try or a dead letter of a group: /groups/{group}/dead-letters sends it again.")
    return (found if found.topic == topic else await _delivered(found, topic, room)), broker


async def _by_unique_id(topic: str, unique_id: str, room: Room) -> Message:
    try:
        return await by_unique_id(topic, unique_id, room)
    except MessageNotFound:
        half = await room.admin.message_by_unique_id(HALF_TOPIC, unique_id)
        if half is None or half.properties.get(REAL_TOPIC) != topic:
            raise
        return half


async def _delivered(parked: Message, topic: str, room: Room) -> Message:
    """What came of a message that waited; raises NotResendable while it waits, or where it was cancelled."""
    address = "{}:{}".format(*parked.store_host)
    if is_timer(parked):
        life = await life_of(parked, topic, address, room)
        records, state, due_ms = life.records, life.state, life.due_ms
    else:
        records = [] if parked.unique_key is None else await _in(topic, parked.unique_key, room)
        released = (await room.admin.delay_offsets()).get(parked.queue_id + 1, 0)
        state, due_ms = ("waiting" if parked.queue_offset >= released else "delivered"), None
    delivered = [each for each in records if each.topic == topic]
    if delivered:
        return max(delivered, key=lambda each: each.position)
    if state == "cancelled":
        raise NotResendable("It was cancelled, so that nobody got it: take that back, or send a new message.")
    if state == "waiting":
        when = "" if due_ms is None else f" until {written_moment(due_ms)}"
        how = "" if parked.topic == SCHEDULE_TOPIC else ": deliver it now, or send another one"
        raise NotResendable(f"It waits{when}{how}.")
    raise MessageNotFound


async def _in(topic: str, unique_key: str, room: Room) -> list[Message]:
    try:
        return await room.admin.records_by_unique_id(topic, unique_key)
    except RouteNotFound:
        return []


def _done(parameters: Mapping[str, Any], wanted: Resend, actor: Actor) -> _Done:
    """Begin it, or find it begun; runs in a thread that may wait."""
    number, repeated = None, False
    if wanted.idempotency_key is not None:
        number = uuid.uuid5(_SPACE, f"{actor.user_id}\0{actor.name}\0{wanted.idempotency_key}")
    row = workflow.draft(KIND, parameters, actor, number=number)
    if row.parameters != kind_of(KIND).checked(parameters):
        raise IdempotencyKeyUsed
    if row.state != Operation.State.DRAFT:
        repeated = True
    elif number is not None:
        # one that was begun long ago and not confirmed is counted anew
        row = workflow.look_again(row, actor)
    row = workflow.confirm(row.pk, actor, reason=wanted.reason, is_typing_needed=False)
    item = row.items.exclude(outcome="").first()
    return _Done(row, None if item is None else ItemResult(item.outcome, item.result), repeated)


def _told(done: _Done, topic: str, wanted: Resend, broker: str) -> Resent:
    result = done.result
    assert result is not None
    if result.outcome == "gone":
        raise MessageNotFound
    if result.outcome == "refused":
        raise OperationRefused(str(result.result.get("error", "The broker refused it.")))
    if result.outcome == "unknown":
        raise NotKnown(f"It is not known whether the broker has it: {result.result.get('error', '')}")
    told = result.result
    identifier = None
    if told.get("unique_key"):
        # the last 16 digits of an offset message id are the position
        position = int(told["message_id"][-16:], 16)
        identifier = written(told.get("broker") or broker, topic, position, told["unique_key"])
    return Resent(
        outcome=cast(SentAgain, result.outcome), topic=topic, group=wanted.group, id=identifier,
        message_id=told.get("unique_key"), repeated=done.repeated, operation=f"/api/v1/operations/{done.row.pk}",
    )  # fmt: skip
