"""The first page: what is wrong, what happens next, how much flows; read from the mirror alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest
from django.views.decorators.http import require_safe

from broker.mirror.models import Broker, Queue, RateHistory, Topic
from broker.rocketmq.codes import Request
from console.features.groups.read import group_rows, left_behind
from console.features.overview.findings import (
    LIMIT,
    BrokerRow,
    Flow,
    MirrorRow,
    Overview,
    ServerFacts,
    findings_of,
    seen_by,
    server_facts,
)
from console.features.schedule.read import LANE_REQUESTS, figures, lane_of, levels, next_minute
from console.features.timers.read import timer_figures
from console.run.supervisor import ROSTER_FILE, Process, read_roster
from console.security.topic_scope import TopicScope, authorised
from console.site.clock import shown_ms
from console.site.mirrored import History, Mirrored, mirrored
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
    """Return what is wrong, what happens next, and how much; names and groups are those that are seen."""
    here = mirrored()
    rows = levels(here)
    histories = here.histories("level", [str(row.level) for row in rows])
    lanes = [lane_of(row, here, histories[str(row.level)]) for row in rows]
    groups = group_rows.within(scope, here, watched=left_behind(LIMIT))
    strip = figures(here, lanes)
    brokers = (_broker(here.broker),) if here.broker else ()
    mirror = mirror_row(here)
    known = seen_by(scope, server_facts(here))
    names = list(Topic.objects.filter(broker=here.name).values_list("name", "is_system"))
    lags = [row.lag for row in groups if row.lag is not None]
    lag = sum(lags) if lags else None
    return Overview(
        evidence=here.evidence(polled_by=OVERVIEW_REQUESTS),
        now_ms=here.now_ms,
        findings=findings_of(here, brokers, mirror, lanes, groups, known),
        brokers=brokers,
        mirror=mirror,
        flows=_flows(here, strip.pending, lag),
        pending=strip.pending,
        next_due_ms=strip.next_due_ms,
        next_due_level=strip.next_due_level,
        next_minute=next_minute(here, rows),
        topics=sum(1 for name, is_system in names if not is_system and scope.topic(name)),
        groups=len(groups),
        lag=lag,
        stored_total=_stored(here, [name for name, is_system in names if is_system or not scope.topic(name)]),
        timers_pending=_timers_pending(known, scope),
        lateness_p99_ms=timer_figures(known.timers).lateness_p99_ms,
        processes=_processes(),
    )


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
    lag_ms = max(0, here.now_ms - state.as_of_ms)
    return MirrorRow(word, state.sequence, state.as_of_ms, lag_ms, state.took_ms, state.following_since_ms, state.error)


def _flows(here: Mirrored, pending: int | None, lag: int | None) -> tuple[Flow, ...]:
    found = {row.name: row for row in RateHistory.objects.filter(broker=here.name, kind="flow")}
    waiting = {"accepted": None, "released": pending, "consumed": lag}
    flows = []
    for name, waits in waiting.items():
        told = not here.polling or name == "released"
        history = here.history(found.get(name)) if told else History()
        flows.append(Flow(name, history.latest, history, waits))
    return tuple(flows)


def _broker(row: Broker) -> BrokerRow:
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
    )


def _timers_pending(known: ServerFacts, scope: TopicScope) -> int | None:
    """Return the number of pending timers of the topics that are seen."""
    if known.timers is None or scope.see_all:
        return None if known.timers is None else known.timers.pending
    return sum(row.pending for row in known.timers.by_topic if scope.topic(row.topic))


def _stored(here: Mirrored, others: Sequence[str]) -> int | None:
    """Return the messages ever stored on topics that are neither RocketMQ's own nor `others`."""
    # those that do not count by name: a join would wait for the planner's statistics after a rebuild
    queues = Queue.objects.filter(broker=here.name).exclude(topic__in=others)
    total = queues.aggregate(total=Sum("max_offset"))["total"]
    return None if total is None else int(total)


BROKERS = Table(
    "brokers",
    file_columns(
        "name cluster address version state reasons started_ms log_min_position log_end_position disk_used_ratio"
        " rss_bytes as_of_ms"
    ),
)


@require_safe
def overview(request: HttpRequest) -> Answer:
    """Show findings, figures, flow, processes and the next minute."""
    data = read_overview()
    context = {"data": data, "here": "overview", "live": "overview"}
    return page_or_file(
        request, "overview/page.html", context, BROKERS, lambda _place: data, rows=attrgetter("brokers")
    )


LIVE = {
    "overview": LiveKind(
        lambda _, __: read_overview(),
        frozenset({"levels", "topics", "queues", "groups", "offsets", "histories", "transactions"}),
    )
}
