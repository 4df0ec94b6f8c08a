"""A stored message by REST: its records, what became of it, what clients with tracing told of it, and sending it again.

It is sent again as a new one of its topic, or back to one group. That is an operation whose row is written before it is
sent, so that the same call again (`idempotency_key`) finds it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct
from starlette.responses import Response

from broker.client import AsyncAdmin, InvalidArgument, Message
from broker.client.errors import ClientError
from broker.client.names import check_group, check_topic, check_writable_topic
from broker.rocketmq.properties import DELAY, REAL_TOPIC, UNIQUE_KEY
from broker.rocketmq.topics import HALF_TOPIC, SCHEDULE_TOPIC
from console.features.messages.hops import TOLD_LIMIT, Told, told_of
from console.operations import workflow
from console.operations.actor import RESEND_DEAD_LETTERS, Actor
from console.operations.kind import ItemResult
from console.operations.models import Operation
from console.operations.registry import kind_of
from console.rest.access import InRecord, visible_groups
from console.rest.database import token_actor
from console.rest.errors import (
    IdempotencyKeyUsed,
    InvalidIdentifier,
    MessageNotFound,
    NotKnown,
    NotResendable,
    OperationRefused,
)
from console.rest.identifiers import MessageIdentifier, parse, written
from console.rest.masking import Masked
from console.rest.operations import begun, in_thread, shown_of
from console.rest.query import written_moment
from console.rest.records import (
    State,
    TimerHistory,
    all_records,
    by_identifier,
    by_message_id,
    by_offset_id,
    is_offset_id,
    is_timer,
    position_in,
    real_topic,
    timer_history,
)
from console.rest.responses import body_texts, json_answer
from console.rest.route import Call, route
from console.rest.schemas import WAITS, Look, Reason, Text, TopicOfUniqueId
from console.rest.several import asked, at_broker, tell_each
from console.security.masking import BODY
from console.security.tokens import CONSUME, PUBLISH, READ, Grant

KIND = "messages.resend"
SentAgain = Literal["sent_as_new", "sent_back"]
#: numbers of operations are made of this, the token and the key that the caller gave
_SPACE = uuid.UUID("6f1f7f2e-5d0c-4a54-9d27-3b5b1d6f0d11")


class Resend(Struct, forbid_unknown_fields=True, kw_only=True):
    """A wish to send a message again: why, and to whom, to every group of its topic (as a new message), or to `group`
    alone.

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
    "Resend a message",
    action=PUBLISH,
    permission=RESEND_DEAD_LETTERS,
    on=InRecord(),
    answers=(
        (201, "It is resent.", Resent),
        WAITS,
        (200, "This same call resent it before; with preview: OperationPreview.", Resent),
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
    """Return the record of the topic itself that the address names, and its broker.

    Raises MessageNotFound, also for one of a topic that the token must not touch, and NotResendable.
    """
    text, state = call.named["id"], call.state
    if topic is not None:
        check_topic(topic)
        call.require(topic)
        broker, found = await by_message_id(topic, text, state, is_half_wanted=True)
    elif text.startswith("m1"):
        call.require(parse(text).topic)
        broker, found = await by_identifier(parse(text), state, is_half_wanted=True)
    elif is_offset_id(text):
        broker, found = await by_offset_id(text.upper(), state)
    else:
        raise InvalidIdentifier("This is neither an id of this API nor an offset id; a message id needs its ?topic=.")
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
        raise NotResendable("This is a retry or a dead letter of a group: /groups/{group}/dead-letters resends it.")
    return (found if found.topic == topic else await _delivered(found, topic, await at_broker(state, broker))), broker


async def _delivered(parked: Message, topic: str, admin: AsyncAdmin) -> Message:
    """Return what came of a message that waited, at its broker.

    Raises NotResendable while it waits, or where it was cancelled.
    """
    if is_timer(parked):
        history = await timer_history(parked, topic, admin)
        records, what, due_ms = history.records, history.state, history.due_ms
    else:
        records = [] if parked.unique_key is None else await all_records(topic, parked.unique_key, admin)
        released = (await admin.delay_offsets()).get(parked.queue_id + 1, 0)
        what, due_ms = ("waiting" if parked.queue_offset >= released else "delivered"), None
    delivered = [each for each in records if each.topic == topic]
    if delivered:
        return max(delivered, key=lambda each: each.position)
    if what == "cancelled":
        raise NotResendable("It was cancelled, so nobody got it: undo the cancel, or send a new message.")
    if what == "waiting":
        when = "" if due_ms is None else f" until {written_moment(due_ms)}"
        how = "" if parked.topic == SCHEDULE_TOPIC else ": deliver its timer now, or send another message"
        raise NotResendable(f"It waits{when}{how}.")
    raise MessageNotFound


def _done(parameters: Mapping[str, Any], wanted: Resend, actor: Actor) -> _Done:
    """Begin the operation, or find it begun; runs in a thread that may wait."""
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
        raise NotKnown(f"It is unknown whether the broker has it: {result.result.get('error', '')}")
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


class RecordPlace(Struct, kw_only=True):
    """A physical record of a message, with its place."""

    topic: str
    queue: int
    queue_offset: int
    position: int
    stored_ms: int


class TracedStep(Struct, kw_only=True):
    """A step that a client with tracing told of a message, by its own clock; null where it does not say. Nobody checks
    it.

    consumed: given to a handler at `at_ms`, which was at work for `took_ms`; `succeeded` null: its end was not told.
    """

    what: Literal["sent", "consumed", "ended", "recalled"]
    at_ms: int | None
    group: str | None
    client: str | None
    took_ms: int | None
    succeeded: bool | None
    retries: Annotated[int | None, Meta(description="Deliveries before this one.")]
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
        Meta(description="Client traces from RMQ_SYS_TRACE_TOPIC, the first 100; null: they could not be read."),
    ]


@route(
    "GET",
    "/messages/{id}",
    "Get a message",
    action=READ,
    on=InRecord(),
    answers=((200, "The message.", FoundMessage),),
    errors=(InvalidIdentifier, MessageNotFound),
)
async def message(call: Call, query: TopicOfUniqueId) -> Response:
    """Answer one message by our id, by RocketMQ's offset id, or by its message id with ?topic=."""
    text, state = call.named["id"], call.state
    if text.startswith("m1"):
        call.require(parse(text).topic)
        broker, found = await by_identifier(parse(text), state)
    elif query.topic is not None:
        check_topic(query.topic)
        call.require(query.topic)
        broker, found = await by_message_id(query.topic, text, state)
    elif is_offset_id(text):
        broker, found = await by_offset_id(text.upper(), state)
    else:
        raise InvalidIdentifier("This is neither an id of this API nor an offset id; a message id needs its ?topic=.")
    topic = real_topic(found)
    if not call.allows(topic):
        raise MessageNotFound
    masked = (await call.hiding()).of(topic)
    shown = await _shown(found, topic, broker, call)
    return json_answer(_hide(shown, masked))


def _hide(shown: FoundMessage, masked: Masked) -> FoundMessage:
    """Mask a message in place, and return it."""
    if BODY in masked.masks:
        shown.body, shown.body_base64 = masked.masks[BODY], None
    shown.properties = {name: masked.masks.get(name, text) for name, text in shown.properties.items()}
    shown.message_id = masked.text(UNIQUE_KEY, shown.message_id)
    shown.id = masked.identifier(shown.id)
    return masked.label(shown)


async def _shown(found: Message, topic: str, broker: str, call: Call) -> FoundMessage:
    unique, admin = found.unique_key, await at_broker(call.state, broker)
    if is_timer(found):
        history = await timer_history(found, topic, admin)
        return _described(found, topic, broker, history, await _traced_steps(unique, call))
    records = [found]
    if unique is not None and (found.topic == SCHEDULE_TOPIC or DELAY in found.properties):
        other = topic if found.topic == SCHEDULE_TOPIC else SCHEDULE_TOPIC
        twin = await admin.message_by_id(other, unique)
        if twin is not None and real_topic(twin) == topic:
            records.append(twin)
    parked = next((each for each in records if each.topic == SCHEDULE_TOPIC), None)
    what: State = "stored"
    if parked is not None:
        what = "delivered" if len(records) > 1 else "waiting"
    due_ms = await _due_ms(parked, admin) if parked is not None else None
    return _described(found, topic, broker, TimerHistory(what, due_ms, records), await _traced_steps(unique, call))


def _described(
    found: Message, topic: str, broker: str, history: TimerHistory, trace: list[TracedStep] | None
) -> FoundMessage:
    text, base64_text = body_texts(found.body)
    return FoundMessage(
        id=str(MessageIdentifier(broker, topic, found.position, found.unique_key or "")),
        message_id=found.unique_key,
        offset_message_id=found.offset_message_id,
        topic=topic,
        broker=broker,
        state=history.state,
        body=text,
        body_base64=base64_text,
        tag=found.tags,
        keys=found.keys,
        properties=dict(found.properties),
        born_ms=found.born_ms,
        reconsume_times=found.reconsume_times,
        due_ms=history.due_ms,
        records=_places(history.records),
        trace=trace,
    )


def _places(records: Iterable[Message]) -> list[RecordPlace]:
    return [
        RecordPlace(
            topic=each.topic,
            queue=each.queue_id,
            queue_offset=each.queue_offset,
            position=each.position,
            stored_ms=each.store_ms,
        )
        for each in sorted(records, key=lambda each: each.position)
    ]


async def _due_ms(parked: Message, admin: AsyncAdmin) -> int | None:
    """Return the due time, which the level's queue keeps where other queues keep the tag's hash."""
    page = await admin.queue_entries(SCHEDULE_TOPIC, parked.queue_id, parked.queue_offset, 1)
    first = page.entries[0] if page.entries else None
    return first.tags_code if first is not None and first.position == parked.position else None


async def _traced_steps(message_id: str | None, call: Call) -> list[TracedStep] | None:
    """Return what clients told, oldest first and without a moment last; None if no broker told it.

    A message id is what a producer says: of a message with the same one that the token may not read nothing is told.
    """
    if message_id is None:
        return []
    try:
        admins = await asked(call.state, None)
        answers, _missing = await tell_each(admins, lambda _broker, admin: admin.traces(message_id))
        events = dict.fromkeys(event for answer in answers.values() for event in answer)
        told = told_of(sorted(events, key=lambda event: event.at_ms or 0) if len(answers) > 1 else list(events))
    except ClientError:
        # the message itself is worth the answer
        return None
    groups = {line.group for line in told if line.what == "consumed" and line.group}
    seen = await in_thread(lambda: visible_groups(call.grant, groups)) if groups else frozenset()
    told = tuple(line for line in told if _is_visible(line, call.grant, seen))
    return [
        TracedStep(
            what=line.what,
            at_ms=line.at_ms,
            group=line.group,
            client=line.client,
            took_ms=line.took_ms,
            succeeded=line.succeeded,
            retries=line.retries,
            state=line.state,
        )
        for line in told[:TOLD_LIMIT]
    ]


def _is_visible(line: Told, grant: Grant, groups: frozenset[str]) -> bool:
    """Return whether the token may see a step: consumers name their group, all others the topic."""
    return line.group in groups if line.what == "consumed" else grant.allows(READ, line.topic or "")
