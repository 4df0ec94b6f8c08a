"""What became of a message in each group that reads its topic: had, refused, dead, or what is before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.client import Admin, BrokerRefused
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Topic
from broker.rocketmq.topics import DLQ_PREFIX, POP_SEPARATORS, RETRY_PREFIX
from console.features.messages.shapes import Hop, HopKind, MessagePage, Reader, ReaderState, StepKind
from console.security.topic_scope import Eyes
from console.site.broker import ask
from console.site.mirrored import Mirrored

#: groups that are told of one message, and those of them that the broker is asked about
MOST, MOST_ASKED = 32, 16
#: consume stats
REQUESTS = (208,)
_GIVEN_OUT = (HopKind.STORED, HopKind.RELEASED)
_PARKED = (HopKind.PARKED, HopKind.TIMER)
#: states that what a client tells may end: offsets come some seconds later
_OPEN = (ReaderState.OUT, ReaderState.AGAIN, ReaderState.SENT_BACK, ReaderState.NOT_YET, ReaderState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Line:
    """What the log holds for one group: its newest record, or the one that all groups are given."""

    newest: Hop
    #: of these, the newest dead letter
    died: Hop | None
    is_own: bool

    @property
    def refused(self) -> int:
        """Times that the group was given it in vain; to be sent back from the dead letters is no try."""
        return (self.died or self.newest).tries if self.is_own else 0

    def is_beyond(self, offset: int) -> bool:
        """It stands in a queue that the group is to read, and the group's offset there is not past it."""
        return self.newest.kind not in (*_PARKED, HopKind.DEAD_LETTER) and self.newest.queue_offset >= offset


@dataclass(frozen=True, slots=True)
class _Said:
    """What the broker says of groups whose offset, by the mirror, is not past their record."""

    #: those that were asked about, those that are past it, those that were given it
    told: set[str] = field(default_factory=set)
    had: set[str] = field(default_factory=set)
    out: set[str] = field(default_factory=set)


def topics_of_group(group: str, topic: str) -> tuple[str, ...]:
    """Where a group's tries and dead letters of a topic are: of consumers that pull, of those that pop, of both."""
    return RETRY_PREFIX + group, f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}", DLQ_PREFIX + group


def readers_of(here: Mirrored, page: MessagePage, seen: Eyes) -> tuple[Reader, ...]:
    """Those that wait for it first; of the newest record that consumers of its topic are given, and what each group
    has of its own behind that: tries and dead letters.

    Offsets are the mirror's; where they are not past the record the broker is asked, and says what it gave out, too.
    """
    given = [hop for hop in page.hops if hop.kind in _GIVEN_OUT]
    if not given:
        return ()
    hop = given[-1]
    read = ConsumerOffset.objects.filter(broker=here.name, topic=hop.topic, queue_id=hop.queue_id)
    names = [name for name in read.values_list("group", flat=True).order_by("group") if seen.group(name)][:MOST]
    lines = {name: _line(name, hop, page.hops) for name in names}
    offsets = _offsets(here, lines)
    said = _said(here, {name: lines[name] for name in names if lines[name].is_beyond(offsets.get(name, 0))})
    blurred = _blurred(here, names, hop.topic)
    groups = {row.name: row for row in ConsumerGroup.objects.filter(broker=here.name, name__in=names)}
    rows = []
    for name in names:
        line, offset, group = lines[name], offsets.get(name, 0), groups.get(name)
        state = _state(line, offset, name, said)
        is_told = state in _OPEN and _is_told(page, name, line)
        if state is ReaderState.HAD and name in blurred:
            state = ReaderState.UNKNOWN
        rows.append(
            Reader(
                name, ReaderState.HAD if is_told else state, max(0, line.newest.queue_offset - offset),
                group.members if group else None, group is None or group.consume_enable, line.refused,
                line.newest.due_ms if line.newest.waits else None, is_told,
            )
        )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (row.state is ReaderState.HAD, -row.before, row.group)))


def _line(group: str, given: Hop, hops: Sequence[Hop]) -> _Line:
    topics = topics_of_group(group, given.topic)
    own = [hop for hop in hops if hop.real_topic in topics and hop.position > given.position]
    died = [hop for hop in own if hop.kind is HopKind.DEAD_LETTER]
    return _Line(own[-1] if own else given, died[-1] if died else None, bool(own))


def _offsets(here: Mirrored, lines: Mapping[str, _Line]) -> dict[str, int]:
    """Where each group stands in the queue of its newest record."""
    topics = {line.newest.topic for line in lines.values()}
    rows = ConsumerOffset.objects.filter(broker=here.name, group__in=lines.keys(), topic__in=topics)
    found = {row[:3]: row[3] for row in rows.values_list("group", "topic", "queue_id", "offset")}
    places = ((name, line.newest) for name, line in lines.items())
    return {name: found.get((name, newest.topic, newest.queue_id), 0) for name, newest in places}


def _said(here: Mirrored, lines: Mapping[str, _Line]) -> _Said:
    def look(admin: Admin) -> _Said:
        said = _Said()
        for name in list(lines)[:MOST_ASKED]:
            newest = lines[name].newest
            try:
                queues = admin.consume_stats(name).queues
            except BrokerRefused:
                continue
            said.told.add(name)
            for each in queues:
                if (each.queue.topic, each.queue.queue_id) != (newest.topic, newest.queue_id):
                    continue
                if each.consumer_offset > newest.queue_offset:
                    said.had.add(name)
                elif each.given_offset > newest.queue_offset:
                    said.out.add(name)
        return said

    return (ask(look, source=here.name, requests=REQUESTS)[0] if lines else None) or _Said()


def _blurred(here: Mirrored, names: Sequence[str], topic: str) -> set[str]:
    """Groups that pop on a broker that moves their offsets as it gives out (Apache RocketMQ): past says nothing."""
    if not here.polling:
        return set()
    tries = {f"{RETRY_PREFIX}{name}{between}{topic}": name for name in names for between in POP_SEPARATORS}
    there = Topic.objects.filter(broker=here.name, name__in=tries.keys()).values_list("name", flat=True)
    return {tries[name] for name in there}


def _state(line: _Line, offset: int, name: str, said: _Said) -> ReaderState:
    newest, again = line.newest, ReaderState.SENT_BACK if line.died else ReaderState.AGAIN
    if newest.kind is HopKind.DEAD_LETTER:
        return ReaderState.DEAD
    if newest.kind in _PARKED:
        return again if newest.waits else ReaderState.UNKNOWN
    if not line.is_beyond(offset) or name in said.had:
        return ReaderState.HAD
    if name in said.out:
        return ReaderState.OUT
    if name not in said.told:
        return ReaderState.UNKNOWN
    return again if line.is_own else ReaderState.NOT_YET


def _is_told(page: MessagePage, name: str, line: _Line) -> bool:
    """A client of the group told that it handled this try."""
    tries = line.newest.tries if line.is_own else 0
    return any(
        step.kind is StepKind.CONSUMED and step.group == name and step.succeeded and (step.retries or 0) == tries
        for step in page.steps
    )
