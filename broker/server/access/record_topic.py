"""Whose record stands at a position of the log."""

from __future__ import annotations

from ...engine.engine import Engine
from ...engine.errors import BrokerError
from ...engine.tables.topics import HALF_TOPIC, PARKED_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ...rocketmq.message import decode
from ...rocketmq.properties import REAL_TOPIC
from .demands import TopicAt

#: What lies here is meant for another topic.
_PARKED = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, PARKED_HALF_TOPIC})


def topics_of(engine: Engine) -> TopicAt:
    """The topic of the record at a position, of a parked one the real topic; None where no record is."""

    def topic_at(position: int) -> str | None:
        try:
            message = decode(engine.look_at(position), verify=False)
        except (BrokerError, OSError):
            return None
        topic = message.properties.get(REAL_TOPIC) if message.topic in _PARKED else None
        return topic or message.topic

    return topic_at
