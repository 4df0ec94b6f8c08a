"""SCHEDULE_TOPIC_XXXX at a glance: one row a delay level, the figures strip, and the next minute."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from console.features.schedule.due_shapes import DueSpread, NextMinute
from console.site.evidence import Evidence
from console.site.history import History


class LaneState(TextChoices):
    """What can be said about a lane; a lane that was never used is not a lane with backlog 0."""

    UNKNOWN = "unknown", _("unknown")
    NEVER_USED = "never-used", _("never used")
    EMPTY = "empty", _("nothing waits")
    WAITING = "waiting", _("waiting")
    LATE = "late", _("behind its due times")


@dataclass(frozen=True, slots=True)
class Lane:
    """One delay level. Offsets are indices in queue `level - 1` of SCHEDULE_TOPIC_XXXX; None is unknown."""

    level: int
    delay_ms: int
    state: LaneState
    #: end_offset - delay_offset
    backlog: int | None
    #: epoch ms of the first pending message
    next_due_ms: int | None
    #: epoch ms at which the first pending message was stored
    oldest_store_ms: int | None
    #: first offset still held by the queue
    min_offset: int | None
    #: released up to here (RocketMQ's delayOffset): the next one to release
    delay_offset: int | None
    #: last saved delayOffset: a restart resumes here
    persisted_offset: int | None
    #: epoch ms of that save
    persisted_ms: int | None
    #: the queue's end (maxOffset)
    end_offset: int | None
    spread: DueSpread | None
    released_per_s: float | None
    released: History
    released_total: int | None
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None
    #: releases before their due time since the broker started; anything but 0 is a fault
    early_total: int | None
    #: codes of what deserves a look: "p99" (> 10 ms), "persisted" (progress unsaved for > 30 s),
    #: "late" (the head is overdue by > 1 s)
    warnings: frozenset[str]

    @property
    def released_share(self) -> float | None:
        """(delay_offset - min_offset) / (end_offset - min_offset); None when unknown or the queue holds nothing."""
        return self._share(self.delay_offset)

    @property
    def persisted_share(self) -> float | None:
        """The same for the saved mark."""
        return self._share(self.persisted_offset)

    def _share(self, mark: int | None) -> float | None:
        if mark is None or self.min_offset is None or self.end_offset is None:
            return None
        held = self.end_offset - self.min_offset
        return min(1.0, max(0.0, (mark - self.min_offset) / held)) if held > 0 else None


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """The strip above the lanes."""

    pending: int | None
    released_per_s: float | None
    next_due_ms: int | None
    next_due_level: int | None
    #: release-weighted median of the lanes' medians (an estimate) and the worst lane's p99
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None
    lateness_p99_level: int | None
    early_total: int | None
    #: when the broker started: "since start"
    started_ms: int | None
    #: the lane with unsaved progress whose last save is the oldest
    persisted_oldest_ms: int | None
    persisted_oldest_level: int | None


@dataclass(frozen=True, slots=True)
class Lanes:
    """The whole page."""

    evidence: Evidence
    #: epoch ms at which this was put together: "now" of spreads and countdowns
    now_ms: int
    broker: str
    figures: LaneFigures
    lanes: tuple[Lane, ...]
    next_minute: NextMinute | None
    next_minute_evidence: Evidence
