"""The metrics of a broker at `/metrics`, in OpenMetrics: by RocketMQ's names where it has a metric of that meaning.

Names that begin with `rocketmq_` are those of BrokerMetricsConstant, DefaultStoreMetricsConstant and PopMetricsConstant
(5.5.0), with their labels; `escapement_` begins those that RocketMQ does not have. Times in RocketMQ's metrics are ms.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Count
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from ..engine.errors import TopicNotFound
from ..engine.lateness import Histogram
from ..rocketmq.codes import Answer, Request
from ..rocketmq.message import decode
from ..rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS
from .connection import Server
from .state import BrokerState, Member
from .statistics import GROUP_GET_NUMS, GROUP_GET_SIZE, TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, row_labels

_STATES = ("OK", "DEGRADED", "READONLY", "FAILED", "CLOSED")
_LANGUAGES = frozenset((
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
))  # fmt: skip
"""LanguageCode: clients say what they like, and a label may not have any number of values."""

_AT_ONCE = 200
"""Queues that are looked at before everybody else may go on."""

Labels = dict[str, str]


class _Gathered(Collector):
    """Metrics that were collected already, for the writer of the text."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the families, each once."""
        return self._families


class BrokerMetrics:
    """The metrics of one broker. They are collected in its event loop, which is never kept for long."""

    def __init__(self, state: BrokerState, servers: Callable[[], Sequence[Server]], pops: Callable[[], int]) -> None:
        """`servers`: its servers as they are now; `pops`: how many pops wait."""
        self._state = state
        self._engine = state.engine
        self._servers = servers
        self._pops = pops
        self._process = ProcessCollector(registry=None)
        self._own = {"cluster": state.config.cluster_name, "node_type": "broker", "node_id": state.config.broker_name}

    async def text(self) -> bytes:
        """Return all metrics as of now; two who ask at the same time have them collected twice."""
        families = [*self._broker(), *self._store(), *self._flows(), *self._sends()]
        families += [*self._transactions(), *self._clients(), *self._timers()]
        families += [family async for family in self._lags()]
        families += self._process.collect()
        return await asyncio.to_thread(generate_latest, _Gathered(families))

    def _gauge(self, name: str, meaning: str, rows: Iterable[tuple[Labels, float]]) -> Metric:
        return self._filled(GaugeMetricFamily(name, meaning), name, rows)

    def _counter(self, name: str, meaning: str, rows: Iterable[tuple[Labels, float]]) -> Metric:
        assert name.endswith("_total"), name
        return self._filled(CounterMetricFamily(name.removesuffix("_total"), meaning), name, rows)

    def _histogram(self, name: str, meaning: str, rows: Iterable[tuple[Labels, Histogram]]) -> Metric:
        family = HistogramMetricFamily(name, meaning, labels=())
        for labels, counted in rows:
            own, count = self._own | labels, 0
            for bound, count in counted.buckets():
                up_to = "+Inf" if bound is None else repr(float(bound))
                family.add_sample(f"{name}_bucket", own | {"le": up_to}, count)
            family.add_sample(f"{name}_count", own, count)
            family.add_sample(f"{name}_sum", own, counted.sum)
        return family

    def _filled(self, family: Metric, name: str, rows: Iterable[tuple[Labels, float]]) -> Metric:
        for labels, value in rows:
            family.add_sample(name, self._own | labels, value)
        return family

    def _broker(self) -> Iterator[Metric]:
        engine, state = self._engine, self._state
        health = engine.health()
        states = StateSetMetricFamily("escapement_store_state", "How the store is", labels=list(self._own))
        states.add_metric(list(self._own.values()), {known: known == health.state for known in _STATES})
        yield states
        permission = 6 if health.state in ("OK", "DEGRADED") else 4
        yield self._gauge("rocketmq_broker_permission", "6: read and write, 4: read", [({}, permission)])
        yield self._gauge("rocketmq_topic_number", "Topics", [({}, len(engine.topics.all()))])
        yield self._gauge("rocketmq_consumer_group_number", "Consumer groups", [({}, len(engine.groups.all()))])
        yield self._gauge("escapement_start_time_seconds", "When it was started", [({}, state.started_ms / 1000)])
        doors = [({"door": server.name}, float(len(server.connections))) for server in self._servers()]
        yield self._gauge("escapement_connections", "Open connections", doors)
        names = [({"name_server": address}, float(is_there)) for address, is_there in state.registered().items()]
        yield self._gauge("escapement_registered", "1 for name servers that have the broker's registration", names)
        yield self._gauge("escapement_waiting_pulls", "Pulls that wait for a message", [({}, len(state.waiting))])
        yield self._gauge("escapement_waiting_pops", "Pops that wait for a message", [({}, self._pops())])

    def _store(self) -> Iterator[Metric]:
        health = self._engine.health()
        disk = {"storage_type": "local", "storage_medium": "disk"}
        size = health.log_end_position - health.log_min_position
        yield self._gauge("rocketmq_storage_size", "Bytes of the log", [(disk, size)])
        behind = health.pending_bytes
        yield self._gauge("rocketmq_storage_flush_behind_bytes", "Bytes that are not on disk yet", [(disk, behind)])
        kept = []
        if size:
            first_ms = decode(self._engine.look_at(health.log_min_position)).store_ms
            kept.append((disk, float(max(0, self._state.clock() - first_ms))))
        yield self._gauge("rocketmq_storage_message_reserve_time", "Age of the oldest message in ms", kept)
        yield self._gauge("escapement_disk_used_ratio", "Of the disk of the store", [({}, health.disk_used_ratio)])
        damaged = sum(known.end - known.start for known in health.damaged)
        yield self._gauge("escapement_storage_damaged_bytes", "Of the log, which cannot be read", [({}, damaged)])

    def _flows(self) -> Iterator[Metric]:
        totals = self._state.statistics.totals
        for name, meaning, counted in (
            ("messages", "Messages that queues took", TOPIC_PUT_NUMS),
            ("throughput", "Bytes of records that queues took", TOPIC_PUT_SIZE),
        ):
            put = [(_of_topic(topic), float(total)) for topic, total in totals(counted)]
            yield self._counter(f"rocketmq_{name}_in_total", meaning, put)
        for name, meaning, counted in (
            ("messages", "Messages given to groups", GROUP_GET_NUMS),
            ("throughput", "Bytes of records given to groups", GROUP_GET_SIZE),
        ):
            pairs = ((key.partition("@"), float(total)) for key, total in totals(counted))
            got = [(_of_group(topic, group), total) for (topic, _, group), total in pairs]
            yield self._counter(f"rocketmq_{name}_out_total", meaning, got)
        dead = [
            ({"consumer_group": topic.removeprefix(DLQ_PREFIX)}, float(total))
            for topic, total in totals(TOPIC_PUT_NUMS)
            if topic.startswith(DLQ_PREFIX)
        ]
        yield self._counter("rocketmq_send_to_dlq_messages_total", "Messages that no group could consume", dead)

    def _sends(self) -> Iterator[Metric]:
        sends = self._state.sends
        yield self._histogram("rocketmq_message_size", "Bytes of records that were sent", [({}, sends.sizes)])
        meaning = "Ms from taking a message to its answer, when it is durable"
        yield self._histogram("escapement_send_latency_milliseconds", meaning, [({}, sends.latencies)])
        single = (row_labels(Request.SEND_MESSAGE_V2, Answer.SUCCESS), sends.latencies)
        meaning, called = "Ms from reading a request to its answer", self._servers()[0].times.rows()
        yield self._histogram("rocketmq_rpc_latency", meaning, [single, *called])
        late = (("level", self._engine.schedule.released), ("timer", self._engine.timers.pace.released_late))
        meaning = "Ms from when a message was due to when consumers could have it"
        rows = [({"kind": kind}, counted) for kind, counted in late]
        yield self._histogram("escapement_release_lateness_milliseconds", meaning, rows)

    def _transactions(self) -> Iterator[Metric]:
        table = self._engine.transactions.summary()
        for name, key in (("commit", "commitTotal"), ("rollback", "rollbackTotal")):
            yield self._counter(f"rocketmq_{name}_messages_total", "Transactions ended so", [({}, table[key])])
        yield self._gauge("rocketmq_half_messages", "Transactions that are open", [({}, table["open"])])
        yield self._gauge("escapement_half_messages_parked", "Halves beyond the check limit", [({}, table["parked"])])

    def _clients(self) -> Iterator[Metric]:
        clients = self._state.clients
        producers: Count[tuple[str, ...]] = Count()
        for members in clients.all_producers().values():
            producers.update((_language(member), str(member.version)) for member in members)
        rows = [({"language": of[0], "version": of[1]}, float(count)) for of, count in producers.items()]
        yield self._gauge("rocketmq_producer_connections", "Producers that are connected", rows)
        rows = []
        for name in clients.consumer_counts():
            group = clients.consumers(name)
            assert group is not None
            mode = "pull" if group.consume_type == "CONSUME_ACTIVELY" else "push"
            consumers = Count((_language(member), str(member.version)) for member in group.members.values())
            labels = {"consumer_group": name, "consume_mode": mode, "is_system": "false"}
            rows += [(labels | {"language": of[0], "version": of[1]}, count) for of, count in consumers.items()]
        yield self._gauge("rocketmq_consumer_connections", "Consumers that are connected", rows)

    def _timers(self) -> Iterator[Metric]:
        now_ms = self._state.clock()
        status = self._engine.timers.status(now_ms)
        waiting = [({"topic": row["topic"]}, float(row["pending"])) for row in status["byTopic"]]
        yield self._gauge("rocketmq_timing_messages", "Timers that wait", waiting)
        behind = max(0, status["queueMaxOffset"] - status["enqueueOffset"])
        yield self._gauge("rocketmq_timer_enqueue_lag", "Timers that are not in the wheel yet", [({}, behind)])
        yield self._gauge("rocketmq_timer_dequeue_lag", "Timers that are overdue", [({}, status["backlog"])])
        taken = status["pending"] + status["releasedTotal"] + status["cancelledTotal"]
        yield self._counter("rocketmq_timer_enqueue_total", "Timers taken", [({}, taken)])
        yield self._counter("rocketmq_timer_dequeue_total", "Timers released", [({}, status["releasedTotal"])])
        measured = self._engine.timers.pace.measured
        rows = [({"how": str(measured.how)}, measured.per_s)] if measured is not None else []
        yield self._gauge("escapement_timer_capacity_per_second", "Timers that can be released in a second", rows)
        levels = self._engine.schedule.status(now_ms)
        pending = [({"level": str(level.number)}, float(level.max_offset - level.offset)) for level in levels]
        yield self._gauge("escapement_delayed_messages", "Messages that wait at a delay level", pending)
        late = [
            ({"level": str(level.number), "quantile": share}, value)
            for level in levels
            for share, value in (("0.5", level.lateness_p50_ms), ("0.99", level.lateness_p99_ms))
            if value is not None
        ]
        meaning = "How late messages of a level left in the last five minutes"
        yield self._gauge("escapement_delay_lateness_milliseconds", meaning, late)

    async def _lags(self) -> AsyncIterator[Metric]:
        """Tell how far groups are behind: messages, ms since the oldest was stored, popped and not acknowledged."""
        messages: list[tuple[Labels, float]] = []
        latencies: list[tuple[Labels, float]] = []
        looked = 0
        for (group, topic), offsets in list(self._engine.offsets.all().items()):
            if self._engine.topics.get(topic) is None:
                continue
            labels, behind, oldest_ms = _of_group(topic, group), 0, None
            for queue_id, offset in list(offsets.items()):
                looked += 1
                if looked % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                lag, stored_ms = self._queue_lag(topic, queue_id, offset)
                behind += lag
                if stored_ms is not None:
                    oldest_ms = stored_ms if oldest_ms is None else min(oldest_ms, stored_ms)
            messages.append((labels, behind))
            latencies.append((labels, 0 if oldest_ms is None else max(0, self._state.clock() - oldest_ms)))
        yield self._gauge("rocketmq_consumer_lag_messages", "Messages that a group has not consumed", messages)
        yield self._gauge("rocketmq_consumer_lag_latency", "Age of the oldest of them in ms", latencies)
        out: Count[tuple[str, str]] = Count()
        for queue in self._engine.pops.table.queues.values():
            out[queue.key[1], queue.key[0]] += queue.in_flight
        popped = [(_of_group(topic, group), float(count)) for (topic, group), count in out.items()]
        yield self._gauge("rocketmq_consumer_inflight_messages", "Messages popped and not acknowledged", popped)

    def _queue_lag(self, topic: str, queue_id: int, offset: int) -> tuple[int, int | None]:
        """Return messages from an offset to the queue's end, and when the first of them was stored."""
        try:
            low, high = self._engine.queue_bounds(topic, queue_id)
        except TopicNotFound:  # it was deleted while others had their turn
            return 0, None
        first = max(offset, low)
        return (high - first, self._engine.store_ms(topic, queue_id, first)) if first < high else (0, None)


def _of_topic(topic: str) -> Labels:
    is_system = topic.startswith(SYSTEM_PREFIX) or topic in SYSTEM_TOPICS
    return {"topic": topic, "is_system": "true" if is_system else "false"}


def _of_group(topic: str, group: str) -> Labels:
    is_retry = topic.startswith(RETRY_PREFIX)
    return {**_of_topic(topic), "consumer_group": group, "is_retry": "true" if is_retry else "false"}


def _language(member: Member) -> str:
    return (member.language if member.language in _LANGUAGES else "OTHER").lower()
