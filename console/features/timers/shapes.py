"""Timers as the pages draw them: the wheel, what fires next, the forecast, lateness, a life, and their columns.

The zoom has eight stretches of future from ten years to one second, and says how one opens the next.

A second of RocketMQ's wheel holds what is due after its beginning and up to its end. The broker counts it where it
ends, so that whole seconds, which people choose, stand in their own slot: the slot at 14:00:04 holds what is due after
14:00:03 and up to 14:00:04. Below a second the slots are cut from the timers themselves, after their beginning up to
their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db.models import TextChoices
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client.timers import WheelBucket
from console.last_known import Away
from console.operations.selection import window_words
from console.site.evidence import Evidence
from console.templatetags.escapement import due, due_in, is_late, span
from console.ui.table import (
    AGE,
    BROKER,
    CHIP,
    KEY,
    LEFT,
    MOMENT,
    SIZE,
    TIME,
    VALUE,
    Cell,
    Choice,
    Column,
    Table,
    file_columns,
)
from console.ui.verdicts import Verdict, not_known, said

_LEFT = Column("left", _("Due in"), LEFT, field="due_ms", in_file=False)
_TOPIC = Column("topic", _("Topic"), length=40)
_NAME = Column(
    "name", _("Key"), KEY, in_file=False, page="timer", page_field="position", page_broker="broker", length=60
)
_SIZE = Column("size_bytes", _("Size"), SIZE)
_ROLLED = Column("rolled", _("Lifecycle"), Cell("timers/cells/rolled.html", by=(VALUE,)))

TIMERS = Table(
    "timers",
    (
        Column("position"),
        Column("due_ms", _("Due"), MOMENT),
        _LEFT,
        _TOPIC,
        _NAME,
        *file_columns("queue_id schedule_key keys"),
        Column("tag", _("Tag"), CHIP, length=30),
        *file_columns("unique_key message_id"),
        _SIZE,
        Column("store_ms", _("Parked for"), AGE),
        _ROLLED,
        BROKER,
    ),
    choice=Choice("position", "position"),
)
#: of several brokers: a box says whose the timer is
TIMERS_OF_ALL = replace(TIMERS, choice=Choice("position", "place"))


def _of_none_rolled(listed: Table) -> Table:
    return replace(listed, columns=tuple(each for each in listed.columns if each.name != "rolled"))


NEXT_TIMERS = Table(
    "timers",
    (Column("due_ms", _("Due"), TIME), _LEFT, _TOPIC, _NAME, _SIZE, _ROLLED, BROKER),
    row_id="timer",
    row_id_field="position",
)
#: most timers are never rolled: a column of dashes says nothing
_NONE_ROLLED = {
    name: _of_none_rolled(each) for name, each in (("", TIMERS), ("all", TIMERS_OF_ALL), ("next", NEXT_TIMERS))
}


SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
#: the furthest moment that is looked at: ten years and a little more
FURTHEST_MS = 3_700 * DAY


@dataclass(frozen=True, slots=True)
class Zoom:
    """A stretch of `span_ms` in slots of `step_ms`; a slot opens into the zoom `opens`, None: into its messages."""

    name: str
    span_ms: int
    step_ms: int
    opens: str | None


#: at most 168 slots each, so that a drawing stays small and a broker is never asked for more than 2,000
ZOOMS: dict[str, Zoom] = {
    zoom.name: zoom
    for zoom in (
        Zoom("10y", 122 * 30 * DAY, 30 * DAY, "30d"),
        Zoom("1y", 122 * 3 * DAY, 3 * DAY, "7d"),
        Zoom("30d", 30 * DAY, 6 * HOUR, "1d"),
        Zoom("7d", 7 * DAY, HOUR, "1h"),
        Zoom("1d", DAY, 10 * MINUTE, "1h"),
        Zoom("1h", HOUR, 30 * SECOND, "1m"),
        Zoom("1m", MINUTE, SECOND, "1s"),
        Zoom("1s", SECOND, 10, None),
    )
}
DEFAULT = "1h"


@dataclass(frozen=True, slots=True)
class Window:
    """A zoom at a place in time. `following`: it begins now, and moves on."""

    zoom: Zoom
    start_ms: int
    following: bool

    @property
    def end_ms(self) -> int:
        """The moment at which it ends."""
        return self.start_ms + self.zoom.span_ms

    @property
    def earlier_ms(self) -> int:
        """The beginning of the stretch before this one."""
        return self.start_ms - self.zoom.span_ms

    @property
    def later_ms(self) -> int:
        """The beginning of the stretch after this one."""
        return self.end_ms


def window_of(name: str, at_ms: int | None, now_ms: int) -> Window:
    """Return the stretch at this zoom; an unknown name means the default, a moment too far ahead the furthest one."""
    zoom = ZOOMS.get(name, ZOOMS[DEFAULT])
    wanted = now_ms if at_ms is None else min(max(at_ms, 0), now_ms + FURTHEST_MS)
    # one second's slots are cut out of a whole second
    grid = max(zoom.step_ms, SECOND)
    return Window(zoom, wanted - wanted % grid, at_ms is None)


#: rows of the list on the first page, and on a page of the list itself
FIRST_COUNT = 16
PAGE_COUNT = 100


@dataclass(frozen=True, slots=True)
class TimerRow:
    """A pending timer. Names and keys are untrusted text."""

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
    broker: str = ""

    @property
    def name(self) -> str:
        """The name that people know it by: its schedule key, else its first key, else its message id."""
        return self.schedule_key or next(iter(self.keys), "") or self.unique_key or str(self.position)

    @property
    def place(self) -> str:
        """What names it among those of several brokers."""
        return f"{self.position}-{self.broker}"


@dataclass(frozen=True, slots=True)
class TimerFilter:
    """The choice among timers: all bounds are optional; `to_ms` is not included."""

    topic: str = ""
    #: schedule key, a word of KEYS, or the message id
    key: str = ""
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is asked for, so that every timer matches."""
        return not (self.topic or self.key) and self.from_ms is None and self.to_ms is None

    @property
    def words(self) -> str:
        """What is asked for: topic, key, and the window of due times by the reader's clock; "" for every timer."""
        parts = [gettext("topic %(name)s") % {"name": self.topic}] if self.topic else []
        if self.key:
            parts.append(gettext("key %(name)s") % {"name": self.key})
        if window := window_words(self.from_ms, self.to_ms):
            parts.append(gettext("due %(window)s") % {"window": window})
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class TimerList:
    """Pending timers in the order in which they fire."""

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
    #: the rows are of several brokers; of these, which have no list of their own, the newest records
    has_several: bool = False
    polled_of: tuple[str, ...] = ()

    @property
    def table(self) -> Table:
        """The columns; a row of several brokers is chosen with its broker."""
        if not self._is_any_rolled:
            return _NONE_ROLLED["all" if self.has_several else ""]
        return TIMERS_OF_ALL if self.has_several else TIMERS

    @property
    def next_table(self) -> Table:
        """The columns of those beside the wheel."""
        return NEXT_TIMERS if self._is_any_rolled else _NONE_ROLLED["next"]

    @property
    def _is_any_rolled(self) -> bool:
        return any(row.rolled for row in self.rows)


@dataclass(frozen=True, slots=True)
class WheelSlot:
    """The timers due from `start_ms` on for the width of the slot."""

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
        """The moment at which it ends."""
        return self.start_ms + self.step_ms * len(self.slots)

    @property
    def total(self) -> int:
        """The number of messages due in it."""
        return sum(slot.count for slot in self.slots)

    @property
    def peak(self) -> int:
        """The fullest slot's count."""
        return max((slot.count for slot in self.slots), default=0)


#: the rings: span and slot
RINGS = ((MINUTE, SECOND), (HOUR, MINUTE), (DAY, HOUR))


def stretch_of(buckets: Iterable[WheelBucket], start_ms: int, span_ms: int, step_ms: int) -> Stretch:
    """Return slots without gaps; bytes of a slot are known only if those of all its parts are."""
    length = span_ms // step_ms
    counts = [0] * length
    sizes: list[int | None] = [0] * length
    for bucket in buckets:
        at = (bucket.start_ms - start_ms) // step_ms
        if 0 <= at < length:
            counts[at] += bucket.count
            known = sizes[at]
            sizes[at] = None if known is None or bucket.size_bytes is None else known + bucket.size_bytes
    slots = (
        WheelSlot(start_ms + index * step_ms, count, size if count else 0)
        for index, (count, size) in enumerate(zip(counts, sizes, strict=True))
    )
    return Stretch(start_ms, step_ms, tuple(slots))


def stretch_of_rows(rows: Sequence[TimerRow], start_ms: int, span_ms: int, step_ms: int) -> Stretch:
    """Return the stretch as it follows from timers that were read."""
    if step_ms < SECOND:
        places = (WheelBucket(row.due_ms - 1, 1, row.size_bytes) for row in rows)
    else:
        places = (WheelBucket(-(-row.due_ms // SECOND) * SECOND, 1, row.size_bytes) for row in rows)
    return stretch_of(places, start_ms, span_ms, step_ms)


def within(start_ms: int, end_ms: int, step_ms: int) -> TimerFilter:
    """Return the filter for timers in slots of `step_ms` from `start_ms` to `end_ms`."""
    before_ms = SECOND if step_ms >= SECOND else 0
    return TimerFilter(from_ms=max(0, start_ms - before_ms + 1), to_ms=end_ms - before_ms + 1)


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
    """A second that holds more timers than can be released in it."""

    due_ms: int
    count: int
    #: how late the last of them will be
    last_late_ms: int
    topics: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """The timers due in a stretch, against what the broker was measured to release."""

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
    """The timers of one real topic."""

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
    """The content of the Timers page."""

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
    #: in total over several brokers: those that are read by pulling, are paused, and can be
    has_several: bool = False
    polled_of: tuple[str, ...] = ()
    paused_of: tuple[str, ...] = ()
    switched_of: tuple[str, ...] = ()
    #: those that do not answer: what waited there last is in the sums, and in nothing else
    away: tuple[Away, ...] = ()
    #: what can be told of the topics that are seen by who sees some only; None: `figures` are of them all
    own: TimerFigures | None = None

    @property
    def is_partly_paused(self) -> bool:
        """Tell whether some brokers are paused, and others are not."""
        return bool(self.paused_of) and not self.figures.paused


class LifeKind(TextChoices):
    """The kinds of event in a timer's life."""

    ACCEPTED = "accepted", _("accepted")
    ROLLED = "rolled", _("rolled")
    RESCHEDULED = "rescheduled", _("rescheduled")
    CANCELLED = "cancelled", _("cancelled")
    RELEASED = "released", _("released")


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """An event of a timer's life; lists have the oldest first."""

    kind: LifeKind
    ms: int
    position: int | None
    late_ms: int | None = None
    #: free text (escape it)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TimerLife:
    """The page of a timer. `state`: pending, released, cancelled, rescheduled or unknown."""

    evidence: Evidence
    now_ms: int
    state: str
    timer: TimerRow | None
    events: tuple[LifeEvent, ...]
    #: the position that was asked for
    position: int = 0
    #: True: an Apache RocketMQ broker, which neither moves it nor delivers it before its moment
    polled: bool = False
    #: what took its place when its cancel was undone, and the cancelled one whose place it took; None: nothing did
    again: int | None = None
    again_of: int | None = None

    @property
    def verdict(self) -> Verdict:
        """What is with the timer, and what can be done."""
        if self.timer is None and self.evidence.stale:
            return not_known()
        if self.state == "pending" and self.timer is not None:
            return self._pending(self.timer.due_ms)
        last = self.events[-1] if self.events else None
        if self.state == "released":
            if last is not None and last.late_ms is not None:
                words = said(gettext("Delivered, {late} after it was due."), late=span(last.late_ms))
            else:
                words = said(gettext("Delivered."))
            return Verdict("ok", words, gettext("Whether it was consumed is on the page of its message."))
        if self.state == "cancelled":
            if last is not None and last.reason:
                words = said(gettext("Cancelled: {reason}"), reason=last.reason)
            else:
                words = said(gettext("This timer was cancelled."))
            if self.again is not None:
                address = reverse("timer", args=[self.again])
                undone = gettext("That was undone: another message took its place.")
                return Verdict("idle", words, undone, gettext("Open that timer"), address)
            way = gettext("A cancel is undone on the page of its operation, until the timer would have been due.")
            return Verdict("idle", words, way)
        if self.state == "rescheduled":
            return Verdict("idle", said(gettext("This timer was rescheduled; another record replaces it.")))
        return Verdict("look", said(gettext("Its outcome is unknown.")), gettext("Its record may have expired."))

    def _pending(self, due_ms: int) -> Verdict:
        if is_late(due_ms, self.now_ms):
            words = said(gettext("It should have fired: {late}."), late=due(due_ms, self.now_ms))
            return Verdict("look", words, "", gettext("Open timers"), reverse("timers"))
        words = said(gettext("It fires {when}."), when=due_in(due_ms, self.now_ms))
        if self.polled:
            return Verdict("wait", words, gettext("Until then it can be cancelled."))
        return Verdict("wait", words, gettext("Until then it can be cancelled, rescheduled or delivered immediately."))
