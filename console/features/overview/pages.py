"""The first page: what is wrong, what happens next, how much flows; read from the mirror alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from django.conf import settings
from django.db.models import Count, Q, Sum
from django.http import HttpRequest
from django.views.decorators.http import require_safe

from broker.mirror.halves import MOST_OPEN
from broker.mirror.models import Broker, HalfMessage, Queue, RateHistory, Replica, Topic
from broker.rocketmq.codes import Request
from console.features.due.wheel import wheel_of
from console.features.groups.read import group_rows, left_behind
from console.features.overview.finding_kinds import Finding
from console.features.overview.finding_marks import open_marks, parted
from console.features.overview.findings import (
    LIMIT,
    UNDECIDED,
    BrokerRow,
    Flow,
    Halves,
    MirrorRow,
    Overview,
    SlaveRow,
    Watched,
    findings_of,
    lag_ms_of,
    seen_by,
    server_facts,
)
from console.features.schedule.read import LANE_REQUESTS, lanes_with_parts, level_rows
from console.features.schedule.shapes import Lane
from console.features.timers.kept import away_at
from console.features.timers.read import timer_figures
from console.kept_figures import FigureSubject
from console.last_known import Away
from console.over_time import Measure, OverTime, Wanted, over_time
from console.run.supervisor import ROSTER_FILE, Process, read_roster
from console.security.topic_scope import TopicScope, authorised, current_scope, current_topics
from console.site.broker import brokers_of, read_each
from console.site.clock import shown_ms
from console.site.mirrored import Cluster, History, Mirrored, added, cluster
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind
from console.ui.table import Table, file_columns

#: what an Apache RocketMQ broker is asked for these numbers
OVERVIEW_REQUESTS = (
    *LANE_REQUESTS,
    Request.GET_ALL_TOPIC_CONFIG,
    Request.GET_BROKER_RUNTIME_INFO,
    Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    Request.GET_CONSUME_STATS,
)


@authorised
def read_overview(scope: TopicScope) -> Overview:
    """Return what is wrong, what happens next, and how much; names and groups are those that are seen.

    Of several brokers all is in total; what is wrong with one of them says which.
    """
    of = cluster()
    levels = level_rows(of)
    found, lanes = lanes_with_parts(of, levels)
    marks = list(open_marks())
    groups = group_rows.within(scope, of, watched=left_behind(LIMIT + len(marks)))
    watched = _watched(scope, of, lanes)
    findings, put_off = parted(findings_of(of, watched, groups, len(marks)), of, marks, LIMIT)
    findings = tuple(_markable(scope, each) for each in findings)
    brokers = tuple(each.row for each in watched if each.row is not None)
    names = list(Topic.objects.filter(broker__in=of.names).values_list("name", "is_system"))
    lags = [row.lag for row in groups if row.lag is not None]
    lag = sum(lags) if lags else None
    strip, away = found.figures, _timers_away(watched, scope)
    pending = _timers_pending(watched, away, scope)
    return Overview(
        evidence=of.evidence(polled_by=OVERVIEW_REQUESTS),
        now_ms=of.now_ms,
        findings=findings,
        brokers=brokers,
        mirror=max(
            (row.mirror for row in brokers), key=lambda row: row.lag_ms or 0, default=mirror_row(watched[0].here)
        ),
        # beside rates of the whole broker not the lag of some of its groups
        flows=_flows(of, strip.pending, lag if scope.see_all else None, _timers_flow(watched, pending, scope)),
        pending=strip.pending,
        wheel=wheel_of(of, levels, strip.next_due_ms),
        halves=_halves(of),
        topics=len({name for name, is_system in names if not is_system and scope.topic(name)}),
        groups=len(groups),
        lag=lag,
        stored_total=_stored(of, [name for name, is_system in names if is_system or not scope.topic(name)]),
        timers_pending=pending,
        timers_away=away,
        lateness_p99_ms=_lateness_p99_ms(watched),
        processes=_processes(),
        has_several=of.has_several,
        put_off=tuple(replace(each, finding=_markable(scope, each.finding)) for each in put_off),
    )


def _markable(scope: TopicScope, finding: Finding) -> Finding:
    """Return the finding, with whether who looks may put it off for everybody; of brokers only who sees all may."""
    if scope.see_all:
        return finding
    about = finding.code.value.about
    is_his = scope.whole_group(finding.key) if about == "group" else about == "queue" and scope.queue(finding.key)
    return replace(finding, may_be_marked=is_his)


def _watched(scope: TopicScope, of: Cluster, lanes: Mapping[str, Sequence[Lane]]) -> list[Watched]:
    """Return what is known of each broker by itself; the servers are asked beside each other. `lanes`: by broker."""
    facts = read_each(server_facts, of)
    slaves: dict[str, list[Replica]] = {}
    for slave in Replica.objects.filter(broker__in=of.names, number__gt=0).order_by("number"):
        slaves.setdefault(slave.broker_id, []).append(slave)
    watched = []
    for here, known in zip(brokers_of(of), facts, strict=True):
        row = _broker(here, here.broker, slaves.get(here.name, ())) if here.broker else None
        watched.append(Watched(here, row, lanes.get(here.name, ()), seen_by(scope, known)))
    return watched


def _processes() -> tuple[Process, ...]:
    """Return the supervisor's processes on this machine; their moments are real ones, shown beside the broker's."""
    found = read_roster(settings.VAR / ROSTER_FILE)
    return tuple(replace(process, since_ms=shown_ms(process.since_ms)) for process in found)


def mirror_row(here: Mirrored) -> MirrorRow:
    """Return the state of the mirror itself."""
    state = here.state
    if state is None or state.as_of_ms is None:
        return MirrorRow("never", 0, None, None, None, None, state.error if state else "")
    stale = here.evidence(polled_by=()).stale
    word = "stale" if stale else "polling" if state.polling else "following"
    lag_ms = lag_ms_of(here)
    return MirrorRow(word, state.sequence, state.as_of_ms, lag_ms, state.took_ms, state.following_since_ms, state.error)


def _flows(of: Cluster, pending: int | None, lag: int | None, timers: Flow) -> tuple[Flow, ...]:
    found = {(row.broker_id, row.name): row for row in RateHistory.objects.filter(broker__in=of.names, kind="flow")}
    waiting = {"accepted": None, "released": pending, "consumed": lag}
    flows = []
    for name, waits in waiting.items():
        telling = [here for here in of.brokers if not here.polling or name == "released"]
        history = added([here.history(found.get((here.name, name))) for here in telling])
        flows.append(Flow(name, history.latest, history, waits))
    # what is released stands together
    return (*flows[:-1], timers, flows[-1])


def _timers_flow(watched: Sequence[Watched], pending: int | None, scope: TopicScope) -> Flow:
    """Return what is released of timers, as their brokers report it: the mirror counts delay levels alone."""
    rates = [each.known.timers.released_per_s for each in watched if each.known.timers is not None]
    return Flow("timers", sum(rates) if rates else None, History(), pending if scope.see_all else None, is_mean=True)


def _broker(here: Mirrored, row: Broker, slaves: Sequence[Replica]) -> BrokerRow:
    return BrokerRow(
        name=row.name,
        cluster=row.cluster,
        address=row.address,
        version=row.version,
        state=row.state,
        reasons=tuple(row.reasons),
        started_ms=row.started_ms,
        log_min_position=row.log_min_position,
        log_end_position=row.log_end_position,
        disk_used_ratio=row.disk_used_ratio,
        rss_bytes=row.rss_bytes,
        as_of_ms=row.as_of_ms,
        mirror=mirror_row(here),
        slaves=tuple(_slave(each, row.log_end_position) for each in slaves),
    )


def _slave(row: Replica, master_end: int | None) -> SlaveRow:
    end = row.log_end_position
    behind = None if end is None or master_end is None else max(0, master_end - end)
    return SlaveRow(row.number, row.address, end, behind, row.as_of_ms, row.error)


def _timers_away(watched: Sequence[Watched], scope: TopicScope) -> tuple[Away, ...]:
    """Return, of several brokers, those that do not answer, with their timers as they were known last."""
    if len(watched) < 2:
        return ()
    stale = [each.here for each in watched if each.known.timers is None and each.here.evidence(polled_by=()).stale]
    return away_at([here.name for here in stale if not here.polling], None if scope.see_all else scope.topic)


def _timers_pending(watched: Sequence[Watched], away: Sequence[Away], scope: TopicScope) -> int | None:
    """Return the number of pending timers of the topics that are seen, at the brokers that tell, and of those that are
    away as it was known last."""
    told = [each.known.timers for each in watched if each.known.timers is not None]
    known = [each.count for each in away if each.count is not None]
    if not told and not known:
        return None
    if scope.see_all:
        return sum(each.pending for each in told) + sum(known)
    return sum(row.pending for each in told for row in each.by_topic if scope.topic(row.topic)) + sum(known)


def _lateness_p99_ms(watched: Sequence[Watched]) -> float | None:
    """Return the p99 of the broker whose timers are the latest."""
    late = (timer_figures(each.known.timers).lateness_p99_ms for each in watched)
    return max((each for each in late if each is not None), default=None)


def _halves(of: Cluster) -> Halves:
    """Return the half messages of topics that are seen, as far as they are mirrored."""
    mine = HalfMessage.objects.filter(current_topics().among("topic"), broker__in=of.names)
    counts = mine.values_list("broker").annotate(
        undecided=Count("pk", filter=Q(state__in=UNDECIDED)),
        parked=Count("pk", filter=Q(state=HalfMessage.State.PARKED)),
    )
    rows = [(undecided, parked) for _broker, undecided, parked in counts.order_by()]
    is_least = any(count >= MOST_OPEN for row in rows for count in row)
    return Halves(sum(row[0] for row in rows), sum(row[1] for row in rows), is_least)


def _stored(here: Cluster, others: Sequence[str]) -> int | None:
    """Return the messages ever stored on topics that are neither RocketMQ's own nor `others`."""
    # those that do not count by name: a join would wait for the planner's statistics after a rebuild
    queues = Queue.objects.filter(broker__in=here.names).exclude(topic__in=others)
    total = queues.aggregate(total=Sum("max_offset"))["total"]
    return None if total is None else int(total)


BROKERS = Table(
    "brokers",
    file_columns(
        "name cluster address version state reasons started_ms log_min_position log_end_position disk_used_ratio"
        " rss_bytes as_of_ms"
    ),
)


def lines_of_all(scope: TopicScope) -> list[Wanted]:
    """Return what the first page shows over time; lag and timers in total are for those who see all."""
    kind = FigureSubject.Kind
    through = [(kind.FLOW, "accepted"), (kind.FLOW, "consumed"), (kind.LANES, ""), (kind.TIMERS, "")]
    found = [Wanted(of, name, Measure.PASSED) for of, name in through]
    found += [Wanted(kind.LANES, "", Measure.PENDING), Wanted(kind.LANES, "", Measure.LATENESS)]
    found.append(Wanted(kind.TIMERS, "", Measure.LATENESS))
    if scope.see_all:
        found += [Wanted(kind.TIMERS, "", Measure.PENDING), Wanted(kind.FLOW, "consumed", Measure.LAG)]
    return found


@require_safe
def overview(request: HttpRequest) -> Answer:
    """Show findings, figures, flow, processes and the next minute."""
    data = read_overview()
    over = _charts(request.GET)
    context = {"data": data, "here": "overview", "live": over.live("overview"), "over": over}
    return page_or_file(
        request, "overview/page.html", context, BROKERS, lambda _place: data, rows=attrgetter("brokers")
    )


def _charts(given: Mapping[str, str]) -> OverTime:
    return over_time(given, lines_of_all(current_scope()))


LIVE = {
    "overview": LiveKind(
        lambda _, __: read_overview(),
        frozenset({"levels", "topics", "queues", "groups", "offsets", "histories", "transactions"}),
        frozenset({"over"}),
        charts=lambda _, given: _charts(given),
    )
}
