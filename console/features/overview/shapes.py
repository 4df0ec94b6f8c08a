"""The first page: what is wrong, what happens next, how much flows."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from console.features.schedule.shapes import NextMinute
from console.run.roster import Process
from console.site.evidence import Evidence
from console.site.history import History


class FindingCode(TextChoices):
    """What can be worth a look; gravest first."""

    STORE_FAILED = "store-failed", _("the store has failed")
    BROKER_UNREACHABLE = "broker-unreachable", _("the broker cannot be reached")
    BROKER_READ_ONLY = "broker-read-only", _("sends are refused")
    RECORDS_DAMAGED = "records-damaged", _("records are damaged")
    BROKER_DEGRADED = "broker-degraded", _("the broker is degraded")
    MIRROR_STALE = "mirror-stale", _("the mirror has stopped")
    MIRROR_FLAWED = "mirror-flawed", _("some rows are not as the broker has them")
    RELEASED_EARLY = "released-early", _("messages left before they were due")
    DISK_FILLING = "disk-filling", _("the disk is filling")
    TIMERS_LATE = "timers-late", _("timers are behind their moments")
    DELAYED_STUCK = "delayed-stuck", _("values are due in Redis and nobody moves them")
    DELAYED_DAMAGED = "delayed-damaged", _("a queue in Redis is damaged")
    LANE_LATE = "lane-late", _("a lane is behind its due times")
    TRANSACTIONS_PARKED = "transactions-parked", _("transactions wait for a person")
    OPERATION_WAITS = "operation-waits", _("waits for a second person")
    GROUP_STANDS_STILL = "group-stands-still", _("a group has consumers and takes nothing")
    GROUP_WITHOUT_CONSUMER = "group-without-consumer", _("a group has messages and no consumer")
    DEAD_LETTERS_GROWING = "dead-letters-growing", _("messages are being given up")
    TRANSACTIONS_AGEING = "transactions-ageing", _("half messages stay undecided")
    HERD_AHEAD = "herd-ahead", _("more will be due at once than can leave")
    DEAD_LETTERS = "dead-letters", _("messages have used up their retries")
    PROGRESS_UNSAVED = "progress-unsaved", _("a lane's progress was not saved for long")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that needs somebody."""

    code: FindingCode
    #: "ruby" broken, "brass" worth a look
    severity: str
    #: a group's name, a level's number, a broker's name
    subject: str
    #: the number that belongs to it: lag, ms, count, percent; None when there is none
    value: int | None
    #: the broker's own words, when there are any (escape)
    detail: str = ""
    #: for how long, or by how much, in ms; None when it does not apply
    span_ms: int | None = None
    #: the moment that it is about
    at_ms: int | None = None
    #: the operation that it is about; `subject` is its kind then
    operation: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """One line of the flow table: `name` is accepted, released or consumed."""

    name: str
    per_s: float | None
    history: History
    #: released: pending on lanes; consumed: lag of all groups; accepted: None
    waiting: int | None


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker as it last described itself; None is unknown (an Apache broker does not tell everything)."""

    name: str
    cluster: str
    address: str
    version: str
    #: OK, DEGRADED, FAILED, READONLY or UNKNOWN
    state: str
    reasons: tuple[str, ...]
    started_ms: int | None
    #: byte addresses
    log_min_position: int | None
    log_end_position: int | None
    disk_used_ratio: float | None
    rss_bytes: int | None
    as_of_ms: int | None


@dataclass(frozen=True, slots=True)
class MirrorRow:
    """The mirror itself. `state`: never (has not run), following (our broker), polling (Apache RocketMQ), stale."""

    state: str
    sequence: int
    as_of_ms: int | None
    #: ms between the broker's answer shown and now
    lag_ms: int | None
    #: how long the last transaction took
    transaction_ms: float | None
    started_ms: int | None
    error: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole page."""

    evidence: Evidence
    now_ms: int
    findings: tuple[Finding, ...]
    brokers: tuple[BrokerRow, ...]
    mirror: MirrorRow
    flows: tuple[Flow, ...]
    pending: int | None
    next_due_ms: int | None
    next_due_level: int | None
    next_minute: NextMinute | None
    topics: int
    groups: int
    lag: int | None
    #: messages ever accepted by all topics that are not system topics
    stored_total: int | None
    #: timers; None: the broker does not tell
    timers_pending: int | None = None
    lateness_p99_ms: float | None = None
    #: those that `make run` keeps on this machine
    processes: tuple[Process, ...] = ()
