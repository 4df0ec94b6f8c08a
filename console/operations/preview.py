"""What an operation would hit, as it is shown and kept: numbers and codes only, the words are the page's."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Preview:
    """`at_ms` is the broker's clock: what is stored later is not touched."""

    at_ms: int
    #: how many would be hit; None: not known (a field is missing)
    count: int | None
    #: a few of them: topic, name, due_ms, position
    examples: list[dict[str, Any]] = field(default_factory=list)
    #: [topic, count], the most first
    topics: list[list[Any]] = field(default_factory=list)
    first_due_ms: int | None = None
    last_due_ms: int | None = None
    #: measured release rate; None: not known
    capacity_per_s: float | None = None
    #: already due at the moment that they are moved to
    met_count: int | None = None
    #: of what fires at once: due besides, until all of it is out
    also_due: int | None = None
    #: the end of the busiest second that there would be, and how many would be due in it
    busiest_ms: int | None = None
    busiest_count: int | None = None
    #: how late the last one would be
    last_late_ms: int | None = None
    #: messages that groups are behind before and after; of offsets: given out again, never given out
    lag_before: int | None = None
    lag_after: int | None = None
    replayed: int | None = None
    skipped: int | None = None
    #: what the group (of several the slowest) took of late, and how long it would need for what it is behind afterwards
    consumed_per_s: float | None = None
    catch_up_ms: int | None = None
    #: of settings: [name, before (None: new), after], messages in queues that are not read any more
    changes: list[list[Any]] = field(default_factory=list)
    unread: int | None = None
    #: lost when a topic or group is deleted: messages, groups that read it (or topics that it reads)
    lost_messages: int | None = None
    lost_readers: int | None = None
    #: of a topic that is to be deleted: what waits for it (timers, delayed, halves, parked_halves; None: not told), and
    #: how much of that is known; of a group: which of its tries wait, they are among those that are lost
    waiting: dict[str, int | None] = field(default_factory=dict)
    waiting_count: int | None = None
    #: connected consumers of a group that is to be deleted: their next heartbeat makes it again
    members: int | None = None
    #: alerts that were raised by a rule that is to be deleted
    lost_alerts: int | None = None
    #: of a rule of alerts as it would be (what, limit, for_s, is_on), and its highest readings: [subject, value]; how
    #: many it would watch, and how many of them are above its limit now (None: that cannot be read). Of a silence: the
    #: alerts that it keeps quiet
    rule: dict[str, Any] = field(default_factory=dict)
    watched: list[list[Any]] = field(default_factory=list)
    watched_count: int | None = None
    watched_above: int | None = None
    #: of what is taken back: [why it cannot be (an outcome), how many]
    kept_out: list[list[Any]] = field(default_factory=list)
    #: what the broker could not tell: codes
    missing: list[str] = field(default_factory=list)

    @property
    def is_read(self) -> bool:
        """Of a rule: what it watches can be read now."""
        return self.watched_above is not None

    @property
    def has_waiting(self) -> bool:
        """Something waits, as far as that is known."""
        return any(self.waiting.values())

    @property
    def kept_out_count(self) -> int:
        """How many cannot be taken back."""
        return sum(count for _, count in self.kept_out)

    def as_row(self) -> dict[str, Any]:
        """For Operation.preview."""
        return asdict(self)

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> Preview:
        """From Operation.preview."""
        return cls(**row)
