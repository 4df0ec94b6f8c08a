"""Writes one reading: rows and histories, for the transaction that its caller opened.

Rows of a kind go together. Where PostgreSQL takes one of them for wrong they go one by one, and what it does not take
is left out and told of: one bad row never holds up the others.

A broker may have been given anything: attributes with NUL, a filter type of any length, half a surrogate pair, numbers
of any size. So what it told is first made to fit the columns of PostgreSQL. What only tells of something is clipped and
escaped; a row whose name cannot be kept is left out. Both are flaws. They are kept beside the position, and the console
shows them until the broker tells something else of that row.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db import DataError, IntegrityError, ProgrammingError, models, transaction
from django.db.models import Q

from .changes import KINDS, UNFIT, Changes, Flaw, UnreadableChangesError, is_storable, shown
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

logger = logging.getLogger(__name__)

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
    """Write the rows of one reading; return the kinds that changed, and the rows left out. Call inside a
    transaction."""
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


def write_broker(broker: Broker) -> None:
    """Write what a broker says of itself. Call inside a transaction."""
    Broker.upsert([broker], ("name",))


def note_error(broker: str, reason: str) -> bool:
    """Say of a broker that has rows why it cannot be read; return whether that is news. Call inside a transaction."""
    if not Broker.objects.filter(name=broker).exists():
        return False
    state = MirrorState.objects.filter(broker=broker).first() or MirrorState(broker_id=broker)
    if state.error == reason:
        return False
    state.error, state.sequence = reason, state.sequence + 1
    MirrorState.upsert([state], ("broker",))
    return True


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
    """Return what is wrong, without the row that the database repeats."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def clear(broker: str) -> None:
    """Drop every row of this broker. Call inside a transaction."""
    Broker.mirror_writer.filter(name=broker).delete()


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
    """Remove rows that a whole list of their kind does not have; return the kinds that changed."""
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


# Making rows fit the columns of PostgreSQL.

MODELS: dict[str, type[MirrorRow]] = {
    "topics": Topic,
    "queues": Queue,
    "groups": ConsumerGroup,
    "offsets": ConsumerOffset,
    "levels": ScheduleLevel,
}

Row = TypeVar("Row", bound=MirrorRow)

#: the longest text kept where a column names no bound, and in JSON
LONGEST_TEXT = 65_536
LONGEST_WORD = 4_096
#: members of one JSON value, and levels of it
MOST_MEMBERS = 1_000
MOST_LEVELS = 16
#: a JSON value longer than this is kept as its first words
LONGEST_JSON = 262_144

_BOUNDS: Mapping[type[models.Field[Any, Any]], tuple[int, int]] = {
    models.IntegerField: (-(1 << 31), (1 << 31) - 1),
    models.BigIntegerField: (-(1 << 63), (1 << 63) - 1),
}


class UnfitError(ValueError):
    """A row cannot be kept at all: what names it does not fit, or a column has nothing in its place."""


def fit(changes: Changes, keys: Mapping[type[MirrorRow], tuple[str, ...]]) -> Changes:
    """Return the changes as they can be written, and their flaws."""
    flaws = list(changes.flaws)
    rows: dict[str, Any] = {}
    for kind in KINDS:
        told: tuple[MirrorRow, ...] = getattr(changes, kind)
        rows[kind] = tuple(fit_rows(kind, told, keys[type(told[0])], flaws)) if told else ()
    try:
        fitted(changes.broker, ("name",))
    except UnfitError as error:
        raise UnreadableChangesError(f"the broker cannot be kept: {error}") from error
    return replace(
        changes,
        **rows,
        deleted_topics=tuple(filter(is_storable, changes.deleted_topics)),
        deleted_groups=tuple(filter(is_storable, changes.deleted_groups)),
        deleted_offsets=tuple(key for key in changes.deleted_offsets if is_storable(key[0]) and is_storable(key[1])),
        members=_members(changes.members),
        flaws=tuple(flaws),
    )


def fit_rows(kind: str, rows: Iterable[Row], key: tuple[str, ...], flaws: list[Flaw]) -> list[Row]:
    """Return the rows that can be written, the last one of each key; their flaws are added."""
    kept: dict[tuple[object, ...], Row] = {}
    for row in rows:
        try:
            changed = fitted(row, key)
        except UnfitError as error:
            flaws.append(Flaw(kind, name_of(row, key), f"left out: {error}"))
            continue
        if changed:
            flaws.append(Flaw(kind, name_of(row, key), f"not as the broker has it: {', '.join(changed)}"))
        kept[_values(row, key)] = row
    return list(kept.values())


def fitted(row: MirrorRow, key: tuple[str, ...] = ()) -> list[str]:
    """Change the row's values to what its columns take; return which ones. Raises UnfitError for one that names the
    row."""
    changed = []
    for column in _columns(type(row)):
        value = getattr(row, column.attname)
        if value is None or isinstance(value, bool):
            continue
        fits = _fitting(column, value)
        if fits is value or fits == value:
            continue
        if column.name in key:
            raise UnfitError(f"its {column.name} cannot be kept")
        if fits is None and not column.null:
            if not column.has_default():
                raise UnfitError(f"its {column.name} cannot be kept")
            fits = column.get_default()
        setattr(row, column.attname, fits)
        changed.append(column.name)
    return changed


@lru_cache(maxsize=32)
def _columns(model: type[MirrorRow]) -> tuple[models.Field[Any, Any], ...]:
    return tuple(column for column in model._meta.concrete_fields if not column.is_relation)


def storable(text: str, length: int = LONGEST_TEXT) -> str:
    """Return the text as PostgreSQL takes it."""
    return UNFIT.sub("\ufffd", text[:length]) if UNFIT.search(text) or len(text) > length else text


def name_of(row: MirrorRow, key: tuple[str, ...]) -> str:
    """Return what a row is called, for people: on one line, and not too long."""
    return shown("/".join(str(value) for value in _values(row, [name for name in key if name != "broker"])))


def _values(row: MirrorRow, key: Iterable[str]) -> tuple[object, ...]:
    """Return what names a row; the broker by its name, without asking for its row."""
    return tuple(getattr(row, "broker_id" if name == "broker" else name) for name in key)


def _members(members: Mapping[str, int] | None) -> Mapping[str, int] | None:
    if members is None:
        return None
    return {name: min(max(count, 0), (1 << 31) - 1) for name, count in members.items() if is_storable(name)}


def _fitting(column: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(column, ArrayField):
        return [_fitting(column.base_field, each) for each in value] if isinstance(value, list) else []
    if isinstance(column, models.JSONField):
        return _json(value)
    if isinstance(column, models.CharField | models.TextField):
        return storable(value, column.max_length or LONGEST_TEXT) if isinstance(value, str) else storable(str(value))
    if isinstance(column, models.FloatField):
        return value if isinstance(value, int | float) and math.isfinite(value) else None
    for kind, (low, high) in _BOUNDS.items():
        if type(column) is kind:
            if not isinstance(value, int):
                return None
            return value if low <= value <= high else None if column.null else min(max(value, low), high)
    return value


def _json(value: Any) -> Any:
    """Return a value of JSON as jsonb takes it, and of a size that pages can show."""
    fits = _json_part(value, MOST_LEVELS)
    text = json.dumps(fits)
    return fits if len(text) <= LONGEST_JSON else type(value)() if isinstance(value, dict | list) else None


def _json_part(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return storable(value, LONGEST_WORD)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool | int) or value is None:
        return value
    if not levels:
        return "…"
    if isinstance(value, Mapping):
        members = list(value.items())[:MOST_MEMBERS]
        return {storable(str(name), LONGEST_WORD): _json_part(member, levels - 1) for name, member in members}
    if isinstance(value, list | tuple):
        return [_json_part(member, levels - 1) for member in value[:MOST_MEMBERS]]
    return storable(str(value), LONGEST_WORD)


# Flaws: rows that are not as the broker has them.

#: flaws that are kept by name; of more there is only the number
LIMIT = 100


class Flaws:
    """The flaws known of one broker, by kind and name. `take` each reading; `listed` is what the column holds."""

    def __init__(self, kept: Sequence[Mapping[str, Any]] = ()) -> None:
        told = (row for row in kept if {"kind", "name", "why"} <= row.keys())
        self._known = {(row["kind"], row["name"]): Flaw(row["kind"], row["name"], row["why"]) for row in told}

    def take(self, changes: Changes, more: Iterable[Flaw] = ()) -> bool:
        """Note the flaws of one reading, and forget those of rows that it has without one; True if that is news.

        A flaw that is new is logged, once for as long as it lasts.
        """
        found = {(flaw.kind, flaw.name): flaw for flaw in (*changes.flaws, *more)}
        left = {} if not self._known else {key: flaw for key, flaw in self._known.items() if not _is_over(key, changes)}
        after = left | found
        for key, flaw in found.items():
            if self._known.get(key) != flaw:
                logger.warning("The mirror's row of %s %s is %s", flaw.kind, flaw.name, flaw.why)
        is_news = after != self._known
        self._known = after
        return is_news

    def listed(self) -> list[dict[str, Any]]:
        """Return the first of them, and how many there are in all, as JSON."""
        rows = [{"kind": flaw.kind, "name": flaw.name, "why": flaw.why} for _, flaw in sorted(self._known.items())]
        more = len(rows) - LIMIT
        return [*rows[:LIMIT], {"more": more}] if more > 0 else rows


def _is_over(key: tuple[str, str], changes: Changes) -> bool:
    """Tell whether a reading told of the row again, or that it is gone."""
    kind, name = key
    if kind in changes.complete:
        return True
    gone: dict[str, Iterable[str]] = {"topics": changes.deleted_topics, "groups": changes.deleted_groups}
    if name in gone.get(kind, ()):
        return True
    rows = getattr(changes, kind) if kind in KINDS else ()
    return any(name_of(row, KEYS[MODELS[kind]]) == name for row in rows)
