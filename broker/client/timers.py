"""Timers, the messages that wait for a moment, as brokers report them and operators steer them.

Requests are 14002 to 14008, 14016, 60 and 61. All values are frozen and read straight from the answers' JSON, whose
names are the same in camel case (docs/PROTOCOL.md). Moments are epoch ms.

Apache RocketMQ answers `Admin.timer_checkpoint` and `Admin.timer_metrics`; everything else about timers raises
NotSupported there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert, field

from ..rocketmq.ids import BadHandle, RecallHandle, read_handle
from .errors import InvalidArgument

__all__ = [
    "MOST_TARGETS",
    "Action",
    "BadHandle",
    "DueBucket",
    "Herd",
    "LatenessBucket",
    "OnConflict",
    "Outcome",
    "RecallHandle",
    "Releases",
    "Steered",
    "SteeredAll",
    "Timer",
    "TimerCheckpoint",
    "TimerEvent",
    "TimerForecast",
    "TimerLife",
    "TimerLimits",
    "TimerMetric",
    "TimerPage",
    "TimerStatus",
    "TimerTarget",
    "TimerWheel",
    "TimersPaused",
    "TopicCount",
    "TopicLateness",
    "TopicTimers",
    "WheelBucket",
    "WheelRoll",
    "read_handle",
]

Outcome = Literal[
    "cancelled", "rescheduled", "delivered_now", "already_delivered", "already_cancelled", "changed", "unknown",
    "refused",
]  # fmt: skip
Action = Literal["cancel", "reschedule", "deliver_now"]
OnConflict = Literal["error", "replace", "keep"]
#: Most targets of one request 14005.
MOST_TARGETS = 1000


class Timer(Struct, frozen=True, rename="camel"):
    """A pending timer. `topic` and `queue_id` are the real ones; `position` is that of the parked record, `offset`
    its place in rmq_sys_wheel_timer; `offset_message_id` is the id of that record,
    `handle` the one for `Producer.recall`."""

    position: int
    offset: int
    due_ms: int
    topic: str
    queue_id: int
    offset_message_id: str = field(name="messageId")
    size_bytes: int = field(name="size", default=0)
    message_id: str | None = field(name="uniqueKey", default=None)
    keys: list[str] = []
    tag: str | None = field(name="tags", default=None)
    schedule_key: str | None = None
    store_ms: int = 0
    born_ms: int = 0
    roll_times: int = 0
    handle: str | None = None


class TimerPage(Struct, frozen=True, rename="camel"):
    """Pending timers by due time, then arrival. Not `complete`: the broker's time for one answer was used up, or there
    are more; continue with `cursor`. `scanned` counts what was read."""

    now_ms: int
    items: list[Timer]
    cursor: str | None = None
    scanned: int = 0
    complete: bool = True


class WheelBucket(Struct, frozen=True, array_like=True):
    """The timers due from `start_ms` on, for one step; `size_bytes` is None where every record would be read for it."""

    start_ms: int
    count: int
    size_bytes: int | None = None


class DueBucket(Struct, frozen=True, array_like=True):
    """The number of timers due from `start_ms` on, for one step."""

    start_ms: int
    count: int


class WheelRoll(Struct, frozen=True, array_like=True):
    """`count` far timers are placed anew at `roll_ms`."""

    roll_ms: int
    count: int


class TimerWheel(Struct, frozen=True, rename="camel"):
    """The wheel from one time to another; steps that hold nothing are left out. `far`: due after that."""

    now_ms: int
    read_ms: int
    paused: bool
    step_ms: int
    buckets: list[WheelBucket]
    rolls: list[WheelRoll] = []
    pending: int = 0
    far: int = 0
    precision_ms: int = 1000
    slots: int = 604_800


class TopicCount(Struct, frozen=True, array_like=True):
    """The part of a burst that belongs to a topic."""

    topic: str
    count: int


class TopicTimers(Struct, frozen=True, rename="camel"):
    """Pending timers of one real topic."""

    topic: str
    pending: int


class LatenessBucket(Struct, frozen=True, array_like=True):
    """`count` releases were at most `up_to_ms` late, and later than the bucket before."""

    up_to_ms: int
    count: int


class TopicLateness(Struct, frozen=True, rename="camel"):
    """The lateness at which timers of one topic were released, lately."""

    topic: str
    count: int
    p50_ms: float | None = field(name="p50", default=None)
    p99_ms: float | None = field(name="p99", default=None)
    max_ms: float | None = field(name="max", default=None)
    histogram: list[LatenessBucket] = []


class TimerLimits(Struct, frozen=True, rename="camel"):
    """Limits of the broker: furthest due time, timers in all, timers in one slot of the wheel (0: no limit)."""

    max_delay_ms: int
    max_pending: int = 0
    max_per_slot: int = 0


class TimerStatus(Struct, frozen=True, rename="camel"):
    """The timers of one broker as a whole. `backlog`: overdue and not released yet; `early_total` must be 0.

    `capacity_per_s` is the measured speed of releases, None until there was one: `capacity_how` says whether it was
    found under load or by a self-test, `capacity_at_ms` when. `clock_back_ms` and `clock_forward_ms` are the largest
    steps of the wall clock that were seen.
    """

    now_ms: int
    paused: bool
    pending: int
    by_topic: list[TopicTimers] = []
    pending_bytes: int | None = None
    next_due_ms: int | None = None
    read_ms: int = 0
    backlog: int = 0
    released_total: int = 0
    cancelled_total: int = 0
    rescheduled_total: int = 0
    rolled_total: int = 0
    early_total: int = 0
    released_per_s: float = 0.0
    capacity_per_s: float | None = None
    capacity_at_ms: int | None = None
    capacity_how: str | None = None
    lateness_by_topic: list[TopicLateness] = []
    clock_back_ms: int = 0
    clock_forward_ms: int = 0
    clock_step_at_ms: int | None = None
    limits: TimerLimits | None = None
    log_size_bytes: int = 0
    enqueue_offset: int = 0
    queue_max_offset: int = 0


class Herd(Struct, frozen=True, rename="camel"):
    """More timers due in one second than are released in one: the last one leaves `last_late_ms` after its due time."""

    due_ms: int
    count: int
    topics: list[TopicCount] = []
    last_late_ms: int = 0


class TimerForecast(Struct, frozen=True, rename="camel"):
    """The numbers of timers by when they are due, and where that is more than the broker releases."""

    now_ms: int
    step_ms: int
    buckets: list[DueBucket]
    herds: list[Herd] = []
    capacity_per_s: float | None = None


class TimerTarget(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A timer, by `position`, by `topic` and `schedule_key`, by `topic` and `message_id`, by recall `handle`, or by
    `offset_message_id`. `due_ms` is its own new due time if it is rescheduled, `delay_ms` the same from when the broker
    takes the request; with `expected_due_ms` nothing is done unless it is due then (outcome `changed`)."""

    position: int | None = None
    topic: str | None = None
    schedule_key: str | None = None
    message_id: str | None = field(name="uniqueKey", default=None)
    handle: str | None = None
    offset_message_id: str | None = field(name="messageId", default=None)
    due_ms: int | None = None
    expected_due_ms: int | None = None
    delay_ms: int | None = None

    @classmethod
    def of(cls, given: TimerTarget | Mapping[str, Any]) -> TimerTarget:
        """Return a checked target, from one or from its fields as they are on the wire; raise InvalidArgument."""
        try:
            target = given if isinstance(given, TimerTarget) else convert(given, cls)
        except ValidationError as error:
            raise InvalidArgument(f"This does not name a timer: {error}.", field="target") from None
        target.check()
        return target

    def check(self) -> None:
        """Raise InvalidArgument unless exactly one name of a timer is given, with its topic where it takes one."""
        named = [self.position, self.schedule_key, self.message_id, self.handle, self.offset_message_id]
        if sum(name is not None for name in named) != 1:
            raise InvalidArgument(
                "Name the timer in one way: position, schedule_key, message_id, handle or offset_message_id.",
                field="target",
            )
        if (self.schedule_key is not None or self.message_id is not None) and not self.topic:
            raise InvalidArgument("A schedule_key or message_id needs its topic.", field="topic")


class Steered(Struct, frozen=True, rename="camel"):
    """The outcome for one target. `delivered_ms` says when, if it had been delivered already and that is still known;
    `error` says why it was refused, `refusal` the same in a word (`timer_too_far`, `timer_limit`; `busy`: it is being
    written just now), where there is one."""

    outcome: Outcome
    position: int | None = None
    new_position: int | None = None
    topic: str | None = None
    message_id: str | None = field(name="uniqueKey", default=None)
    schedule_key: str | None = None
    due_ms: int | None = None
    previous_due_ms: int | None = None
    delivered_ms: int | None = None
    offset_message_id: str | None = field(name="messageId", default=None)
    error: str | None = None
    refusal: str | None = None


class SteeredAll(Struct, frozen=True, rename="camel"):
    """Answer 14005: results in the order of the targets."""

    now_ms: int
    results: list[Steered]


class TimersPaused(Struct, frozen=True, rename="camel"):
    """Answer 14006: whether releases are paused now."""

    paused: bool
    pending: int
    backlog: int


class Releases(Struct, frozen=True, rename="camel"):
    """Answer 14016: how many timers a second a self-test released just now."""

    now_ms: int
    capacity_per_s: float
    capacity_at_ms: int
    capacity_how: str


class TimerEvent(Struct, frozen=True, rename="camel"):
    """A step in the lifecycle of a timer; `late_ms` is how late a release was."""

    kind: str
    ms: int
    position: int | None = None
    late_ms: int | None = None
    reason: str | None = None


class TimerLife(Struct, frozen=True, rename="camel"):
    """Answer 14007: where a timer is, and what happened to it, in order."""

    state: Literal["pending", "released", "cancelled", "rescheduled", "unknown"]
    timer: Timer | None = None
    events: list[TimerEvent] = []


class TimerCheckpoint(Struct, frozen=True):
    """Answer 60, which Apache RocketMQ gives as well: up to when the wheel was read, how far its log is on disk, and
    the next record of rmq_sys_wheel_timer to be taken in."""

    read_ms: int
    flushed_position: int
    queue_offset: int
    master_queue_offset: int


class TimerMetric(Struct, frozen=True):
    """Pending timers of one real topic by answer 61, which Apache RocketMQ gives as well."""

    topic: str
    count: int
    changed_ms: int
