"""Shapes of the pages as few bytes, and back: JSON without what is a field's default, rows of one kind as a table.

What is unknown stays unknown: None is left out only where no other default would take its place. Where numbers came
from (Evidence) is not kept; whoever reads says that it was a snapshot. Of slots the counts are kept, not the bytes.
"""

from __future__ import annotations

import json
import types
import zlib
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from console.features.timers.shapes import Stretch, WheelSlot
from console.site.evidence import Evidence

Shape = TypeVar("Shape")
Reader = Callable[[Any], Any]
_UNSAID = Evidence("", None, True)
#: what is JSON already: most of all values
_JSON = frozenset((int, str, float, bool, type(None)))


def pack(shape: Any) -> bytes:
    """Any shape of dataclasses, tuples, texts and numbers."""
    return zlib.compress(json.dumps(_plain(shape), separators=(",", ":")).encode())


def unpack(kind: type[Shape], packed: bytes) -> Shape:
    """The shape again; fields that are new since then have their defaults, those that are gone are left."""
    found: Shape = _shape(kind, json.loads(zlib.decompress(packed)))
    return found


def _plain(value: Any) -> Any:
    if type(value) in _JSON:
        return value
    if isinstance(value, Evidence):
        return None
    if isinstance(value, Stretch):
        counts = [number for at, slot in enumerate(value.slots) if slot.count for number in (at, slot.count)]
        return [value.start_ms, value.step_ms, len(value.slots), counts]
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _said([value])}
    if isinstance(value, tuple | list):
        if _is_row(type(value[0]) if value else None):
            names = _said(value)
            return {"f": names, "r": [[_plain(getattr(row, name)) for name in names] for row in value]}
        return [_plain(each) for each in value]
    return sorted(value) if isinstance(value, frozenset) else value


def _is_row(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind) and not issubclass(kind, Stretch | Evidence)


def _said(rows: Any) -> list[str]:
    """Names of the fields that say something in at least one row."""
    return [
        each.name
        for each in fields(rows[0])
        if any(getattr(row, each.name) != _default(each) for row in rows)
        and not isinstance(getattr(rows[0], each.name), Evidence)
    ]  # fmt: skip


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _shape(kind: Any, value: Any) -> Any:
    reader = _reader(kind)
    return value if reader is None else reader(value)


@cache
def _reader(kind: Any) -> Reader | None:
    """What makes a value of this kind from its JSON; None: it is one already."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        reader = _reader(next(each for each in inner if each is not type(None)))
        return None if reader is None else lambda value: None if value is None else reader(value)
    if kind is Evidence:
        return lambda value: _UNSAID
    if kind is Stretch:
        return lambda value: _stretch(*value)
    if origin is tuple:
        return partial(_tuple, inner)
    if origin is frozenset:
        return lambda value: frozenset(value or ())
    if is_dataclass(kind):
        return lambda value: _table(kind, value or {}, [(value or {}).values()])[0]
    return kind if isinstance(kind, type) and issubclass(kind, Enum) else None


def _tuple(inner: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if inner[1:] != (Ellipsis,):
        return tuple(_shape(each, part) for each, part in zip(inner, value, strict=True))
    if isinstance(value, dict):
        return tuple(_table(inner[0], value["f"], value["r"]))
    return tuple(_shape(inner[0], part) for part in value or ())


def _table(kind: Any, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[Any]:
    """Rows of one kind, each with values for these fields; the others have their defaults, or are unknown."""
    hints = _hints(kind)
    known, said = {each.name: each for each in fields(kind)}, set(names)
    columns = [(name, _reader(hints[name]) if name in known else None) for name in names]
    blank = {
        name: _shape(hints[name], None)
        for name, each in known.items()
        if name not in said and each.default is MISSING and each.default_factory is MISSING
    }  # fmt: skip
    found = []
    for row in rows:
        given = {
            name: value if reader is None else reader(value)
            for (name, reader), value in zip(columns, row, strict=True)
            if name in known
        }  # fmt: skip
        found.append(kind(**{**blank, **given}))
    return found


def _stretch(start_ms: int, step_ms: int, length: int, counts: list[int]) -> Stretch:
    known = dict(zip(counts[::2], counts[1::2], strict=True))
    slots = (WheelSlot(start_ms + at * step_ms, known.get(at, 0), None if at in known else 0) for at in range(length))
    return Stretch(start_ms, step_ms, tuple(slots))
