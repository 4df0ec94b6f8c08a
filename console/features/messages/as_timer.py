"""A message that is kept as a timer, as its broker tells it: pending, cancelled, moved, or in another one's place."""

from __future__ import annotations

from broker.client import Admin, BrokerRefused, Message, TimerTarget
from broker.client.timers import TimerLife
from broker.rocketmq.properties import REAL_TOPIC
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.messages.shapes import AsTimer
from console.operations.copies import message_id_again


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


def life_at(admin: Admin, target: TimerTarget) -> TimerLife | None:
    """Return what the broker tells of a timer; None: it tells nothing."""
    try:
        return admin.timer(target)
    except BrokerRefused:
        return None
