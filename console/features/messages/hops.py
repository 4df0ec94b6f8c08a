"""The trail of one message: its physical records in the order in which they were written, and what each stands for.

Beside them stands what clients with tracing told of it, a line for each thing that was done; every text is hostile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from broker.client import Message
from broker.rocketmq.properties import (
    DUE_MS,
    ORIGIN_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    SOURCE,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)
from broker.rocketmq.topics import DLQ_PREFIX, GROUP_PREFIXES, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from broker.rocketmq.traces import Trace
from console.features.messages.shapes import Hop, HopKind

What = Literal["sent", "consumed", "ended", "recalled"]

#: lines of one message that are shown: anybody may write to the trace topic, as much as he likes
TOLD_LIMIT = 100
#: the year 9999: what is later, or before 1970, is no moment
_LAST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Told:
    """One line, by the clock of the client that tells it; None where it does not say.

    consumed: given to a handler at `at_ms`, which was at work for `took_ms`; `succeeded` None: its end was not told.
    `retries`: tries before this one. ended: a transaction, `state` says how. recalled: a timer was taken back.
    """

    what: What
    at_ms: int | None
    group: str | None = None
    topic: str | None = None
    client: str | None = None
    took_ms: int | None = None
    succeeded: bool | None = None
    retries: int | None = None
    state: str | None = None


def told_of(traces: Iterable[Trace]) -> tuple[Told, ...]:
    """Every line, the oldest first; the two events of one consumption are one. Those without a moment come last."""
    lines: list[Told] = []
    begun: dict[tuple[str | None, str | None], int] = {}
    for trace in traces:
        if trace.kind == "handled":
            at = _begin_of(trace, begun)
            if at is None:
                lines.append(_handled_only(trace))
            else:
                lines[at] = replace(lines[at], took_ms=_count(trace.took_ms), succeeded=trace.succeeded)
            continue
        if trace.kind == "delivered":
            begun[trace.request_id, trace.group] = len(lines)
        lines.append(_line(trace, "consumed" if trace.kind == "delivered" else trace.kind))
    return tuple(sorted(lines, key=lambda line: _LAST_MS if line.at_ms is None else line.at_ms))


def _line(trace: Trace, what: What) -> Told:
    """Return a line as it was told, without what is no moment or no number."""
    return Told(
        what, _moment(trace.at_ms), trace.group, trace.topic, trace.client, _count(trace.took_ms), trace.succeeded,
        _count(trace.retries), trace.state,
    )  # fmt: skip


def _begin_of(trace: Trace, begun: dict[tuple[str | None, str | None], int]) -> int | None:
    """The line that this end belongs to; old clients name no group in it."""
    if trace.group is not None:
        return begun.pop((trace.request_id, trace.group), None)
    key = next((key for key in begun if key[0] == trace.request_id), None)
    return None if key is None else begun.pop(key)


def _handled_only(trace: Trace) -> Told:
    """What tells of the end alone: it began as long before as it took."""
    line = _line(trace, "consumed")
    return line if line.at_ms is None else replace(line, at_ms=max(0, line.at_ms - (line.took_ms or 0)))


def _moment(ms: int | None) -> int | None:
    return ms if ms is not None and 0 < ms <= _LAST_MS else None


def _count(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= _LAST_MS else None


#: moments of a timer, the exact one first
_MOMENTS = (DUE_MS, TIMER_DELIVER_MS, TIMER_OUT_MS)


@dataclass(slots=True)
class Trail:
    """Records by position; `dues_ms` of the parked ones, and how far each level has released."""

    opened: Message
    records: dict[int, Message] = field(default_factory=dict)
    dues_ms: dict[int, int] = field(default_factory=dict)
    delay_offsets: dict[int, int] = field(default_factory=dict)
    #: what clients with tracing told; None: could not be asked
    told: tuple[Told, ...] | None = None

    def __post_init__(self) -> None:
        self.add(self.opened)

    def add(self, record: Message) -> None:
        """Take in a record of the same message."""
        if record.unique_key == self.opened.unique_key:
            self.records.setdefault(record.position, record)

    @property
    def ordered(self) -> list[Message]:
        """The records in the order in which they were stored."""
        return [self.records[position] for position in sorted(self.records)]

    @property
    def parked(self) -> list[Message]:
        """Records on a lane."""
        return [record for record in self.ordered if record.topic == SCHEDULE_TOPIC]

    @property
    def topics(self) -> tuple[str, ...]:
        """Where records of the message may be."""
        properties = self.opened.properties
        named = (SCHEDULE_TOPIC, self.real_topic, properties.get(REAL_TOPIC), self.sent_to)
        return tuple(dict.fromkeys(topic for topic in named if topic))

    @property
    def sent_to(self) -> str:
        """The topic that the message was sent to first: that of a retry or a dead letter is another one."""
        topic, popped = self.opened.properties.get(RETRY_TOPIC), popped_by(self.opened)
        return topic or (self.real_topic[len(RETRY_PREFIX) + len(popped) + 1 :] if popped else self.real_topic)

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that may have had the message: whose retry or dead letter it is, and those that told so."""
        names = [group] if (group := group_of(self.opened)) else []
        names += [line.group for line in self.told or () if line.what == "consumed" and line.group]
        return tuple(dict.fromkeys(names))

    @property
    def real_topic(self) -> str:
        """The topic that its consumers see."""
        return real_topic_of(self.opened)

    @property
    def real_queue_id(self) -> int | None:
        """The queue that its consumers see."""
        if self.opened.topic not in (SCHEDULE_TOPIC, TIMER_TOPIC):
            return self.opened.queue_id
        number = self.opened.properties.get(REAL_QUEUE_ID, "")
        return int(number) if number.isdigit() else None

    @property
    def _last_parked(self) -> Message | None:
        return self.parked[-1] if self.parked else None

    @property
    def due_ms(self) -> int | None:
        """When it is due, or last was."""
        parked = self._last_parked
        return self.dues_ms.get(parked.position) if parked else None

    @property
    def delay_level(self) -> int | None:
        """The lane it waits on, or last waited on."""
        parked = self._last_parked
        return parked.queue_id + 1 if parked else None

    @property
    def pending(self) -> bool:
        """True while its newest record waits on a lane."""
        parked = self._last_parked
        return parked is not None and parked is self.ordered[-1] and self.is_on_lane(parked)

    def is_on_lane(self, parked: Message) -> bool:
        """The lane has not come to this record yet."""
        return parked.queue_offset >= self.delay_offsets.get(parked.queue_id + 1, 0)

    def waits(self, record: Message) -> bool:
        """Not released yet; a timer has left when a record of the same topic stands behind it."""
        if record.topic == SCHEDULE_TOPIC:
            return self.is_on_lane(record)
        topic = real_topic_of(record)
        behind = (each for each in self.records.values() if each.position > record.position)
        return record.topic == TIMER_TOPIC and all(each.topic != topic for each in behind)

    def due_of(self, record: Message) -> int | None:
        """When a parked record is due."""
        if record.topic != TIMER_TOPIC:
            return self.dues_ms.get(record.position)
        moments = (record.properties.get(name, "") for name in _MOMENTS)
        return next((int(text) for text in moments if text.isascii() and text.isdigit() and len(text) < 17), None)


def real_topic_of(record: Message) -> str:
    """The topic that consumers of a record see, or will see."""
    if record.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        return record.properties.get(REAL_TOPIC, record.topic)
    return record.topic


def popped_by(record: Message) -> str:
    """The group whose pop this is another try of (%RETRY%group_topic); empty if it is none."""
    group, topic = record.properties.get(ORIGIN_GROUP, ""), real_topic_of(record)
    return group if group and topic.startswith((f"{RETRY_PREFIX}{group}_", f"{RETRY_PREFIX}{group}+")) else ""


def group_of(record: Message) -> str | None:
    """The one group that a record is for: another try, or a dead letter."""
    topic = real_topic_of(record)
    named = next((topic.removeprefix(prefix) for prefix in GROUP_PREFIXES if topic.startswith(prefix)), None)
    return popped_by(record) or named


def hops_of(trail: Trail) -> tuple[Hop, ...]:
    """One hop a record, oldest first."""
    hops: list[Hop] = []
    due_ms: int | None = None
    for record in trail.ordered:
        kind = _kind(record)
        parked = kind in (HopKind.PARKED, HopKind.TIMER)
        released_late = None if due_ms is None or parked else record.store_ms - due_ms
        due_ms = trail.due_of(record) if parked else None
        hops.append(
            Hop(
                kind=kind,
                topic=record.topic,
                queue_id=record.queue_id,
                queue_offset=record.queue_offset,
                position=record.position,
                size_bytes=record.size,
                store_ms=record.store_ms,
                after_ms=record.store_ms - hops[-1].store_ms if hops else None,
                offset_message_id=record.offset_message_id,
                delay_level=record.queue_id + 1 if kind is HopKind.PARKED else None,
                due_ms=due_ms,
                late_ms=released_late,
                current=record.position == trail.opened.position,
                tries=record.reconsume_times,
                real_topic=real_topic_of(record),
                group=group_of(record),
                waits=parked and trail.waits(record),
            )
        )
    return tuple(hops)


def _kind(record: Message) -> HopKind:
    if record.topic == SCHEDULE_TOPIC:
        return HopKind.PARKED
    if record.topic == TIMER_TOPIC:
        return HopKind.TIMER
    if record.topic.startswith(DLQ_PREFIX):
        return HopKind.DEAD_LETTER
    if record.topic.startswith(RETRY_PREFIX):
        return HopKind.RETRY
    # RocketMQ leaves REAL_TOPIC in the bytes of what it releases
    released = SOURCE in record.properties or record.properties.get(REAL_TOPIC) == record.topic
    return HopKind.RELEASED if released else HopKind.STORED
