"""The Timers pages on an Apache RocketMQ broker: the newest parked records, checkpoint, metrics; nothing is guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from broker.client import Admin
from broker.client.timers import TimerCheckpoint, TimerMetric
from console.features.timers.apache_records import WHEEL_TOPIC, Newest, matches, read_newest, row_of_record
from console.features.timers.shapes import (
    FIRST_COUNT,
    LifeEvent,
    LifeKind,
    TimerFigures,
    TimerFilter,
    TimerLife,
    TimerList,
    TimersPage,
    TopicTimers,
    Wheel,
)
from console.features.timers.wheel import RINGS, stretch_of_rows, within
from console.features.timers.zoom import Window
from console.site.broker import ask
from console.site.evidence import Evidence
from console.site.mirrored import Mirrored

#: topic stats and pull; checkpoint and metrics
PULLED = (202, 11)
TOLD = (60, 61)
TOPICS = 16


def timers(here: Mirrored, window: Window, is_seen: Callable[[str], bool] = lambda topic: True) -> TimersPage:
    """The page from what was pulled; slots count the newest records only."""
    newest, evidence = _read(here)
    told, _ = ask(lambda admin: (admin.timer_checkpoint(), admin.timer_metrics()), source=here.name, requests=TOLD)
    wanted = TimerFilter() if window.following else within(window.start_ms, window.end_ms, window.zoom.step_ms)
    topics = [row for row in _topics(newest, told[1] if told else None) if is_seen(row.topic)]
    return TimersPage(
        evidence=evidence,
        now_ms=here.now_ms,
        broker=here.name,
        zoom=window.zoom.name,
        at_ms=None if window.following else window.start_ms,
        figures=_figures(newest, told),
        topics=tuple(topics[:TOPICS]),
        topics_left=len(topics[TOPICS:]),
        lateness=None,
        first=_listed(here, evidence, newest, wanted, 0, FIRST_COUNT),
        wheel=_wheel(evidence, newest, window, here.now_ms) if newest is not None else None,
        forecast=None,
        polled=True,
    )


def timer_list(here: Mirrored, wanted: TimerFilter, cursor: str | None, count: int) -> TimerList:
    """A page of what was pulled; the cursor is a number of rows."""
    newest, evidence = _read(here)
    start = int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) < 9 else 0
    return _listed(here, evidence, newest, wanted, start, count)


def timer_life(here: Mirrored, position: int) -> TimerLife:
    """A parked record: when it came and when it is due; whether it was recalled is not known there."""
    record, evidence = ask(
        lambda admin: admin.message_at(position, topic=WHEEL_TOPIC), source=here.name, requests=(33,)
    )
    row = row_of_record(record) if record is not None else None
    if row is None:
        return TimerLife(evidence, here.now_ms, "unknown", None, (), position)
    accepted = LifeEvent(LifeKind.ACCEPTED, row.store_ms or 0, position)
    state = "pending" if row.due_ms > here.now_ms else "unknown"
    return TimerLife(evidence, here.now_ms, state, row, (accepted,), position)


def _read(here: Mirrored) -> tuple[Newest | None, Evidence]:
    def question(admin: Admin) -> Newest:
        return read_newest(admin)

    return ask(question, source=here.name, requests=PULLED)


def _listed(
    here: Mirrored, evidence: Evidence, newest: Newest | None, wanted: TimerFilter, start: int, count: int
) -> TimerList:
    rows = [row for row in newest.rows if matches(row, wanted)] if newest else []
    following = str(start + count) if start + count < len(rows) else None
    return TimerList(
        evidence, here.now_ms, wanted, tuple(rows[start : start + count]), following,
        newest_read=newest.read if newest else None, records=newest.records if newest else None,
    )  # fmt: skip


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
    """As the broker counts them; without that, of the records that were read."""
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
