"""A message that is kept as a timer, as its broker tells it: pending, cancelled, moved, or in another one's place."""

from __future__ import annotations

from broker.client import Admin, BrokerRefused, Message, TimerTarget
from broker.client.timers import TimerLife
from broker.rocketmq.message import parse_offset_message_id
from broker.rocketmq.properties import DUE_MS, REAL_TOPIC, REPLACES
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.messages.shapes import OFFSET_ID, AsTimer, Earlier, TookOver
from console.operations.copies import COPY_OF, message_id_again


def timer_of(admin: Admin, parked: Message) -> AsTimer | None:
    """Return what is with the timer of a parked record; None: it is none, or the broker does not tell."""
    if parked.topic != TIMER_TOPIC:
        return None
    life = life_at(admin, TimerTarget(position=parked.position))
    if life is None or life.timer is None:
        return None
    again, topic = None, parked.properties.get(REAL_TOPIC, "")
    if life.state == "cancelled" and topic:
        again_id = message_id_again(life.timer.position, life.timer.message_id or "")
        found = life_at(admin, TimerTarget(topic=topic, message_id=again_id))
        again = found.timer.position if found is not None and found.timer is not None else None
    return AsTimer(life.state, life.timer.due_ms, life.timer.position, again)


def parked_record(admin: Admin, topic: str, message_id: str) -> Message | None:
    """Return the record of the timer with this message id; None: there is none, or the broker does not tell."""
    life = life_at(admin, TimerTarget(topic=topic, message_id=message_id))
    if life is None or life.timer is None:
        return None
    return admin.message_at(life.timer.position, topic=TIMER_TOPIC)


#: copies of a timer that only moved to a younger segment, one of the other, that are followed
_COPIES = 4


def earlier_of(admin: Admin, parked: Message) -> Earlier | None:
    """Return in whose place a parked timer is, and how it came there; None: in nobody's, or that record is gone."""
    record = parked
    for _nth in range(_COPIES):
        before = _replaced(admin, record)
        if before is None:
            break
        if before.unique_key != parked.unique_key:
            return Earlier(TookOver.REPLACED, before.position, before.store_ms)
        if before.properties.get(DUE_MS) != record.properties.get(DUE_MS):
            return Earlier(TookOver.MOVED, before.position, before.store_ms)
        record = before
    copied = parked.properties.get(COPY_OF, "") if parked.topic == TIMER_TOPIC else ""
    before = _record_at(admin, parse_offset_message_id(copied)[2]) if OFFSET_ID.fullmatch(copied) else None
    # any producer may set that property
    if before is None or message_id_again(before.position, before.unique_key or "") != parked.unique_key:
        return None
    return Earlier(TookOver.AGAIN, before.position, before.store_ms)


def _replaced(admin: Admin, parked: Message) -> Message | None:
    text = parked.properties.get(REPLACES, "") if parked.topic == TIMER_TOPIC else ""
    return _record_at(admin, int(text)) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _record_at(admin: Admin, position: int) -> Message | None:
    try:
        record = admin.message_at(position, topic=TIMER_TOPIC)
    except BrokerRefused:
        # retention took it
        return None
    return record if record.topic == TIMER_TOPIC else None


def life_at(admin: Admin, target: TimerTarget) -> TimerLife | None:
    """Return what the broker tells of a timer; None: it tells nothing."""
    try:
        return admin.timer(target)
    except BrokerRefused:
        return None
