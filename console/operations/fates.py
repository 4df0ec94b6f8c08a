"""What became of a message that a group was given once more: asked of its broker when somebody looks, kept nowhere.

What went back to its group keeps its message id, and what came of it lies behind it in the log; a copy that was sent as
a new message has an id of its own. Where a dead letter is among these records it died again; else the newest of them
says whether it waits, and the group's offset whether it was received.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, ClientError, Message
from broker.mirror.models import Topic
from broker.rocketmq.properties import REAL_TOPIC
from broker.rocketmq.topics import DLQ_PREFIX, POP_SEPARATORS, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from console.operations.kind import ItemNow
from console.site.broker import address_at, tell_each
from console.site.chosen import chosen
from console.site.evidence import StaleReason
from console.site.mirrored import Mirrored, cluster

#: how long one page asks; what was not asked by then is said as it was before
PATIENCE_S = 0.25
#: messages whose records are asked for beside each other, as many questions are on their way at once
AT_ONCE = 25
#: what is known for good is kept by the process, for so many messages
KEPT = 10_000
_PARKED = (SCHEDULE_TOPIC, TIMER_TOPIC)

Key = TypeVar("Key")


class Fate(TextChoices):
    """The states of a message since a group was given it once more."""

    WAITS = "waits", _("waiting for delivery")
    OUT = "out", _("delivered, not acknowledged")
    AGAIN = "again", _("failed again, waiting for retry")
    RECEIVED = "received", _("received")
    DEAD = "dead", _("died again")
    UNKNOWN = "unknown", _("what became of it is no longer known")


#: what stays so, whatever comes
_FINAL = frozenset({Fate.RECEIVED, Fate.DEAD})


@dataclass(frozen=True, slots=True)
class Became:
    """What became of one, and the record that says so; without one its records are gone."""

    fate: Fate
    message_id: str = ""
    #: where there are several: whose record it is
    broker: str = ""

    @property
    def address(self) -> str:
        """The address of that record's page; empty without one."""
        return address_at(self.broker, "message", self.message_id) if self.message_id else ""

    @property
    def is_dead(self) -> bool:
        """Tell whether it is a dead letter once more."""
        return self.fate is Fate.DEAD

    @property
    def now(self) -> ItemNow:
        """What the page of an operation says of it."""
        return ItemNow(
            text=str(self.fate.label), address=self.address, mark="look" if self.is_dead else "",
            is_final=self.fate in _FINAL or self.fate is Fate.UNKNOWN,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resent:
    """A message that one group was given once more."""

    group: str
    #: the topic in which the group gets it
    topic: str
    #: of the message, or of its copy
    unique_key: str
    #: byte address of the record that went back: what came of it lies behind it. A copy has none
    position: int = -1
    #: tries before the first record that came of it was given out
    tries: int = 0
    #: dead letters from this offset on came after it was sent
    since: int = 0


@dataclass(frozen=True, slots=True)
class Question(Generic[Key]):
    """One that is asked about, at the broker that has it ("": the one there is)."""

    key: Key
    broker: str
    group: str
    topic: str
    #: gives its facts, where the broker has to be asked for them; None: its records are gone
    find: Callable[[Admin], Resent | None]
    #: the item of the operation that sent it: what it became for good is kept under this name
    item: Hashable


class _Kept:
    """What became for good of those that were asked about; safe for threads."""

    def __init__(self) -> None:
        self._became: OrderedDict[Hashable, Became] = OrderedDict()
        self._lock = Lock()

    def of(self, questions: Sequence[Question[Key]]) -> dict[Key, Became]:
        """Return what is known already."""
        with self._lock:
            return {each.key: self._became[each.item] for each in questions if each.item in self._became}

    def add(self, item: Hashable, became: Became) -> None:
        """Keep it if it stays so."""
        if became.fate in _FINAL:
            with self._lock:
                self._became[item] = became
                while len(self._became) > KEPT:
                    self._became.popitem(last=False)


_kept = _Kept()


def fates_of(questions: Sequence[Question[Key]]) -> dict[Key, Became]:
    """Return what became of each, as far as the brokers answer within a moment."""
    known = _kept.of(questions)
    questions = [each for each in questions if each.key not in known]
    return {**known, **_asked(questions)} if questions else known


def _asked(questions: Sequence[Question[Key]]) -> dict[Key, Became]:
    """Return what became of those of which nothing is known for good."""
    here, end_s = cluster(), time.monotonic() + PATIENCE_S
    # a page does not wait in vain for a broker that the mirror cannot reach either
    away = {one.name if here.has_several else "" for one in here.brokers if _is_away(one)}
    questions = [each for each in questions if (each.broker if here.has_several else "") not in away]
    if not questions:
        return {}
    # brokers are asked in threads, which leave the database alone
    popped = _popped_topics(here.names, {(each.group, each.topic) for each in questions})
    is_blurred = here.polling

    def look(admin: Admin) -> dict[Key, Became]:
        name = chosen().name if here.has_several else ""
        own = [each for each in questions if not here.has_several or each.broker == name]
        progress = {group: _progress(admin, group) for group in {each.group for each in own}}
        found: dict[Key, Became] = {}
        for first in range(0, len(own), AT_ONCE):
            if time.monotonic() > end_s:
                break
            part = [(each, each.find(admin)) for each in own[first : first + AT_ONCE]]
            records = admin.records_of_ids({pair for each, resent in part for pair in _pairs(each, resent, popped)})
            for each, resent in part:
                tries = _tries(each, popped)
                seen = _Looking(records, tries, progress[each.group], len(tries) > 1 and is_blurred)
                fate, record = seen.fate(resent) if resent is not None else (Fate.UNKNOWN, None)
                became = Became(fate, record.offset_message_id if record is not None else "", name)
                found[each.key] = became
                _kept.add(each.item, became)
        return found

    brokers = sorted({each.broker for each in questions}) if here.has_several else [""]
    try:
        told = tell_each(look, brokers)
    except ClientError:
        return {}
    return {key: became for each in told for key, became in (each.answer or {}).items()}


#: by group and topic the topics of tries of what the group pops there
_Popped = Mapping[tuple[str, str], Sequence[str]]


def _tries(asked: Question[Key], popped: _Popped) -> tuple[str, ...]:
    """Return the topics of the group's tries."""
    return (RETRY_PREFIX + asked.group, *popped.get((asked.group, asked.topic), ()))


def _pairs(asked: Question[Key], resent: Resent | None, popped: _Popped) -> list[tuple[str, str]]:
    """Return the topics, each with the message id, whose records say what became of it."""
    if resent is None:
        return []
    copies = [resent.topic] if resent.position < 0 else []
    topics = (DLQ_PREFIX + resent.group, *copies, *_tries(asked, popped), *_PARKED)
    return [(topic, resent.unique_key) for topic in topics]


def _is_away(one: Mirrored) -> bool:
    return one.evidence(polled_by=()).stale_reason is StaleReason.BROKER_UNREACHABLE


def dead_letter_ends(admin: Admin, group: str) -> dict[int, int]:
    """Return the end of each queue of a group's dead letters before it is given something: what stands there did not
    come of that. Nothing where it is not told."""
    try:
        return {each.queue.queue_id: each.max_offset for each in admin.topic_stats(DLQ_PREFIX + group).queues}
    except ClientError:
        return {}


def _popped_topics(brokers: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return by group and topic the topics of tries of what the group pops there, as far as they are there."""
    names = {pair: tuple(f"{RETRY_PREFIX}{pair[0]}{sign}{pair[1]}" for sign in POP_SEPARATORS) for pair in pairs}
    every = [name for each in names.values() for name in each]
    there = set(Topic.objects.filter(broker__in=brokers, name__in=every).values_list("name", flat=True))
    return {pair: tuple(name for name in each if name in there) for pair, each in names.items()}


def _progress(admin: Admin, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Return by topic and queue the group's offset, and up to where messages were given out."""
    try:
        queues = admin.consume_stats(group).queues
    except BrokerRefused:
        return {}
    return {(each.queue.topic, each.queue.queue_id): (each.consumer_offset, each.given_offset) for each in queues}


@dataclass(frozen=True, slots=True)
class _Looking:
    """A look at the records of one message at one broker."""

    #: by topic and message id, the newest first
    records: Mapping[tuple[str, str], Sequence[Message]]
    #: topics of the group's tries
    tries: Sequence[str]
    progress: dict[tuple[str, int], tuple[int, int]]
    #: offsets move as messages are given out: past one says nothing
    is_blurred: bool

    def fate(self, resent: Resent) -> tuple[Fate, Message | None]:
        """Return what became of it, and the record that says so."""
        died = [
            record for record in self._behind(DLQ_PREFIX + resent.group, resent) if record.queue_offset >= resent.since
        ]
        if died:
            return Fate.DEAD, min(died, key=lambda record: record.position)
        copies = [resent.topic] if resent.position < 0 else []
        found = [record for topic in (*copies, *self.tries) for record in self._behind(topic, resent)]
        for topic in _PARKED:
            parked = self._behind(topic, resent)
            found += [record for record in parked if record.properties.get(REAL_TOPIC) in self.tries]
            if found and max(found, key=lambda record: record.position).topic == topic:
                # on its lane still: what left it would lie behind
                break
        if not found:
            return Fate.UNKNOWN, None
        newest = max(found, key=lambda record: record.position)
        return self._of(newest, resent), newest

    def _of(self, newest: Message, resent: Resent) -> Fate:
        waits = Fate.AGAIN if newest.reconsume_times > resent.tries else Fate.WAITS
        if newest.topic in _PARKED:
            return waits
        consumed, given = self.progress.get((newest.topic, newest.queue_id), (0, 0))
        if consumed > newest.queue_offset:
            return Fate.UNKNOWN if self.is_blurred else Fate.RECEIVED
        return Fate.OUT if given > newest.queue_offset else waits

    def _behind(self, topic: str, resent: Resent) -> list[Message]:
        """Return the records of a topic that came of it."""
        records = self.records.get((topic, resent.unique_key), ())
        return [record for record in records if record.position > resent.position]
