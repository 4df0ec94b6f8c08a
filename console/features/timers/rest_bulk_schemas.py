"""What requests and answers about many timers at once look like."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from ...rest.choice_schemas import ChosenTimer, Look
from ...rest.schemas import DeliverAt, Text

BulkReason = Annotated[str, Meta(min_length=1, max_length=500, description="Kept in the audit.")]
Moment = Annotated[str | int, Meta(description="RFC 3339 with a zone, or ms since 1970.")]


class TimerFilter(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which waiting messages: all conditions that are given hold at once."""

    topic: Text | None = None
    key: (
        Annotated[str, Meta(min_length=1, max_length=1024, description="A schedule key, a key or a message_id.")] | None
    ) = None
    due_from: Moment | None = None
    due_before: Moment | None = None


class ManyTimers(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 waiting messages that are chosen (`timers`), or up to 10,000 that match (`filter`), and why.

    `all: true` is needed for a filter without any condition.
    """

    filter: TimerFilter | None = None
    timers: Annotated[list[ChosenTimer], Meta(min_length=1, max_length=1_000)] | None = None
    reason: BulkReason
    all: bool = False
    preview: Look = False


class ManyMoved(ManyTimers, forbid_unknown_fields=True, kw_only=True):
    """As ManyTimers, and where to: `deliver_at` for all, or `shift_ms` later (earlier if negative) each; chosen ones
    may each have their own `deliver_at` instead."""

    deliver_at: DeliverAt | None = None
    shift_ms: Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)] | None = None


class SwitchReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why all timers are paused or resumed."""

    reason: BulkReason


class TakenBack(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why what an operation did to timers is taken back; all of it, or the items with these numbers."""

    reason: BulkReason
    items: Annotated[list[int], Meta(min_length=1, max_length=10_000)] | None = None


class OperationShown(Struct, kw_only=True):
    """An operation. `state`: waiting (for a second person), queued, running, done, aborted, failed, declined, expired.

    `results` counts items by outcome.
    """

    id: str
    kind: str
    state: str
    reason: str
    total: int | None
    done: int
    results: dict[str, int]
    error: str | None
    created_ms: int
    finished_ms: int | None
    preview: Annotated[dict[str, Any], Meta(description="What it was about when it was asked for.")]
    told: Annotated[
        dict[str, Any] | None,
        Meta(description="Of a topic that was deleted: what waited for it, and what became of that."),
    ] = None
