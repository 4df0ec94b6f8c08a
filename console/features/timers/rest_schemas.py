"""What requests and answers about waiting messages look like."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...rest.schemas import DelayMs, DeliverAt

Reason = Annotated[str, Meta(max_length=500, description="Kept with the message in the broker's log.")]
Outcome = Literal["cancelled", "rescheduled", "delivered_now", "already_cancelled"]


class NewMoment(Struct, forbid_unknown_fields=True, kw_only=True):
    """When a waiting message is to be delivered instead: `deliver_at`, or `delay_ms` from now."""

    deliver_at: DeliverAt | None = None
    delay_ms: DelayMs | None = None
    reject_past: Annotated[bool, Meta(description="Refuse a moment that is past instead of delivering at once.")] = (
        False
    )
    reason: Reason = ""


class ScheduleChange(Struct, kw_only=True):
    """What was done to a waiting message. `id` is that of its newest record; `previous_due_ms` when it was due;
    `operation` the address of what is kept of it: null where nothing was changed."""

    outcome: Outcome
    id: str | None
    message_id: str | None
    topic: str | None
    schedule_key: str | None
    due_ms: int | None
    previous_due_ms: int | None
    operation: str | None


class TimerRow(Struct, kw_only=True):
    """One waiting message."""

    id: str
    message_id: str | None
    topic: str
    queue: int
    due_ms: int
    schedule_key: str | None
    keys: list[str]
    tag: str | None
    size_bytes: int
    stored_ms: int
    roll_times: int
    recall_handle: str | None


class TimerRows(Struct, kw_only=True):
    """Waiting messages by due time. While there is a `cursor`, there may be more: give it back for the next page."""

    now_ms: int
    timers: list[TimerRow]
    cursor: str | None


class DueStep(Struct, kw_only=True):
    """How many are due from `start_ms` on, for one step."""

    start_ms: int
    count: int
    size_bytes: int | None = None


class RollStep(Struct, kw_only=True):
    """How many far timers are placed anew at `roll_ms`."""

    roll_ms: int
    count: int


class Wheel(Struct, kw_only=True):
    """The wheel of timers from one moment to another; steps that hold nothing are left out."""

    now_ms: int
    read_ms: int
    paused: bool
    step_ms: int
    buckets: list[DueStep]
    rolls: list[RollStep]
    pending: int
    later: Annotated[int, Meta(description="How many are due after the last step.")]


class HerdTopic(Struct, kw_only=True):
    """How many of a herd belong to a topic."""

    topic: str
    count: int


class LateHerd(Struct, kw_only=True):
    """More due in one second than are released in one: the last one is `last_late_ms` late."""

    due_ms: int
    count: int
    topics: list[HerdTopic]
    last_late_ms: int


class Forecast(Struct, kw_only=True):
    """How many are due when, against the measured speed of releases (null until there were some)."""

    now_ms: int
    step_ms: int
    capacity_per_s: float | None
    buckets: list[DueStep]
    herds: list[LateHerd]


class TimerTotals(Struct, kw_only=True):
    """The timers of the broker as a whole."""

    now_ms: int
    paused: bool
    pending: int
    backlog: Annotated[int, Meta(description="Overdue and not released yet.")]
    next_due_ms: int | None
    released_total: int
    cancelled_total: int
    rescheduled_total: int
    rolled_total: int
    early_total: Annotated[int, Meta(description="Released before their moment: must be 0.")]
    released_per_s: float
    capacity_per_s: float | None
    max_delay_ms: int | None
