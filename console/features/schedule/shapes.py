"""The content of the pages about SCHEDULE_TOPIC_XXXX: the delay levels at a glance, and one opened, with its columns.

At a glance there is a row for each level, with when its messages are due on a logarithmic stretch, the strip of figures
above them, and the bars of the next minute. An opened level lists its pending messages in due order, page by page, read
from the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from console.site.evidence import Evidence
from console.site.mirrored import History
from console.ui.table import BROKER, CHIP, SIZE, TIME, Cell, Column, Table, file_columns

LANE = Table(
    "lane",
    (
        Column("leaves", _("Released in"), Cell("schedule/cells/leaves.html", is_figure=True), "due_ms", in_file=False),
        Column("due_ms", _("Due"), TIME),
        *file_columns("released"),
        Column("real_topic", _("Topic"), Cell("schedule/cells/topic.html", by=("real_topic", "real_queue_id"))),
        *file_columns("real_queue_id"),
        Column("keys", _("Key"), Cell("schedule/cells/keys.html")),
        Column("tag", _("Tag"), CHIP, length=30),
        Column("size_bytes", _("Size"), SIZE),
        Column("offset", _("Offset"), Cell("schedule/cells/offset.html", is_figure=True)),
        Column("position", _("Position"), Cell("schedule/cells/position.html", is_figure=True)),
        Column("open", _("Message"), Cell("schedule/cells/open.html"), "offset_message_id", in_file=False),
        BROKER,
    ),
    row_id="parked",
    row_id_field="offset",
    file_order=(
        "offset position due_ms released real_topic real_queue_id keys tag unique_key offset_message_id size_bytes"
        " store_ms"
    ),
)


#: messages on one page of a lane, and the most one may ask for
PAGE_COUNT = 50
MAX_PAGE_COUNT = 200

#: buckets of a lane's stretch
BUCKETS = 50
#: the log axis begins here (the first bucket also holds everything nearer and overdue) and ends at HORIZON_MS
AXIS_START_MS = 500
#: 2 h, RocketMQ's longest default level; what lies beyond is counted in `beyond`
HORIZON_MS = 7_200_000
#: right edges of the buckets as ms from now: AXIS_START_MS * (HORIZON_MS / AXIS_START_MS) ** ((i + 1) / BUCKETS)
EDGES_MS: tuple[int, ...] = tuple(
    round(AXIS_START_MS * (HORIZON_MS / AXIS_START_MS) ** ((index + 1) / BUCKETS)) for index in range(BUCKETS)
)


class LaneState(TextChoices):
    """The state of a lane; one that was never used is not a lane with backlog 0."""

    UNKNOWN = "unknown", _("unknown")
    NEVER_USED = "never-used", _("never used")
    EMPTY = "empty", _("nothing pending")
    WAITING = "waiting", _("waiting")
    LATE = "late", _("overdue")


@dataclass(frozen=True, slots=True)
class LanePart:
    """What one broker has of a lane in total."""

    broker: str
    level: int
    delay_ms: int
    state: LaneState
    backlog: int | None
    next_due_ms: int | None
    delay_offset: int | None
    end_offset: int | None
    released_per_s: float | None
    lateness_p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Lane:
    """A delay level. Offsets are indices in queue `level - 1` of SCHEDULE_TOPIC_XXXX; None is unknown."""

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
    #: codes of what deserves a look: "p99" (> 100 ms), "persisted" (progress unsaved for > 30 s),
    #: "late" (the head is overdue by > 1 s)
    warnings: frozenset[str]
    #: of a lane in total: what each broker has; its offsets are sums, its level the lowest of them
    parts: tuple[LanePart, ...] = ()
    #: False: a lane in total that some broker lacks, or has under another level
    is_everywhere: bool = True

    @property
    def mark(self) -> str:
        """What tells it from other lanes of the page, for the id of its row."""
        return f"{self.level}-{self.delay_ms}" if self.parts else f"{self.level}"

    @property
    def released_share(self) -> float | None:
        """(delay_offset - min_offset) / (end_offset - min_offset); None when unknown or the queue holds nothing."""
        return self._share(self.delay_offset)

    @property
    def persisted_share(self) -> float | None:
        """The share of the lane that is behind the saved offset, from 0 to 1."""
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
    """The content of the page of all lanes."""

    evidence: Evidence
    #: epoch ms at which this was put together: "now" of spreads and countdowns
    now_ms: int
    broker: str
    figures: LaneFigures
    lanes: tuple[Lane, ...]
    next_minute: NextMinute | None
    next_minute_evidence: Evidence
    #: they are of several brokers, in total
    has_several: bool = False

    @property
    def is_uneven(self) -> bool:
        """Tell whether the brokers have other levels than each other."""
        return any(not lane.is_everywhere for lane in self.lanes)


@dataclass(frozen=True, slots=True)
class ParkedMessage:
    """A message that waits (or waited) on a lane. Fields of the record are None when its bytes could not be read."""

    #: index in the lane's queue
    offset: int
    #: byte address of the parked record in the commit log
    position: int
    size_bytes: int
    due_ms: int
    #: offset < delayOffset: it has left, the parked record is still there
    released: bool
    real_topic: str | None
    real_queue_id: int | None
    keys: tuple[str, ...]
    tag: str | None
    #: the client's message id (UNIQ_KEY)
    unique_key: str | None
    #: address of the parked record as an id: `message` page argument without a topic
    offset_message_id: str | None
    store_ms: int | None
    born_ms: int | None
    broker: str = ""


@dataclass(frozen=True, slots=True)
class LanePage:
    """A page of a lane. `lane` None: no such level."""

    table: ClassVar[Table] = LANE

    evidence: Evidence
    now_ms: int
    broker: str
    lane: Lane | None
    #: first offset of this page and the count asked for
    offset: int
    count: int
    messages: tuple[ParkedMessage, ...]
    #: offsets to page to; None where there is no such page
    first_offset: int | None
    previous_offset: int | None
    next_offset: int | None
    last_offset: int | None
    #: so many were looked through where the look ended before the page was full; 0: it did not
    looked: int = 0
    #: of several brokers, in total, merged by due time: where the next page begins; offsets are of one broker
    cursor: str | None = None
    has_several: bool = False

    @property
    def following(self) -> int | str | None:
        """The place behind this page; None: it was the last."""
        return self.cursor if self.has_several else self.next_offset

    @property
    def has_other_delays(self) -> bool:
        """Tell whether the level has another delay at some broker than at others."""
        return self.lane is not None and len({part.delay_ms for part in self.lane.parts}) > 1


@dataclass(frozen=True, slots=True)
class DueSpread:
    """The counts of a lane's messages by when they are due, in EDGES_MS; the sum with `beyond` is the backlog."""

    #: BUCKETS counts, nearest first
    counts: tuple[int, ...]
    #: due after HORIZON_MS (a custom level longer than 2 h)
    beyond: int
    #: of counts[0]: already past due
    overdue: int
    #: False: the place inside a stretch between two known entries is interpolated (the sum is exact all the same)
    exact: bool

    @property
    def peak(self) -> int:
        """The number of messages in the fullest bucket."""
        return max(self.counts)


@dataclass(frozen=True, slots=True)
class NextMinute:
    """Messages due in each of the next 60 seconds, all lanes together. counts[0] also holds what is overdue."""

    #: epoch ms at the left edge
    start_ms: int
    #: 60 counts
    counts: tuple[int, ...]
    #: index of the fullest second and the level that gives most of it; None when nothing is due
    peak_second: int | None
    peak_level: int | None
    exact: bool

    @property
    def peak(self) -> int:
        """The fullest second's count."""
        return max(self.counts)

    @property
    def total(self) -> int:
        """The number of messages due within the minute."""
        return sum(self.counts)
