"""The first page: what is wrong, what happens next, how much flows."""

from __future__ import annotations

from dataclasses import dataclass

from console.features.overview.finding_kinds import Finding
from console.features.schedule.shapes import NextMinute
from console.run.supervisor import Process
from console.site.evidence import Evidence
from console.site.mirrored import History


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
    """What the first page shows."""

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
