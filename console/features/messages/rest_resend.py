"""Sending a stored message again by REST: as a new one of its topic, or back to one group.

It is an operation whose row is written before it is sent, so that the same call again (`idempotency_key`) finds it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct
from starlette.responses import Response

from broker.client import InvalidArgument, Message
from broker.client.names import check_group, check_topic, check_writable_topic
from broker.rocketmq.properties import REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC, SCHEDULE_TOPIC
from console.operations import workflow
from console.operations.actor import RESEND_DEAD_LETTERS, Actor
from console.operations.kind import ItemResult
from console.operations.models import Operation
from console.operations.registry import kind_of
from console.rest.access import InRecord
from console.rest.errors import (
    IdempotencyKeyUsed,
    InvalidIdentifier,
    MessageNotFound,
    NotKnown,
    NotResendable,
    OperationRefused,
)
from console.rest.identifiers import parse, written
from console.rest.moments import written_moment
from console.rest.operations_bridge import begun, in_thread, shown_of
from console.rest.recorder import token_actor
from console.rest.records import (
    all_records,
    by_identifier,
    by_offset_id,
    by_unique_id,
    is_offset_id,
    is_timer,
    position_in,
    real_topic,
    timer_history,
)
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import WAITS, Look, Reason, Text, TopicOfUniqueId
from console.rest.state import ApiState
from console.security.tokens import CONSUME, PUBLISH

KIND = "messages.resend"
SentAgain = Literal["sent_as_new", "sent_back"]
#: numbers of operations are made of this, the token and the key that the caller gave
_SPACE = uuid.UUID("6f1f7f2e-5d0c-4a54-9d27-3b5b1d6f0d11")


class Resend(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why a message is sent again, and to whom: to every group of its topic (as a new message), or to `group` alone.

    `idempotency_key`: of the caller's own; the same token with the same key sends nothing a second time.
    """

    reason: Reason
    group: Text | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    preview: Look = False


class Resent(Struct, kw_only=True):
    """A message that was sent again. `id` and `message_id` are the new one's; null where a group got it back.

    `repeated`: nothing was sent by this call, the one before with the same idempotency_key did it.
    """

    outcome: SentAgain
    topic: str
    group: str | None
    id: str | None
    message_id: str | None
    repeated: bool
    operation: str


@dataclass(frozen=True, slots=True)
class _Done:
    row: Operation
    result: ItemResult | None
    repeated: bool


@route(
    "POST",
    "/messages/{id}:resend",
    "Send a message again",
    action=PUBLISH,
    on=InRecord(),
    answers=(
        (201, "It is sent again.", Resent),
        WAITS,
        (200, "This same call sent it before; asked for a preview: OperationPreview.", Resent),
    ),
    errors=(MessageNotFound, NotResendable, IdempotencyKeyUsed, OperationRefused, NotKnown),
    most_body_bytes=64 * 1024,
)
async def resend(call: Call, query: TopicOfUniqueId, body: Resend) -> Response:
    """Send it again; 201 when that is done, 200 when this same call did it before."""
    if body.group is not None:
        check_group(body.group)
        call.require(body.group, "group", action=CONSUME)
    message, broker = await _named(call, query.topic)
    parameters = {"message_id": message.offset_message_id, "topic": message.topic, "group": body.group or ""}
    actor = token_actor(call.grant, frozenset((RESEND_DEAD_LETTERS,)))
    if body.preview:
        return await begun(KIND, parameters, body.reason, actor, is_look=True)
    done = await in_thread(lambda: _done(parameters, body, actor))
    if done.result is None:
        answer = json_answer(await in_thread(lambda: shown_of(done.row)), 202)
        answer.headers["location"] = f"/api/v1/operations/{done.row.pk}"
        return answer
    return json_answer(_told(done, message.topic, body, broker), 200 if done.repeated else 201)


async def _named(call: Call, topic: str | None) -> tuple[Message, str]:
    """The record of the topic itself that the address names, and its broker where the id has it.

    Raises MessageNotFound, also for one of a topic that the token must not touch, and NotResendable.
    """
    text, broker, state = call.named["id"], "", call.state
    if topic is not None:
        check_topic(topic)
        call.require(topic)
        found = await _by_unique_id(topic, text, state)
    elif text.startswith("m1"):
        call.require(parse(text).topic)
        broker, found = await by_identifier(parse(text), state, is_half_wanted=True)
    elif is_offset_id(text):
        found = await by_offset_id(text.upper(), state)
    else:
        raise InvalidIdentifier("This is neither an id of ours nor an offset id; a unique id needs its ?topic=.")
    topic = real_topic(found) if found.topic != HALF_TOPIC else found.properties.get(REAL_TOPIC, "")
    if not call.allows(topic):
        raise MessageNotFound
    if found.topic == HALF_TOPIC:
        raise NotResendable("This is a half message: commit or roll back its transaction (/api/v1/transactions).")
    try:
        check_writable_topic(topic)
    except InvalidArgument as error:
        raise NotResendable(str(error)) from None
    if topic.startswith("%"):
        raise NotResendable("This is a try or a dead letter of a group: /groups/{group}/dead-letters sends it again.")
    return (found if found.topic == topic else await _delivered(found, topic, state)), broker


async def _by_unique_id(topic: str, unique_id: str, state: ApiState) -> Message:
    try:
        return await by_unique_id(topic, unique_id, state)
    except MessageNotFound:
        half = await state.admin.message_by_unique_id(HALF_TOPIC, unique_id)
        if half is None or half.properties.get(REAL_TOPIC) != topic:
            raise
        return half


async def _delivered(parked: Message, topic: str, state: ApiState) -> Message:
    """What came of a message that waited; raises NotResendable while it waits, or where it was cancelled."""
    address = "{}:{}".format(*parked.store_host)
    if is_timer(parked):
        history = await timer_history(parked, topic, address, state)
        records, what, due_ms = history.records, history.state, history.due_ms
    else:
        records = [] if parked.unique_key is None else await all_records(topic, parked.unique_key, state)
        released = (await state.admin.delay_offsets()).get(parked.queue_id + 1, 0)
        what, due_ms = ("waiting" if parked.queue_offset >= released else "delivered"), None
    delivered = [each for each in records if each.topic == topic]
    if delivered:
        return max(delivered, key=lambda each: each.position)
    if what == "cancelled":
        raise NotResendable("It was cancelled, so that nobody got it: take that back, or send a new message.")
    if what == "waiting":
        when = "" if due_ms is None else f" until {written_moment(due_ms)}"
        how = "" if parked.topic == SCHEDULE_TOPIC else ": deliver it now, or send another one"
        raise NotResendable(f"It waits{when}{how}.")
    raise MessageNotFound


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
        identifier = written(told.get("broker") or broker, topic, position_in(told["message_id"]), told["unique_key"])
    return Resent(
        outcome=cast(SentAgain, result.outcome),
        topic=topic,
        group=wanted.group,
        id=identifier,
        message_id=told.get("unique_key"),
        repeated=done.repeated,
        operation=f"/api/v1/operations/{done.row.pk}",
    )
