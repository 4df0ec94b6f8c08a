"""Every kind of operation by its name, and what pages ask of a kind that they know by its name only.

Kinds stand with their features and register themselves; the app loads them when it starts (`discover`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from console.operations.actor import UNBOUNDED, Scope
from console.operations.errors import InvalidParameter
from console.operations.kind import COMMON_OUTCOMES, Act, Kind, Outcome, Preview
from console.operations.models import Operation

#: kinds of operations, and all that the audit has a title for
KINDS: dict[str, Kind[Any]] = {}
ACTS: dict[str, Act] = {}
#: every outcome by its code, which means the same for all kinds
OUTCOMES: dict[str, Outcome] = dict(COMMON_OUTCOMES)

OfAct = TypeVar("OfAct", bound=type[Act])


def register(act: OfAct) -> OfAct:
    """Make a kind of operation, or another act that the audit keeps, known by its name."""
    made = act()
    ACTS[made.name] = made
    if isinstance(made, Kind):
        KINDS[made.name] = made
        OUTCOMES.update(made.outcomes)
    return act


def discover() -> None:
    """Load the modules of all features that register kinds: `operations.py` and `..._operations.py`."""
    features = import_module("console.features")
    for folder in features.__path__:
        for file in sorted(Path(folder).glob("*/*operations.py")):
            import_module(f"{features.__name__}.{file.parent.name}.{file.stem}")


def kind_of(name: str) -> Kind[Any]:
    """Return the kind with this name; raises InvalidParameter."""
    found = KINDS.get(name)
    if found is None:
        raise InvalidParameter("kind", f"There is no operation {name[:60]!r}; there are: {', '.join(KINDS)}.")
    return found


def preview_of(row: Operation) -> Preview:
    """Return the preview that an operation keeps, as its kind reads it."""
    kind = KINDS.get(row.kind)
    return (kind.preview_type if kind is not None else Preview).of_row(row.preview)


def scope_of(row: Operation) -> Scope:
    """Return the names that bound an operation; one of a kind that is not known is bounded by none."""
    kind = KINDS.get(row.kind)
    return UNBOUNDED if kind is None else kind.scope(row.parameters, row.preview)


def names_messages(name: str) -> bool:
    """Return whether the audit's entries of this name are about messages, whose names may be masked."""
    kind = KINDS.get(name)
    return kind is not None and kind.names_messages


def shown_parameters(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an operation without secrets."""
    kind = KINDS.get(name)
    return dict(parameters) if kind is None else kind.shown_parameters(parameters)
