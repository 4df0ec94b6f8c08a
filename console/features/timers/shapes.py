"""Timers as the pages draw them: the wheel, what fires next, the forecast, lateness, and the life of one timer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from console.features.timers.columns import NEXT_TIMERS, TIMERS
from console.site.evidence import Evidence
from console.ui.table import Table

#: rows of the list on the first page, and on a page of the list itself
FIRST_COUNT = 16
PAGE_COUNT = 100


@dataclass(frozen=True, slots=True)
class TimerRow:
    """A pending timer. Names and keys are hostile."""

    #: byte address of the parked record: names exactly one timer
    position: int
    #: index in queue 0 of rmq_sys_wheel_timer
    offset: int
    due_ms: int
    topic: str
    queue_id: int | None
    size_bytes: int
    #: offset id of the parked record
    message_id: str
    unique_key: str
    keys: tuple[str, ...]
    tag: str
    schedule_key: str
    store_ms: int | None
    born_ms: int | None
    #: times that it was indexed again because it was further than the wheel reaches
    rolled: int
    #: RocketMQ's recall handle; empty where there is none
    handle: str = ""

    @property
    def name(self) -> str:
        """What people call it: its schedule key, else its first key, else its unique id."""
        return self.schedule_key or next(iter(self.keys), "") or self.unique_key or str(self.position)


@dataclass(frozen=True, slots=True)
class TimerFilter:
    """Which timers: all bounds are optional; `to_ms` is not included."""

    topic: str = ""
    #: schedule key, a word of KEYS, or the unique id
    key: str = ""
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing is asked for: every timer."""
        return not (self.topic or self.key) and self.from_ms is None and self.to_ms is None


@dataclass(frozen=True, slots=True)
class TimerList:
    """Pending timers in the order in which they fire."""

    table: ClassVar[Table] = TIMERS
    #: of those beside the wheel
    next_table: ClassVar[Table] = NEXT_TIMERS

    evidence: Evidence
    now_ms: int
    wanted: TimerFilter
    rows: tuple[TimerRow, ...]
    #: where the next page begins; None: this is the last
    cursor: str | None = None
    #: False: the broker's time was used up before the page was full
    complete: bool = True
    #: the newest records that were read on a broker without a list of its own; None: all timers were looked through
    newest_read: int | None = None
    #: how many records there are to read there
    records: int | None = None
    #: so many were looked through where the look ended before the page was full; 0: it did not
    looked: int = 0


@dataclass(frozen=True, slots=True)
class WheelSlot:
    """What is due from `start_ms` on for the width of the slot."""

    start_ms: int
    count: int
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of future, cut into slots of one width; slots[i] begins at start_ms + i * step_ms."""

    start_ms: int
    step_ms: int
    slots: tuple[WheelSlot, ...]

    @property
    def end_ms(self) -> int:
        """Where it ends."""
        return self.start_ms + self.step_ms * len(self.slots)

    @property
    def total(self) -> int:
        """Messages due in it."""
        return sum(slot.count for slot in self.slots)

    @property
    def peak(self) -> int:
        """The fullest slot's count."""
        return max((slot.count for slot in self.slots), default=0)


@dataclass(frozen=True, slots=True)
class Wheel:
    """Three rings from now on, and the stretch that was asked for."""

    evidence: Evidence
    #: 60 s, 60 min, 24 h
    rings: tuple[Stretch, Stretch, Stretch]
    strip: Stretch
    #: when units beyond the wheel are indexed again, and how many
    rolls: tuple[tuple[int, int], ...] = ()
    #: pending beyond the strip
    beyond: int | None = None
    #: how far the pointer has read ahead
    read_ms: int | None = None
    precision_ms: int | None = None
    slots: int | None = None
    #: False: counted from the newest records only
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Herd:
    """One second that holds more than can be released in it."""

    due_ms: int
    count: int
    #: how late the last of them will be
    last_late_ms: int
    topics: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is due in a stretch, against what the broker was measured to release."""

    evidence: Evidence
    stretch: Stretch
    #: None: not measured yet, or not told
    capacity_per_s: float | None
    herds: tuple[Herd, ...] = ()


@dataclass(frozen=True, slots=True)
class Lateness:
    """Release minus due of one topic's timers."""

    topic: str
    count: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    #: upper edge of a bucket in ms (None: no edge) and the count in it
    histogram: tuple[tuple[float | None, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicTimers:
    """One real topic's timers."""

    topic: str
    pending: int | None
    lateness: Lateness | None = None


@dataclass(frozen=True, slots=True)
class ClockSteps:
    """The largest steps of the broker's clock since it started."""

    back_ms: int
    forward_ms: int
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class TimerFigures:
    """The strip of figures; None is not told."""

    paused: bool | None = None
    pending: int | None = None
    next_due_ms: int | None = None
    read_ms: int | None = None
    overdue: int | None = None
    released_per_s: float | None = None
    capacity_per_s: float | None = None
    released_total: int | None = None
    cancelled_total: int | None = None
    rescheduled_total: int | None = None
    rolled_total: int | None = None
    early_total: int | None = None
    lateness_p50_ms: float | None = None
    lateness_p99_ms: float | None = None
    lateness_count: int | None = None
    log_bytes: int | None = None
    #: indexed up to this offset of rmq_sys_wheel_timer, and where that queue ends
    indexed_offset: int | None = None
    end_offset: int | None = None
    max_delay_ms: int | None = None
    max_pending: int | None = None
    max_per_slot: int | None = None
    clock: ClockSteps | None = None


@dataclass(frozen=True, slots=True)
class TimersPage:
    """The whole page."""

    evidence: Evidence
    now_ms: int
    broker: str
    zoom: str
    #: the chosen beginning of the stretch; None: from now on
    at_ms: int | None
    figures: TimerFigures
    topics: tuple[TopicTimers, ...]
    #: topics that are not listed
    topics_left: int
    lateness: Lateness | None
    first: TimerList
    wheel: Wheel | None
    forecast: Forecast | None
    #: True: an Apache RocketMQ broker, read by pulling
    polled: bool = False
    #: True: of a snapshot, whose slots lead nowhere
    is_past: bool = False


class LifeKind(TextChoices):
    """What happened to a timer."""

    ACCEPTED = "accepted", _("accepted")
    ROLLED = "rolled", _("rolled")
    RESCHEDULED = "rescheduled", _("moved")
    CANCELLED = "cancelled", _("cancelled")
    RELEASED = "released", _("released")


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """One event of a timer's life, oldest first."""

    kind: LifeKind
    ms: int
    position: int | None
    late_ms: int | None = None
    #: free text (escape it)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TimerLife:
    """One timer. `state`: pending, released, cancelled, rescheduled or unknown."""

    evidence: Evidence
    now_ms: int
    state: str
    timer: TimerRow | None
    events: tuple[LifeEvent, ...]
    #: the position that was asked for
    position: int = 0
