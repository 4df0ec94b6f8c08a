"""What is in the store of a test: messages that consumers can see, and those that wait.

Everything is asked of the engine, in its loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..client import Message
from ..engine.engine import Engine
from ..rocketmq.message import decode_as
from ..rocketmq.properties import REAL_TOPIC, RETRY_TOPIC
from ..rocketmq.topics import (
    OLD_SYSTEM_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
    is_of_group,
)
from .messages import Kind, Messages, PendingMessage, SentMessage, in_order, moment
from .stage import Stage

#: Of one pull.
COUNT, BYTES = 1_000, 64 << 20
FOREVER_MS = 1 << 60
TIMERS_AT_ONCE = 1_000


def visible(stage: Stage) -> Messages[SentMessage]:
    """Return what consumers can see in topics of users, in the order in which it became visible."""
    names = [topic.name for topic in stage.engine.topics.all() if _is_of_users(stage, topic.name)]
    return in_order(SentMessage(message) for name in names for message in messages_of(stage.engine, name))


def _is_of_users(stage: Stage, name: str) -> bool:
    if name in stage.own_topics or name in SYSTEM_TOPICS or is_of_group(name):
        return False
    return not name.startswith((SYSTEM_PREFIX, OLD_SYSTEM_PREFIX))


def messages_of(engine: Engine, topic: str) -> Iterator[Message]:
    """Yield all messages of any topic, queue by queue; none if there is no such topic."""
    known = engine.topics.get(topic)
    for queue_id in range(known.queues if known is not None else 0):
        yield from messages_from(engine, topic, queue_id, 0)


def messages_from(engine: Engine, topic: str, queue_id: int, offset: int) -> Iterator[Message]:
    """Yield the messages of a queue from an offset on. Raises TopicNotFound."""
    _, end = engine.queue_bounds(topic, queue_id)
    while offset < end:
        pulled = engine.pull(topic, queue_id, offset, COUNT, BYTES)
        for record in pulled.records:
            yield decode_as(Message, record)
        offset = pulled.next_offset


def waiting(stage: Stage) -> Messages[PendingMessage]:
    """Return all that waits, what is due first first, and last what has no moment."""
    engine = stage.engine
    found = [*_delayed(engine), *_timers(engine, stage.clock()), *_halves(engine)]
    far = moment(0).replace(year=9999)
    return Messages(sorted(found, key=lambda each: (each.due or far, each.message.position)))


def _pending(engine: Engine, position: int, kind: Kind, due_ms: int | None) -> PendingMessage:
    """Return the message at a position, which is parked there, as one of the topic that it is for."""
    message = decode_as(Message, engine.record_at(position))
    topic = message.properties.get(REAL_TOPIC, message.topic)
    group = topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else None
    if group is not None:
        kind, topic = "retry", message.properties.get(RETRY_TOPIC, topic)
    due = None if due_ms is None or due_ms >= FOREVER_MS else moment(due_ms)
    return PendingMessage(replace(message, topic=topic), kind, due, group)


def _delayed(engine: Engine) -> Iterator[PendingMessage]:
    for level in engine.schedule.levels:
        queue_id = level.number - 1
        _, end = engine.queue_bounds(SCHEDULE_TOPIC, queue_id)
        begin = engine.schedule.next_offset(level.number)
        for entry in engine.entries(SCHEDULE_TOPIC, queue_id, begin, max(0, end - begin)):
            yield _pending(engine, entry.position, "delay", entry.tags_code)


def _timers(engine: Engine, now_ms: int) -> Iterator[PendingMessage]:
    cursor: str | None = None
    while True:
        page = engine.timers.listing.page(0, FOREVER_MS, limit=TIMERS_AT_ONCE, cursor=cursor, now_ms=now_ms)
        for timer in page["items"]:
            yield _pending(engine, timer["position"], "timer", timer["dueMs"])
        cursor = page["cursor"]
        if cursor is None:
            return


def _halves(engine: Engine) -> Iterator[PendingMessage]:
    table = engine.transactions.table
    for half in table.halves.since(0):
        yield _pending(engine, half.position, "half", table.calendar.wall(half.next_ms))
    for parked in table.parked.since(0):
        yield _pending(engine, parked.position, "parked half", None)
