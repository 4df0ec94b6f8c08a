"""What falls due, kind by kind over time, against what the brokers release, and the answer to "will we cope".

What a broker was measured to release is of its timers: under load, when those that are due keep it busy for a tenth of
a second, or by a self-test where nothing was measured yet. It keeps the figure over a restart. Messages of lanes take
the same way (a new record of the log), so they count against the same figure. Where nothing was measured, the most that
was seen to go out is a lower bound: what is below it goes out in time, of what is above it nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from console.site.evidence import StaleReason
from console.ui.table import Table, file_columns

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
#: later than this is not in time
LATE_MS = 1_000

DUE = Table("due", file_columns("start_ms lanes timers retries redisson checks total"))


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch from now on: drawn in slots, judged in finer steps, as a second's herd is lost in a long mean."""

    name: str
    span_ms: int
    slot_ms: int
    step_ms: int


#: at most 96 slots, and at most as many steps as a broker is asked for
WINDOWS = {
    window.name: window
    for window in (
        Window("10m", 10 * MINUTE_MS, 10_000, 1_000),
        Window("1h", HOUR_MS, MINUTE_MS, 2_000),
        Window("1d", DAY_MS, 15 * MINUTE_MS, MINUTE_MS),
    )
}
DEFAULT = "1h"


class DueKind(TextChoices):
    """The kinds of what falls due, as they are stacked from the foot up."""

    LANES = "lanes", _("Delay levels")
    TIMERS = "timers", _("Timers")
    RETRIES = "retries", _("Group retries")
    REDISSON = "redisson", _("Redisson queues")
    CHECKS = "checks", _("Transaction checks")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that is in no sum: of which broker or server, and why."""

    source: str
    why: StaleReason


@dataclass(frozen=True, slots=True)
class Band:
    """One kind over time. `counts` None: nothing of it is known."""

    kind: DueKind
    counts: tuple[int, ...] | None
    #: due before now, and still there; None: not known
    overdue: int | None = None
    unknown: tuple[Unknown, ...] = ()
    #: False: there is more than was looked through
    is_whole: bool = True
    #: queues of Redisson that are in no sum: they could not be read, or are more than are counted
    left: int = 0

    @property
    def total(self) -> int | None:
        """What falls due within the window; None: not known."""
        return None if self.counts is None else sum(self.counts)

    @property
    def is_of_all(self) -> bool:
        """Tell whether brokers count it for all topics together, whoever looks."""
        return self.kind in (DueKind.LANES, DueKind.TIMERS, DueKind.RETRIES)

    @property
    def is_known(self) -> bool:
        """Tell whether all of it is known."""
        return self.counts is not None and self.is_whole and not self.unknown and not self.left


class Measured(TextChoices):
    """The ways in which a broker finds how fast it releases."""

    LOAD = "load", _("under load")
    SELF_TEST = "self_test", _("self-test")


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What one broker has to release within the window: lanes and timers, and how fast it was measured or seen to."""

    broker: str
    #: the fullest step, the mean of its seconds; None: nothing is due
    peak_ms: int | None
    peak_per_s: float
    capacity_per_s: float | None
    #: the most that was seen to go out, and when that was; None: nothing was
    seen_per_s: float | None
    seen_ms: int | None
    #: how late the last one of the worst minute is, and when it is due; None: no capacity is known
    late_ms: int | None
    late_at_ms: int | None
    #: False: its lanes or its timers are not known
    is_known: bool = True
    is_paused: bool = False
    #: when and how the capacity was measured; None: it never was, or the broker does not say
    capacity_at_ms: int | None = None
    capacity_how: Measured | None = None
    #: whether it is a broker that measures at all: an Apache RocketMQ broker does not
    is_measurable: bool = True

    @property
    def share(self) -> float | None:
        """The part of the measured capacity that the peak takes; None: nothing was measured."""
        return self.peak_per_s / self.capacity_per_s if self.capacity_per_s else None


class Answer(TextChoices):
    """The answers to whether what falls due goes out in time, from the worst on."""

    NO = "no", _("no")
    UNKNOWN = "unknown", _("not known")
    PROBABLY = "probably", _("probably")
    YES = "yes", _("yes")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, and the broker that it is about: of several the one in the worst place; None: there is none."""

    answer: Answer
    load: BrokerLoad | None = None
    #: nothing at all is due
    is_idle: bool = False
    #: not all that falls due is known
    is_partial: bool = False


def load_of(
    broker: str, arrivals: Sequence[int], overdue: int, *, start_ms: int, step_ms: int, capacity_per_s: float | None,
    seen: tuple[float, int] | None = None, late: Sequence[tuple[int, int]] = (), is_known: bool = True,
    is_paused: bool = False,
) -> BrokerLoad:  # fmt: skip
    """Judge what falls due at one broker, step by step. `late`: single seconds that it says are too full: due, late."""
    most = max(range(len(arrivals)), key=lambda at: arrivals[at], default=None)
    peak = most is not None and arrivals[most] > 0
    late_ms, late_at_ms = None, None
    if capacity_per_s:
        late_ms, late_at_ms = _latest(arrivals, overdue, start_ms, step_ms, capacity_per_s)
        for due_ms, second_late_ms in late:
            if second_late_ms > late_ms:
                late_ms, late_at_ms = second_late_ms, due_ms
    return BrokerLoad(
        broker=broker,
        peak_ms=start_ms + most * step_ms if peak and most is not None else None,
        peak_per_s=arrivals[most] * 1000 / step_ms if peak and most is not None else 0.0,
        capacity_per_s=capacity_per_s,
        seen_per_s=seen[0] if seen else None,
        seen_ms=seen[1] if seen else None,
        late_ms=late_ms,
        late_at_ms=late_at_ms,
        is_known=is_known,
        is_paused=is_paused,
    )


def _latest(
    arrivals: Sequence[int], overdue: int, start_ms: int, step_ms: int, capacity_per_s: float
) -> tuple[int, int]:
    """Return how late the last one of the worst step goes out, and when that begins, if what waits goes out in turn.

    What is due at one second of a longer step may be later; the broker names such seconds itself.
    """
    room, waiting, worst, at_ms = capacity_per_s * step_ms / 1000, float(overdue), 0.0, start_ms
    for number, count in enumerate(arrivals):
        waiting = max(0.0, waiting + count - room)
        if waiting > worst:
            worst, at_ms = waiting, start_ms + number * step_ms
    worst = max(worst, float(overdue))
    return round(worst * 1000 / capacity_per_s), at_ms


def answer_of(load: BrokerLoad) -> Answer:
    """Return whether a broker copes with what falls due."""
    if load.late_ms is not None:
        return Answer.NO if load.late_ms > LATE_MS else Answer.YES
    if not load.peak_per_s:
        return Answer.YES
    if load.seen_per_s is not None and load.peak_per_s <= load.seen_per_s:
        return Answer.PROBABLY
    return Answer.UNKNOWN


def verdict_of(loads: Sequence[BrokerLoad]) -> Verdict:
    """Return the answer about the broker in the worst place."""
    if not loads or not any(load.is_known for load in loads):
        return Verdict(Answer.UNKNOWN, is_partial=True)
    order = list(Answer)

    def place(load: BrokerLoad) -> tuple[int, float]:
        return order.index(answer_of(load)), -(load.late_ms or 0) - (load.share or 0) - load.peak_per_s / 1e9

    worst = min(loads, key=place)
    is_idle = not any(load.peak_per_s for load in loads) and answer_of(worst) is Answer.YES
    return Verdict(answer_of(worst), worst, is_idle, not all(load.is_known for load in loads))


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of the table and of the file; None is not known."""

    start_ms: int
    #: all that is known of it and can be added up
    total: int
    lanes: int | None
    timers: int | None
    retries: int | None
    redisson: int | None
    checks: int | None


@dataclass(frozen=True, slots=True)
class PartSlot:
    """A row of a part's table: the counts in the order of its kinds; None is not known."""

    start_ms: int
    values: tuple[int | None, ...]

    @property
    def total(self) -> int:
        """All that is known of it."""
        return sum(value or 0 for value in self.values)


@dataclass(frozen=True, slots=True)
class Part:
    """Kinds that are told of together, and add up: all of them, or for who sees some topics only those of the whole
    broker, or his own."""

    bands: tuple[Band, ...]
    #: when each slot begins
    starts_ms: range

    @property
    def slots(self) -> tuple[PartSlot, ...]:
        """All slots, also those that hold nothing."""
        columns = [band.counts or (None,) * len(self.starts_ms) for band in self.bands]
        return tuple(map(PartSlot, self.starts_ms, zip(*columns, strict=True)))

    @property
    def rows(self) -> tuple[PartSlot, ...]:
        """The slots that hold something."""
        return tuple(slot for slot in self.slots if slot.total)

    @property
    def total(self) -> int | None:
        """All that falls due and is known; None: nothing is known."""
        known = [band.total for band in self.bands if band.total is not None]
        return sum(known) if known else None

    @property
    def overdue(self) -> int | None:
        """All that should be gone already and is known."""
        known = [band.overdue for band in self.bands if band.overdue is not None]
        return sum(known) if known else None

    @property
    def peak(self) -> PartSlot | None:
        """The fullest slot; None: nothing is due."""
        return max(self.rows, key=lambda slot: slot.total, default=None)


@dataclass(frozen=True, slots=True)
class DuePage:
    """The content of the Due page."""

    now_ms: int
    source: str
    window: Window
    #: the beginning of the first slot: now, or a moment before
    start_ms: int
    bands: tuple[Band, ...]
    loads: tuple[BrokerLoad, ...]
    verdict: Verdict
    has_several: bool = False
    #: True: some kinds are of the whole broker, the others of what is seen, so that both together are no sum
    is_limited: bool = False

    @property
    def main(self) -> Part:
        """What is added up: all kinds, or those of the whole broker."""
        return self._part([band for band in self.bands if band.is_of_all or not self.is_limited])

    @property
    def own(self) -> Part | None:
        """What is counted of the topics that are seen alone; None: all topics are."""
        return self._part([band for band in self.bands if not band.is_of_all]) if self.is_limited else None

    def _part(self, bands: Sequence[Band]) -> Part:
        return Part(tuple(bands), range(self.start_ms, self.end_ms, self.window.slot_ms))

    @property
    def end_ms(self) -> int:
        """The end of the last slot."""
        return self.start_ms + self.length * self.window.slot_ms

    @property
    def length(self) -> int:
        """The number of slots."""
        return self.window.span_ms // self.window.slot_ms

    @property
    def rows(self) -> tuple[Slot, ...]:
        """The slots that hold something, for a file."""
        slots = zip(self.main.slots, self._part(self.bands).slots, strict=True)
        return tuple(Slot(each.start_ms, counted.total, *each.values) for counted, each in slots if each.total)

    @property
    def total(self) -> int | None:
        """All that falls due, is known and can be added up; None: nothing is known."""
        return self.main.total

    @property
    def overdue(self) -> int | None:
        """All that should be gone already, is known and can be added up."""
        return self.main.overdue

    @property
    def capacity_per_s(self) -> float | None:
        """What the brokers were measured to release together; None: of one of them nothing was measured."""
        known = [load.capacity_per_s for load in self.loads]
        return None if None in known or not known else sum(each or 0 for each in known)

    @property
    def unmeasured(self) -> tuple[BrokerLoad, ...]:
        """The brokers that measure, and have not yet."""
        return tuple(load for load in self.loads if load.capacity_per_s is None and load.is_measurable)

    @property
    def never_measured(self) -> tuple[BrokerLoad, ...]:
        """The brokers that do not measure."""
        return tuple(load for load in self.loads if not load.is_measurable)

    @property
    def can_measure(self) -> bool:
        """Tell whether a broker can be asked to measure."""
        return any(load.is_measurable for load in self.loads)

    @property
    def paused(self) -> tuple[str, ...]:
        """The brokers whose timers are paused."""
        return tuple(load.broker for load in self.loads if load.is_paused)
