"""A stored message by REST: its records, what became of it, and what clients with tracing told of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from broker.client import Message
from broker.client.errors import ClientError
from broker.client.names import check_topic
from broker.rocketmq.properties import DELAY, UNIQUE_KEY
from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.features.messages.traces import TOLD_LIMIT, Told, told_of
from console.rest.access import InRecord, visible_groups
from console.rest.errors import InvalidIdentifier, MessageNotFound
from console.rest.identifiers import MessageIdentifier, parse
from console.rest.masking import Masked
from console.rest.operations_bridge import in_thread
from console.rest.records import (
    State,
    TimerHistory,
    by_identifier,
    by_offset_id,
    by_unique_id,
    is_offset_id,
    is_timer,
    real_topic,
    timer_history,
)
from console.rest.responses import body_texts, json_answer
from console.rest.route import Call, route
from console.rest.schemas import TopicOfUniqueId
from console.rest.state import ApiState
from console.security.masking import BODY
from console.security.tokens import READ, Grant


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


@route(
    "GET",
    "/messages/{id}",
    "Look at a message",
    action=READ,
    on=InRecord(),
    answers=((200, "The message.", FoundMessage),),
    errors=(InvalidIdentifier, MessageNotFound),
)
async def message(call: Call, query: TopicOfUniqueId) -> Response:
    """Answer one message by our id, by RocketMQ's offset id, or by its unique id with ?topic=."""
    text, state = call.named["id"], call.state
    if text.startswith("m1"):
        call.require(parse(text).topic)
        broker, found = await by_identifier(parse(text), state)
    elif query.topic is not None:
        check_topic(query.topic)
        call.require(query.topic)
        broker, found = "", await by_unique_id(query.topic, text, state)
    elif is_offset_id(text):
        broker, found = "", await by_offset_id(text.upper(), state)
    else:
        raise InvalidIdentifier("This is neither an id of ours nor an offset id; a unique id needs its ?topic=.")
    topic = real_topic(found)
    if not call.allows(topic):
        raise MessageNotFound
    masked = (await call.hiding()).of(topic)
    shown = await _shown(found, topic, broker or await _broker_of(found, state), call)
    return json_answer(_hide(shown, masked))


def _hide(shown: FoundMessage, masked: Masked) -> FoundMessage:
    """The message without what rules of masks hide; changed in place."""
    if BODY in masked.masks:
        shown.body, shown.body_base64 = masked.masks[BODY], None
    shown.properties = {name: masked.masks.get(name, text) for name, text in shown.properties.items()}
    shown.message_id = masked.text(UNIQUE_KEY, shown.message_id)
    shown.id = masked.identifier(shown.id)
    return masked.label(shown)


async def _broker_of(found: Message, state: ApiState) -> str:
    """The name of the broker that has the record; of the first one where none is at its address."""
    address = "{}:{}".format(*found.store_host)
    brokers = await state.admin.brokers()
    return next((each.name for each in brokers if each.address == address), brokers[0].name)


async def _shown(found: Message, topic: str, broker: str, call: Call) -> FoundMessage:
    unique, state = found.unique_key, call.state
    if is_timer(found):
        history = await timer_history(found, topic, await state.admin.address_of(broker), state)
        return _described(found, topic, broker, history, await _traced_steps(unique, call))
    records = [found]
    if unique is not None and (found.topic == SCHEDULE_TOPIC or DELAY in found.properties):
        other = topic if found.topic == SCHEDULE_TOPIC else SCHEDULE_TOPIC
        twin = await state.admin.message_by_unique_id(other, unique)
        if twin is not None and real_topic(twin) == topic:
            records.append(twin)
    parked = next((each for each in records if each.topic == SCHEDULE_TOPIC), None)
    what: State = "stored"
    if parked is not None:
        what = "delivered" if len(records) > 1 else "waiting"
    due_ms = await _due_ms(parked, broker, state) if parked is not None else None
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


async def _due_ms(parked: Message, broker: str, state: ApiState) -> int | None:
    """The due time is what the level's queue keeps where other queues keep the tag's hash."""
    address = await state.admin.address_of(broker)
    page = await state.admin.queue_entries(SCHEDULE_TOPIC, parked.queue_id, parked.queue_offset, 1, address=address)
    first = page.entries[0] if page.entries else None
    return first.tags_code if first is not None and first.position == parked.position else None


async def _traced_steps(unique_id: str | None, call: Call) -> list[TracedStep] | None:
    """Oldest first, those without a moment last; None: the broker did not tell them.

    A unique id is what a producer says: of a message with the same one that the token may not read nothing is told.
    """
    if unique_id is None:
        return []
    try:
        told = told_of(await call.state.admin.traces(unique_id))
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
    """Consumers name their group, all others the topic."""
    return line.group in groups if line.what == "consumed" else grant.allows(READ, line.topic or "")
