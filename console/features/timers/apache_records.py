"""Timers of an Apache RocketMQ broker, for the Timers pages.

The newest records of rmq_sys_wheel_timer are pulled; requests 60 and 61 tell the checkpoint and the metrics.

A parked record says where it goes (REAL_TOPIC, REAL_QID) and when: TIMER_DELIVER_MS or, failing that, the second after
TIMER_OUT_MS. A record with TIMER_DEL_UNIQKEY cancels the one with that unique key; a record that was parked again
(TIMER_ROLL_TIMES) stands for the one before it. Nothing is guessed: all else is unknown here, and said to be. Request
370 recalls one by a handle made from its record.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker.client import Admin, BrokerRefused, ClientError, Message, Producer
from broker.client.timers import BadHandle, TimerCheckpoint, TimerMetric, read_handle
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.properties import (
    DUE_MS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_KEY,
    TIMER_DELETE,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TIMER_ROLLS,
)
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.timers.shapes import (
    FIRST_COUNT,
    RINGS,
    LifeEvent,
    LifeKind,
    TimerFigures,
    TimerFilter,
    TimerLife,
    TimerList,
    TimerRow,
    TimersPage,
    TopicTimers,
    Wheel,
    Window,
    stretch_of_rows,
    within,
)
from console.operations.kind import ItemResult
from console.site.broker import KeptClients, ask, namesrv_of, pull_all
from console.site.chosen import chosen
from console.site.clock import now_ms
from console.site.evidence import Evidence
from console.site.mirrored import Mirrored

#: newest records that are read: eight pulls of 32, as much as such a broker gives from memory at once
NEWEST = 256

PULLED = (Request.GET_TOPIC_STATS_INFO, Request.PULL_MESSAGE)
TOLD = (Request.GET_TIMER_CHECK_POINT, Request.GET_TIMER_METRICS)
#: timerPrecisionMs of 5.5.0
_PRECISION_MS = 1_000


@dataclass(frozen=True, slots=True)
class Newest:
    """The timers that are pending by the newest records, in due order."""

    rows: tuple[TimerRow, ...]
    #: records read, and how many the queue holds
    read: int
    records: int

    @property
    def is_whole(self) -> bool:
        """Tell whether all records were read."""
        return self.read >= self.records


def read_newest(admin: Admin, count: int = NEWEST) -> Newest:
    """Read the pending timers among the newest records; raise ClientError."""
    stats = admin.topic_stats(TIMER_TOPIC).queues
    if not stats:
        return Newest((), 0, 0)
    first, end = stats[0].min_offset, stats[0].max_offset
    start = max(first, end - count)
    records = pull_all(admin, TIMER_TOPIC, 0, start, end - start) if end > start else []
    return Newest(pending_of(records, now_ms()), len(records), end - first)


def pending_of(records: Iterable[Message], at_ms: int) -> tuple[TimerRow, ...]:
    """Return the timers that still wait at `at_ms`; a later record of the same unique key counts."""
    waiting: dict[tuple[str, str], TimerRow] = {}
    for record in records:
        victim = record.properties.get(TIMER_DELETE)
        topic = record.properties.get(REAL_TOPIC, "")
        if victim is not None:
            # the key alone, or with its topic before it (appendTopicForTimerDeleteKey)
            waiting.pop((topic, victim.removeprefix(f"{topic}+")), None)
            continue
        row = row_of_record(record)
        if row is not None:
            waiting[row.topic, row.unique_key or str(row.position)] = row
    return tuple(
        sorted((row for row in waiting.values() if row.due_ms > at_ms), key=lambda row: (row.due_ms, row.offset))
    )


def row_of_record(record: Message) -> TimerRow | None:
    """Return a parked record as a row; None if it is no timer."""
    properties = record.properties
    topic, out = properties.get(REAL_TOPIC), properties.get(TIMER_OUT_MS, "")
    if not topic or not out.isdigit() or TIMER_DELETE in properties:
        return None
    exact = properties.get(DUE_MS) or properties.get(TIMER_DELIVER_MS, "")
    queue_id, rolled = properties.get(REAL_QUEUE_ID, ""), properties.get(TIMER_ROLLS, "")
    return TimerRow(
        position=record.position,
        offset=record.queue_offset,
        due_ms=int(exact) if exact.isdigit() else int(out) + _PRECISION_MS,
        topic=topic,
        queue_id=int(queue_id) if queue_id.isdigit() else None,
        size_bytes=record.size,
        message_id=record.offset_message_id,
        unique_key=record.unique_key or "",
        keys=tuple(record.keys),
        tag=record.tags or "",
        schedule_key=properties.get(SCHEDULE_KEY, ""),
        store_ms=record.store_ms,
        born_ms=record.born_ms,
        rolled=int(rolled) if rolled.isdigit() else 0,
    )


def handle_of(record: Message, broker: str) -> str:
    """Return RocketMQ's recall handle (HandleV1) of a parked record: its moment is TIMER_OUT_MS + 1, in its slot."""
    out = int(record.properties[TIMER_OUT_MS])
    words = f"v1 {record.properties[REAL_TOPIC]} {broker} {out + 1} {record.unique_key}"
    return base64.urlsafe_b64encode(words.encode()).decode()


def matches(row: TimerRow, wanted: TimerFilter) -> bool:
    """Tell whether the filter takes the row."""
    if wanted.topic and row.topic != wanted.topic:
        return False
    if wanted.key and wanted.key not in (row.schedule_key, row.unique_key, *row.keys):
        return False
    if wanted.from_ms is not None and row.due_ms < wanted.from_ms:
        return False
    return wanted.to_ms is None or row.due_ms < wanted.to_ms


def timers(here: Mirrored, window: Window) -> TimersPage:
    """Return the page from what was pulled, with all its topics; slots count the newest records only."""
    newest, evidence = _read(here)
    told, _ = ask(lambda admin: (admin.timer_checkpoint(), admin.timer_metrics()), source=here.name, requests=TOLD)
    wanted = TimerFilter() if window.following else within(window.start_ms, window.end_ms, window.zoom.step_ms)
    return TimersPage(
        evidence=evidence,
        now_ms=here.now_ms,
        broker=here.name,
        zoom=window.zoom.name,
        at_ms=None if window.following else window.start_ms,
        figures=_figures(newest, told),
        topics=_topics(newest, told[1] if told else None),
        topics_left=0,
        lateness=None,
        first=_listed(here, evidence, newest, wanted, None, FIRST_COUNT),
        wheel=_wheel(evidence, newest, window, here.now_ms) if newest is not None else None,
        forecast=None,
        polled=True,
    )


def timer_list(here: Mirrored, wanted: TimerFilter, cursor: str | None, count: int) -> TimerList:
    """Return a page of what was pulled; the cursor is the moment and the offset of the last row before it."""
    newest, evidence = _read(here)
    return _listed(here, evidence, newest, wanted, cursor, count)


def timer_life(here: Mirrored, position: int) -> TimerLife:
    """Return a parked record's life: when it came and is due; whether it was recalled is not known there."""
    record, evidence = ask(
        lambda admin: admin.message_at(position, topic=TIMER_TOPIC), source=here.name, requests=(33,)
    )
    row = row_of_record(record) if record is not None else None
    if row is None:
        return TimerLife(evidence, here.now_ms, "unknown", None, (), position, polled=True)
    row = replace(row, broker=here.name)
    accepted = LifeEvent(LifeKind.ACCEPTED, row.store_ms or 0, position)
    state = "pending" if row.due_ms > here.now_ms else "unknown"
    return TimerLife(evidence, here.now_ms, state, row, (accepted,), position, polled=True)


def _read(here: Mirrored) -> tuple[Newest | None, Evidence]:
    def question(admin: Admin) -> Newest:
        return read_newest(admin)

    return ask(question, source=here.name, requests=PULLED)


def _listed(
    here: Mirrored, evidence: Evidence, newest: Newest | None, wanted: TimerFilter, cursor: str | None, count: int
) -> TimerList:
    after = _after(cursor)
    rows = [row for row in newest.rows if matches(row, wanted) and (row.due_ms, row.offset) > after] if newest else []
    shown = tuple(replace(row, broker=here.name) for row in rows[:count])
    following = f"{shown[-1].due_ms}-{shown[-1].offset}" if shown and len(rows) > count else None
    return TimerList(
        evidence, here.now_ms, wanted, shown, following,
        newest_read=newest.read if newest else None, records=newest.records if newest else None,
    )  # fmt: skip


def _after(cursor: str | None) -> tuple[int, int]:
    due, _, offset = (cursor or "").partition("-")
    is_cursor = all(part.isascii() and part.isdigit() and len(part) < 20 for part in (due, offset))
    return (int(due), int(offset)) if is_cursor else (-1, -1)


def _figures(newest: Newest | None, told: tuple[TimerCheckpoint, tuple[TimerMetric, ...]] | None) -> TimerFigures:
    checkpoint, metrics = told or (None, None)
    return TimerFigures(
        pending=sum(metric.count for metric in metrics) if metrics is not None else None,
        next_due_ms=newest.rows[0].due_ms if newest and newest.rows else None,
        read_ms=checkpoint.read_ms if checkpoint else None,
        log_bytes=checkpoint.flushed_position if checkpoint else None,
        indexed_offset=checkpoint.queue_offset if checkpoint else None,
        end_offset=newest.records if newest else None,
    )


def _topics(newest: Newest | None, metrics: tuple[TimerMetric, ...] | None) -> tuple[TopicTimers, ...]:
    """Return counts by topic, the broker's own or, without them, those of the records that were read."""
    if metrics is not None:
        counts = {metric.topic: metric.count for metric in metrics}
    else:
        counts = dict(Counter(row.topic for row in newest.rows)) if newest else {}
    rows = [TopicTimers(topic, count) for topic, count in counts.items()]
    return tuple(sorted(rows, key=lambda row: (-(row.pending or 0), row.topic)))


def _wheel(evidence: Evidence, newest: Newest, window: Window, now_ms: int) -> Wheel:
    rings = [stretch_of_rows(newest.rows, now_ms - now_ms % step, span, step) for span, step in RINGS]
    zoom = window.zoom
    return Wheel(
        evidence=evidence,
        rings=(rings[0], rings[1], rings[2]),
        strip=stretch_of_rows(newest.rows, window.start_ms, zoom.span_ms, zoom.step_ms),
        beyond=sum(1 for row in newest.rows if row.due_ms > window.end_ms),
        whole=newest.is_whole,
    )


_producers = KeptClients(lambda namesrv: Producer(group="escapement-console", namesrv=namesrv))


def hang_up() -> None:
    """End the connection; the next recall makes a new one."""
    _producers.hang_up()


def recall(admin: Admin, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
    """Send one recall for each target; raises ClientError only when nothing was sent at all."""
    choice = chosen()
    producer = _producers.at(namesrv_of(choice.entry))
    broker = choice.broker or next(iter(admin.brokers())).name
    return [_recalled(admin, producer, broker, target) for target in targets]


def parked_record(admin: Admin, target: Mapping[str, Any]) -> Message | None:
    """Return the parked record that a target names by its place, its message id or a handle; None where there is none,
    or where it is named by a schedule key, which the broker does not know. Raises ClientError."""
    if "position" in target:
        return admin.message_at(target["position"], topic=TIMER_TOPIC)
    if "messageId" in target:
        return admin.message_by_offset_id(target["messageId"])
    if "handle" in target:
        try:
            named = read_handle(target["handle"])
        except BadHandle:
            return None
        topic, unique_key = named.topic, named.unique_key
    else:
        topic, unique_key = target["topic"], target.get("uniqueKey", "")
    found = admin.records_by_id(TIMER_TOPIC, unique_key) if unique_key else []
    return next((record for record in found if record.properties.get(REAL_TOPIC) == topic), None)


def _recalled(admin: Admin, producer: Producer, broker: str, target: Mapping[str, Any]) -> ItemResult:
    if "scheduleKey" in target:
        return ItemResult("refused", {"error": "not-supported"})
    try:
        record = parked_record(admin, target)
    except BrokerRefused as refusal:
        return ItemResult("unknown", {"error": str(refusal)})
    except ClientError as error:
        return ItemResult("refused", {"error": str(error)})
    row = row_of_record(record) if record is not None else None
    if record is None or row is None:
        return ItemResult("unknown", {"error": "no timer is parked at this position"})
    told = {"topic": row.topic, "unique_key": row.unique_key, "due_ms": row.due_ms}
    try:
        producer.recall(row.topic, handle_of(record, broker))
    except BrokerRefused as refusal:
        # the moment is past, or recalls are switched off there (recallMessageEnable)
        outcome = (
            "already_delivered" if refusal.code == Answer.ILLEGAL_OPERATION and "time" in refusal.remark else "refused"
        )
        return ItemResult(outcome, {**told, "error": refusal.remark or str(refusal)})
    except ClientError as error:
        return ItemResult("refused", {**told, "error": str(error)})
    return ItemResult("recall_noted", told)
