"""Timers of an Apache RocketMQ broker: the newest records of rmq_sys_wheel_timer, by pulling, and what 60 and 61 tell.

A parked record says where it goes (REAL_TOPIC, REAL_QID) and when: TIMER_DELIVER_MS or, failing that, the second after
TIMER_OUT_MS. A record with TIMER_DEL_UNIQKEY cancels the one with that unique key; a record that was parked again
(TIMER_ROLL_TIMES) stands for the one before it. All else is unknown here and said to be.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass

from broker.client import Admin, Message
from console.features.timers.shapes import TimerFilter, TimerRow
from console.site.clock import now_ms
from console.site.queue_contents import pull_all

WHEEL_TOPIC = "rmq_sys_wheel_timer"
#: newest records that are read: eight pulls of 32, as much as such a broker gives from memory at once
NEWEST = 256
#: timerPrecisionMs of 5.5.0
_PRECISION_MS = 1_000


@dataclass(frozen=True, slots=True)
class Newest:
    """What the newest records say is pending, in due order."""

    rows: tuple[TimerRow, ...]
    #: records read, and how many the queue holds
    read: int
    records: int

    @property
    def is_whole(self) -> bool:
        """All records were read."""
        return self.read >= self.records


def read_newest(admin: Admin, count: int = NEWEST) -> Newest:
    """The pending timers among the newest records; raises ClientError."""
    stats = admin.topic_stats(WHEEL_TOPIC).queues
    if not stats:
        return Newest((), 0, 0)
    first, end = stats[0].min_offset, stats[0].max_offset
    start = max(first, end - count)
    records = pull_all(admin, WHEEL_TOPIC, 0, start, end - start) if end > start else []
    return Newest(pending_of(records, now_ms()), len(records), end - first)


def pending_of(records: Iterable[Message], at_ms: int) -> tuple[TimerRow, ...]:
    """Which of the records still wait at `at_ms`; a later record of the same unique key counts."""
    waiting: dict[tuple[str, str], TimerRow] = {}
    for record in records:
        victim = record.properties.get("TIMER_DEL_UNIQKEY")
        topic = record.properties.get("REAL_TOPIC", "")
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
    """A parked record as a row; None if it is no timer."""
    properties = record.properties
    topic, out = properties.get("REAL_TOPIC"), properties.get("TIMER_OUT_MS", "")
    if not topic or not out.isdigit() or "TIMER_DEL_UNIQKEY" in properties:
        return None
    exact = properties.get("ESC_DUE_MS") or properties.get("TIMER_DELIVER_MS", "")
    queue_id, rolled = properties.get("REAL_QID", ""), properties.get("TIMER_ROLL_TIMES", "")
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
        schedule_key=properties.get("ESC_SCHEDULE_KEY", ""),
        store_ms=record.store_ms,
        born_ms=record.born_ms,
        rolled=int(rolled) if rolled.isdigit() else 0,
    )


def handle_of(record: Message, broker: str) -> str:
    """RocketMQ's recall handle (HandleV1) of a parked record: its moment is TIMER_OUT_MS + 1, inside its slot."""
    out = int(record.properties["TIMER_OUT_MS"])
    words = f"v1 {record.properties['REAL_TOPIC']} {broker} {out + 1} {record.unique_key}"
    return base64.urlsafe_b64encode(words.encode()).decode()


def matches(row: TimerRow, wanted: TimerFilter) -> bool:
    """Whether the filter takes the row."""
    if wanted.topic and row.topic != wanted.topic:
        return False
    if wanted.key and wanted.key not in (row.schedule_key, row.unique_key, *row.keys):
        return False
    if wanted.from_ms is not None and row.due_ms < wanted.from_ms:
        return False
    return wanted.to_ms is None or row.due_ms < wanted.to_ms
