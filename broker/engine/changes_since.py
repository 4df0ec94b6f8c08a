"""What a follower (the mirror) is told: everything that changed since a token, as plain values for JSON.

A token is ``<start of the broker, ms>-<sequence>``. A follower with a token of another start, or none, gets everything,
and so does one after whose token more has changed than is remembered.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict
from typing import Any

from ..rocketmq.topics import SCHEDULE_TOPIC
from .health import Health
from .queues.queues import ConsumeQueue
from .schedule import LevelStatus, Schedule
from .store import Store


def changes_since(store: Store, schedule: Schedule, health: Health, token: str, now_ms: int) -> dict[str, Any]:
    """Return what changed since ``token``; levels are always there, they are few and always moving."""
    epoch, _, number = token.partition("-")
    full = epoch != str(health.started_ms) or not number.isdigit() or not store.changes.knows(int(number))
    changed = store.changes.since(int(number)) if not full else {}
    topics = _names(changed.get("topic")) if not full else [topic.name for topic in store.topics.all()]
    groups = _names(changed.get("group")) if not full else [group.name for group in store.groups.all()]
    queues = _queue_keys(changed.get("queue")) if not full else [(q.topic, q.queue_id) for q in store.queues.all()]
    known_topics = [topic for name in topics if (topic := store.topics.get(name))]
    known_groups = [group for name in groups if (group := store.groups.get(name))]
    return {
        "token": f"{health.started_ms}-{store.changes.sequence}",
        "full": full,
        "nowMs": now_ms,
        "broker": broker_json(store, health),
        "topics": [topic.to_json() for topic in known_topics],
        "queues": [_queue_json(queue) for key in queues if (queue := store.queues.get(*key))],
        "groups": [group.to_json() for group in known_groups],
        "offsets": _offsets(store, None if full else changed.get("offset", [])),
        "levels": [level_json(level) for level in schedule.status(now_ms)],
        "deletedTopics": [name for name in topics if not store.topics.get(name)],
        "deletedGroups": [name for name in groups if not store.groups.get(name)],
    }


def broker_json(store: Store, health: Health) -> dict[str, Any]:
    """Return the broker as a plain value."""
    config = store.config
    return {
        "name": config.broker_name,
        "cluster": config.cluster_name,
        "address": f"{config.host}:{config.port}",
        "flush": config.flush,
        "state": health.state,
        "reasons": list(health.reasons),
        "startedMs": health.started_ms,
        "logMinPosition": health.log_min_position,
        "logEndPosition": health.log_end_position,
        "diskUsedRatio": health.disk_used_ratio,
        "damaged": [[known.start, known.end] for known in health.damaged],
        "scheduleTopic": SCHEDULE_TOPIC,
    }


def level_json(level: LevelStatus) -> dict[str, Any]:
    """Return a level with camelCase names."""
    return {_camel(name): value for name, value in asdict(level).items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _names(keys: list[Hashable] | None) -> list[str]:
    return [str(key) for key in keys or []]


def _queue_keys(keys: list[Hashable] | None) -> list[tuple[str, int]]:
    return [(str(key[0]), int(key[1])) for key in keys or [] if isinstance(key, tuple)]


def _queue_json(queue: ConsumeQueue) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "min": queue.min_offset,
        "max": queue.max_offset,
        "lastMs": queue.last_ms,
    }


def _offsets(store: Store, keys: list[Hashable] | None) -> list[dict[str, Any]]:
    if keys is None:
        found: list[tuple[str, str, int]] = [
            (group, topic, queue_id) for (group, topic), queues in store.offsets.all().items() for queue_id in queues
        ]
    else:
        found = [(str(key[0]), str(key[1]), int(key[2])) for key in keys if isinstance(key, tuple)]
    return [
        {"group": group, "topic": topic, "queueId": queue_id, "offset": store.offsets.get(group, topic, queue_id)}
        for group, topic, queue_id in found
    ]
