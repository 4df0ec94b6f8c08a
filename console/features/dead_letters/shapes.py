"""Dead letters: groups that have some, and those of one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from console.features.dead_letters.columns import DEAD_LETTERS, GROUPS
from console.site.evidence import Evidence
from console.ui.table import Table


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters of a group; empty texts and None match all."""

    #: the topic in which the group got it
    topic: str = ""
    #: one of its keys, its unique id or its tag, exactly
    key: str = ""
    #: died at or after, and before; epoch ms
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every dead letter matches."""
        return not (self.topic or self.key or self.from_ms is not None or self.to_ms is not None)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message that its group gave up."""

    queue_id: int
    offset: int
    position: int
    offset_message_id: str
    #: the topic in which the group got it
    topic: str
    unique_key: str
    keys: tuple[str, ...]
    tag: str
    #: when it was sent first, and when it died
    born_ms: int
    died_ms: int
    attempts: int
    size_bytes: int
    #: the beginning of a text body; None: not text, or compressed
    preview: str | None
    #: what was done with it in this console: an outcome code; "": nothing
    sent_again: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.keys[0] if self.keys else self.unique_key or self.offset_message_id

    @property
    def choice(self) -> str:
        """What names it in a form."""
        return f"{self.queue_id}-{self.offset}"


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """A group with dead letters."""

    name: str
    #: held now, and ever stored
    count: int
    stored_total: int
    #: epoch ms of the newest; None: not known
    last_ms: int | None
    members: int | None


@dataclass(frozen=True, slots=True)
class DeadLetterGroups:
    """All groups that have some, the most first."""

    table: ClassVar[Table] = GROUPS

    evidence: Evidence
    now_ms: int
    rows: tuple[DeadLetterGroup, ...]


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """Dead letters of one group, the newest first."""

    table: ClassVar[Table] = DEAD_LETTERS

    evidence: Evidence
    now_ms: int
    group: str
    wanted: DeadLetterFilter
    rows: tuple[DeadLetter, ...]
    #: held now; None: not known
    total: int | None
    #: where the next page begins: queue and the offset behind its first; None: this was the last
    following: tuple[int, int] | None
    #: who consumes for the group now; None: not known
    members: int | None
    #: so many were looked through where the look ended before the page was full; 0: it did not
    looked: int = 0
