"""The result of one reading of the broker, as rows not yet written: the body of request 14000, checked and named.

A broker that has no request 14000, such as Apache RocketMQ, is read by its standard requests (`Poller`): lanes every
reading (202, 45, 321); configuration every ten seconds (21, 201, 26, 28); queues and offsets of topics and groups (202,
208) in turns, a bounded number each reading, so that a thousand topics cost no more than ten. What such a broker does
not tell (lateness, saves, state) stays None.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..client import Admin
from ..client.admin import QueueStats
from ..client.errors import BadAnswer, BrokerRefused, RouteNotFound
from ..rocketmq.topics import (
    BENCHMARK_TOPIC,
    OFFSET_MOVED_TOPIC,
    PARKED_HALF_TOPIC,
    PREDEFINED_GROUP_PREFIXES,
    PREDEFINED_GROUPS,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_PREFIX,
    TEMPLATE_TOPIC,
)
from .clock_file import ClockLine
from .models import Broker, ConsumerGroup, ConsumerOffset, Queue, ScheduleLevel, Topic

Row = TypeVar("Row")

#: a name or a reason longer than this is cut where people read it
LONGEST_SHOWN = 120
UNFIT = re.compile("[\0\ud800-\udfff]")
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")

#: kinds of rows, as announced to the pages
KINDS = ("topics", "queues", "groups", "offsets", "levels")


class UnreadableChangesError(ValueError):
    """The broker's answer to request 14000 does not have the form of docs/PROTOCOL.md."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """A thing that the rows lack, or have otherwise than the broker. `kind` is one of KINDS; `name` is escaped."""

    kind: str
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows of one reading. `complete`: kinds that were listed whole, so that what is not in the list is gone."""

    token: str
    as_of_ms: int
    broker: Broker
    polling: bool = False
    complete: frozenset[str] = frozenset()
    topics: tuple[Topic, ...] = ()
    queues: tuple[Queue, ...] = ()
    groups: tuple[ConsumerGroup, ...] = ()
    offsets: tuple[ConsumerOffset, ...] = ()
    levels: tuple[ScheduleLevel, ...] = ()
    #: topics of a polled broker that came into being since its first listing, and whose queues are told first now
    new_topics: frozenset[str] = frozenset()
    deleted_topics: tuple[str, ...] = ()
    deleted_groups: tuple[str, ...] = ()
    #: (group, topic, queue id)
    deleted_offsets: tuple[tuple[str, str, int], ...] = ()
    #: connected consumers of every group that has any; None: the broker does not tell
    members: Mapping[str, int] | None = None
    #: how its clock is simulated; None: it is not
    clock: ClockLine | None = None
    #: rows that could not be read, or were changed to fit (writer.py)
    flaws: tuple[Flaw, ...] = ()


def read_changes(body: Mapping[str, Any], broker: Broker, as_of_ms: int) -> Changes:
    """Return the rows in the body of request 14000. `broker` gives name and address; raises UnreadableChangesError."""
    try:
        return _changes(body, broker, as_of_ms)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableChangesError(f"request 14000 was answered with something else: {error!r}") from error


def _changes(body: Mapping[str, Any], broker: Broker, as_of_ms: int) -> Changes:
    name = broker.name
    facts = body.get("broker") or {}
    as_of_ms = int(body.get("nowMs") or as_of_ms)
    offsets = [row for row in body.get("offsets", ()) if row["offset"] is not None]
    removed = [row for row in body.get("offsets", ()) if row["offset"] is None]
    members = body.get("members")
    flaws: list[Flaw] = []
    return Changes(
        token=str(body["token"]),
        as_of_ms=as_of_ms,
        broker=_broker(facts, broker, as_of_ms),
        complete=frozenset(KINDS) if body["full"] else frozenset(),
        topics=tuple(_each("topics", _topic, name, body.get("topics", ()), flaws)),
        queues=tuple(_each("queues", _queue, name, body.get("queues", ()), flaws)),
        groups=tuple(_each("groups", _group, name, body.get("groups", ()), flaws)),
        offsets=tuple(_each("offsets", _offset, name, offsets, flaws)),
        levels=tuple(_each("levels", _level, name, body.get("levels", ()), flaws)),
        deleted_topics=tuple(map(str, body.get("deletedTopics", ()))),
        deleted_groups=tuple(map(str, body.get("deletedGroups", ()))),
        deleted_offsets=tuple((str(row["group"]), str(row["topic"]), int(row["queueId"])) for row in removed),
        clock=ClockLine.read(facts.get("simulatedClock")),
        members=None if members is None else {str(group): int(count) for group, count in members.items()},
        flaws=tuple(flaws),
    )


def _each(
    kind: str, read: Callable[[str, Mapping[str, Any]], Row], broker: str, told: Iterable[Any], flaws: list[Flaw]
) -> Iterator[Row]:
    """Return the rows of one kind; one that cannot be read is a flaw, and hides no other."""
    for row in told:
        try:
            yield read(broker, row)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            named = row if isinstance(row, Mapping) else {}
            parts = (named.get(name) for name in ("topicName", "groupName", "group", "topic", "queueId", "number"))
            name = "/".join(str(part) for part in parts if part is not None)
            flaws.append(Flaw(kind, shown(name or str(row)), shown(f"left out: {error!r}")))


def shown(text: str) -> str:
    """Return any text on one line and not too long, what cannot be seen escaped."""
    escaped = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text[:LONGEST_SHOWN])
    return escaped + ("…" if len(text) > LONGEST_SHOWN else "")


def _broker(facts: Mapping[str, Any], known: Broker, as_of_ms: int) -> Broker:
    return Broker(
        name=known.name,
        entry=known.entry,
        cluster=known.cluster,
        address=known.address,
        version=str(facts.get("version") or known.version),
        state=str(facts.get("state", "UNKNOWN")),
        reasons=[str(reason) for reason in facts.get("reasons", ())],
        damaged=_ranges(facts.get("damaged", ())),
        started_ms=facts.get("startedMs"),
        log_min_position=facts.get("logMinPosition"),
        log_end_position=facts.get("logEndPosition"),
        disk_used_ratio=facts.get("diskUsedRatio"),
        rss_bytes=facts.get("rssBytes"),
        as_of_ms=as_of_ms,
    )


def _ranges(damaged: Sequence[Any]) -> list[Any]:
    return [list(part.values()) if isinstance(part, Mapping) else part for part in damaged]


def _topic(broker: str, row: Mapping[str, Any]) -> Topic:
    """Return the row of a topic from RocketMQ's TopicConfig."""
    name = str(row["topicName"])
    return Topic(
        broker_id=broker,
        name=name,
        read_queues=int(row["readQueueNums"]),
        write_queues=int(row["writeQueueNums"]),
        permission=int(row["perm"]),
        filter_type=str(row.get("topicFilterType", "SINGLE_TAG")),
        system_flag=int(row.get("topicSysFlag", 0)),
        order=bool(row.get("order", False)),
        attributes=dict(row.get("attributes") or {}),
        is_system=is_system_topic(name),
    )


def _queue(broker: str, row: Mapping[str, Any]) -> Queue:
    last_ms = row.get("lastMs")
    return Queue(
        broker_id=broker,
        topic=str(row["topic"]),
        queue_id=int(row["queueId"]),
        min_offset=int(row["min"]),
        max_offset=int(row["max"]),
        # RocketMQ says 0 for a queue that nothing was stored in
        last_ms=int(last_ms) if last_ms and last_ms > 0 else None,
    )


def _group(broker: str, row: Mapping[str, Any]) -> ConsumerGroup:
    """Return the row of a group from RocketMQ's SubscriptionGroupConfig."""
    name = str(row["groupName"])
    return ConsumerGroup(
        broker_id=broker,
        name=name,
        retry_max_times=int(row.get("retryMaxTimes", 16)),
        retry_queues=int(row.get("retryQueueNums", 1)),
        consume_enable=bool(row.get("consumeEnable", True)),
        consume_broadcast_enable=bool(row.get("consumeBroadcastEnable", True)),
        consume_message_orderly=bool(row.get("consumeMessageOrderly", False)),
        is_system=is_system_group(name),
    )


def _offset(broker: str, row: Mapping[str, Any]) -> ConsumerOffset:
    return ConsumerOffset(
        broker_id=broker,
        group=str(row["group"]),
        topic=str(row["topic"]),
        queue_id=int(row["queueId"]),
        offset=int(row["offset"]),
    )


def _level(broker: str, row: Mapping[str, Any]) -> ScheduleLevel:
    return ScheduleLevel(
        broker_id=broker,
        level=int(row["number"]),
        delay_ms=int(row["delayMs"]),
        min_offset=row.get("minOffset"),
        delay_offset=row.get("offset"),
        max_offset=row.get("maxOffset"),
        persisted_offset=row.get("persistedOffset"),
        persisted_ms=row.get("persistedMs"),
        next_due_ms=row.get("nextDueMs"),
        oldest_store_ms=row.get("oldestStoreMs"),
        released_total=row.get("releasedTotal"),
        released_per_s=row.get("releasedPerS"),
        lateness_p50_ms=row.get("latenessP50Ms"),
        lateness_p99_ms=row.get("latenessP99Ms"),
        early_total=row.get("earlyTotal"),
    )


#: RocketMQ's TopicValidator.SYSTEM_TOPIC_SET and prefix, and the topics that only the broker uses
_SYSTEM_TOPICS = frozenset(
    {
        TEMPLATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        PARKED_HALF_TOPIC,
    }
)


def is_system_topic(name: str) -> bool:
    """Tell whether RocketMQ keeps this topic for itself."""
    return name in _SYSTEM_TOPICS or name.lower().startswith(SYSTEM_PREFIX)


def is_system_group(name: str) -> bool:
    """Tell whether RocketMQ keeps this group for itself."""
    return name in PREDEFINED_GROUPS or name.startswith(PREDEFINED_GROUP_PREFIXES)


def is_storable(text: str) -> bool:
    """Tell whether PostgreSQL takes this text for a name."""
    return len(text) <= 255 and UNFIT.search(text) is None


# A broker that cannot tell what changed.

#: how often lists and configuration are read again
LISTING_INTERVAL_MS = 10_000
#: topics and groups whose numbers are read in one reading
TOPICS_A_READING = 25
GROUPS_A_READING = 10


class Poller:
    """Reads a broker that cannot tell what changed: `read` gives one reading; it remembers only whose turn it is."""

    def __init__(self, source: Admin, *, is_slave: bool = False) -> None:
        """`is_slave`: it copies its master's tables from time to time: what it does not list was not dropped."""
        self._source = source
        self._is_slave = is_slave
        #: the broker's name in its cluster
        self._own_name = ""
        self._listed_ms: int | None = None
        self._delays_ms: tuple[int, ...] = ()
        self._runtime: Mapping[str, str] = {}
        self._topics: deque[str] = deque()
        self._groups: deque[str] = deque()
        #: topics that no earlier listing had and that had no turn yet
        self._new: set[str] = set()

    def read(self, known: Broker, now_ms: int) -> Changes:
        """Return one reading of the broker, `now_ms` its moment."""
        self._own_name = known.own_name
        topics: tuple[Topic, ...] = ()
        groups: tuple[ConsumerGroup, ...] = ()
        complete = frozenset({"levels"})
        if self._listed_ms is None or now_ms - self._listed_ms >= LISTING_INTERVAL_MS:
            topics, groups = self._list(known.name)
            if not self._is_slave:
                complete |= {"topics", "groups"}
            self._listed_ms = now_ms
        queues = tuple(self._queues(known.name))
        new = frozenset(row.topic for row in queues) & self._new
        self._new -= new
        return Changes(
            token="",
            as_of_ms=now_ms,
            broker=self._broker(known, now_ms),
            polling=True,
            complete=complete,
            topics=topics,
            queues=queues,
            new_topics=new,
            groups=groups,
            offsets=tuple(self._offsets(known.name)),
            levels=tuple(self._levels(known.name)),
        )

    def _list(self, broker: str) -> tuple[tuple[Topic, ...], tuple[ConsumerGroup, ...]]:
        self._delays_ms = tuple(self._source.delay_levels())
        self._runtime = self._source.runtime()
        topics = tuple(
            Topic(
                broker_id=broker,
                name=topic.name,
                read_queues=topic.read_queues,
                write_queues=topic.write_queues,
                permission=topic.permission,
                order=topic.order,
                attributes=dict(topic.attributes),
                is_system=is_system_topic(topic.name),
            )
            for topic in self._source.topics()
            if topic.broker == self._own_name
        )
        groups = tuple(
            ConsumerGroup(
                broker_id=broker,
                name=group.name,
                retry_max_times=group.retry_max_times,
                retry_queues=group.retry_queues,
                consume_enable=group.consume_enabled,
                consume_broadcast_enable=group.broadcast_enabled,
                consume_message_orderly=group.orderly,
                is_system=is_system_group(group.name),
            )
            for group in self._source.groups()
            if group.broker == self._own_name
        )
        names = [topic.name for topic in topics if is_storable(topic.name)]
        if self._listed_ms is not None:
            self._new |= set(names) - set(self._topics)
        self._topics = _turns(self._topics, names)
        self._groups = _turns(self._groups, [row.name for row in groups if not row.is_system and is_storable(row.name)])
        return topics, groups

    def _broker(self, known: Broker, now_ms: int) -> Broker:
        facts = self._runtime
        return Broker(
            name=known.name,
            entry=known.entry,
            cluster=known.cluster,
            address=known.address,
            version=facts.get("brokerVersionDesc", ""),
            started_ms=_whole(facts.get("bootTimestamp")),
            log_min_position=_whole(facts.get("commitLogMinOffset")),
            log_end_position=_whole(facts.get("commitLogMaxOffset")),
            disk_used_ratio=_ratio(facts.get("commitLogDiskRatio")),
            as_of_ms=now_ms,
        )

    def _queues(self, broker: str) -> Iterator[Queue]:
        for topic in _next(self._topics, TOPICS_A_READING):
            for part in self._stats(topic):
                yield Queue(
                    broker_id=broker,
                    topic=topic,
                    queue_id=part.queue.queue_id,
                    min_offset=part.min_offset,
                    max_offset=part.max_offset,
                    last_ms=part.last_update_ms or None,
                )

    def _stats(self, topic: str) -> list[QueueStats]:
        """Return the queues of the topic on this broker; a cluster has queues of the same number on each."""
        try:
            stats = self._source.topic_stats(topic)
        except (BadAnswer, BrokerRefused, RouteNotFound):
            return []
        return [part for part in stats.queues if part.queue.broker == self._own_name]

    def _offsets(self, broker: str) -> Iterator[ConsumerOffset]:
        for group in _next(self._groups, GROUPS_A_READING):
            try:
                stats = self._source.consume_stats(group)
            except (BadAnswer, BrokerRefused, RouteNotFound):
                continue
            for part in stats.queues:
                if part.queue.broker == self._own_name and part.consumer_offset >= 0:
                    yield ConsumerOffset(
                        broker_id=broker,
                        group=group,
                        topic=part.queue.topic,
                        queue_id=part.queue.queue_id,
                        offset=part.consumer_offset,
                    )

    def _levels(self, broker: str) -> Iterator[ScheduleLevel]:
        ends = {part.queue.queue_id: part for part in self._stats(SCHEDULE_TOPIC)}
        released = self._source.delay_offsets()
        for level, delay_ms in enumerate(self._delays_ms, start=1):
            row = ScheduleLevel(broker_id=broker, level=level, delay_ms=delay_ms)
            part = ends.get(level - 1)
            if part is not None:
                row.min_offset, row.max_offset = part.min_offset, part.max_offset
                # a level is missing from the table until its queue was used
                row.delay_offset = min(max(released.get(level, 0), part.min_offset), part.max_offset)
                self._head(row)
            yield row

    def _head(self, row: ScheduleLevel) -> None:
        """Return when the first pending message is due, read from its queue entry."""
        if row.delay_offset is None or row.delay_offset == row.max_offset:
            return
        entries = self._source.queue_entries(SCHEDULE_TOPIC, row.level - 1, row.delay_offset, 1).entries
        if entries:
            row.next_due_ms = entries[0].tags_code
            row.oldest_store_ms = entries[0].tags_code - row.delay_ms


def _turns(waiting: deque[str], names: list[str]) -> deque[str]:
    """Return the order of turns kept, new names first, vanished ones dropped."""
    kept = [name for name in waiting if name in set(names)]
    return deque([*(name for name in names if name not in set(waiting)), *kept])


def _next(waiting: deque[str], count: int) -> list[str]:
    chosen = [waiting[index] for index in range(min(count, len(waiting)))]
    waiting.rotate(-len(chosen))
    return chosen


def _whole(value: str | None) -> int | None:
    try:
        number = int(value or "")
    except ValueError:
        return None
    return number if number >= 0 else None


def _ratio(value: str | None) -> float | None:
    try:
        ratio = float(value or "")
    except ValueError:
        return None
    return ratio if 0 <= ratio <= 1 else None
