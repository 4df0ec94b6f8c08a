"""What an operation would touch, as it is shown and stored: numbers and codes only; the words are the page's.

Each kind of operation has its own class of preview with the figures that it counts. What all of them have stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What was counted. A preview is stored with its operation, and REST answers with its fields."""

    #: figures besides `count` that say how much is touched: they count for the second person's limit
    weights: ClassVar[tuple[str, ...]] = ()

    #: the broker's clock when it was counted; what is stored later is not touched
    at_ms: int = 0
    #: how many would be touched; None: not known, something has to be said first
    count: int | None = None
    #: a few of them, as a table shows them
    examples: list[dict[str, Any]] = field(default_factory=list)
    #: [topic, count], the most first
    topics: list[list[Any]] = field(default_factory=list)
    #: codes of what the broker could not tell
    missing: list[str] = field(default_factory=list)

    @property
    def touched(self) -> int:
        """The largest of the figures that say how much is touched."""
        return max(self.count or 0, *(getattr(self, name) or 0 for name in self.weights), 0)

    def as_row(self) -> dict[str, Any]:
        """Return the fields by name, for `Operation.preview` and for REST."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return what `Operation.preview` keeps; fields that this kind does not have (any more) are left out."""
        return cls(**{each.name: row[each.name] for each in fields(cls) if each.name in row})


@dataclass(frozen=True, slots=True, kw_only=True)
class LagPreview(Preview):
    """A preview of what gives messages to consumer groups: how far they would be behind, and for how long."""

    #: messages that the groups are behind, now and at once afterwards; None: not known
    lag_before: int | None = None
    lag_after: int | None = None
    #: what the group (of several the slowest) took of late, and how long it would need for what it is behind then
    consumed_per_s: float | None = None
    catch_up_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPreview(Preview):
    """A preview of settings that are changed."""

    #: [name, value now (None: it is new), value afterwards]
    changes: list[list[Any]] = field(default_factory=list)
