"""Snapshots in MessagePack instead of a form of our own: JSON without defaults, rows of one kind as a table.

Each is read in the old form, which is kept here alone, and written in the new one. Nothing is lost by it; a part that
cannot be read any more is counted, said, and becomes one that is not known.
"""

from __future__ import annotations

import json
import sys
import types
import zlib
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from django.db import migrations

BATCH = 50
#: what stands in `why` for a part that could not be read
NOT_READ = "not-supported"


def pack_anew(apps: Any, editor: Any) -> None:
    """Pack all snapshots of the database in the new form, some at a time."""
    # the shapes as they are now: an old form has no others
    from console.past import pack
    from console.snapshots import KINDS

    rows = apps.get_model("console", "Snapshot").objects.using(editor.connection.alias)
    lost = 0
    for row in rows.order_by("pk").iterator(chunk_size=BATCH):
        for part, kind in KINDS.items():
            held = getattr(row, part)
            if held is None:
                continue
            try:
                setattr(row, part, pack(_made(kind, json.loads(zlib.decompress(bytes(held))))))
            except (ValueError, TypeError, KeyError, zlib.error):
                lost += 1
                setattr(row, part, None)
                row.why = {**row.why, part: NOT_READ}
        row.save(update_fields=[*KINDS, "why"])
    if lost:
        sys.stdout.write(f" {lost} parts of snapshots could not be read, and are not known any more")


def _made(kind: Any, value: Any) -> Any:
    """Return a value of that kind from its old form: what is left out has its default, or is unknown."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _made(next(each for each in inner if each is not type(None)), value)
    if kind.__name__ == "Evidence":
        return kind("", None, True)
    if kind.__name__ == "Stretch":
        return _stretch(kind, *value)
    if origin is tuple:
        if inner[1:] != (Ellipsis,):
            return tuple(_made(each, part) for each, part in zip(inner, value, strict=True))
        if isinstance(value, dict):
            value = [dict(zip(value["f"], row, strict=True)) for row in value["r"]]
        return tuple(_made(inner[0], part) for part in value or ())
    if origin is frozenset:
        return frozenset(value or ())
    if is_dataclass(kind):
        return _row(kind, value or {})
    return kind(value) if hasattr(kind, "__members__") and value is not None else value


def _row(kind: Any, said: dict[str, Any]) -> Any:
    hints, given = _hints(kind), {}
    for each in fields(kind):
        if each.name in said or (each.default is MISSING and each.default_factory is MISSING):
            given[each.name] = _made(hints[each.name], said.get(each.name))
    return kind(**given)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _stretch(kind: Any, start_ms: int, step_ms: int, length: int, counts: list[int]) -> Any:
    slot = get_args(_hints(kind)["slots"])[0]
    known = dict(zip(counts[::2], counts[1::2], strict=True))
    slots = (slot(start_ms + at * step_ms, known.get(at, 0), None if at in known else 0) for at in range(length))
    return kind(start_ms, step_ms, tuple(slots))


class Migration(migrations.Migration):
    """Rewrites rows of snapshots; no column changes."""

    dependencies = [("console", "0022_alert_channels")]

    operations = [migrations.RunPython(pack_anew, migrations.RunPython.noop, elidable=True)]
