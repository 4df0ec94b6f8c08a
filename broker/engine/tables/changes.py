"""What changed since when: one counter for all topics, queues, groups, offsets and levels of a store.

A follower keeps the number it was given and asks for everything newer. Each thing stands once, at its last change.
Things that are gone stand there, too; so those that changed longest ago are forgotten when they are many, and who is
further behind than that is told everything.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import Literal

#: Remembered at most; a follower asks several times a second.
MOST_MARKS = 100_000

Kind = Literal["topic", "queue", "group", "offset", "level", "broker"]


class Changes:
    """The order of last changes. Deleted things stay marked so that followers hear of it."""

    def __init__(self) -> None:
        self.sequence = 0
        #: nobody who is further behind can be told what changed
        self.oldest_sequence = 0
        self._marks: dict[tuple[Kind, Hashable], int] = {}

    def touch(self, kind: Kind, key: Hashable) -> None:
        """Note that a thing was made, changed or deleted now."""
        self.sequence += 1
        mark = (kind, key)
        self._marks.pop(mark, None)
        self._marks[mark] = self.sequence
        if len(self._marks) > MOST_MARKS:
            # a part of them at once: the front of a table is not looked through for each
            for oldest in list(islice(self._marks, MOST_MARKS // 4)):
                self.oldest_sequence = self._marks.pop(oldest)

    def __len__(self) -> int:
        """Return how many things are remembered."""
        return len(self._marks)

    def knows(self, sequence: int) -> bool:
        """Tell whether ``since`` this number leaves nothing out."""
        return self.oldest_sequence <= sequence <= self.sequence

    def since(self, sequence: int) -> dict[Kind, list[Hashable]]:
        """Return what changed after ``sequence``, by kind."""
        changed: dict[Kind, list[Hashable]] = {}
        for (kind, key), number in reversed(self._marks.items()):
            if number <= sequence:
                break
            changed.setdefault(kind, []).append(key)
        return changed
