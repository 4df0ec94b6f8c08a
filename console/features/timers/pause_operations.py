"""Pause and resume all timers of the broker. What is sent meanwhile is taken; nothing fires until they are resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from console.features.timers.release_load import at_once
from console.operations.actor import PAUSE_TIMERS
from console.operations.kind import ItemResult, Kind, Target
from console.operations.preview import Preview
from console.site import broker as site_broker

TOPICS = 10


class _Switch(Kind):
    """One switch for all timers."""

    permission = PAUSE_TIMERS
    is_paused_after: ClassVar[bool]

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """It has none."""
        return {}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """What waits; on resuming, what is overdue and fires at once."""
        status = site_broker.admin().timer_status()
        overdue = status.backlog
        capacity = status.capacity_per_s
        topics = sorted(status.by_topic, key=lambda row: -row.pending)[:TOPICS]
        load = None if self.is_paused_after else at_once(site_broker.admin(), (), capacity)
        return Preview(
            at_ms=status.now_ms,
            count=1,
            topics=[[row.topic, row.pending] for row in topics],
            first_due_ms=status.next_due_ms,
            capacity_per_s=capacity,
            met_count=status.pending if self.is_paused_after else overdue,
            also_due=load.also_due if load else None,
            last_late_ms=load.late_ms if load else None,
        )

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """The broker itself."""
        return [Target({}, {})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Ask once."""
        answer = site_broker.admin().pause_timers(self.is_paused_after)
        outcome = "paused" if answer.paused else "resumed"
        return [ItemResult(outcome, {"pending": answer.pending, "backlog": answer.backlog})]


class PauseTimers(_Switch):
    """Nothing fires any more."""

    name = "timers.pause"
    is_paused_after = True


class ResumeTimers(_Switch):
    """What is overdue fires, oldest first; then all goes on."""

    name = "timers.resume"
    is_paused_after = False
