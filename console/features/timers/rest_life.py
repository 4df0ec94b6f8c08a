"""Where a message is that waited for a moment (a timer): its state, when it is due, and its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from broker.client import Message, NotSupported, RouteNotFound
from broker.client.timers import TimerTarget
from broker.rocketmq.properties import DUE_MS, REAL_TOPIC, TIMER_DELETE, TIMER_DELIVER_MS, TIMER_OUT_MS
from broker.rocketmq.topics import TIMER_TOPIC

from ...rest.state import Room

State = Literal["stored", "waiting", "delivered", "cancelled"]
#: `rescheduled` is said of a message whose place another one with its schedule key took: where it only moved, it waits.
_STATES: dict[str, State] = {
    "pending": "waiting", "rescheduled": "cancelled", "released": "delivered", "cancelled": "cancelled",
    "unknown": "stored",
}  # fmt: skip
_DUE_PROPERTIES = (DUE_MS, TIMER_DELIVER_MS)


@dataclass(frozen=True, slots=True)
class Life:
    """State and due time now, and the records of the message that the broker has."""

    state: State
    due_ms: int | None
    records: list[Message]


def is_timer(message: Message) -> bool:
    """Whether the message waits for a moment, or did."""
    return message.topic == TIMER_TOPIC or TIMER_OUT_MS in message.properties


def is_delete(message: Message) -> bool:
    """Whether the record only takes another one back."""
    return TIMER_DELETE in message.properties


async def life_of(message: Message, topic: str, address: str, room: Room) -> Life:
    """The life of a timer of this real topic; of an Apache RocketMQ broker, as far as its records tell."""
    unique_key = message.unique_key
    records = [message]
    if unique_key is not None:
        parked = await room.admin.records_by_unique_id(TIMER_TOPIC, unique_key)
        found = [
            *[each for each in parked if each.properties.get(REAL_TOPIC) == topic],
            *await _delivered(topic, unique_key, room),
        ]
        records += [each for each in found if each.position != message.position and not is_delete(each)]
    target = TimerTarget(topic=topic, unique_key=unique_key) if unique_key else TimerTarget(position=message.position)
    try:
        life = await room.admin.timer(target, address=address)
    except NotSupported:
        delivered = any(each.topic != TIMER_TOPIC for each in records)
        return Life("delivered" if delivered else "waiting", due_of(message), records)
    newest = max(records, key=lambda each: each.position)
    return Life(_STATES[life.state], life.timer.due_ms if life.timer is not None else due_of(newest), records)


async def _delivered(topic: str, unique_key: str, room: Room) -> list[Message]:
    try:
        return await room.admin.records_by_unique_id(topic, unique_key)
    except RouteNotFound:
        return []


def due_of(message: Message) -> int | None:
    """When the record says that it is due: exactly, or to the second that its slot stands for."""
    for name in _DUE_PROPERTIES:
        text = message.properties.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    slot = message.properties.get(TIMER_OUT_MS, "")
    return int(slot) + 1 if slot.isascii() and slot.isdigit() else None
