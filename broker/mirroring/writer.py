"""Writes one reading: rows, histories and the position, for the transaction that its caller opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.db.models import Q

from ..models import (
    Broker,
    ConsumerGroup,
    ConsumerOffset,
    MirrorRow,
    MirrorState,
    Queue,
    RateHistory,
    ScheduleLevel,
    Topic,
)
from .changes import Changes

KEYS: dict[type[MirrorRow], tuple[str, ...]] = {
    Topic: ("broker", "name"),
    Queue: ("broker", "topic", "queue_id"),
    ConsumerGroup: ("broker", "name"),
    ConsumerOffset: ("broker", "group", "topic", "queue_id"),
    ScheduleLevel: ("broker", "level"),
    RateHistory: ("broker", "kind", "name"),
}


def write(
    changes: Changes, state: MirrorState, histories: Iterable[RateHistory], members: Mapping[str, int]
) -> set[str]:
    """Write everything of one reading; the kinds that changed. Call inside a transaction."""
    Broker.mirror_writer.exclude(name=changes.broker.name).delete()
    Broker.upsert([changes.broker], ("name",))
    changed = _remove_deleted(changes)
    for kind in ("topics", "queues", "groups", "offsets", "levels"):
        rows: tuple[MirrorRow, ...] = getattr(changes, kind)
        if rows:
            type(rows[0]).upsert(rows, KEYS[type(rows[0])])
            changed.add(kind)
    changed |= _remove_unlisted(changes)
    for group, count in members.items():
        ConsumerGroup.mirror_writer.filter(broker=changes.broker.name, name=group).update(members=count)
        changed.add("groups")
    if RateHistory.upsert(histories, KEYS[RateHistory]):
        changed.add("histories")
    MirrorState.upsert([state], ("broker",))
    return changed


def clear() -> None:
    """Drop every mirror row. Call inside a transaction."""
    Broker.mirror_writer.all().delete()


def _remove_deleted(changes: Changes) -> set[str]:
    broker = changes.broker.name
    changed = set()
    if changes.deleted_topics:
        gone = list(changes.deleted_topics)
        Topic.mirror_writer.filter(broker=broker, name__in=gone).delete()
        Queue.mirror_writer.filter(broker=broker, topic__in=gone).delete()
        ConsumerOffset.mirror_writer.filter(broker=broker, topic__in=gone).delete()
        RateHistory.mirror_writer.filter(broker=broker, kind=RateHistory.Kind.TOPIC, name__in=gone).delete()
        changed |= {"topics", "queues", "offsets"}
    if changes.deleted_groups:
        gone = list(changes.deleted_groups)
        ConsumerGroup.mirror_writer.filter(broker=broker, name__in=gone).delete()
        ConsumerOffset.mirror_writer.filter(broker=broker, group__in=gone).delete()
        RateHistory.mirror_writer.filter(broker=broker, kind=RateHistory.Kind.GROUP, name__in=gone).delete()
        changed |= {"groups", "offsets"}
    for group, topic, queue_id in changes.deleted_offsets:
        rows = ConsumerOffset.mirror_writer.filter(broker=broker, group=group, topic=topic, queue_id=queue_id)
        rows.delete()
        changed.add("offsets")
    return changed


def _remove_unlisted(changes: Changes) -> set[str]:
    """Where a kind was listed whole, remove what the list does not have."""
    changed = set()
    for kind in changes.complete:
        if _delete_others(changes.broker.name, kind, getattr(changes, kind)):
            changed.add(kind)
    if "topics" in changes.complete and "queues" not in changes.complete:
        listed = [topic.name for topic in changes.topics]
        Queue.mirror_writer.filter(broker=changes.broker.name).exclude(topic__in=listed).delete()
    return changed


def _delete_others(broker: str, kind: str, rows: tuple[MirrorRow, ...]) -> int:
    model = MODELS[kind]
    key = [name for name in KEYS[model] if name != "broker"]
    kept = {tuple(getattr(row, name) for name in key) for row in rows}
    here = model.mirror_writer.filter(Q(broker=broker)).values_list("pk", *key)
    gone = [pk for pk, *values in here if tuple(values) not in kept]
    if gone:
        model.mirror_writer.filter(pk__in=gone).delete()
    return len(gone)


MODELS: dict[str, type[MirrorRow]] = {
    "topics": Topic,
    "queues": Queue,
    "groups": ConsumerGroup,
    "offsets": ConsumerOffset,
    "levels": ScheduleLevel,
}
