"""The findings that are worth a look on the first page, the gravest first.

Most of it follows from the mirror. Only the servers themselves know about timers that are late or come due all at once
and about Redisson's queues. They are asked at most every FRESH_S, for one page at a time; other pages show meanwhile
what was known before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from threading import Lock

from django.conf import settings
from django.db.models import Count, Min, Q
from django.urls import reverse

from broker.client import Admin
from broker.client.timers import Herd, TimerStatus
from broker.mirror.halves import MOST_OPEN
from broker.mirror.models import HalfMessage
from console.features.dead_letters.models import dealt_with
from console.features.due.wheel import DueWheel
from console.features.groups.read import QUIET_MS, GroupRow, GroupState
from console.features.overview.finding_kinds import Finding, FindingCode
from console.features.overview.finding_marks import PutOff
from console.features.redisson.read import QUEUES_SHOWN, QueueRow, read_queues
from console.features.schedule.shapes import Lane
from console.features.timers.shapes import ZOOMS
from console.last_known import Away
from console.operations.models import Operation
from console.operations.registry import scope_of
from console.run.supervisor import Process
from console.security.topic_scope import TopicScope, current_scope, current_topics
from console.site.broker import ask
from console.site.chosen import choice_of, choosing
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Cluster, History, Mirrored
from console.templatetags.escapement import is_late


@dataclass(frozen=True, slots=True)
class Flow:
    """A line of the flow table: `name` is accepted, released (from delay levels), timers or consumed."""

    name: str
    per_s: float | None
    history: History
    #: released: pending on delay levels; timers: pending; consumed: lag of all groups; accepted: None
    waiting: int | None
    #: the rate is the mean of five minutes, without a history
    is_mean: bool = False


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
    #: how it is mirrored
    mirror: MirrorRow
    #: its slaves, by number
    slaves: tuple[SlaveRow, ...] = ()

    @property
    def address_of_page(self) -> str:
        """The address of the first page of this broker alone."""
        with choosing(choice_of(self.name)):
            return reverse("overview")


@dataclass(frozen=True, slots=True)
class SlaveRow:
    """A slave of a broker, as it last answered."""

    number: int
    address: str
    log_end_position: int | None
    #: bytes of the master's log that it does not have yet; None: one of the two is not known
    behind_bytes: int | None
    as_of_ms: int | None
    #: why it does not answer; empty while it does
    error: str


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
class KindOfFindings:
    """The findings of one kind: one row of the first page."""

    findings: tuple[Finding, ...]

    @property
    def code(self) -> FindingCode:
        """The kind that all of them are of."""
        return self.findings[0].code

    @property
    def is_one(self) -> bool:
        """Tell whether there is only one, which says all in its row."""
        return len(self.findings) == 1

    @property
    def first(self) -> tuple[Finding, ...]:
        """The greatest ones, which are shown."""
        return self.findings[:SHOWN]

    @property
    def rest(self) -> tuple[Finding, ...]:
        """The others, which are shown when they are asked for."""
        return self.findings[SHOWN:]

    @property
    def is_cut(self) -> bool:
        """Tell whether there may be more of the kind than are listed."""
        return len(self.findings) >= LIMIT


def by_kind(findings: Sequence[Finding]) -> tuple[KindOfFindings, ...]:
    """Return findings that are in order, those of a kind together."""
    kinds = groupby(findings, key=lambda finding: finding.code)
    return tuple(KindOfFindings(tuple(found)) for _code, found in kinds)


@dataclass(frozen=True, slots=True)
class Halves:
    """Half messages that nobody has decided, as the Transactions page counts them: what is parked is counted apart."""

    undecided: int = 0
    parked: int = 0
    #: so many are mirrored of a broker at most: there may be more
    is_least: bool = False


@dataclass(frozen=True, slots=True)
class Overview:
    """The content of the first page."""

    evidence: Evidence
    now_ms: int
    findings: tuple[Finding, ...]
    brokers: tuple[BrokerRow, ...]
    #: of several brokers' the one that is furthest behind
    mirror: MirrorRow
    flows: tuple[Flow, ...]
    pending: int | None
    wheel: DueWheel
    topics: int
    groups: int
    lag: int | None
    #: messages ever accepted by all topics that are not system topics
    stored_total: int | None
    #: half messages of topics that are seen
    halves: Halves = field(default_factory=Halves)
    #: timers; None: the broker does not tell
    timers_pending: int | None = None
    lateness_p99_ms: float | None = None
    #: those that `make run` keeps on this machine
    processes: tuple[Process, ...] = ()
    has_several: bool = False
    #: brokers that do not answer: their timers are counted as they were known last
    timers_away: tuple[Away, ...] = ()
    #: findings that somebody snoozed or ignored: they are shown folded, and do not count
    put_off: tuple[PutOff, ...] = ()

    @property
    def kinds_of_findings(self) -> tuple[KindOfFindings, ...]:
        """The findings by kind, the gravest first."""
        return by_kind(self.findings)

    @property
    def due_in_an_hour(self) -> int | None:
        """What falls due within the hour on lanes and by timers; None: nothing is known."""
        return sum(self.wheel.rings[1].totals) if self.wheel.is_known else None

    @property
    def is_table(self) -> bool:
        """Tell whether the brokers are a table: there are several, or slaves beside the one."""
        return self.has_several or any(row.slaves for row in self.brokers)


#: a disk fuller than this deserves a look; the broker refuses sends at 0.90
DISK_LIMIT = 0.80
#: halves that are undecided for so long: checks should have settled them
AGED_MS = 600_000
#: findings of one kind that are listed, and those of them that are shown without being asked for
LIMIT, SHOWN = 10, 3
#: rows that the mirror could not keep as they are, named in the finding
FLAWS_NAMED = 3

#: older answers are asked for again by whoever comes first; the others are shown what there is
FRESH_S = 10.0
_AHEAD = ZOOMS["1d"]
MOST_QUEUES = 1_000

#: states in which nobody has decided yet and somebody is still asked
UNDECIDED = (HalfMessage.State.OPEN, HalfMessage.State.DUE, HalfMessage.State.ENDING)
_STATES = {
    "FAILED": FindingCode.STORE_FAILED,
    "READONLY": FindingCode.BROKER_READ_ONLY,
    "DEGRADED": FindingCode.BROKER_DEGRADED,
}


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The figures that only the servers themselves can tell; None: not told, or not to be had now."""

    timers: TimerStatus | None = None
    herds: tuple[Herd, ...] = ()
    #: Redisson's queues with something wrong
    queues: tuple[QueueRow, ...] | None = None


_kept: dict[tuple[str, str, str], tuple[float, ServerFacts]] = {}
_kept_queues: dict[str, tuple[float, tuple[QueueRow, ...] | None]] = {}
#: one asks of a broker at a time
_asking: dict[tuple[str, str, str], Lock] = {}


@dataclass(frozen=True, slots=True)
class Watched:
    """What the findings of one broker are made of."""

    here: Mirrored
    row: BrokerRow | None
    lanes: Sequence[Lane]
    known: ServerFacts


def findings_of(
    of: Cluster, watched: Sequence[Watched], groups: Sequence[GroupRow], marked: int = 0
) -> tuple[Finding, ...]:
    """Return all findings, ordered as FindingCode is; of one kind, the greatest first.

    Those of one of several brokers say which; groups are one finding over all brokers. Of a kind LIMIT are looked for,
    and as many more as are `marked`, since these do not count.
    """
    most = LIMIT + marked
    found: list[Finding] = []
    for each in watched:
        mine = [
            *_of_mirror(each.here), *_of_broker(each), *_of_lanes(each.here, each.lanes),
            *_of_transactions(each.here), *_of_timers(each.here, each.known, most),
        ]  # fmt: skip
        found += (replace(one, broker=each.here.name) for one in mine) if of.has_several else mine
    queues = next((each.known for each in watched if each.known.queues is not None), ServerFacts())
    found += [*_of_groups(of, groups, most), *_of_delayed_queues(queues, most), *_of_operations(of, most)]
    order = {code: place for place, code in enumerate(FindingCode)}
    return tuple(sorted(found, key=lambda each: (order[each.code], -(each.value or each.span_ms or 0))))


def lag_ms_of(here: Mirrored) -> int | None:
    """Return how old the rows of a broker are; None: there are none."""
    return None if here.as_of_ms is None else max(0, here.now_ms - here.as_of_ms)


def _of_mirror(here: Mirrored) -> Iterator[Finding]:
    evidence = here.evidence(polled_by=())
    if evidence.stale_reason is StaleReason.BROKER_UNREACHABLE:
        yield Finding(FindingCode.BROKER_UNREACHABLE, here.name, detail=evidence.detail, span_ms=lag_ms_of(here))
    elif evidence.stale:
        yield Finding(FindingCode.MIRROR_STALE, here.name, detail=evidence.detail, span_ms=lag_ms_of(here))
    if here.state is not None and here.state.flaws:
        flaws = [flaw for flaw in here.state.flaws if "name" in flaw]
        count = len(flaws) + sum(flaw.get("more", 0) for flaw in here.state.flaws)
        # names of rows are not for everybody, their number is
        first = [f"{flaw['name']}: {flaw['why']}" for flaw in flaws[:FLAWS_NAMED]] if current_scope().see_all else []
        yield Finding(FindingCode.MIRROR_FLAWED, here.name, count, "; ".join(first))


def _of_broker(watched: Watched) -> Iterator[Finding]:
    here, broker = watched.here, watched.row
    if broker is not None:
        if broker.state in _STATES:
            yield Finding(_STATES[broker.state], broker.name, detail="; ".join(broker.reasons))
        if broker.disk_used_ratio is not None and broker.disk_used_ratio > DISK_LIMIT:
            yield Finding(FindingCode.DISK_FILLING, broker.name, round(broker.disk_used_ratio * 100))
    if here.broker is not None and here.broker.damaged:
        yield Finding(FindingCode.RECORDS_DAMAGED, here.name, len(here.broker.damaged))


def _of_lanes(here: Mirrored, lanes: Sequence[Lane]) -> Iterator[Finding]:
    as_of_ms = here.as_of_ms or here.now_ms
    for lane in lanes:
        if lane.early_total:
            yield Finding(FindingCode.RELEASED_EARLY, str(lane.level), lane.early_total)
        if "late" in lane.warnings and lane.next_due_ms is not None:
            yield Finding(FindingCode.LANE_LATE, str(lane.level), span_ms=as_of_ms - lane.next_due_ms)
        if "persisted" in lane.warnings and lane.persisted_ms is not None:
            yield Finding(FindingCode.PROGRESS_UNSAVED, str(lane.level), span_ms=as_of_ms - lane.persisted_ms)


def _of_transactions(here: Mirrored) -> Iterator[Finding]:
    """Yield findings on parked and ageing ones; of many only so many are mirrored: then it is the least number."""
    aged = Q(state__in=UNDECIDED, store_ms__lt=here.now_ms - AGED_MS)
    known = HalfMessage.objects.filter(current_topics().among("topic"), broker=here.name).aggregate(
        parked=Count("pk", filter=Q(state=HalfMessage.State.PARKED)),
        aged=Count("pk", filter=aged),
        open=Count("pk", filter=Q(state__in=UNDECIDED)),
        first=Min("store_ms", filter=aged),
    )
    if known["parked"]:
        is_least = known["parked"] >= MOST_OPEN
        yield Finding(FindingCode.TRANSACTIONS_PARKED, here.name, known["parked"], is_least=is_least)
    if known["aged"]:
        span_ms = here.now_ms - known["first"]
        is_least = known["open"] >= MOST_OPEN
        yield Finding(FindingCode.TRANSACTIONS_AGEING, here.name, known["aged"], span_ms=span_ms, is_least=is_least)


def _of_operations(here: Cluster, most: int) -> Iterator[Finding]:
    """Yield a finding for each operation that a second person has to approve, the next to expire first."""
    rows = Operation.objects.filter(
        state=Operation.State.WAITING, waits_until__gt=datetime.fromtimestamp(here.now_ms / 1000, UTC)
    )
    seen = current_scope()
    mine = (row for row in rows.order_by("waits_until").iterator(100) if scope_of(row).is_seen(seen))
    for row in islice(mine, most):
        until_ms = round(row.waits_until.timestamp() * 1000) if row.waits_until else None
        yield Finding(
            FindingCode.OPERATION_WAITS, row.kind, row.preview.get("count"), f"{row.actor}: {row.reason}",
            at_ms=until_ms, operation=str(row.pk),
        )  # fmt: skip


def _of_groups(of: Cluster, groups: Sequence[GroupRow], most: int) -> Iterator[Finding]:
    left = [row for row in groups if row.state is GroupState.NO_CONSUMER and row.lag]
    for row in sorted(left, key=lambda row: -(row.lag or 0))[:most]:
        yield Finding(FindingCode.GROUP_WITHOUT_CONSUMER, row.name, row.lag, span_ms=row.quiet_ms or None)
    still = [row for row in groups if row.members and row.lag and (row.quiet_ms or 0) >= QUIET_MS]
    for row in sorted(still, key=lambda row: -(row.lag or 0))[:most]:
        yield Finding(FindingCode.GROUP_STANDS_STILL, row.name, row.lag, span_ms=row.quiet_ms)
    handled = dealt_with(of.names) if any(row.dead for row in groups) else {}
    left_dead = {row.name: (row.dead or 0) - handled.get(row.name, 0) for row in groups}
    dead = [row for row in groups if left_dead[row.name] > 0]
    for row in sorted(dead, key=lambda row: (-row.newly_dead, -left_dead[row.name]))[:most]:
        if row.newly_dead:
            yield Finding(FindingCode.DEAD_LETTERS_GROWING, row.name, row.newly_dead)
        else:
            yield Finding(FindingCode.DEAD_LETTERS, row.name, left_dead[row.name])


def _of_timers(here: Mirrored, known: ServerFacts, most: int) -> Iterator[Finding]:
    for herd in known.herds[:most]:
        topics = ", ".join(each.topic for each in herd.topics[:3])
        yield Finding(
            FindingCode.HERD_AHEAD, topics or here.name, herd.count,
            span_ms=herd.last_late_ms, at_ms=herd.due_ms,
        )  # fmt: skip
    status = known.timers
    if status is not None and status.backlog and not status.paused and status.next_due_ms:
        late_ms = here.now_ms - status.next_due_ms
        if is_late(status.next_due_ms, here.now_ms):
            yield Finding(FindingCode.TIMERS_LATE, here.name, status.backlog, span_ms=late_ms)


def _of_delayed_queues(known: ServerFacts, most: int) -> Iterator[Finding]:
    for row in (known.queues or ())[:most]:
        found = row.survey
        if found is not None and row.is_stuck:
            yield Finding(FindingCode.DELAYED_STUCK, row.name, found.overdue, span_ms=round(found.stuck_ms))
        else:
            yield Finding(FindingCode.DELAYED_DAMAGED, row.name, detail=row.problem)


def server_facts(here: Mirrored) -> ServerFacts:
    """Return what was known of a broker at most FRESH_S ago or, while another page asks, what was known before."""
    key = (settings.ESCAPEMENT_NAMESRV, here.name, settings.REDISSON_URL)
    made_s, found = _kept.get(key, (0.0, ServerFacts()))
    if made_s and time.monotonic() - made_s < FRESH_S:
        return found
    asking = _asking.setdefault(key, Lock())
    if not asking.acquire(blocking=False):
        return found
    try:
        found = _read(here)
        _kept[key] = (time.monotonic(), found)
    finally:
        asking.release()
    return found


def seen_by(scope: TopicScope, known: ServerFacts) -> ServerFacts:
    """Return the figures without the names of topics and queues that are not seen."""
    if scope.see_all:
        return known
    herds = tuple(
        Herd(herd.due_ms, herd.count, [each for each in herd.topics if scope.topic(each.topic)], herd.last_late_ms)
        for herd in known.herds
    )
    queues = None if known.queues is None else tuple(row for row in known.queues if scope.queue(row.name))
    return replace(known, herds=herds, queues=queues)


def forget() -> None:
    """Forget what was known, so that the next call asks anew."""
    _kept.clear()
    _kept_queues.clear()


def _read(here: Mirrored) -> ServerFacts:
    queues = _queues()
    # a broker that the mirror cannot reach would only keep the page waiting
    if here.polling or here.evidence(polled_by=()).stale:
        return ServerFacts(queues=queues)
    status, _ = ask(lambda admin: admin.timer_status(), source=here.name, requests=())
    herds, _ = ask(lambda admin: _herds(admin, here.now_ms), source=here.name, requests=())
    return ServerFacts(status, herds or (), queues)


def _herds(admin: Admin, now_ms: int) -> tuple[Herd, ...]:
    return tuple(admin.timer_forecast(now_ms, now_ms + _AHEAD.span_ms, _AHEAD.step_ms).herds)


def _queues() -> tuple[QueueRow, ...] | None:
    """Return what was known of the queues at most FRESH_S ago: they are no broker's, and asked for once for all."""
    made_s, found = _kept_queues.get(settings.REDISSON_URL, (0.0, None))
    if not made_s or time.monotonic() - made_s >= FRESH_S:
        found = _look_at_queues()
        _kept_queues[settings.REDISSON_URL] = (time.monotonic(), found)
    return found


def _look_at_queues() -> tuple[QueueRow, ...] | None:
    """Return, of up to MOST_QUEUES queues, those that need a look; None if their server does not answer."""
    found: list[QueueRow] = []
    for offset in range(0, MOST_QUEUES, QUEUES_SHOWN):
        part = read_queues(offset=offset)
        if part.evidence.stale:
            return None
        found += (row for row in part.rows if row.needs_look)
        if offset + QUEUES_SHOWN >= part.total:
            break
    return tuple(found)
