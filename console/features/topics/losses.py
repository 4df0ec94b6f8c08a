"""The loss that comes with deleting a topic or a group: what its queues hold, and what waits for its moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils.translation import ngettext

from broker.client import Admin, BrokerRefused, NotSupported
from broker.client.admin import TopicWaiting
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Queue, Topic
from broker.rocketmq.topics import POP_SEPARATORS, RETRY_PREFIX
from console.site.broker import tell_each
from console.site.chosen import chosen
from console.site.clock import shown_ms
from console.site.mirrored import cluster

#: codes of brokers at which nothing is done: it is so already, there, or not there; or that do not answer
SAME, THERE, MISSING, AWAY = "same", "there", "missing", "away"
#: codes of what a preview misses: there may be more that waits than was counted; the broker does not tell all of it
AT_LEAST, NOT_TOLD = "waiting", "waiting_not_told"
#: topics are asked about for so long; the first one is, however long that takes
_PATIENCE_S = 3.0


def held(broker: str, topics: Sequence[str]) -> int:
    """Return how many messages stand in the topics' queues."""
    rows = Queue.objects.filter(broker=broker, topic__in=topics).values_list("min_offset", "max_offset")
    return sum((high or 0) - (low or 0) for low, high in rows)


def counts(found: TopicWaiting) -> dict[str, int | None]:
    """Return what waits, kind by kind, as a preview and a result have it."""
    return {
        "timers": found.timers, "delayed": found.delayed, "halves": found.halves, "parked_halves": found.parked_halves,
    }  # fmt: skip


def waiting_for(admin: Admin, topics: Sequence[str]) -> tuple[dict[str, int | None], list[str]]:
    """Return what waits for the topics, and codes of what is not known; of Apache RocketMQ their timers alone."""
    try:
        found = _told(admin, topics)
        return counts(found), [] if found.complete else [AT_LEAST]
    except NotSupported:
        pass
    nothing = dict.fromkeys(counts(TopicWaiting()))
    try:
        timers = sum(each.count for each in admin.timer_metrics() if each.topic in topics)
    except BrokerRefused:
        # its timers are switched off, or it is older than they are
        return nothing, [NOT_TOLD]
    return nothing | {"timers": timers}, [NOT_TOLD]


def topics_of_tries(broker: str, group: str) -> list[str]:
    """Return where a group's tries are: its own topic first, then those that there are of the topics that it pops.

    %RETRY%a_b_c may be of a group a that pops b_c, of a_b that pops c, or the own one of a_b_c. Who has an offset in
    it reads it; without one it is the group's that reads such a topic, if that can be said of no other group.
    """
    own = RETRY_PREFIX + group
    begins = Q(topic__startswith=f"{own}{POP_SEPARATORS[0]}") | Q(topic__startswith=f"{own}{POP_SEPARATORS[1]}")
    there = Queue.objects.filter(begins, broker=broker).values_list("topic", flat=True).distinct().order_by("topic")
    read = set(ConsumerOffset.objects.filter(broker=broker, group=group).values_list("topic", flat=True))
    popped = [
        name
        for name in there
        if name in read or (name[len(own) + 1 :] in read and not _may_be_anothers(broker, group, name))
    ]
    return [own, *popped]


def _may_be_anothers(broker: str, group: str, topic: str) -> bool:
    rest = topic.removeprefix(RETRY_PREFIX)
    readings = Q(topic=topic) | Q(group=rest)
    for at, letter in enumerate(rest):
        if letter in POP_SEPARATORS:
            readings |= Q(group=rest[:at], topic=rest[at + 1 :])
    others = ConsumerOffset.objects.filter(readings, broker=broker).exclude(group=group)
    return others.exists() or ConsumerGroup.objects.filter(broker=broker, name=rest).exists()


def _told(admin: Admin, topics: Sequence[str]) -> TopicWaiting:
    """Ask for one topic after another; not complete where time was over before the last. Raises NotSupported."""
    until_s, found = time.monotonic() + _PATIENCE_S, TopicWaiting()
    for number, topic in enumerate(topics):
        if number and time.monotonic() > until_s:
            return found + TopicWaiting(complete=False)
        found += admin.topic_waiting(topic)
    return found


@dataclass(slots=True)
class Losses:
    """What waits, and where; `topics` by broker at which there is something to delete ("": the one there is)."""

    topics: Mapping[str, Sequence[str]]
    apart: list[list[str]]
    waiting: dict[str, int | None] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of brokers at which it would be deleted, with those of which that is not known."""
        return len(self.topics) + sum(code == AWAY for _broker, code, _error in self.apart)

    def held(self, *more: str) -> list[list[Any]]:
        """Return how many messages stand in its topics, and in `more`, at each broker: [broker, messages]."""
        one = "".join(cluster().names[:1])
        return [[broker, held(broker or one, [*topics, *more])] for broker, topics in self.topics.items()]


def losses_of(topics: Mapping[str, Sequence[str]], apart: list[list[str]]) -> Losses:
    """Count what waits for these topics at each broker; raises ClientError."""
    found = Losses(topics, apart)
    told = tell_each(lambda admin: waiting_for(admin, topics.get(chosen().name) or topics[""]), list(topics))
    for each in told:
        waiting, missing = each.answer or ({}, [NOT_TOLD])
        found.waiting = _added(found.waiting, waiting)
        found.missing += [code for code in missing if code not in found.missing]
    return found


def _added(one: Mapping[str, int | None], other: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the sums of what waits, as far as it is known."""
    found = dict(one)
    for name, count in other.items():
        before = found.get(name)
        found[name] = count if before is None else before + (count or 0)
    return found


def is_there_again(name: str, broker: str, deleted_at: datetime | None) -> bool:
    """Tell whether the mirror has seen the topic at the broker ("": at any) after it was deleted there."""
    if deleted_at is None:
        return False
    since_ms = shown_ms(int(deleted_at.timestamp() * 1000))
    there = Topic.objects.filter(name=name, broker__in=[broker] if broker else cluster().names)
    return there.filter(broker__mirror__as_of_ms__gt=since_ms).exists()


def waiting_words(counts: Mapping[str, Any]) -> str:
    """Return what waits for a topic, kind by kind; what is not told is not named, "" where that is nothing."""
    said = []
    if timers := counts.get("timers"):
        said.append(ngettext("%(count)s timer", "%(count)s timers", timers) % {"count": f"{timers:,}"})
    if delayed := counts.get("delayed"):
        words = ngettext("%(count)s on a delay level", "%(count)s on delay levels", delayed)
        said.append(words % {"count": f"{delayed:,}"})
    if halves := (counts.get("halves") or 0) + (counts.get("parked_halves") or 0):
        words = ngettext("%(count)s undecided half message", "%(count)s undecided half messages", halves)
        said.append(words % {"count": f"{halves:,}"})
    return ", ".join(said)
