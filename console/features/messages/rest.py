"""GET: a message with what clients told of it, topics, groups, delay levels."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from broker.client import BrokerRefused, Message
from broker.client.errors import Answer, ClientError
from broker.client.names import check_topic
from broker.rocketmq.properties import DELAY, REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from console.features.messages.traces import TOLD_LIMIT, Told, told_of
from console.features.timers.rest_life import Life, State, is_delete, is_timer, life_of
from console.rest.errors import InvalidIdentifier, InvalidParameter, MessageNotFound
from console.rest.grants import eyes_of, require
from console.rest.identifiers import MessageIdentifier, parse
from console.rest.operations_bridge import in_thread
from console.rest.responses import json_answer
from console.rest.schemas import (
    FoundMessage,
    GroupList,
    GroupRow,
    LevelList,
    LevelRow,
    RecordPlace,
    TopicList,
    TopicRow,
    TracedStep,
)
from console.rest.state import Room
from console.security.tokens import READ, Grant

#: Topics where messages of other topics wait.
_PARKING = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
_OFFSET_ID = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})\Z")
#: Codes with which brokers say that nothing begins at a position (ours; Apache RocketMQ answers SYSTEM_ERROR).
_NOT_THERE = (Answer.QUERY_NOT_FOUND, Answer.SYSTEM_ERROR)


async def message(request: Request, grant: Grant, room: Room) -> Response:
    """One message by our id, by RocketMQ's offset id, or by its unique id with ?topic=."""
    only_parameters(request, "topic")
    text: str = request.path_params["id"]
    topic = request.query_params.get("topic")
    if text.startswith("m1"):
        require(grant, READ, parse(text).topic)
        broker, found = await by_identifier(parse(text), room)
    elif topic is not None:
        check_topic(topic)
        require(grant, READ, topic)
        broker, found = "", await by_unique_id(topic, text, room)
    elif is_offset_id(text):
        broker, found = "", await by_offset_id(text.upper(), room)
    else:
        raise InvalidIdentifier("This is neither an id of ours nor an offset id; a unique id needs its ?topic=.")
    topic = real_topic(found)
    if not grant.allows(READ, topic):
        raise MessageNotFound
    hiding = await room.grants.hiding(grant)
    return json_answer(hiding.message(await _shown(found, topic, broker or await _broker_of(found, room), grant, room)))


async def by_identifier(
    wanted: MessageIdentifier, room: Room, *, is_half_wanted: bool = False
) -> tuple[str, Message]:  # fmt: skip
    """Broker and record of one of our ids, of a half only where that is wanted; raises MessageNotFound."""
    address = await room.admin.address_of(wanted.broker)
    try:
        found = await room.admin.message_at(wanted.position, topic=wanted.topic, address=address)
    except BrokerRefused as error:
        if error.code in _NOT_THERE:
            raise MessageNotFound from None
        raise
    is_half = is_half_wanted and found.topic == HALF_TOPIC and found.properties.get(REAL_TOPIC) == wanted.topic
    if wanted.unique_key not in ("", found.unique_key) or not (is_half or real_topic(found) == wanted.topic):
        raise MessageNotFound
    return wanted.broker, found


async def by_unique_id(topic: str, unique_id: str, room: Room) -> Message:
    """The message of this topic, in it or where it waits; raises MessageNotFound."""
    found = await room.admin.message_by_unique_id(topic, unique_id)
    if found is None:
        found = await room.admin.message_by_unique_id(SCHEDULE_TOPIC, unique_id)
    if found is None:
        timers = await room.admin.records_by_unique_id(TIMER_TOPIC, unique_id)
        found = next((each for each in timers if not is_delete(each) and real_topic(each) == topic), None)
    if found is None or real_topic(found) != topic:
        raise MessageNotFound
    return found


def is_offset_id(text: str) -> bool:
    """Whether this has the form of an offset id."""
    return _OFFSET_ID.match(text) is not None


async def by_offset_id(offset_id: str, room: Room) -> Message:
    """The message with this offset id; raises MessageNotFound."""
    try:
        return await room.admin.message_by_offset_id(offset_id)
    except BrokerRefused as error:
        if error.code in _NOT_THERE:
            raise MessageNotFound from None
        raise


async def _broker_of(found: Message, room: Room) -> str:
    address = "{}:{}".format(*found.store_host)
    for broker in await room.admin.brokers():
        if broker.address == address:
            return broker.name
    return (await room.admin.brokers())[0].name


def real_topic(found: Message) -> str:
    """The topic that a message was sent to, also while it waits elsewhere."""
    return found.properties.get(REAL_TOPIC, found.topic) if found.topic in _PARKING else found.topic


async def _shown(found: Message, topic: str, broker: str, grant: Grant, room: Room) -> FoundMessage:
    unique = found.unique_key
    if is_timer(found):
        life = await life_of(found, topic, await room.admin.address_of(broker), room)
        return _described(found, topic, broker, life, await traced_steps(unique, grant, room))
    records = [found]
    if unique is not None and (found.topic == SCHEDULE_TOPIC or DELAY in found.properties):
        other = topic if found.topic == SCHEDULE_TOPIC else SCHEDULE_TOPIC
        twin = await room.admin.message_by_unique_id(other, unique)
        if twin is not None and real_topic(twin) == topic:
            records.append(twin)
    parked = next((each for each in records if each.topic == SCHEDULE_TOPIC), None)
    state: State = "stored"
    if parked is not None:
        state = "delivered" if len(records) > 1 else "waiting"
    due_ms = await _due_ms(parked, broker, room) if parked is not None else None
    return _described(found, topic, broker, Life(state, due_ms, records), await traced_steps(unique, grant, room))


def _described(found: Message, topic: str, broker: str, life: Life, trace: list[TracedStep] | None) -> FoundMessage:
    text = body_text(found.body)
    return FoundMessage(
        id=str(MessageIdentifier(broker, topic, found.position, found.unique_key or "")),
        message_id=found.unique_key,
        offset_message_id=found.offset_message_id,
        topic=topic,
        broker=broker,
        state=life.state,
        body=text,
        body_base64=None if text is not None else base64.b64encode(found.body).decode(),
        tag=found.tags,
        keys=found.keys,
        properties=dict(found.properties),
        born_ms=found.born_ms,
        reconsume_times=found.reconsume_times,
        due_ms=life.due_ms,
        records=_places(life.records),
        trace=trace,
    )


def body_text(body: bytes) -> str | None:
    """The body, if it is UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _places(records: Iterable[Message]) -> list[RecordPlace]:
    return [
        RecordPlace(
            topic=each.topic, queue=each.queue_id, queue_offset=each.queue_offset, position=each.position,
            stored_ms=each.store_ms,
        )
        for each in sorted(records, key=lambda each: each.position)
    ]  # fmt: skip


async def _due_ms(parked: Message, broker: str, room: Room) -> int | None:
    """The due time is what the level's queue keeps where other queues keep the tag's hash."""
    address = await room.admin.address_of(broker)
    page = await room.admin.queue_entries(SCHEDULE_TOPIC, parked.queue_id, parked.queue_offset, 1, address=address)
    first = page.entries[0] if page.entries else None
    return first.tags_code if first is not None and first.position == parked.position else None


def only_parameters(request: Request, *names: str) -> None:
    """Raise InvalidParameter for any other parameter in the address, and for one that stands there twice."""
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in names:
            raise InvalidParameter(f"There is no parameter {name[:100]!r} here.")
        if given.count(name) > 1:
            raise InvalidParameter(f"The parameter {name} is given {given.count(name):,} times; give it once.")


async def topics(request: Request, grant: Grant, room: Room) -> Response:
    """The topics that the token may read."""
    only_parameters(request)
    rows = [
        TopicRow(
            name=each.name, broker=each.broker, read_queues=each.read_queues, write_queues=each.write_queues,
            permission=each.permission,
        )
        for each in await room.admin.topics()
        if grant.allows(READ, each.name)
    ]  # fmt: skip
    return json_answer(TopicList(topics=rows))


async def groups(request: Request, grant: Grant, room: Room) -> Response:
    """The groups that the token may read: by their own names, or because they read such topics and no others.

    Of a token with policies those of them that the policies let it read, too.
    """
    only_parameters(request)
    found = await room.admin.groups()
    seen = await in_thread(lambda: groups_seen(grant, [each.name for each in found]))
    rows = [
        GroupRow(
            name=each.name, broker=each.broker, retry_max_times=each.retry_max_times,
            consume_enabled=each.consume_enabled,
        )
        for each in found
        if each.name in seen
    ]  # fmt: skip
    return json_answer(GroupList(groups=rows))


async def levels(request: Request, grant: Grant, room: Room) -> Response:
    """The delay levels and what waits on each."""
    only_parameters(request)
    delays = await room.admin.delay_levels()
    released = await room.admin.delay_offsets()
    ends = {each.queue.queue_id: each.max_offset for each in (await room.admin.topic_stats(SCHEDULE_TOPIC)).queues}
    rows = []
    for level, delay_ms in enumerate(delays, start=1):
        end = ends.get(level - 1, 0)
        offset = released.get(level, 0)
        rows.append(
            LevelRow(level=level, delay_ms=delay_ms, offset=offset, max_offset=end, backlog=max(0, end - offset))
        )
    return json_answer(LevelList(levels=rows))


async def traced_steps(unique_id: str | None, grant: Grant, room: Room) -> list[TracedStep] | None:
    """Oldest first, those without a moment last; None: the broker did not tell them.

    A unique id is what a producer says: of a message with the same one that the token may not read nothing is told.
    """
    if unique_id is None:
        return []
    try:
        told = told_of(await room.admin.traces(unique_id))
    except ClientError:
        # the message itself is worth the answer
        return None
    groups = {line.group for line in told if line.what == "consumed" and line.group}
    seen = await in_thread(lambda: groups_seen(grant, groups)) if groups else frozenset()
    told = tuple(line for line in told if _is_seen(line, grant, seen))
    return [
        TracedStep(
            what=line.what, at_ms=line.at_ms, group=line.group, client=line.client, took_ms=line.took_ms,
            succeeded=line.succeeded, retries=line.retries, state=line.state,
        )
        for line in told[:TOLD_LIMIT]
    ]  # fmt: skip


def groups_seen(grant: Grant, names: Iterable[str]) -> frozenset[str]:
    """Of these groups those that the token may read: by their own names, or because they read such topics and no
    others, and by its policies; asks the database."""
    eyes = eyes_of(grant)
    return frozenset(
        name
        for name in names
        if (grant.scopes_allow(READ, name) or eyes.group(name))
        and (grant.policies is None or grant.policies.allows(READ, name, "group"))
    )


def _is_seen(line: Told, grant: Grant, groups: frozenset[str]) -> bool:
    """Consumers name their group, all others the topic."""
    return line.group in groups if line.what == "consumed" else grant.allows(READ, line.topic or "")
