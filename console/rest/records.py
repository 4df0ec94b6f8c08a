"""Stored messages, found by any of their ids, and the history of those that waited for a moment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from broker.client import AsyncAdmin, BrokerRefused, BrokerUnreachable, Message, NotSupported, RouteNotFound
from broker.client.errors import Answer
from broker.client.timers import TimerTarget
from broker.rocketmq.message import parse_offset_message_id, written_address
from broker.rocketmq.properties import DUE_MS, REAL_TOPIC, TIMER_DELETE, TIMER_DELIVER_MS, TIMER_OUT_MS
from broker.rocketmq.topics import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from console.rest.errors import MessageNotFound
from console.rest.identifiers import MessageIdentifier
from console.rest.several import asked, at_broker, tell_each
from console.rest.state import ApiState
from console.site.parsing import whole_number

State = Literal["stored", "waiting", "delivered", "cancelled"]

#: topics where messages of other topics wait
_PARKING = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
_OFFSET_ID = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})\Z")
#: codes with which brokers say that nothing begins at a position (ours; Apache RocketMQ answers SYSTEM_ERROR)
_NOT_THERE = (Answer.QUERY_NOT_FOUND, Answer.SYSTEM_ERROR)
#: `rescheduled` is said of a message whose place another one with its schedule key took: where it only moved, it waits
_STATES: dict[str, State] = {
    "pending": "waiting",
    "rescheduled": "cancelled",
    "released": "delivered",
    "cancelled": "cancelled",
    "unknown": "stored",
}


@dataclass(frozen=True, slots=True)
class TimerHistory:
    """The state and due time of a message now, and the records of it that the broker has."""

    state: State
    due_ms: int | None
    records: list[Message]


def real_topic(found: Message) -> str:
    """Return the topic that a message was sent to, also while it waits elsewhere."""
    return found.properties.get(REAL_TOPIC, found.topic) if found.topic in _PARKING else found.topic


def is_offset_id(text: str) -> bool:
    """Return whether the text has the form of an offset id."""
    return _OFFSET_ID.match(text) is not None


def position_in(offset_id: str) -> int:
    """Return the position that an offset id ends with, in 16 hex digits."""
    return int(offset_id[-16:], 16)


def is_timer(message: Message) -> bool:
    """Return whether the message waits for a moment, or did."""
    return message.topic == TIMER_TOPIC or TIMER_OUT_MS in message.properties


async def by_identifier(
    wanted: MessageIdentifier, state: ApiState, *, is_half_wanted: bool = False
) -> tuple[str, Message]:
    """Return broker and record of one of our ids, of a half only where that is wanted; raises MessageNotFound."""
    admin = await at_broker(state, wanted.broker)
    try:
        found = await admin.message_at(wanted.position, topic=wanted.topic)
    except BrokerRefused as error:
        if error.code in _NOT_THERE:
            raise MessageNotFound from None
        raise
    is_half = is_half_wanted and found.topic == HALF_TOPIC and found.properties.get(REAL_TOPIC) == wanted.topic
    if wanted.unique_key not in ("", found.unique_key) or not (is_half or real_topic(found) == wanted.topic):
        raise MessageNotFound
    return wanted.broker, found


async def by_message_id(
    topic: str, message_id: str, state: ApiState, *, is_half_wanted: bool = False
) -> tuple[str, Message]:
    """Return broker and record of a message of this topic, in it or where it waits, the newest of several brokers.

    Raises MessageNotFound, and BrokerUnreachable where it may be at one that did not answer.
    """
    told, missing = await tell_each(
        await asked(state, None), lambda _broker, admin: _of_message_id(admin, topic, message_id, is_half_wanted)
    )
    found = [(broker, each) for broker, each in told.items() if each is not None]
    if found:
        return max(found, key=lambda each: each[1].store_ms)
    if missing:
        raise BrokerUnreachable(", ".join(missing), "the message may lie there, at no other broker it does")
    raise MessageNotFound


async def _of_message_id(admin: AsyncAdmin, topic: str, message_id: str, is_half_wanted: bool) -> Message | None:
    found = await admin.message_by_id(topic, message_id)
    if found is None:
        found = await admin.message_by_id(SCHEDULE_TOPIC, message_id)
    if found is None:
        timers = await admin.records_by_id(TIMER_TOPIC, message_id)
        found = next((each for each in timers if not _is_delete(each) and real_topic(each) == topic), None)
    if found is not None and real_topic(found) == topic:
        return found
    half = await admin.message_by_id(HALF_TOPIC, message_id) if is_half_wanted else None
    return half if half is not None and half.properties.get(REAL_TOPIC) == topic else None


async def by_offset_id(offset_id: str, state: ApiState) -> tuple[str, Message]:
    """Return broker and record of this offset id; raises MessageNotFound."""
    try:
        found = await state.admin.message_by_offset_id(offset_id)
    except BrokerRefused as error:
        if error.code in _NOT_THERE:
            raise MessageNotFound from None
        raise
    host, port, _position = parse_offset_message_id(offset_id)
    address = written_address(host, port)
    return next(each.name for each in await state.admin.members() if each.address == address), found


async def all_records(topic: str, unique_key: str, admin: AsyncAdmin) -> list[Message]:
    """Return the records of a topic with this message id at one broker, none of a topic that it does not have."""
    try:
        return await admin.records_by_id(topic, unique_key)
    except RouteNotFound:
        return []


async def timer_history(message: Message, topic: str, admin: AsyncAdmin) -> TimerHistory:
    """Return the history of a timer of this real topic at its broker; on Apache RocketMQ, as far as records tell."""
    unique_key = message.unique_key
    records = [message]
    if unique_key is not None:
        parked = await admin.records_by_id(TIMER_TOPIC, unique_key)
        found = [
            *[each for each in parked if each.properties.get(REAL_TOPIC) == topic],
            *await all_records(topic, unique_key, admin),
        ]
        records += [each for each in found if each.position != message.position and not _is_delete(each)]
    target = TimerTarget(topic=topic, message_id=unique_key) if unique_key else TimerTarget(position=message.position)
    try:
        life = await admin.timer(target)
    except NotSupported:
        delivered = any(each.topic != TIMER_TOPIC for each in records)
        return TimerHistory("delivered" if delivered else "waiting", _due_ms(message), records)
    newest = max(records, key=lambda each: each.position)
    due_ms = life.timer.due_ms if life.timer is not None else _due_ms(newest)
    return TimerHistory(_STATES[life.state], due_ms, records)


def _is_delete(message: Message) -> bool:
    """Return whether the record only cancels another one."""
    return TIMER_DELETE in message.properties


def _due_ms(message: Message) -> int | None:
    """Return when the record is due: exactly, or to the second that its slot stands for."""
    for name in (DUE_MS, TIMER_DELIVER_MS):
        exact = whole_number(message.properties.get(name))
        if exact is not None:
            return exact
    slot = whole_number(message.properties.get(TIMER_OUT_MS))
    return None if slot is None else slot + 1
