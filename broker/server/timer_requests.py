"""What requests about timers ask for, checked: fields of 14002, 14003, 14006 and 14008, bodies of 14005 and 14007."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..rocketmq.codes import Answer
from ..rocketmq.errors import RequestRefused
from ..rocketmq.fields import LONG_MAX, body_as, whole

MOST_LISTED = 1_000
MOST_TARGETS = 1_000
MOST_STEPS = 2_000
SHORTEST_STEP_MS = 1_000
_MINUTE_MS = 60_000
_CURSOR = re.compile(r"\d{1,19}-\d{1,19}", re.ASCII).fullmatch
_Moment = Annotated[int, Meta(ge=0, le=LONG_MAX)]
_Text = Annotated[str, Meta(min_length=1, max_length=4096)]
_Reason = Annotated[str, Meta(max_length=1000)]


class Target(Struct, rename="camel", forbid_unknown_fields=True):
    """One timer by exactly one of its names; `due_ms` is its own new moment, `expected_due_ms` what it is to be now."""

    position: _Moment | None = None
    topic: _Text | None = None
    schedule_key: _Text | None = None
    unique_key: _Text | None = None
    handle: _Text | None = None
    message_id: _Text | None = None
    due_ms: _Moment | None = None
    expected_due_ms: _Moment | None = None

    def check(self) -> None:
        """Refuse a target that names none, or two, or leaves out the topic of a key."""
        names = [self.position, self.schedule_key, self.unique_key, self.handle, self.message_id]
        if sum(name is not None for name in names) != 1:
            raise _refused("A target has one of position, scheduleKey, uniqueKey, handle and messageId.")
        if self.topic is None and (self.schedule_key is not None or self.unique_key is not None):
            raise _refused("A target's scheduleKey or uniqueKey needs its topic.")


class Steering(Struct, rename="camel", forbid_unknown_fields=True):
    """Body of 14005."""

    action: Literal["cancel", "reschedule", "deliver_now"]
    targets: Annotated[list[Target], Meta(min_length=1, max_length=MOST_TARGETS)]
    reason: _Reason = ""
    due_ms: _Moment | None = None
    reference: _Reason | None = None

    @property
    def kept_reason(self) -> str:
        """What is written into the log: reason and reference."""
        return " | ".join(part for part in (self.reason, self.reference) if part)


@dataclass(frozen=True, slots=True)
class Listing:
    """Fields of 14002."""

    from_ms: int
    to_ms: int
    limit: int
    topic: str | None
    key: str | None
    cursor: str | None


def read_steering(body: bytes) -> Steering:
    """The body of 14005; raises RequestRefused."""
    wanted = body_as(Steering, body)
    for target in wanted.targets:
        target.check()
        if wanted.action == "reschedule" and target.due_ms is None and wanted.due_ms is None:
            raise _refused("A timer is rescheduled to a dueMs: give one for all, or each target its own.")
    if "\x01" in wanted.kept_reason or "\x02" in wanted.kept_reason:
        raise _refused("The reason holds \\x01 or \\x02, which part properties.")
    return wanted


def read_target(body: bytes) -> Target:
    """The body of 14007; raises RequestRefused."""
    target = body_as(Target, body)
    target.check()
    return target


def read_listing(ext: Mapping[str, str]) -> Listing:
    """The fields of 14002; raises RequestRefused."""
    cursor = ext.get("cursor") or None
    if cursor is not None and _CURSOR(cursor) is None:
        raise _refused(f"The cursor {cursor[:60]!r} is none of this broker's; begin without one.")
    return Listing(
        from_ms=whole(ext, "fromMs", low=0),
        to_ms=whole(ext, "toMs", low=0),
        limit=whole(ext, "limit", 100, low=1, high=MOST_LISTED),
        topic=ext.get("topic") or None,
        key=ext.get("key") or None,
        cursor=cursor,
    )


def read_range(ext: Mapping[str, str]) -> tuple[int, int, int]:
    """From, to and step of 14003 and 14008 in ms; raises RequestRefused.

    Steps of a minute and more are whole minutes, and begin with one: those are counted beforehand, seconds are not.
    """
    from_ms, to_ms = whole(ext, "fromMs", low=0), whole(ext, "toMs", low=0)
    step_ms = whole(ext, "stepMs", low=SHORTEST_STEP_MS)
    if to_ms <= from_ms:
        raise _refused("toMs must be later than fromMs.")
    if step_ms >= _MINUTE_MS:
        step_ms = -(-step_ms // _MINUTE_MS) * _MINUTE_MS
        from_ms -= from_ms % _MINUTE_MS
    if -(-(to_ms - from_ms) // step_ms) > MOST_STEPS:
        raise _refused(f"That is more than {MOST_STEPS:,} steps; choose a longer stepMs.")
    return from_ms, to_ms, step_ms


def read_paused(ext: Mapping[str, str]) -> bool:
    """The field of 14006; raises RequestRefused for anything but true and false: it is not to be guessed."""
    value = ext.get("paused", "")
    if value not in ("true", "false"):
        raise _refused(f"The field 'paused' is 'true' or 'false', not {value[:40]!r}.")
    return value == "true"


def _refused(remark: str) -> RequestRefused:
    return RequestRefused(Answer.INVALID_PARAMETER, remark)
