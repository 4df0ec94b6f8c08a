"""The trail of one message: its physical records in the order in which they were written, and what each stands for.

Beside them stands what clients with tracing told of it, a line for each thing done; every text is untrusted.
From both follows what became of it in each group that reads its topic: had, refused, dead, or what is before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from broker.client import Admin, BrokerRefused, Message
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Topic
from broker.rocketmq.codes import Request
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
from broker.rocketmq.topics import (
    DLQ_PREFIX,
    GROUP_PREFIXES,
    HALF_TOPIC,
    POP_SEPARATORS,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from broker.rocketmq.traces import Trace
from console.features.messages.shapes import AsTimer, Earlier, Hop, HopKind, MessagePage, Reader, ReaderState, StepKind
from console.security.topic_scope import TopicScope
from console.site.broker import ask
from console.site.mirrored import Mirrored

What = Literal["sent", "consumed", "ended", "recalled"]

#: lines of one message that are shown: anybody may write to the trace topic, as much as he likes
TOLD_LIMIT = 100
#: the year 9999: what is later, or before 1970, is no moment
_LAST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Told:
    """A line of a client's trace, by that client's clock; None where it does not say.

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
    """Return every line, the oldest first, both events of one consumption as one; those without a moment come last."""
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
    """Return the place of the line that this end belongs to; old clients name no group in it."""
    if trace.group is not None:
        return begun.pop((trace.request_id, trace.group), None)
    key = next((key for key in begun if key[0] == trace.request_id), None)
    return None if key is None else begun.pop(key)


def _handled_only(trace: Trace) -> Told:
    """Read a line that tells of the end alone: handling began as long before it as it took."""
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
    #: the opened record is a timer's
    timer: AsTimer | None = None
    #: of parked timers, by position, in whose place they are
    earlier: dict[int, Earlier] = field(default_factory=dict)

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
        """The records on a lane."""
        return [record for record in self.ordered if record.topic == SCHEDULE_TOPIC]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that may hold records of the message."""
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
        """The groups that may have had the message: whose retry or dead letter it is, and those that told so."""
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
        """The moment when it is due, or last was."""
        parked = self._last_parked
        return self.dues_ms.get(parked.position) if parked else None

    @property
    def delay_level(self) -> int | None:
        """The lane it waits on, or last waited on."""
        parked = self._last_parked
        return parked.queue_id + 1 if parked else None

    @property
    def pending(self) -> bool:
        """Tell whether its newest record waits on a lane."""
        parked = self._last_parked
        return parked is not None and parked is self.ordered[-1] and self.is_on_lane(parked)

    def is_on_lane(self, parked: Message) -> bool:
        """Tell whether the lane has not come to this record yet."""
        return parked.queue_offset >= self.delay_offsets.get(parked.queue_id + 1, 0)

    def waits(self, record: Message) -> bool:
        """Tell whether it is not released yet; a timer has left when a record of the same topic stands behind it."""
        if record.topic == SCHEDULE_TOPIC:
            return self.is_on_lane(record)
        topic = real_topic_of(record)
        behind = (each for each in self.records.values() if each.position > record.position)
        return record.topic == TIMER_TOPIC and all(each.topic != topic for each in behind)

    def due_of(self, record: Message) -> int | None:
        """Return the moment when a parked record is due."""
        if record.topic != TIMER_TOPIC:
            return self.dues_ms.get(record.position)
        moments = (record.properties.get(name, "") for name in _MOMENTS)
        return next((int(text) for text in moments if text.isascii() and text.isdigit() and len(text) < 17), None)


def real_topic_of(record: Message) -> str:
    """Return the topic that consumers of a record see, or will see."""
    if record.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        return record.properties.get(REAL_TOPIC, record.topic)
    return record.topic


def topic_sent_to(record: Message) -> str:
    """Return the topic that a record was sent to first: also of what waits, of a half, a try or a dead letter.

    A producer may write any property: those that name a topic count only where brokers write them.
    """
    topic = record.properties.get(REAL_TOPIC, record.topic) if record.topic == HALF_TOPIC else real_topic_of(record)
    return Trail(record).sent_to if topic.startswith(GROUP_PREFIXES) else topic


def popped_by(record: Message) -> str:
    """Return the group whose pop this is another try of (%RETRY%group_topic); empty if it is none."""
    group, topic = record.properties.get(ORIGIN_GROUP, ""), real_topic_of(record)
    return group if group and topic.startswith((f"{RETRY_PREFIX}{group}_", f"{RETRY_PREFIX}{group}+")) else ""


def group_of(record: Message) -> str | None:
    """Return the one group that a record is for: another try, or a dead letter."""
    topic = real_topic_of(record)
    named = next((topic.removeprefix(prefix) for prefix in GROUP_PREFIXES if topic.startswith(prefix)), None)
    return popped_by(record) or named


def hops_of(trail: Trail) -> tuple[Hop, ...]:
    """Return a hop for each record, oldest first."""
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
                sent_to=topic_sent_to(record),
                group=group_of(record),
                waits=parked and trail.waits(record),
                earlier=trail.earlier.get(record.position),
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


#: groups that are told of one message, and those of them that the broker is asked about
MOST_READERS, MOST_READERS_ASKED = 32, 16
READERS_REQUESTS = (Request.GET_CONSUME_STATS,)
_GIVEN_OUT = (HopKind.STORED, HopKind.RELEASED)
_PARKED = (HopKind.PARKED, HopKind.TIMER)
#: states that what a client tells may end: offsets come some seconds later
_OPEN = (ReaderState.OUT, ReaderState.AGAIN, ReaderState.SENT_BACK, ReaderState.NOT_YET, ReaderState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Line:
    """The record that counts for one group: its own newest, or the one that all groups are given."""

    newest: Hop
    #: of these, the newest dead letter
    died: Hop | None
    is_own: bool

    @property
    def refused(self) -> int:
        """The number of times the group was given it in vain; to be sent back from the dead letters is no try."""
        return (self.died or self.newest).tries if self.is_own else 0

    def is_beyond(self, offset: int) -> bool:
        """Tell whether it stands in a queue that the group is to read, at or past the group's offset there."""
        return self.newest.kind not in (*_PARKED, HopKind.DEAD_LETTER) and self.newest.queue_offset >= offset


#: a group, and the message of those that are looked at
_Of = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Said:
    """The broker's word on groups whose offset, by the mirror, is not past their record."""

    #: groups that were asked about; those that are past a message's record, those that were given it
    told: set[str] = field(default_factory=set)
    had: set[_Of] = field(default_factory=set)
    out: set[_Of] = field(default_factory=set)


def topics_of_group(group: str, topic: str) -> tuple[str, ...]:
    """Return the topics of a group's tries and dead letters: of consumers that pull, of those that pop, of both."""
    return RETRY_PREFIX + group, f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}", DLQ_PREFIX + group


def readers_of(here: Mirrored, page: MessagePage, seen: TopicScope) -> tuple[Reader, ...]:
    """Return its readers, those that wait for it first."""
    return readers_of_each(here, [page], seen)[0]


def readers_of_each(here: Mirrored, pages: Sequence[MessagePage], seen: TopicScope) -> list[tuple[Reader, ...]]:
    """Return each message's readers: by the newest record that consumers of its topic are given, and by what each group
    has of its own behind that: tries and dead letters.

    Offsets are the mirror's; where they are not past the record the broker is asked, once for a group, and says what it
    gave out, too.
    """
    given = [next((hop for hop in reversed(page.hops) if hop.kind in _GIVEN_OUT), None) for page in pages]
    names = _names_of(here, given, seen)
    lines: dict[_Of, _Line] = {
        (name, at): _line_of(name, hop, pages[at].hops)
        for at, hop in enumerate(given) if hop is not None for name in names[at]
    }  # fmt: skip
    offsets = _offsets(here, lines)
    said = _said(here, {of: line for of, line in lines.items() if line.is_beyond(offsets[of])})
    blurred = _blurred(
        here, {(name, hop.topic) for hop, mine in zip(given, names, strict=True) if hop for name in mine}
    )
    groups = {row.name: row for row in ConsumerGroup.objects.filter(broker=here.name, name__in={of[0] for of in lines})}
    found: list[list[Reader]] = [[] for _page in pages]
    for (name, at), line in lines.items():
        offset, group, hop = offsets[name, at], groups.get(name), given[at]
        state = _state(line, offset, (name, at), said)
        is_told = state in _OPEN and _is_told(pages[at], name, line)
        if state is ReaderState.HAD and hop is not None and (name, hop.topic) in blurred:
            state = ReaderState.UNKNOWN
        found[at].append(
            Reader(
                name, ReaderState.HAD if is_told else state, max(0, line.newest.queue_offset - offset),
                group.members if group else None, group is None or group.consume_enable, line.refused,
                line.newest.due_ms if line.newest.waits else None, is_told,
            )
        )  # fmt: skip
    return [
        tuple(sorted(rows, key=lambda row: (row.state is ReaderState.HAD, -row.before, row.group))) for rows in found
    ]


def _names_of(here: Mirrored, given: Sequence[Hop | None], seen: TopicScope) -> list[list[str]]:
    """Return for each record the groups with an offset in its queue that are seen."""
    topics = {hop.topic for hop in given if hop is not None}
    if not topics:
        return [[] for _hop in given]
    read = ConsumerOffset.objects.filter(broker=here.name, topic__in=topics).order_by("group")
    read = read.filter(queue_id__in={hop.queue_id for hop in given if hop is not None})
    readers: dict[tuple[str, int], list[str]] = {}
    for topic, queue_id, group in read.values_list("topic", "queue_id", "group"):
        readers.setdefault((topic, queue_id), []).append(group)
    each = [readers.get((hop.topic, hop.queue_id), []) if hop is not None else [] for hop in given]
    return [[name for name in names if seen.group(name)][:MOST_READERS] for names in each]


def _line_of(group: str, given: Hop, hops: Sequence[Hop]) -> _Line:
    topics = topics_of_group(group, given.topic)
    own = [hop for hop in hops if hop.real_topic in topics and hop.position > given.position]
    died = [hop for hop in own if hop.kind is HopKind.DEAD_LETTER]
    return _Line(own[-1] if own else given, died[-1] if died else None, bool(own))


def _offsets(here: Mirrored, lines: Mapping[_Of, _Line]) -> dict[_Of, int]:
    """Return each group's offset in the queue of its newest record."""
    topics = {line.newest.topic for line in lines.values()}
    rows = ConsumerOffset.objects.filter(broker=here.name, group__in={of[0] for of in lines}, topic__in=topics)
    found = {row[:3]: row[3] for row in rows.values_list("group", "topic", "queue_id", "offset")}
    return {of: found.get((of[0], line.newest.topic, line.newest.queue_id), 0) for of, line in lines.items()}


def _said(here: Mirrored, lines: Mapping[_Of, _Line]) -> _Said:
    newest: dict[str, list[tuple[int, Hop]]] = {}
    for (name, at), line in lines.items():
        newest.setdefault(name, []).append((at, line.newest))

    def look(admin: Admin) -> _Said:
        said = _Said()
        for name in list(newest)[:MOST_READERS_ASKED]:
            try:
                queues = admin.consume_stats(name).queues
            except BrokerRefused:
                continue
            said.told.add(name)
            queue_of = {(each.queue.topic, each.queue.queue_id): each for each in queues}
            for at, hop in newest[name]:
                each = queue_of.get((hop.topic, hop.queue_id))
                if each is None:
                    continue
                if each.consumer_offset > hop.queue_offset:
                    said.had.add((name, at))
                elif each.given_offset > hop.queue_offset:
                    said.out.add((name, at))
        return said

    return (ask(look, source=here.name, requests=READERS_REQUESTS)[0] if lines else None) or _Said()


def _blurred(here: Mirrored, readers: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return groups, each with the topic, that pop where the broker moves offsets as it gives out (Apache RocketMQ):
    past says nothing."""
    if not here.polling:
        return set()
    tries = {
        f"{RETRY_PREFIX}{name}{between}{topic}": (name, topic) for name, topic in readers for between in POP_SEPARATORS
    }
    there = Topic.objects.filter(broker=here.name, name__in=tries.keys()).values_list("name", flat=True)
    return {tries[name] for name in there}


def _state(line: _Line, offset: int, of: _Of, said: _Said) -> ReaderState:
    newest, again = line.newest, ReaderState.SENT_BACK if line.died else ReaderState.AGAIN
    if newest.kind is HopKind.DEAD_LETTER:
        return ReaderState.DEAD
    if newest.kind in _PARKED:
        return again if newest.waits else ReaderState.UNKNOWN
    if not line.is_beyond(offset) or of in said.had:
        return ReaderState.HAD
    if of in said.out:
        return ReaderState.OUT
    if of[0] not in said.told:
        return ReaderState.UNKNOWN
    return again if line.is_own else ReaderState.NOT_YET


def _is_told(page: MessagePage, name: str, line: _Line) -> bool:
    """Tell whether a client of the group reported that it handled this try."""
    tries = line.newest.tries if line.is_own else 0
    return any(
        step.kind is StepKind.CONSUMED and step.group == name and step.succeeded and (step.retries or 0) == tries
        for step in page.steps
    )
