"""Writes one reading: rows and histories, for the transaction that its caller opened.

Rows of a kind go together. Where PostgreSQL takes one of them for wrong they go one by one, and what it does not take
is left out and told of: one bad row never holds up the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.db import DataError, IntegrityError, ProgrammingError, transaction
from django.db.models import Q

from .changes import Changes, Flaw, shown
from .fit import name_of
from .models import (
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

#: what the database says of a value, not of itself: the connection lives, and other rows are taken
BAD_ROW = (DataError, IntegrityError, ProgrammingError, ValueError, TypeError, OverflowError)

KEYS: dict[type[MirrorRow], tuple[str, ...]] = {
    Topic: ("broker", "name"),
    Queue: ("broker", "topic", "queue_id"),
    ConsumerGroup: ("broker", "name"),
    ConsumerOffset: ("broker", "group", "topic", "queue_id"),
    ScheduleLevel: ("broker", "level"),
    RateHistory: ("broker", "kind", "name"),
}


def write(
    changes: Changes, histories: Iterable[RateHistory], members: Mapping[str, int]
) -> tuple[set[str], list[Flaw]]:
    """Write the rows of one reading; the kinds that changed, and the rows left out. Call inside a transaction."""
    Broker.mirror_writer.exclude(name=changes.broker.name).delete()
    Broker.upsert([changes.broker], ("name",))
    changed = _remove_deleted(changes)
    flaws: list[Flaw] = []
    for kind in ("topics", "queues", "groups", "offsets", "levels"):
        rows: tuple[MirrorRow, ...] = getattr(changes, kind)
        if rows:
            _put(kind, rows, flaws)
            changed.add(kind)
    changed |= _remove_unlisted(changes)
    for group, count in members.items():
        ConsumerGroup.mirror_writer.filter(broker=changes.broker.name, name=group).update(members=count)
        changed.add("groups")
    if _put("histories", tuple(histories), flaws):
        changed.add("histories")
    return changed, flaws


def write_state(state: MirrorState) -> None:
    """Write the position. Call inside the transaction of its rows."""
    MirrorState.upsert([state], ("broker",))


def _put(kind: str, rows: Sequence[MirrorRow], flaws: list[Flaw]) -> int:
    """Write rows of one kind, together if that goes; what the database does not take is a flaw."""
    if not rows:
        return 0
    table = type(rows[0])
    try:
        with transaction.atomic():
            return table.upsert(rows, KEYS[table])
    except BAD_ROW as error:
        if len(rows) == 1:
            flaws.append(Flaw(kind, name_of(rows[0], KEYS[table]), shown(f"left out: {_reason(error)}")))
            return 0
    # halves: of a few bad rows among thousands most are still written together
    middle = len(rows) // 2
    return _put(kind, rows[:middle], flaws) + _put(kind, rows[middle:], flaws)


def _reason(error: Exception) -> str:
    """What is wrong, without the row that the database repeats."""
    return next(iter(str(error).splitlines()), type(error).__name__)


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
