"""The status of a store: its health in one value, and everything that changed since a follower's token.

Changes are what the mirror is told, as plain values for JSON. A token is ``<start of the broker, ms>-<sequence>``. A
follower with a token of another start, or none, gets everything, and so does one after whose token more has changed
than is remembered.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..rocketmq.topics import SCHEDULE_TOPIC
from .log.checkpoint import DamagedRange
from .queues.queues import ConsumeQueue
from .schedule import LevelStatus, Schedule
from .store import Store

State = Literal["OK", "DEGRADED", "READONLY", "FAILED", "CLOSED"]


@dataclass(frozen=True, slots=True)
class Health:
    """OK; DEGRADED: some records cannot be read; READONLY: sends are refused; FAILED: restart the broker."""

    state: State
    reasons: tuple[str, ...]
    damaged: tuple[DamagedRange, ...]
    started_ms: int
    log_min_position: int
    log_end_position: int
    durable_position: int
    disk_used_ratio: float
    pending_bytes: int
    records_recovered: int


def assess(
    store: Store,
    *,
    failure: str | None,
    closed: bool,
    disk_ratio: float,
    started_ms: int,
    records_recovered: int,
    unreadable: Mapping[int, int],
) -> Health:
    """Return how a store is; the worst state counts, every reason is said. ``unreadable``: messages by delay level."""
    state: State = "OK"
    reasons: list[str] = []
    if store.damaged:
        state = "DEGRADED"
        size = sum(known.end - known.start for known in store.damaged)
        reasons.append(
            f"{len(store.damaged)} place(s) of the log, {size:,} bytes, cannot be read; run fsck for a list."
        )
    if unreadable:
        state = "DEGRADED"
        counts = ", ".join(f"{count:,} of delay level {level}" for level, count in sorted(unreadable.items()))
        reasons.append(f"Delayed messages that cannot be read were skipped since the start: {counts}; run fsck.")
    if disk_ratio > store.config.disk_refuse_ratio:
        state = "READONLY"
        reasons.append("The disk is too full; sends are refused until space is free.")
    if failure is not None:
        state = "FAILED"
        reasons.append(f"Writing to disk failed: {failure}.")
    return Health(
        state="CLOSED" if closed else state,
        reasons=tuple(reasons),
        damaged=tuple(store.damaged),
        started_ms=started_ms,
        log_min_position=store.log.min_position,
        log_end_position=store.visible_position,
        durable_position=store.log.durable_position,
        disk_used_ratio=disk_ratio,
        pending_bytes=store.pending_bytes,
        records_recovered=records_recovered,
    )


# What changed since a token.


def token_of(store: Store, started_ms: int) -> str:
    """Return the token of what there is now."""
    return f"{started_ms}-{store.changes.sequence}"


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
        "token": token_of(store, health.started_ms),
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
