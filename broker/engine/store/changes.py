"""What changed since when: one counter for all topics, queues, groups, offsets and levels of a store.

A follower keeps the number it was given and asks for everything newer. Each thing stands once, at its last change,
so memory is bounded by the number of things.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

Kind = Literal["topic", "queue", "group", "offset", "level", "broker"]


class Changes:
    """The order of last changes. Deleted things stay marked so that followers hear of it."""

    def __init__(self) -> None:
        self.sequence = 0
        self._marks: dict[tuple[Kind, Hashable], int] = {}

    def touch(self, kind: Kind, key: Hashable) -> None:
        """Note that a thing was made, changed or deleted now."""
        self.sequence += 1
        mark = (kind, key)
        self._marks.pop(mark, None)
        self._marks[mark] = self.sequence

    def since(self, sequence: int) -> dict[Kind, list[Hashable]]:
        """Return what changed after ``sequence``, by kind."""
        changed: dict[Kind, list[Hashable]] = {}
        for (kind, key), number in reversed(self._marks.items()):
            if number <= sequence:
                break
            changed.setdefault(kind, []).append(key)
        return changed
