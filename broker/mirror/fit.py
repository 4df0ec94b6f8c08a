"""Makes what a broker told fit the columns of PostgreSQL, so that one odd value never stops the mirror.

A broker may have been given anything: attributes with NUL, a filter type of any length, half a surrogate pair, numbers
of any size. What only tells of something is clipped and escaped; a row whose name cannot be kept is left out. Both are
flaws: the console shows them until the broker tells something else of that row.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from .changes import KINDS, Changes, Flaw, UnreadableChangesError, shown
from .models_base import MirrorRow

Row = TypeVar("Row", bound=MirrorRow)

#: the longest text kept where a column names no bound, and in JSON
LONGEST_TEXT = 65_536
LONGEST_WORD = 4_096
#: members of one JSON value, and levels of it
MOST_MEMBERS = 1_000
MOST_LEVELS = 16
#: a JSON value longer than this is kept as its first words
LONGEST_JSON = 262_144

_UNFIT = re.compile("[\0\ud800-\udfff]")
_BOUNDS: Mapping[type[models.Field[Any, Any]], tuple[int, int]] = {
    models.IntegerField: (-(1 << 31), (1 << 31) - 1),
    models.BigIntegerField: (-(1 << 63), (1 << 63) - 1),
}


class UnfitError(ValueError):
    """A row cannot be kept at all: what names it does not fit, or a column has nothing in its place."""


def fit(changes: Changes, keys: Mapping[type[MirrorRow], tuple[str, ...]]) -> Changes:
    """The changes as they can be written, and their flaws."""
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
    """The rows that can be written, the last one of each key; their flaws are added."""
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
    """Change the row's values to what its columns take; which ones. Raises UnfitError for one that names the row."""
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


def is_storable(text: str) -> bool:
    """Whether PostgreSQL takes this text for a name."""
    return len(text) <= 255 and _UNFIT.search(text) is None


def storable(text: str, length: int = LONGEST_TEXT) -> str:
    """The text as PostgreSQL takes it."""
    return _UNFIT.sub("\ufffd", text[:length]) if _UNFIT.search(text) or len(text) > length else text


def name_of(row: MirrorRow, key: tuple[str, ...]) -> str:
    """What a row is called, for people: on one line, and not too long."""
    return shown("/".join(str(value) for value in _values(row, [name for name in key if name != "broker"])))


def _values(row: MirrorRow, key: Iterable[str]) -> tuple[object, ...]:
    """What names a row; the broker by its name, without asking for its row."""
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
    """A value of JSON as jsonb takes it, and of a size that pages can show."""
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
