"""Cancel, move and deliver timers: the named ones, or all that match a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from broker.client import Admin, NotSupported
from broker.client.timers import Action, Steered
from console.features.groups.catch_up import Behind, behind_after
from console.features.timers.apache_recall import recall
from console.features.timers.find import Found, find_named, find_timers
from console.features.timers.release_load import Load, at_once, busiest, capacity_of
from console.features.timers.rows import target_of
from console.features.timers.selection import checked_selection, filter_of
from console.features.timers.shapes import TimerRow
from console.operations.actor import STEER_TIMERS
from console.operations.found_rows import EXAMPLES, PREVIEW_PATIENCE_S, count_of, there_before, topics_of
from console.operations.kind import LIMIT, ItemResult, Kind, Target
from console.operations.preview import Preview
from console.operations.typed_moments import checked_move
from console.site import broker as site_broker


class SteerTimers(Kind):
    """What the three have in common."""

    permission = STEER_TIMERS
    action: ClassVar[Action]

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The selection alone."""
        return checked_selection(parameters)

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """Count, examples, topics, and what the broker will have to release at once."""
        admin = site_broker.admin()
        found = self._find(admin, parameters, PREVIEW_PATIENCE_S)
        rows, count = found.rows, count_of(parameters, found.rows)
        capacity = capacity_of(admin)
        load = self.load(admin, parameters, rows, capacity)
        behind = self.behind(admin, rows)
        gaps = {"capacity": capacity is None, "count": not found.is_whole, "polled": found.is_polled}
        return Preview(
            at_ms=found.now_ms,
            count=count,
            examples=[label_of(row) for row in rows[:EXAMPLES]],
            topics=topics_of(rows),
            first_due_ms=min((row.due_ms for row in rows), default=None),
            last_due_ms=max((row.due_ms for row in rows), default=None),
            capacity_per_s=capacity,
            met_count=load.met_count if load else None,
            last_late_ms=load.late_ms if load else None,
            busiest_ms=load.ms if load else None,
            busiest_count=load.count if load else None,
            also_due=load.also_due if load else None,
            missing=[code for code, is_missing in gaps.items() if is_missing],
            **(behind.as_fields() if behind else {}),
        )

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """What matches now and was there when it was previewed; a named one stays, whatever became of it."""
        found = self._find(site_broker.admin(), parameters, None)
        if "filter" in parameters:
            rows = there_before(found.rows, preview)
            return [self._target({"position": row.position}, row, parameters) for row in rows]
        return [
            self._target(target, row, parameters)
            for target, row in zip(parameters["targets"], found.named, strict=True)
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """One request to the broker; on an Apache RocketMQ broker a recall each."""
        admin = site_broker.admin()
        try:
            answer = admin.steer_timers(self.action, [target_of(target) for target in targets], reason=reason)
        except NotSupported:
            if self.action != "cancel":
                return [ItemResult("refused", {"error": "not-supported"}) for _ in targets]
            return recall(admin, targets)
        return [result_of(steered) for steered in answer.results]

    def load(
        self, admin: Admin, parameters: Mapping[str, Any], rows: Sequence[TimerRow], capacity: float | None
    ) -> Load | None:
        """The busiest second that there would be; None: it makes none busier, or that is not known."""
        return None

    def behind(self, admin: Admin, rows: Sequence[TimerRow]) -> Behind | None:
        """How far consumer groups are behind now and at once afterwards; None: it changes nothing now."""
        return None

    def moved_to(self, row: TimerRow | None, parameters: Mapping[str, Any]) -> int | None:
        """The new moment of a timer, None if it keeps its own."""
        return None

    def _target(self, target: Mapping[str, Any], row: TimerRow | None, parameters: Mapping[str, Any]) -> Target:
        due_ms = self.moved_to(row, parameters)
        named = {**target, "dueMs": due_ms} if due_ms is not None else dict(target)
        return Target(named, label_of(row) if row is not None else {"name": _name_of(target)})

    def _find(self, admin: Admin, parameters: Mapping[str, Any], patience_s: float | None) -> Found:
        if "filter" in parameters:
            return find_timers(admin, filter_of(parameters["filter"]), most=LIMIT + 1, patience_s=patience_s)
        return find_named(admin, parameters["targets"])


class CancelTimers(SteerTimers):
    """They are not delivered."""

    name = "timers.cancel"
    action = "cancel"
    is_final = True


class DeliverTimersNow(SteerTimers):
    """They are released at once."""

    name = "timers.deliver_now"
    action = "deliver_now"
    is_final = True

    def load(
        self, admin: Admin, parameters: Mapping[str, Any], rows: Sequence[TimerRow], capacity: float | None
    ) -> Load | None:
        """All of them at once."""
        return at_once(admin, rows, capacity)

    def behind(self, admin: Admin, rows: Sequence[TimerRow]) -> Behind | None:
        """Every group of their topics gets them at once."""
        return behind_after(admin, Counter(row.topic for row in rows))


class RescheduleTimers(SteerTimers):
    """They are due at another moment: `due_ms` for all, or `shift_ms` later (earlier if negative) each."""

    name = "timers.reschedule"
    action = "reschedule"
    needs_moment = True

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The selection and one of the two."""
        checked = checked_selection(parameters)
        given = checked_move(parameters)
        own = all("dueMs" in target for target in checked.get("targets", [{}]))
        return {**checked, **given, **({"is_own": True} if own and not given else {})}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """As long as the moment is not known, the number of them is not asked to be confirmed."""
        shown = super().preview(parameters)
        if any(name in parameters for name in ("due_ms", "shift_ms", "is_own")):
            return shown
        return Preview.of_row({**shown.as_row(), "count": None, "met_count": shown.count})

    def load(
        self, admin: Admin, parameters: Mapping[str, Any], rows: Sequence[TimerRow], capacity: float | None
    ) -> Load | None:
        """Of the seconds that they are moved to."""
        moved = [self.moved_to(row, parameters) for row in rows]
        return busiest(admin, rows, [due_ms for due_ms in moved if due_ms is not None], capacity)

    def moved_to(self, row: TimerRow | None, parameters: Mapping[str, Any]) -> int | None:
        """The moment of all, or its own moved by the span."""
        if "due_ms" in parameters:
            moment: int = parameters["due_ms"]
            return moment
        if row is None or "shift_ms" not in parameters:
            return None
        return max(1, row.due_ms + parameters["shift_ms"])


def label_of(row: TimerRow) -> dict[str, Any]:
    """What people see of a timer."""
    return {"topic": row.topic, "name": row.name[:200], "due_ms": row.due_ms, "position": row.position}


def result_of(steered: Steered) -> ItemResult:
    """The broker's answer to one target, without what it does not say."""
    fields = {
        "position": steered.position, "new_position": steered.new_position, "topic": steered.topic,
        "unique_key": steered.unique_key, "schedule_key": steered.schedule_key, "due_ms": steered.due_ms,
        "previous_due_ms": steered.previous_due_ms, "delivered_ms": steered.delivered_ms,
        "message_id": steered.message_id, "error": steered.error,
    }  # fmt: skip
    return ItemResult(steered.outcome, {name: value for name, value in fields.items() if value is not None})


def _name_of(target: Mapping[str, Any]) -> str:
    return next(
        str(target[name]) for name in ("scheduleKey", "uniqueKey", "messageId", "handle", "position") if name in target
    )
